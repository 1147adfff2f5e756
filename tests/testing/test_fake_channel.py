"""A fake channel keeps the contract of channels, and takes part in a desk and a server as a real one does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from handraise import Answered, Approval, Timeline
from handraise.model.deliveries import Address
from handraise.model.identities import Role
from handraise.model.json_values import Json
from handraise.ports.channel import Channel, Message, NotSent
from handraise.server import ServerSettings, open_server
from handraise.testing import FakeChannel, ManualClock
from handraise.testing.contract.channel import ChannelContract, Peer, Received

NOBODY = {"name": "nobody"}


class WithNobody(FakeChannel):
    """One that does not reach everybody, as the contract needs it."""

    async def send(self, message: Message) -> Json:
        if message.to == NOBODY:
            raise NotSent("nobody is there")
        return await super().send(message)

    async def update(self, message: Message, receipt: Json) -> None:
        if message.to == NOBODY:
            raise NotSent("nobody is there")
        await super().update(message, receipt)


class Kept:
    """What the channel kept."""

    def __init__(self, channel: FakeChannel) -> None:
        self._channel = channel

    def received(self) -> Sequence[Received]:
        return [Received(each.text.encode(), each.text) for each in self._channel.sent]


class TestFakeChannel(ChannelContract):
    shows = True
    reports = True

    @pytest.fixture
    def channel(self) -> Channel:
        return WithNobody()

    @pytest.fixture
    def peer(self, channel: FakeChannel) -> Peer:
        return Kept(channel)

    @pytest.fixture
    def to(self) -> Json:
        return {"name": "ann"}

    @pytest.fixture
    def dead(self) -> Json:
        return NOBODY


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_question_is_sent_answered_by_a_reply_and_changed(kind: str, tmp_path: Path) -> None:
    url = "memory:" if kind == "memory" else f"sqlite:///{tmp_path / 'questions.db'}"
    channel = FakeChannel()
    async with asyncio.timeout(20), channel.open_desk(url, people=["ana", "bob"]) as desk:
        question = await desk.post("Which?", choices=["Canary", "Rolling"], recipients=["ana"])
        message = await channel.next_message()
        assert (message.to, message.reason, message.question.id) == ("ana", "asked", question.id)
        assert "Which?" in message.text
        assert message.link in message.text
        assert (await channel.reply("Canary", by="bob", question=question)).kind == "refused"
        assert (await channel.reply("perhaps", by="ana")).kind == "misfit"
        for _ in range(2):  # the second one comes twice
            assert (await channel.reply("2", by="ana", id="message-7")).kind == "taken"
        outcome = await desk.wait(question.id)
        assert isinstance(outcome, Answered)
        assert (outcome.value, outcome.by, outcome.channel) == ("Rolling", "ana", "fake")
        changed = await channel.next_message()
        assert changed.ended
        assert "Rolling" in changed.text
        assert (await channel.press("Canary", by="ana", question=question)).kind == "late"
        with pytest.raises(AssertionError, match="Nothing more was sent"):
            await channel.next_message(patience=0.05)


async def test_an_asker_cannot_answer_and_weak_evidence_does_not_approve_what_is_of_high_risk() -> None:
    channel = FakeChannel()
    async with asyncio.timeout(20), channel.open_desk(people=["ana", "agent"]) as desk:
        question = await desk.post("Drop?", form=Approval.of("drop", {}, risk="high"))
        await channel.next_message()
        assert (await channel.press("approve", by="agent", question=question)).kind == "refused"
        assert (await channel.press("approve", by="ana")).kind == "refused"
        assert (await desk.get(question.id)).outcome is None


async def test_reminders_are_sent_by_the_clock_and_a_channel_that_is_down_is_tried_again() -> None:
    channel, clock = FakeChannel(), ManualClock()
    async with asyncio.timeout(20), channel.open_desk(clock=clock, poll_interval=0.02) as desk:
        await desk.post("Which?", recipients=["ana"], timeline=Timeline(remind="1h", expire="2h"))
        assert (await channel.next_message()).reason == "asked"
        channel.is_down = True
        clock.advance("1h")
        await desk.run_due()
        with pytest.raises(AssertionError, match="Nothing more was sent"):
            await channel.next_message(patience=0.2)
        channel.is_down = False
        clock.advance("1m")
        await desk.run_due()
        assert (await channel.next_message()).reason == "reminded"


async def test_it_is_a_channel_of_a_server() -> None:
    channel = FakeChannel("pigeon")
    settings = ServerSettings(url="memory:")
    async with asyncio.timeout(20), open_server(settings, channels=[channel.open]) as ctx:
        await ctx.directory.put_person("default", "ana", name="Ana", email=None, role=Role.MEMBER)
        await ctx.outbox.put_address(
            Address(workspace="default", recipient="ana", channel="pigeon", id="ana", to={"name": "ana"})
        )
        question = await ctx.desk.post("Which?", choices=["a", "b"], recipients=["ana"])
        await channel.next_message()
        assert (await channel.reply("b")).kind == "taken"
        assert str(await ctx.desk.wait(question.id)) == "answered 'b' by ana"


async def test_without_a_desk_it_says_what_to_write() -> None:
    channel = FakeChannel()
    with pytest.raises(TypeError, match=r"channel\.open_desk\(\)"):
        await channel.add_person("ana")
    with pytest.raises(TypeError, match=r"channel\.open_desk\(\)"):
        await channel.reply("yes")
    async with channel.open_desk():
        with pytest.raises(AssertionError, match="'ana' has got no message to reply to"):
            await channel.reply("yes")
