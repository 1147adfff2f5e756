"""Two processes race to execute a thousand approved actions (fewer in the gate): each is executed exactly once."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

import asyncpg
import pytest

from handraise import Approval, NotApproved, open_desk
from tests.tiers import sized

pytestmark = [
    pytest.mark.proof,
    pytest.mark.only_proof_of("two processes do not execute the same approval"),
    pytest.mark.timeout(300),
]

ACTIONS = sized(gate=200, nightly=1_000)
TOGETHER = 50
"""After so many both wait for each other, so that one which fell behind does not find everything done."""
CONSUMER = Path(__file__).with_name("consumer.py")


async def said(racer: asyncio.subprocess.Process) -> str:
    assert racer.stdout is not None
    return (await racer.stdout.readline()).decode().strip()


async def test_a_thousand_approvals_are_executed_a_thousand_times(postgres: str, tmp_path: Path) -> None:
    done = tmp_path / "executed"
    async with open_desk(postgres, workspace="consume") as desk:
        questions = await asyncio.gather(
            *(desk.post("Run?", form=Approval.of("run", {"n": n})) for n in range(ACTIONS))
        )
        await asyncio.gather(*(desk.answer(question.id, "approve", by="ana") for question in questions))
    racers = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, str(CONSUMER), postgres, str(done)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        for _ in range(2)
    ]
    assert [await said(racer) for racer in racers] == ["ready", "ready"]
    refused = [0, 0]
    for at in range(0, ACTIONS, TOGETHER):
        ids = [question.id for question in questions[at : at + TOGETHER]]
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write(json.dumps({"start": time.time() + 0.05, "ids": ids}).encode() + b"\n")
        refused = [before + int(await said(racer)) for before, racer in zip(refused, racers, strict=True)]
    for racer in racers:
        await racer.communicate(b"")
    assert sum(refused) == ACTIONS
    assert sorted(map(int, done.read_text().split())) == list(range(ACTIONS))
    print(f"\n  {ACTIONS} actions executed once each; refused {refused[0]} and {refused[1]} times", end="")
    assert min(refused) > 0, "the two never met, so nothing was proven"


@pytest.mark.parametrize("edited", [False, True], ids=["as asked", "edited"])
async def test_one_changed_byte_in_the_stored_arguments_is_refused(postgres: str, *, edited: bool) -> None:
    connection = await asyncpg.connect(postgres)
    await connection.execute("set session_replication_role = replica")  # no trigger holds an operator up
    async with open_desk(postgres, workspace="changed") as desk:
        form = Approval.of("pay", {"amount": 10, "to": "ana"}, editable=["amount"])
        for column, old, new in (
            ("form", '"amount":10', '"amount":11'),
            ("form", '"to":"ana"', '"to":"anb"'),
            ("outcome", '"to":"ana"', '"to":"eve"'),
            ("outcome", '"amount":9', '"amount":90'),
        ):
            if (column == "outcome") is not edited:
                continue
            question = await desk.post("Pay?", form=form)
            answer = {"decision": "approve", "arguments": {"amount": 9}} if edited else "approve"
            await desk.answer(question.id, answer, by="ana")
            changed = await connection.fetchval(
                f"update handraise.questions set {column} = replace({column}::text, $1, $2)::json "  # noqa: S608 -- our own names
                "where workspace = 'changed' and id = $3 returning "
                f"{column}::text",
                old,
                new,
                question.id,
            )
            assert new in changed
            with pytest.raises(NotApproved, match="not the one approved"):
                await desk.consume_approval(question.id)
            assert (await desk.get(question.id)).consumed_at is None
    await connection.close()
