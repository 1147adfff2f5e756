"""What every chat service keeps besides the contract of channels, against its stand-in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

import pytest

from handraise.model.json_values import Json
from handraise.model.outcomes import Answered
from handraise.ports.channel import NotSent
from handraise.testing.contract.channel import AT, ChannelContract, a_question, settled

ENDED = Answered(value=True, at=AT, by="ann")


class ChatContract(ChannelContract):
    """A chat service."""

    shows = True
    reports = True
    answers: ClassVar[Sequence[tuple[Any, bool, float | None, bool]]]
    """What the service may answer, whether that is tried again, after how long, and whether it arrived perhaps."""
    calls: ClassVar[tuple[str, str]]
    """What its stand-in calls sending and changing a message."""
    tells_copies_apart: ClassVar[bool] = False
    secret: ClassVar[str]

    def replied_to(self, message: Any) -> object:
        """The message that one is a reply to."""
        raise NotImplementedError

    def name_of(self, message: Any) -> object:
        """What the service calls a message in a reply to it."""
        return message.id

    async def test_a_message_sent_twice_is_one_where_the_service_can_tell(
        self, channel: Any, peer: Any, to: Json
    ) -> None:
        message = self.message(channel, to, a_question())
        same = await channel.send(message) == await channel.send(message)
        assert (same, len(peer.messages)) == ((True, 1) if self.tells_copies_apart else (False, 2))

    async def test_several_questions_are_followed_up_one_by_one(
        self, channel: Any, peer: Any, to: Json
    ) -> None:
        questions = [a_question(id=f"q-{place}", prompt=f"Which {place}?") for place in range(3)]
        receipt = await channel.send(self.message(channel, to, *questions))
        for _ in range(2 if self.tells_copies_apart else 1):
            await channel.update(self.message(channel, to, settled(questions[1], ENDED)), receipt)
        first, reply = peer.messages.values()
        assert (first.edits, self.replied_to(reply), reply.pressable) == (0, self.name_of(first), [])
        assert "Which 1?" in reply.shown
        assert "Answered by ann" in reply.shown

    async def test_what_the_service_says_decides_whether_it_is_tried_again(
        self, channel: Any, peer: Any, to: Json, service_says: tuple[Any, bool, float | None, bool]
    ) -> None:
        fault, again, after, perhaps = service_says
        question = a_question()
        receipt = await channel.send(self.message(channel, to, question))
        for call in self.calls:
            peer.fail(call, fault)
        with pytest.raises(NotSent) as sending:
            await channel.send(self.message(channel, to, question))
        with pytest.raises(NotSent) as changing:
            await channel.update(self.message(channel, to, settled(question, ENDED)), receipt)
        span = None if after is None else timedelta(seconds=after)
        for failed in (sending.value, changing.value):
            assert (failed.again, failed.after, failed.arrived_perhaps) == (again, span, perhaps)
            assert self.secret not in str(failed)
