"""A server with Discord at the other end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Self

import pytest

from handraise.channels.discord import channel as discord_channel
from handraise.model.json_values import Json
from tests.channels.chat_team import ChatTeam, open_server_with
from tests.channels.discord_peer import BOT_TOKEN, ROOM, WITHIN, DiscordPeer, Posted

ANN, BOB, STRANGER = (f"3000000000000000{each:02}" for each in (10, 11, 66))
PEOPLE = {"ann": ANN, "bob": BOB}
WRITING = {"asked_back": "ask", "noted": "note"}
INBOUND = "/v1/channels/discord/inbound"


class Team(ChatTeam[DiscordPeer, Posted]):
    """Discord, a server, and the desk in it."""

    channel = "discord"
    people: ClassVar = PEOPLE
    stranger = STRANGER
    room: ClassVar = {"channel": ROOM}
    evidence = frozenset({"discord-signature"})
    reads = False

    @property
    def discord(self) -> discord_channel.Discord:
        """The channel itself."""
        found = self.ctx.channels["discord"]
        assert isinstance(found, discord_channel.Discord)
        return found

    def anew(self) -> Self:
        self.peer.told.clear()
        self.peer.modals.clear()
        self.peer.closed.clear()
        return self

    def address(self, user: Any) -> Json:
        return {"user": user}

    async def press(self, user: Any, message: Posted, deed: str) -> None:
        await self.peer.press(user, message, deed)

    async def told_alone(self, user: Any) -> str:
        return self.told(user)

    async def write(self, user: Any, message: Posted, text: str) -> str:
        raise NotImplementedError

    async def approve(self, user: Any, message: Posted) -> str:
        await self.peer.press(user, message, "?approve")
        if self.told_message(user).pressable:
            await self.peer.press(user, self.told_message(user), "approve")
        return self.told(user)

    async def offer(self, user: Any, message: Posted, text: str) -> tuple[Posted, str]:  # noqa: ARG002 -- as elsewhere
        return message, text

    def offered(self, offer: tuple[Posted, str]) -> list[str]:
        return [kind for kind, verb in WRITING.items() if verb in offer[0].pressable]

    async def choose(self, user: Any, offer: tuple[Posted, str], kind: str) -> str:
        message, text = offer
        await self.peer.press(user, message, WRITING[kind])
        return await self.peer.submit(user, text=text) if user in self.peer.modals else self.told(user)

    def number_of(self, message: Posted) -> int:
        return int(message.id)

    def name_of(self, message: Posted) -> object:
        return message.id

    def told(self, user: str) -> str:
        """What one person was told last, as nobody else saw it."""
        return self.told_message(user).shown

    def told_message(self, user: str) -> Posted:
        """The last message that only one person sees."""
        return [message for who, message in self.peer.told if who == user][-1]

    async def answer(self, headers: Mapping[str, str], body: bytes) -> tuple[int, str, bytes]:
        """Discord's request to the server, with the kind of what it is answered."""
        answer = await self.client.post(INBOUND, content=body, headers=dict(headers))
        return answer.status_code, answer.headers.get("content-type", ""), answer.content


@asynccontextmanager
async def open_team(peer: DiscordPeer, **settings: Any) -> AsyncIterator[Team]:
    """A team whose people are known here, for as long as this context lasts."""
    peer.people |= {*PEOPLE.values(), STRANGER}
    given = {
        "discord_bot_token": BOT_TOKEN,
        "discord_public_key": peer.public_key,
        "discord_api_url": peer.api_url,
    }
    # However slow the machine is: one test is about what takes longer.
    with pytest.MonkeyPatch.context() as slow:
        slow.setattr(discord_channel, "_AT_ONCE", WITHIN)
        async with open_server_with(Team, peer, **given, **settings) as team:
            peer.post = team.answer
            yield team
