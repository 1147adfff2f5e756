"""Joining: another key of the asker that permanently names a pending question."""

from __future__ import annotations

import asyncio

import pytest

from handraise import AlreadySettled, Desk, InvalidQuestion, QuestionNotFound
from handraise.testing.contract.backend import REFUSED, ContractFixtures
from handraise.testing.promises import promise


class KeyAliasCases(ContractFixtures):
    """A joined key returns its question like the original key; a settled question cannot be joined."""

    @promise("P7", "P9")
    async def test_a_key_that_joined_gives_the_question_pending_or_settled(self, desk: Desk) -> None:
        question = await desk.post("Which?", choices=["a", "b"], key="k1")
        assert await desk.join(question.id, key="k2") == question
        assert await desk.join(question.id, key="k2") == question
        assert await desk.post("Which?", choices=["a", "b"], key="k2") == question
        settled = await desk.answer(question.id, "a", by="ana")
        for key in ("k1", "k2"):
            assert await desk.find_by_key(key) == settled
            assert await desk.post("Which?", choices=["a", "b"], key=key) == settled
        events = [(each.kind, each.by, each.data) for each in await desk.history(question.id)]
        assert events[1] == ("joined", "agent", {"key": "k2"})
        assert [kind for kind, _, _ in events] == ["asked", "joined", "answered"]

    @promise("P9")
    async def test_a_key_that_stands_for_a_question_keeps_standing_for_it(self, desk: Desk) -> None:
        first, second = await desk.post("One?", key="k1"), await desk.post("Two?", key="k2")
        assert await desk.join(first.id, key="k2") == second
        await desk.join(first.id, key="k3")
        assert await desk.join(second.id, key="k3") == first
        assert await desk.join(first.id, key="k1") == first
        assert [each.kind for each in await desk.history(second.id)] == ["asked"]
        assert [each.kind for each in await desk.history(first.id)] == ["asked", "joined"]

    @promise("P6")
    async def test_what_has_ended_cannot_be_joined_and_the_key_stays_free(self, desk: Desk) -> None:
        question = await desk.post("Which?", choices=["a", "b"])
        settled = await desk.answer(question.id, "a", by="ana")
        with pytest.raises(AlreadySettled) as refusal:
            await desk.join(question.id, key="k")
        assert refusal.value.outcome == settled.outcome
        assert await desk.find_by_key("k") is None
        assert (await desk.post("Which?", choices=["a", "b"], key="k")).status == "pending"

    async def test_only_the_asker_joins_and_with_a_key_of_its_own(self, desk: Desk) -> None:
        other = desk.scoped(asker="another agent")
        question = await desk.post("Which?")
        with pytest.raises(REFUSED):
            await other.join(question.id, key="k")
        await desk.join(question.id, key="k")
        assert await other.find_by_key("k") is None
        assert (await other.post("Which?", key="k")).id != question.id
        with pytest.raises(QuestionNotFound):
            await desk.join("nowhere", key="k2")
        for key in ("", "a\x00b", "x" * 2_000):
            with pytest.raises(InvalidQuestion):
                await desk.join(question.id, key=key)

    async def test_of_many_who_join_with_one_key_one_leaves_an_event(self, desk: Desk) -> None:
        first, second = await desk.post("One?"), await desk.post("Two?")
        found = await asyncio.gather(
            *(desk.join(each.id, key="k") for _ in range(4) for each in (first, second))
        )
        assert len({each.id for each in found}) == 1
        kinds = [event.kind for each in (first, second) for event in await desk.history(each.id)]
        assert sorted(kinds) == ["asked", "asked", "joined"]
