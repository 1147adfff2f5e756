"""Discord keeps the contract of channels, against a stand-in that refuses what Discord would refuse."""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, ClassVar

import pytest

from handraise.channels import Replies
from handraise.channels.discord import Discord, open_discord
from handraise.model.json_values import Json
from handraise.ports.channel import NotSent
from handraise.testing.contract.channel import a_question
from tests.channels.chat_contract import ChatContract
from tests.channels.discord_peer import BOT_TOKEN, ROOM, DiscordPeer, Fault, open_peer

ANN, DEAD, SHUT, NOBODY = (f"3000000000000000{each:02}" for each in range(4))


class TestDiscordContract(ChatContract):
    unsafe: ClassVar = ("⟦",)
    answers: ClassVar = [
        (Fault(429, {"message": "limited", "retry_after": 64.57, "global": False}), True, 64.57, False),
        (Fault(429, None, {"retry-after": "7"}), True, 7, False),
        (Fault(429, {"retry_after": "soon"}, {"retry-after": "1.5"}), True, 1.5, False),
        (Fault(429, {"retry_after": -1}, {"retry-after": "soon"}), True, None, False),
        (Fault(429, {"retry_after": 1e300}), True, 3_600, False),
        (Fault(401, {"message": "401: Unauthorized", "code": 0}), True, 300, False),
        (Fault(403, {"message": "opening too fast", "code": 40003}), True, None, False),
        (Fault(403, None), True, None, False),
        (Fault(403, {"message": "Cannot send messages to this user", "code": 50007}), False, None, False),
        (Fault(403, {"message": "Missing Access", "code": 50001}), False, None, False),
        (Fault(403, {"message": "no mutual guilds", "code": 50278}), False, None, False),
        (Fault(404, {"message": "Unknown Channel", "code": 10003}), False, None, False),
        (Fault(404, {"message": "Unknown Message", "code": 10008}), False, None, False),
        (Fault(503), True, None, True),
        (Fault(200), True, None, True),
        (Fault(200, [1]), True, None, True),
    ]
    calls = ("POST /channels", "PATCH /channels")
    tells_copies_apart = True
    secret = BOT_TOKEN

    def replied_to(self, message: Any) -> object:
        return message.answers

    @pytest.fixture
    async def peer(self) -> AsyncIterator[DiscordPeer]:
        async with open_peer() as peer:
            peer.people |= {ANN, SHUT}
            peer.dead.add(DEAD)
            peer.closed.add(SHUT)
            yield peer

    @pytest.fixture
    async def channel(self, peer: DiscordPeer) -> AsyncIterator[Discord]:
        nobody: Any = None
        async with open_discord(
            Replies(nobody, nobody, nobody),
            bot_token=BOT_TOKEN,
            public_key=peer.public_key,
            api_url=peer.api_url,
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        ) as discord:
            yield discord

    @pytest.fixture
    def to(self) -> Json:
        return {"user": ANN}

    @pytest.fixture
    def dead(self) -> Json:
        return {"user": DEAD}

    async def test_a_conversation_is_opened_once_and_a_room_is_none(
        self, channel: Discord, peer: DiscordPeer, to: Json
    ) -> None:
        for where in (to, to, {"channel": ROOM}):
            await channel.send(self.message(channel, where, a_question()))
        assert [path for _, path, _ in peer.calls].count("users/@me/channels") == 1

    @pytest.mark.parametrize("to", [{"user": SHUT}, {"user": NOBODY}, {"channel": NOBODY}])
    async def test_who_cannot_be_reached_is_not_tried_again(self, channel: Discord, to: Json) -> None:
        with pytest.raises(NotSent) as failed:
            await channel.send(self.message(channel, to, a_question()))
        assert not failed.value.again

    async def test_where_the_whole_bot_is_to_wait_nothing_more_is_called(
        self, channel: Discord, peer: DiscordPeer, to: Json
    ) -> None:
        told = {"message": "You are being rate limited.", "retry_after": 600.5, "global": True}
        peer.fail("POST /users", Fault(429, told, {"x-ratelimit-global": "true"}))
        for where in (to, {"channel": ROOM}):
            with pytest.raises(NotSent) as failed:
                await channel.send(self.message(channel, where, a_question()))
            assert failed.value.again
            assert failed.value.after is not None
            assert timedelta(minutes=9) < failed.value.after <= timedelta(seconds=600.5)
        assert peer.calls == []

    async def test_a_room_that_is_gone_is_asked_for_anew(
        self, channel: Discord, peer: DiscordPeer, to: Json
    ) -> None:
        await channel.send(self.message(channel, to, a_question()))
        peer.rooms = {ROOM: None}
        with pytest.raises(NotSent):
            await channel.send(self.message(channel, to, a_question()))
        assert await channel.send(self.message(channel, to, a_question()))

    async def test_no_call_is_logged_with_its_secrets(
        self, channel: Discord, peer: DiscordPeer, to: Json, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        await channel.send(self.message(channel, to, a_question()))
        with pytest.raises(NotSent) as failed:
            await channel._api.follow_up("1", "a-secret-token", {"content": "x"})  # noqa: SLF001 -- what it says of it
        peer.refused.clear()
        assert "a-secret-token" not in caplog.text + str(failed.value)
        assert BOT_TOKEN not in caplog.text
