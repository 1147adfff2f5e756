"""Sending: who shows a question in the asker's own chat, and the record that it was shown."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from handraise import Desk, InvalidAnswer, QuestionNotFound
from handraise.testing.clock import ManualClock
from handraise.testing.contract.backend import REFUSED, ContractFixtures
from handraise.testing.promises import promise

_SECOND = timedelta(seconds=1)


class ChatClaimCases(ContractFixtures):
    """One process at a time shows a question; if it dies, another one does; this is recorded once."""

    @promise("P7")
    async def test_a_question_is_marked_as_sent_once_with_one_event(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        question = await desk.post("Which order?")
        assert question.sent_at is None
        assert await desk.claim_sending(question.id)
        assert (await desk.get(question.id)).sent_at is None
        sent_at = clock.now()
        assert (await desk.mark_sent(question.id, channel="chat")).sent_at == sent_at
        clock.advance(timedelta(days=1))
        assert (await desk.mark_sent(question.id, channel="elsewhere")).sent_at == sent_at
        assert not await desk.claim_sending(question.id)
        assert (await desk.list_pending()).items[0].sent_at == sent_at
        events = await desk.history(question.id)
        assert [(each.kind, each.by, each.channel) for each in events[1:]] == [("sent", "agent", "chat")]
        assert events[-1].at == sent_at

    @promise("P5")
    async def test_of_many_who_would_send_a_question_one_does(self, desk: Desk) -> None:
        question = await desk.post("Which order?")
        assert sum(await asyncio.gather(*(desk.claim_sending(question.id) for _ in range(8)))) == 1

    @promise("P1")
    async def test_whoever_died_at_sending_is_followed_by_another_when_the_lease_is_over(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        question = await desk.post("Which order?")
        assert await desk.claim_sending(question.id, lease=10)
        clock.advance(9 * _SECOND)
        assert not await desk.claim_sending(question.id, lease=10)
        clock.advance(_SECOND)
        assert await desk.claim_sending(question.id, lease=timedelta(minutes=1))
        clock.advance(59 * _SECOND)
        assert not await desk.claim_sending(question.id)
        # The slow one has shown it anyway.
        assert (await desk.mark_sent(question.id)).sent_at == clock.now()
        assert [event.kind for event in await desk.history(question.id)] == ["asked", "sent"]

    async def test_only_whoever_asked_sends(self, desk: Desk) -> None:
        question = await desk.post("Which order?")
        other = desk.scoped(asker="another agent")
        with pytest.raises(REFUSED):
            await other.claim_sending(question.id)
        with pytest.raises(REFUSED):
            await other.mark_sent(question.id)
        assert (await desk.get(question.id)).sent_at is None
        assert await desk.claim_sending(question.id)

    @promise("P5")
    @pytest.mark.parametrize("ending", ["answer", "withdraw", "expire"])
    async def test_what_has_ended_is_not_sent(self, desk: Desk, clock: ManualClock, ending: str) -> None:
        question = await desk.post("Which order?", expires_in=timedelta(hours=1))
        match ending:
            case "answer":
                await desk.answer(question.id, "A-17", by="ana")
            case "withdraw":
                await desk.withdraw(question.id)
            case _:
                clock.advance(timedelta(hours=2))
        assert not await desk.claim_sending(question.id)
        ended = await desk.mark_sent(question.id)
        assert (ended.sent_at, ended.outcome is None) == (None, False)
        assert "sent" not in [event.kind for event in await desk.history(question.id)]

    async def test_a_question_that_is_not_there_is_not_sent(self, desk: Desk) -> None:
        with pytest.raises(QuestionNotFound):
            await desk.claim_sending("nowhere")
        with pytest.raises(QuestionNotFound):
            await desk.mark_sent("nowhere")

    async def test_a_lease_that_is_none_and_a_channel_that_cannot_be_kept_change_nothing(
        self, desk: Desk
    ) -> None:
        question = await desk.post("Which order?")
        for lease in (0, -1, 3601, float("nan")):
            with pytest.raises(ValueError, match="lease"):
                await desk.claim_sending(question.id, lease=lease)
        with pytest.raises(InvalidAnswer):
            await desk.mark_sent(question.id, channel="\0")
        assert (await desk.get(question.id)).sent_at is None
        assert await desk.claim_sending(question.id)
