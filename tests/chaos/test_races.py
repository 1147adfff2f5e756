"""Fifty processes race for a thousand questions (in the gate, eight for 150): each question has one outcome, and everybody
agrees on it.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from handraise import Answered, Desk, Outcome, Question, open_desk
from tests.tiers import sized

pytestmark = [
    pytest.mark.proof,
    pytest.mark.only_proof_of("of processes that race for a question one wins"),
    pytest.mark.timeout(600),
]

PROCESSES, QUESTIONS = sized(gate=8, nightly=50), sized(gate=150, nightly=1_000)
SWEEPERS = sized(gate=2, nightly=4)
LASTS = sized(gate=3, nightly=8)
"""Over so many seconds the questions expire."""
SHARE = sized(gate=25, nightly=6) / 100
"""So many of them a process tries to settle: fewer processes, more each."""
RACER = Path(__file__).with_name("racer.py")


@pytest.mark.parametrize("address", ["postgres", "sqlite"], indirect=True)
async def test_of_fifty_processes_one_wins_each_question_and_the_losers_learn_who(address: str) -> None:
    async with open_desk(address, workspace="race") as desk, AsyncExitStack() as stack:
        racers = await started(stack, address)
        questions = await asyncio.gather(*(desk.post(f"Who is first at {n}?") for n in range(QUESTIONS)))
        work = {"role": "answer", "ids": [question.id for question in questions]}
        told = await race(racers, [work] * PROCESSES)
        settled = await outcomes(desk, questions)

    for question in questions:
        winner = settled[question.id]
        assert winner.status == "answered"
        assert {tuple(each[question.id]) for each in told} == {seen(winner)}
    wins = Counter(winner.by for winner in settled.values() if isinstance(winner, Answered))
    assert sum(wins.values()) == QUESTIONS
    report(
        f"{QUESTIONS} winners from {len(wins)} processes, {(PROCESSES - 1) * QUESTIONS} losers told who won"
    )


@pytest.mark.parametrize("address", ["postgres", "sqlite"], indirect=True)
async def test_answers_race_with_the_clock_and_with_withdrawals_to_one_outcome_each(address: str) -> None:
    # On a busy machine everybody may be too late, so that all questions expire. Then there is more time for the next ones.
    endings = await race_with_the_clock(address, LASTS)
    for lasts in (4 * LASTS, 16 * LASTS):
        if len(endings) < 3:
            endings = await race_with_the_clock(address, lasts)
    assert set(endings) == {"answered", "withdrawn", "expired"}, endings


async def race_with_the_clock(address: str, lasts: float) -> Counter[str]:
    """Answer, withdraw and expire questions at the same time; return how they ended."""
    async with open_desk(address, workspace="race") as desk, AsyncExitStack() as stack:
        racers = await started(stack, address)
        questions = await about_to_expire(desk, lasts)
        ends = [(each.id, expiry_of(each)) for each in questions]
        rush = {"role": "rush", "share": SHARE, "ends": ends}
        told = await race(racers, [rush] * (PROCESSES - SWEEPERS) + [{**rush, "role": "sweep"}] * SWEEPERS)
        await desk.run_due()
        settled = await outcomes(desk, questions)
        for question in questions:
            kinds = [event.kind for event in await desk.history(question.id)]
            assert kinds[:1] == ["asked"]
            assert [kind.value for kind in kinds[1:]] == [settled[question.id].status.value]

    for each in told:
        for name, outcome in each.items():
            assert tuple(outcome) == seen(settled[name])
    endings = Counter(outcome.status.value for outcome in settled.values())
    assert sum(endings.values()) == QUESTIONS
    report(", ".join(f"{count} {ending}" for ending, count in endings.most_common()))
    return endings


async def about_to_expire(desk: Desk, lasts: float) -> list[Question]:
    """Questions that expire one after the other, soon; later on a machine so busy that they would be over before the race."""
    lead = 2.0
    while True:
        spread = random.Random(7)
        posts = (
            desk.post(f"Before it is over, {n}?", expires_in=lead + spread.random() * lasts)
            for n in range(QUESTIONS)
        )
        questions = sorted(await asyncio.gather(*posts), key=expiry_of)
        if time.time() < expiry_of(questions[0]) - lead / 2:
            return questions
        lead *= 5


def expiry_of(question: Question) -> float:
    assert question.expires_at is not None
    return question.expires_at.timestamp()


async def started(stack: AsyncExitStack, address: str) -> list[asyncio.subprocess.Process]:
    """The racers, all of them ready."""
    racers = []
    for n in range(PROCESSES):
        racer = await asyncio.create_subprocess_exec(
            *(sys.executable, str(RACER), address, f"racer-{n}"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=2**24,
        )
        stack.push_async_callback(ended, racer)
        racers.append(racer)
    for racer in racers:
        assert await line(racer) == b"ready\n"
    return racers


async def race(racers: list[asyncio.subprocess.Process], work: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Let all go at once, and collect what each was told."""
    for racer, mine in zip(racers, work, strict=True):
        assert racer.stdin is not None
        racer.stdin.write(json.dumps(mine).encode() + b"\n")
    return [json.loads(await line(racer)) for racer in racers]


async def line(racer: asyncio.subprocess.Process) -> bytes:
    assert racer.stdout is not None
    return await racer.stdout.readline()


async def ended(racer: asyncio.subprocess.Process) -> None:
    if racer.returncode is None and racer.stdin is not None:
        racer.stdin.close()
    assert await racer.wait() == 0


async def outcomes(desk: Desk, questions: list[Question]) -> dict[str, Outcome]:
    now = await asyncio.gather(*(desk.get(question.id) for question in questions))
    return {question.id: question.outcome for question in now if question.outcome is not None}


def seen(outcome: Outcome) -> tuple[str, str | None, str]:
    return (outcome.status.value, getattr(outcome, "by", None), outcome.at.isoformat())


def report(text: str) -> None:
    print(f"\n  {text}", end="")
