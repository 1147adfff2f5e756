"""In a thousand threads (fewer in the gate) the asker replies while a person approves: nobody approves what they did not see."""

from __future__ import annotations

import asyncio

import pytest

from handraise import Approval, open_desk
from handraise.model.thread_messages import MESSAGE_KINDS
from handraise.testing.promises import promise
from tests.chaos.two_callers import two_callers
from tests.tiers import sized

pytestmark = [
    pytest.mark.proof,
    pytest.mark.only_proof_of("an approval covers the conversation, also if two processes race"),
    pytest.mark.timeout(900),
]

THREADS = sized(gate=100, nightly=1_000)


@promise("P15")
@pytest.mark.parametrize("address", ["postgres", "sqlite"], indirect=True)
async def test_nobody_approves_a_conversation_that_they_did_not_see(address: str) -> None:
    form = Approval.of("pay", {"to": "Zoe"})
    async with (
        open_desk(address, workspace="talk") as desk,
        two_callers(address, "talk", ["reply"], ["approve"]) as callers,
    ):

        async def make(number: int) -> list[str]:
            asked = await asyncio.gather(
                *(desk.post("Pay?", form=form, replies="program") for _ in range(number))
            )
            await asyncio.gather(*(desk.ask_back(each.id, "To whom?", by="ana") for each in asked))
            return [each.id for each in asked]

        ids = await callers.race(THREADS, make)
        replies, approvals = callers.first
        print(f"\n  {len(ids)} threads; {replies} replies and {approvals} approvals were first", end="")
        for question_id in ids:
            history = await desk.history(question_id)
            messages = sum(event.kind in MESSAGE_KINDS for event in history)
            ending = [event for event in history if event.kind == "answered"]
            if ending:
                assert (ending[0].data["seen"], messages) == (1, 1)
            else:
                assert messages == 2
    assert min(replies, approvals) > 0, "one of the two was always first, so nothing was proven"
