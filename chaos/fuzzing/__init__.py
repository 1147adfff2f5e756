"""Fuzzing: unlikely bytes for every parser of input from outside.

With `pip install atheris` coverage of the code guides the changes; without it they are random changes of seeds.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from chaos.fuzzing.parsers import PARSERS, Parser

__all__ = ["PARSERS", "Parser", "Unanswered", "changed", "fuzz", "main"]

_PATIENCE = 2.0
_PIECES = (
    *(
        b"\x00",
        b"\xff",
        b"\xc0\x80",
        b"\xed\xa0\x80",
        "\u202e".encode(),
        "\u2028".encode(),
        b"\r\n",
        b"\r\n\r\n",
    ),
    *(
        b"[" * 2_000,
        b'{"a":' * 500,
        b"9" * 5_000,
        b"1e999",
        b"-0",
        b"NaN",
        b"null",
        b"{}",
        b"[]",
        b'""',
        b"\\ud800",
    ),
    *(
        b"=?utf-8?q?=0D=0A?=",
        b"%00",
        b"%ff",
        b"&#0;",
        b"&#x110000;",
        b"<!--",
        b"<![CDATA[",
        b"(a+)+",
        b"{999}",
    ),
)


class Unanswered(AssertionError):
    """A parser took too long."""


def changed(seed: bytes, chance: random.Random) -> bytes:
    """The seed after some changes: bytes flipped, cut, doubled, and pieces put in."""
    data = bytearray(seed)
    for _ in range(chance.randint(1, 8)):
        at = chance.randint(0, len(data))
        match chance.randrange(5):
            case 0 if data:
                data[at % len(data)] = chance.randrange(256)
            case 1:
                del data[at : at + chance.randint(1, 16)]
            case 2:
                data[at:at] = data[at : at + chance.randint(1, 64)]
            case 3:
                data[at:at] = chance.choice(_PIECES)
            case _:
                data[at:at] = chance.randbytes(chance.randint(1, 8))
    return bytes(data)


def fuzz(parser: Parser, *, inputs: int | None = None, seconds: float | None = None, seed: int = 0) -> int:
    """Feed a parser this many inputs, or for this long; return how many. An error is a bug, and has its input."""
    chance = random.Random(f"{parser.name} {seed}")
    began, fed = time.monotonic(), 0
    while (inputs is None or fed < inputs) and (seconds is None or time.monotonic() - began < seconds):
        data = changed(chance.choice(parser.seeds), chance)
        at = time.monotonic()
        try:
            parser.parse(data)
        except BaseException as error:
            error.add_note(f"{parser.name}, seed {seed}, input {fed}: {data[:2_000]!r}")
            raise
        if time.monotonic() - at > _PATIENCE:
            raise Unanswered(f"{parser.name}, seed {seed}, input {fed} took too long: {data[:2_000]!r}")
        fed += 1
    return fed


def main(arguments: Sequence[str]) -> int:
    """Fuzz the parsers that the arguments name, with atheris if it is installed."""
    parser = argparse.ArgumentParser(prog="python -m chaos fuzzing", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="the parsers; all unless said")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each of them")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--corpus", type=Path, help="a folder in which atheris keeps what it has found")
    given = parser.parse_args(arguments)
    known = {each.name: each for each in PARSERS}
    if unknown := set(given.names) - known.keys():
        parser.error(f"there is no parser called {', '.join(sorted(unknown))}")
    guided = find_spec("atheris") is not None
    print(f"seed {given.seed}, {'guided by atheris' if guided else 'without atheris'}")
    for name in given.names or known:
        if guided:
            told = _guided(known[name], given.seconds, given.seed, given.corpus)
        else:
            told = f"{fuzz(known[name], seconds=given.seconds, seed=given.seed)} inputs"
        print(f"{name:12} {told}, no failure")
        sys.stdout.flush()
    return 0


def _guided(parser: Parser, seconds: float, seed: int, corpus: Path | None) -> str:
    """Run atheris in its own process: it ends its process, and must see every import."""
    command = [sys.executable, "-m", "chaos.guided", parser.name, f"-max_total_time={seconds:.0f}"]
    command += [
        f"-seed={seed}",
        "-timeout=10",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
        "-close_fd_mask=1",
    ]
    if corpus is not None:
        (corpus / parser.name).mkdir(parents=True, exist_ok=True)
        command.append(str(corpus / parser.name))
    with tempfile.TemporaryDirectory(prefix="handraise-seeds-") as folder:
        for number, each in enumerate(parser.seeds):
            (Path(folder) / str(number)).write_bytes(each)
        ran = subprocess.run([*command, folder], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise AssertionError(f"{parser.name}: {ran.stdout[-3_000:]}{ran.stderr[-6_000:]}")
    stats = dict(line[6:].split(":", 1) for line in ran.stderr.splitlines() if line.startswith("stat::"))
    fed, grown = (stats.get(name, "?").strip() for name in ("number_of_executed_units", "new_units_added"))
    return f"{fed} inputs, {grown} of them led further"
