"""Slack keeps the contract of channels, against a stand-in that refuses what Slack would refuse."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, ClassVar

import pytest

from handraise.channels import Replies
from handraise.channels.slack import Slack, open_slack
from handraise.model.json_values import Json
from handraise.model.outcomes import Answered
from handraise.ports.channel import NotSent
from handraise.testing.contract.channel import AT, ChannelContract, a_question, settled
from tests.channels.slack_peer import BOT_TOKEN, SECRET, Fault, SlackPeer, open_peer


class TestSlackContract(ChannelContract):
    shows = True
    unsafe: ClassVar = ("<!", "<@", "<https://evil", "<script", "<img")

    @pytest.fixture
    async def peer(self) -> AsyncIterator[SlackPeer]:
        async with open_peer() as peer:
            peer.people["U0ANN"] = "T0HOME"
            peer.dead.add("U0DEAD")
            yield peer

    @pytest.fixture
    async def channel(self, peer: SlackPeer) -> AsyncIterator[Slack]:
        nobody: Any = None
        replies = Replies(nobody, nobody, nobody)
        async with open_slack(
            replies,
            bot_token=BOT_TOKEN,
            signing_secret=SECRET,
            api_url=peer.api_url,
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        ) as slack:
            yield slack

    @pytest.fixture
    def to(self) -> Json:
        return {"user": "U0ANN"}

    @pytest.fixture
    def dead(self) -> Json:
        return {"user": "U0DEAD"}

    async def test_a_message_sent_twice_is_one_at_slack(
        self, channel: Slack, peer: SlackPeer, to: Json
    ) -> None:
        message = self.message(channel, to, a_question())
        assert await channel.send(message) == await channel.send(message)
        assert len(peer.messages) == 1

    async def test_several_questions_are_followed_up_in_their_thread_one_by_one(
        self, channel: Slack, peer: SlackPeer, to: Json
    ) -> None:
        questions = [a_question(id=f"q-{place}", prompt=f"Which {place}?") for place in range(3)]
        receipt = await channel.send(self.message(channel, to, *questions))
        ended = settled(questions[1], Answered(value=True, at=AT, by="ann"))
        for _ in range(2):
            await channel.update(self.message(channel, to, ended), receipt)
        first, *replies = peer.messages.values()
        [reply] = replies
        assert (first.edits, reply.thread_ts) == (0, first.ts)
        assert "Which 1?" in reply.shown
        assert "Answered by ann" in reply.shown

    @pytest.mark.parametrize(
        ("fault", "again", "after", "perhaps"),
        [
            (Fault(429, "ratelimited", {"retry-after": "7"}), True, 7, False),
            (Fault(429, None, {"retry-after": "soon"}), True, None, False),
            (Fault(200, "ratelimited"), True, None, False),
            (Fault(200, "invalid_auth"), True, None, False),
            (Fault(200, "internal_error"), True, None, False),
            (Fault(200, "channel_not_found"), False, None, False),
            (Fault(200, "is_archived"), False, None, False),
            (Fault(200, "message_not_found"), False, None, False),
            (Fault(503), True, None, True),
        ],
    )
    async def test_what_slack_says_decides_whether_it_is_tried_again(
        self,
        *,
        channel: Slack,
        peer: SlackPeer,
        to: Json,
        fault: Fault,
        again: bool,
        after: int | None,
        perhaps: bool,
    ) -> None:
        question = a_question()
        receipt = await channel.send(self.message(channel, to, question))
        peer.fail("chat.postMessage", fault)
        peer.fail("chat.update", fault)
        ended = self.message(channel, to, settled(question, Answered(value=True, at=AT, by="ann")))
        with pytest.raises(NotSent) as sending:
            await channel.send(self.message(channel, to, question))
        with pytest.raises(NotSent) as changing:
            await channel.update(ended, receipt)
        span = None if after is None else timedelta(seconds=after)
        for failed in (sending.value, changing.value):
            assert (failed.again, failed.after, failed.arrived_perhaps) == (again, span, perhaps)
            assert BOT_TOKEN not in str(failed)
