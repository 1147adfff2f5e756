"""Whether a wheel works in a clean environment: a first question, the shipped contract, the command, a server, the demo."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from scripts.release.clean import ROOT, Clean, add, printed, strange_environment

SOON = 60.0


def try_out(clean: Clean, wheel: Path, folder: Path) -> None:
    """Check that it works there, in an empty folder; raises if something does not."""
    for check in CHECKS[clean.name]:
        check(clean, wheel, folder)


def first_question(clean: Clean, _wheel: Path, folder: Path) -> None:
    """The first example, on memory and on SQLite."""
    for url in ("memory:", f"sqlite:///{folder / 'first.db'}"):
        said = printed(clean.python, str(ROOT / "examples" / "first_question.py"), url, cwd=folder)
        _expect("answered 'Canary' by ana", said)


def says_what_is_missing(clean: Clean, _wheel: Path, folder: Path) -> None:
    """Every public module can be imported, or names the extra that it needs. So does the command."""
    told = printed(clean.python, "-c", _IMPORTS, cwd=folder)
    _expect(r"handraise\.server: .*pip install \"handraise\[server\]\"", told)
    bad = [
        line
        for line in told.splitlines()
        if not re.search(r': (fine|.*pip install "handraise\[[\w-]+\]")$', line)
    ]
    if bad:
        raise SystemExit("\n".join(["without its extra, a module does not say which:", *bad]))
    for command, extra in (("serve", "server"), ("ask", "cli")):
        done = _ended(_command(clean), command, folder=folder, code=78)
        _expect(rf'pip install "handraise\[{extra}\]"', done.stderr)


_IMPORTS = """
import importlib, pkgutil
import handraise, handraise.backends, handraise.channels, handraise.integrations
packages = (handraise, handraise.backends, handraise.channels, handraise.integrations)
for each in (found.name for package in packages for found in pkgutil.iter_modules(package.__path__, package.__name__ + ".")):
    if each.endswith("__main__"):
        continue
    try:
        importlib.import_module(each)
        print(f"{each}: fine")
    except Exception as error:
        print(f"{each}: {type(error).__name__}: {error}")
import handraise.testing
try:
    import handraise.testing.contract
except handraise.errors.MissingExtra as error:
    print(f"handraise.testing.contract: {error}")
"""


def contract(clean: Clean, wheel: Path, folder: Path) -> None:
    """The contract suite that the wheel ships, as somebody with their own backend runs it."""
    add(clean.python, wheel, ("testing",))
    (folder / "test_wheel.py").write_text(_CONTRACT, encoding="utf-8")
    options = (
        "asyncio_mode=auto",
        "asyncio_default_fixture_loop_scope=function",
        "markers=promise(id): one of ours",
    )
    line = ["-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "test_wheel.py"]
    line += [word for option in options for word in ("-o", option)]
    said = printed(clean.python, *line, cwd=folder)
    print(f"  contract on SQLite: {said.strip().splitlines()[-1]}")  # noqa: T201 -- a command prints


_CONTRACT = """
import pytest
from handraise.testing.contract import AddressBackend, DeskContract

class TestWheel(DeskContract):
    @pytest.fixture
    def backend(self, tmp_path):
        return AddressBackend(f"sqlite:///{tmp_path / 'questions.db'}")
"""


def asks_and_answers(clean: Clean, _wheel: Path, folder: Path) -> None:
    """The command asks and answers, on a file and at a server, and names the extra of `handraise serve`."""
    handraise = _command(clean)
    _expect(r'pip install "handraise\[server\]"', _ended(handraise, "serve", folder=folder, code=78).stderr)
    _ask_and_answer(handraise, folder, {"HANDRAISE_URL": f"sqlite:///{folder / 'asked.db'}"}, {})

    # The server has its own environment: the one that runs this check.
    whole = [sys.executable, "-m", "handraise"]
    with started(whole, "serve", folder, lasts=10 * SOON) as said:
        server = said(r"https?://[\w.:]+")
        key = json.loads(_ended(whole, "keys", "create", "deployer", "--json", folder=folder).stdout)["key"]
        _ended(whole, "people", "add", "ana", folder=folder)
        link = _ended(whole, "people", "link", "ana", "--server", server, folder=folder).stdout.split()[-1]
        _ended(handraise, "sign-in", link, folder=folder)
        _ask_and_answer(handraise, folder, {"HANDRAISE_URL": server}, {"HANDRAISE_KEY": key})


def _ask_and_answer(handraise: list[str], folder: Path, person: dict[str, str], key: dict[str, str]) -> None:
    """Ask with a key, if there is one; see it in the inbox, answer it, and get the answer."""
    agent = {**person, **key}
    asked = _ended(handraise, "ask", "Deploy?", "--confirm", "--json", folder=folder, code=7, settings=agent)
    question = json.loads(asked.stdout)["id"]
    _look_into_inbox(handraise, folder, person)
    _ended(handraise, "answer", question, "yes", folder=folder, settings=person)
    _expect("^yes$", _ended(handraise, "wait", question, folder=folder, settings=agent).stdout.strip())


def _look_into_inbox(handraise: list[str], folder: Path, settings: dict[str, str]) -> None:
    """`handraise inbox` at a terminal shows what is pending, and ends with q."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(  # noqa: S603 -- our own line
        [*handraise, "inbox"],
        cwd=folder,
        env={**strange_environment(folder), **settings, "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    too_long = threading.Timer(SOON, process.kill)
    too_long.start()
    shown = b""
    try:
        while b"Deploy?" not in shown:
            shown += os.read(ours, 65_536)  # fails once the process has ended
        os.write(ours, b"q")
        if process.wait(SOON):
            raise SystemExit(f"handraise inbox ended with {process.returncode}")
    except OSError:
        raise SystemExit(f"handraise inbox never showed the question:\n{shown!r}") from None
    finally:
        too_long.cancel()
        process.kill()
        process.wait()
        os.close(ours)


def _ended(
    handraise: list[str], *line: str, folder: Path, code: int = 0, settings: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A command that has ended with this code."""
    done = subprocess.run(  # noqa: S603 -- our own line
        [*handraise, *line],
        cwd=folder,
        env={**strange_environment(folder), **(settings or {})},
        capture_output=True,
        text=True,
        timeout=SOON,
        check=False,
    )
    if done.returncode != code:
        raise SystemExit(f"handraise {line[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


def _command(clean: Clean) -> list[str]:
    return [str(clean.folder / "bin" / "handraise")]


def serves(clean: Clean, _wheel: Path, folder: Path) -> None:
    """`handraise serve` answers, shows its page, and stops when it is told to."""
    with started(_command(clean), "serve", folder) as said:
        address = said(r"https?://[\w.:]+")
        for path, wanted in (
            ("/healthz", "alive"),
            ("/readyz", "ready"),
            ("/sign-in", "<html"),
            ("/v1/openapi.json", '"openapi"'),
        ):
            with urllib.request.urlopen(address + path, timeout=SOON) as answer:  # noqa: S310 -- our own server
                _expect(re.escape(wanted), answer.read().decode())


def plays(clean: Clean, _wheel: Path, folder: Path) -> None:
    """`handraise demo` says where to go, and leaves nothing behind."""
    with started(_command(clean), "demo", folder) as said:
        said(r"token=\S+")


CHECKS: dict[str, tuple[Callable[[Clean, Path, Path], None], ...]] = {
    "core": (first_question, says_what_is_missing, contract),
    "cli": (first_question, asks_and_answers),
    "server": (first_question, serves, plays),
}


@contextmanager
def started(
    handraise: list[str],
    command: str,
    folder: Path,
    *,
    lasts: float = SOON,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Callable[[str], str]]:
    """A command that runs until it is told to stop; gives what it prints, until something is there."""
    line = [*handraise, command, "--port", "0"]
    process = subprocess.Popen(  # noqa: S603 -- our own line
        line,
        cwd=folder,
        env={**strange_environment(folder), **(settings or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    so_far = ""

    def said(pattern: str) -> str:
        nonlocal so_far
        while not (found := re.search(pattern, so_far)):
            if process.stdout is None or not (more := process.stdout.readline()):
                raise SystemExit(f"handraise {command} ended, and never said {pattern}:\n{so_far}")
            so_far += more
        return found[0]

    too_long = threading.Timer(lasts, process.kill)
    too_long.start()
    try:
        yield said
        process.send_signal(signal.SIGINT)
        process.communicate()
        if process.returncode:
            raise SystemExit(f"handraise {command} ended with {process.returncode} when it was told to stop")
    finally:
        too_long.cancel()
        process.kill()
        process.wait()


def _expect(pattern: str, text: str) -> None:
    if not re.search(pattern, text):
        raise SystemExit(f"{pattern} is not in\n{text}")
