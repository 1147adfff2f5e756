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


def test_the_first_question(empty_address: str) -> None:
    assert run("first_question.py", empty_address).splitlines() == [
        "That answer does not fit. “Yolo” is not one of the options: Blue-green, Canary, Rolling",
        "answered 'Canary' by ana",
    ]


@pytest.mark.parametrize("address", ["sqlite", "postgres"], indirect=True)
def test_a_question_survives_the_death_of_its_asker(address: str) -> None:
    lines = run("survives_restart.py", address).splitlines()
    asked, killed, answered, again, carried_on = (line.split(": ", 1)[1].strip() for line in lines)
    assert asked == again
    assert (killed, answered) == ("exit code -9", "exit code 0")
    assert carried_on == "answer: Canary"


@pytest.mark.parametrize("address", ["sqlite", "postgres"], indirect=True)
def test_a_support_agent_asks_in_a_chat_and_is_restarted_for_every_message(address: str) -> None:
    again = "What is your order number?"
    unclear = f"I cannot take that as an answer: order numbers look like A-1017. / {again}"
    assert run("support_agent.py", address).splitlines() == [
        "[lamp] ana: I want a refund for the lamp",
        f"[lamp] support: {again}",
        "[lamp] bob: I would just buy another one",
        "[lamp] support: Write “refund”, and I will help.",
        "[lamp] ana: the one I bought in May",
        f"[lamp] support: I cannot take that as an answer: may have at most 20 characters, has 23. / {again}",
        "[lamp] ana: A-1017",
        "[lamp] support: You wrote “I want a refund for the lamp”. Order A-1017 is refunded.",
        "[chair] ana: I want a refund for the chair",
        f"[chair] support: {again}",
        "[chair] ana: the chair",
        f"[chair] support: {unclear}",
        "[chair] ana: it is blue",
        f"[chair] support: {unclear}",
        "[chair] ana: never mind",
        f"[chair] support: I did not get an answer that I can use, so I leave this out for now: {again}",
        "[chair] support: You wrote “I want a refund for the chair”. A colleague will call you.",
    ]
