"""Of a thousand approvals (fewer in the gate), a process uses each while another one takes it back: one of the two gets it."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from handraise import Approval, open_desk
from handraise.errors import ApprovalLapsed, ApprovalTakenBack
from handraise.testing.promises import promise
from tests.chaos.two_callers import two_callers
from tests.tiers import sized

pytestmark = [
    pytest.mark.proof,
    pytest.mark.only_proof_of("an approval is not used after it was taken back, also if two processes race"),
    pytest.mark.timeout(900),
]

APPROVALS = sized(gate=100, nightly=1_000)
LAPSED = 5


@promise("P16")
@pytest.mark.parametrize("address", ["postgres", "sqlite"], indirect=True)
async def test_an_approval_is_used_or_taken_back_and_never_both(address: str, tmp_path: Path) -> None:
    done, numbers = tmp_path / "executed", iter(range(10 * APPROVALS))
    done.touch()
    actions: dict[str, int] = {}
    async with (
        open_desk(address, workspace="back") as desk,
        two_callers(address, "back", ["execute", str(done)], ["take back"]) as callers,
    ):

        async def approved(valid_for: float) -> str:
            number = next(numbers)
            form = Approval.of("run", {"n": number}, valid_for=valid_for)
            question = await desk.post("Run?", form=form)
            await desk.answer(question.id, "approve", by="ana")
            actions[question.id] = number
            return question.id

        async def make(number: int) -> list[str]:
            return await asyncio.gather(*(approved(valid_for=3_600) for _ in range(number)))

        too_late = await asyncio.gather(*(approved(valid_for=0.001) for _ in range(LAPSED)))
        ids = await callers.race(APPROVALS, make)
        used, taken_back = callers.first
        print(f"\n  {len(ids)} approvals; {used} were used and {taken_back} taken back", end="")
        executed = Counter(map(int, done.read_text().split()))
        for question_id in ids:
            question = await desk.get(question_id)
            assert (question.consumed_at is None) is not (question.taken_back_at is None)
            kinds = [event.kind.value for event in await desk.history(question_id)]
            assert kinds == [
                "asked",
                "answered",
                "taken_back" if question.consumed_at is None else "consumed",
            ]
            assert executed[actions[question_id]] == (question.consumed_at is not None)
            if question.taken_back_at is not None:
                with pytest.raises(ApprovalTakenBack):
                    await desk.consume_approval(question_id)
        for question_id in too_late:
            with pytest.raises(ApprovalLapsed):
                await desk.consume_approval(question_id)
    assert executed.total() == used
    assert min(used, taken_back) > 0, "one of the two was always first, so nothing was proven"
