"""Two processes race to execute a thousand approved actions (fewer in the gate): each is executed exactly once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncpg
import pytest

from handraise import Approval, NotApproved, open_desk
from tests.chaos.two_callers import two_callers
from tests.tiers import sized

pytestmark = [
    pytest.mark.proof,
    pytest.mark.only_proof_of("two processes do not execute the same approval"),
    pytest.mark.timeout(900),
]

ACTIONS = sized(gate=200, nightly=1_000)


async def test_a_thousand_approvals_are_executed_a_thousand_times(postgres: str, tmp_path: Path) -> None:
    done, numbers = tmp_path / "executed", iter(range(10 * ACTIONS))
    execute = ["execute", str(done)]
    async with (
        open_desk(postgres, workspace="consume") as desk,
        two_callers(postgres, "consume", execute, execute) as callers,
    ):

        async def make(number: int) -> list[str]:
            questions = await asyncio.gather(
                *(desk.post("Run?", form=Approval.of("run", {"n": next(numbers)})) for _ in range(number))
            )
            await asyncio.gather(*(desk.answer(question.id, "approve", by="ana") for question in questions))
            return [question.id for question in questions]

        ids = await callers.race(ACTIONS, make)
    assert sorted(map(int, done.read_text().split())) == list(range(len(ids)))
    one, other = callers.first
    print(f"\n  {len(ids)} actions executed once each, {one} by one process and {other} by the other", end="")
    assert min(one, other) > 0, "one of the two was always first, so nothing was proven"


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
