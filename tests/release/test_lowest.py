"""The lowest versions of dependencies that pyproject.toml allows work: the library and its contract are tested with them.

uv chooses them, in an environment of its own below `.cache`, which is kept for the next time.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PLACE = ROOT / ".cache" / "lowest"
EXTRAS = "postgres,nats,remote,cli,server,policies,gate,calendars,testing"
TESTS = (
    "tests/model",
    "tests/desk",
    "tests/contract",
    "tests/tools",
    "tests/conversations",
    "tests/policies",
)


def run(*line: str | Path, **environment: str) -> str:
    done = subprocess.run(
        line, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, timeout=3_000, check=False
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-8_000:]}{done.stderr[-4_000:]}"
    return done.stdout


@pytest.mark.proof
@pytest.mark.slow("installs an environment and runs the library's tests in it")
@pytest.mark.timeout(3_600)
def test_the_lowest_versions_that_are_allowed_work() -> None:
    uv = Path(sys.executable).with_name("uv")
    if not (PLACE / "bin" / "python").exists():
        run(uv, "venv", "--python", sys.executable, PLACE)
    python = PLACE / "bin" / "python"
    installing: list[str | Path] = [uv, "pip", "install", "--python", python, "--resolution", "lowest-direct"]
    run(*installing, "--group", "test", "--editable", f".[{EXTRAS}]")
    (pydantic,) = (each for each in metadata.requires("handraise") or () if re.match(r"pydantic[<>=]", each))
    lowest = pydantic.partition(">=")[2]
    shown = run(python, "-c", "import pydantic; print(pydantic.VERSION)")
    assert shown.strip() == lowest
    chosen = "not proof and not service and not slow"
    said = run(python, "-m", "pytest", "-q", "-m", chosen, *TESTS, HANDRAISE_TIER="gate")
    print(said.strip().splitlines()[-1])
