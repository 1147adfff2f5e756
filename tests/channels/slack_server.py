"""A server with Slack at the other end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import escape
from typing import Any, ClassVar, Literal, Self

from handraise.channels.slack import channel as slack_channel
from handraise.model.json_values import Json
from handraise.model.questions import Question
from tests.channels.chat_team import ChatTeam, open_server_with
from tests.channels.slack_peer import APP_TOKEN, BOT_TOKEN, ROOM, SECRET, TEAM, Posted, SlackPeer, open_peer

Transport = Literal["http", "socket"]
PEOPLE = {"ann": "U0ANN", "bob": "U0BOB"}
STRANGER = "U0EVE"
INBOUND = "/v1/channels/slack/inbound"


class Team(ChatTeam[SlackPeer, Posted]):
    """Slack, a server, and the desk in it."""

    channel = "slack"
    people: ClassVar = PEOPLE
    stranger = STRANGER
    room: ClassVar = {"channel": ROOM}
    evidence = frozenset({"slack-signature", "slack-socket"})

    @property
    def slack(self) -> slack_channel.Slack:
        """The channel itself."""
        found = self.ctx.channels["slack"]
        assert isinstance(found, slack_channel.Slack)
        return found

    def anew(self) -> Self:
        self.peer.told.clear()
        self.peer.views.clear()
        self.peer.people.update(dict.fromkeys((*PEOPLE.values(), STRANGER), TEAM))
        return self

    def address(self, user: Any) -> Json:
        return {"user": user}

    async def press(self, user: Any, message: Posted, deed: str) -> None:
        self.peer.told.clear()
        await self.peer.press(user, message, deed)

    async def told_alone(self, user: Any) -> str:
        return await self.told(user)

    async def write(self, user: Any, message: Posted, text: str) -> str:
        await self.peer.say(user, message.channel, text, thread=message.ts)
        return (await self.find(lambda each: each.thread_ts == message.ts)).shown

    async def approve(self, user: Any, message: Posted) -> str:
        await self.press(user, message, "approve")
        return "" if (await self._has_ended(message)) else await self.told(user)

    async def _has_ended(self, message: Posted) -> bool:
        def known() -> bool:
            now = self.peer.messages[message.channel, message.ts]
            return bool(self.peer.told) or ("approve" not in now.pressable)

        await self.peer.until(known)
        return not self.peer.told

    async def offer(self, user: Any, message: Posted, text: str) -> Posted:
        self.peer.alone.clear()
        before = len(self.peer.messages)
        await self.peer.say(user, message.channel, escape(text, quote=False), thread=message.ts)
        await self.peer.until(lambda: len(self.peer.messages) > before or bool(self.peer.alone))
        return self.peer.alone[-1][1] if self.peer.alone else list(self.peer.messages.values())[-1]

    def offered(self, offer: Posted) -> list[str]:
        return offer.pressable

    async def choose(self, user: Any, offer: Posted, kind: str) -> str:
        self.peer.told.clear()
        await self.peer.press(user, offer, kind)
        return await self.told(user)

    def number_of(self, message: Posted) -> str:
        return message.ts

    def is_about(self, message: Posted, question: Question) -> bool:
        return bool(message.metadata) and message.metadata["event_payload"]["question"] == question.id

    def name_of(self, message: Posted) -> object:
        return message.channel, message.ts

    async def told(self, user: str, part: str = "") -> str:
        """What one person was told last, once they were told something, or something with this in it."""
        await self.peer.until(lambda: any(who == user and part in text for who, text in self.peer.told))
        return [text for who, text in self.peer.told if who == user][-1]


@asynccontextmanager
async def open_team(transport: Transport = "http", **settings: Any) -> AsyncIterator[Team]:
    """A team whose people are known here, for as long as this context lasts."""
    over = {"slack_signing_secret": SECRET} if transport == "http" else {"slack_app_token": APP_TOKEN}
    async with open_peer() as peer:
        peer.people.update(dict.fromkeys((*PEOPLE.values(), STRANGER), TEAM))
        given = {"slack_bot_token": BOT_TOKEN, "slack_api_url": peer.api_url, **over, **settings}
        async with open_server_with(Team, peer, **given) as team:
            if transport == "http":
                peer.post = team.post
            else:
                await peer.socket()
            yield team
