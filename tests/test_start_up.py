"""What is imported at start: seconds for everybody who runs the command or imports the package, if it is too much."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import handraise
from support.command import SOON, environment

ROOT = Path(__file__).parent.parent

SLOW = {
    *("asyncpg", "fastapi", "httpx2", "jinja2", "nats", "prompt_toolkit", "pydantic", "pydantic_core"),
    *("pydantic_settings", "rich", "sqlalchemy", "sqlite3", "starlette", "uvicorn", "uvloop"),
}
STARTS = {
    "import": "import handraise",
    "--version": "import sys; sys.argv = ['handraise', '--version']; from handraise.cli import main; main()",
    "--help": "import sys; sys.argv = ['handraise', '--help']; from handraise.cli import main; main()",
}
REPORT = "import atexit, json, sys; atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))"


def modules_after(program: str) -> set[str]:
    """The modules that a fresh process has imported at its end."""
    done = subprocess.run(
        [sys.executable, "-c", f"{REPORT}\n{program}"],
        env=environment(None),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SOON,
        check=True,
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize("start", STARTS)
def test_start_imports_nothing_slow(start: str) -> None:
    imported = modules_after(STARTS[start])
    assert {each.partition(".")[0] for each in imported} & SLOW == set()
    assert "asyncio" not in imported
    ours = {each for each in imported if each.startswith("handraise")}
    assert ours <= {"handraise", "handraise._version", "handraise.cli", "handraise.cli.commands"}


def test_a_desk_needs_neither_a_server_nor_its_records() -> None:
    imported = modules_after("from handraise import open_desk")
    assert "handraise.desk_factory" in imported
    assert {each.partition(".")[0] for each in imported} & (SLOW - {"pydantic", "pydantic_core"}) == set()
    assert not [each for each in imported if each.startswith("handraise.wire.") and "records" in each]


def test_every_public_name_is_found_and_no_other() -> None:
    for name in handraise.__all__:
        assert getattr(handraise, name).__module__.startswith(("handraise", "typing", "types", "builtins"))
    assert set(handraise.__all__) <= set(dir(handraise))
    assert handraise.errors.HandraiseError is handraise.HandraiseError
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        handraise.nothing  # type: ignore[attr-defined]  # noqa: B018 -- what is tested
