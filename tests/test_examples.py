"""The examples run as they stand, in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    match request.param:
        case "postgres":
            found: str = request.getfixturevalue("postgres")
            return found
        case "sqlite":
            return f"sqlite:///{tmp_path / 'questions.db'}"
        case _:
            return "memory:"


def test_the_first_question(address: str) -> None:
    assert run("first_question.py", address).splitlines() == [
        "That answer does not fit. “Yolo” is not one of the options: Blue-green, Canary, Rolling",
        "pending",
        "answered 'Canary' by ana",
    ]


@pytest.mark.parametrize("address", ["sqlite", "postgres"], indirect=True)
def test_a_question_survives_the_death_of_its_asker(address: str) -> None:
    lines = run("survives_restart.py", address).splitlines()
    asked, killed, answered, again, carried_on = (line.split(": ", 1)[1].strip() for line in lines)
    assert asked == again
    assert (killed, answered) == ("exit code -9", "exit code 0")
    assert carried_on == "answer: Canary"
