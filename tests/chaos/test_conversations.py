"""In a thousand threads (fewer in the gate) the asker replies while a person approves: nobody approves what they did not see."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

import pytest

from handraise import Approval, open_desk
from handraise.model.thread_messages import MESSAGE_KINDS
from handraise.testing.promises import promise
from tests.chaos.test_consume import said
from tests.tiers import sized

pytestmark = [
    pytest.mark.proof,
    pytest.mark.only_proof_of("an approval covers the conversation, also if two processes race"),
    pytest.mark.timeout(300),
]

THREADS = sized(gate=100, nightly=1_000)
TOGETHER = 50
TALKER = Path(__file__).with_name("talker.py")


@promise("P15")
@pytest.mark.parametrize("address", ["postgres", "sqlite"], indirect=True)
async def test_nobody_approves_a_conversation_that_they_did_not_see(address: str) -> None:
    async with open_desk(address, workspace="talk") as desk:
        form = Approval.of("pay", {"to": "Zoe"})
        questions = await asyncio.gather(
            *(desk.post("Pay?", form=form, replies="program") for _ in range(THREADS))
        )
        await asyncio.gather(*(desk.ask_back(each.id, "To whom?", by="ana") for each in questions))
        racers = [
            await asyncio.create_subprocess_exec(
                *(sys.executable, str(TALKER), address, role),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            for role in ("asker", "person")
        ]
        assert [await said(racer) for racer in racers] == ["ready", "ready"]
        refused = [0, 0]
        for at in range(0, THREADS, TOGETHER):
            ids = [question.id for question in questions[at : at + TOGETHER]]
            for racer in racers:
                assert racer.stdin is not None
                racer.stdin.write(json.dumps({"start": time.time() + 0.05, "ids": ids}).encode() + b"\n")
            refused = [before + int(await said(racer)) for before, racer in zip(refused, racers, strict=True)]
        for racer in racers:
            await racer.communicate(b"")
        for question in questions:
            history = await desk.history(question.id)
            messages = sum(event.kind in MESSAGE_KINDS for event in history)
            ending = [event for event in history if event.kind == "answered"]
            if ending:
                assert (ending[0].data["seen"], messages) == (1, 1)
            else:
                assert messages == 2
    print(
        f"\n  {THREADS} threads; {refused[0]} replies came too late, {refused[1]} approvals were refused",
        end="",
    )
    assert sum(refused) == THREADS
    assert min(refused) > 0, "the two never met, so nothing was proven"
