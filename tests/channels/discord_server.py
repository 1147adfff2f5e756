"""A server with Discord at the other end: people in both, and a question's whole way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from handraise.channels.discord import channel as discord_channel
from handraise.desk.local_desk import LocalDesk
from handraise.model.deliveries import Address, DeliveryStatus
from handraise.model.identities import Role
from handraise.model.outcomes import Answered, Outcome
from handraise.model.questions import Question
from handraise.server import ServerContext, ServerSettings, create_app, open_server
from tests.channels.discord_peer import BOT_TOKEN, ROOM, WITHIN, DiscordPeer, Posted

ANN, BOB, STRANGER = (f"3000000000000000{each:02}" for each in (10, 11, 66))
PEOPLE = {"ann": ANN, "bob": BOB}
INBOUND = "/v1/channels/discord/inbound"


@dataclass
class Team:
    """Discord, a server, and the desk in it."""

    peer: DiscordPeer
    ctx: ServerContext
    app: FastAPI
    client: httpx2.AsyncClient
    desk: LocalDesk

    @property
    def discord(self) -> discord_channel.Discord:
        """The channel itself."""
        found = self.ctx.channels["discord"]
        assert isinstance(found, discord_channel.Discord)
        return found

    def anew(self) -> Team:
        """The same team for another test: nobody remembers anything."""
        self.peer.told.clear()
        self.peer.modals.clear()
        self.peer.closed.clear()
        return self

    async def ask(self, prompt: str = "Which strategy?", **options: Any) -> tuple[Question, Posted]:
        """Post a question to ann, unless said otherwise, and wait for its message."""
        question = await self.desk.post(prompt, **({"recipients": ["ann"]} | options))
        return question, await self.sent(question)

    async def sent(self, question: Question) -> Posted:
        """The message of a question, once it has come and we know that it has."""
        message = await self.peer.message(lambda each: f"/questions/{question.id}" in each.shown)
        async with asyncio.timeout(WITHIN):
            while any(
                each.status is DeliveryStatus.QUEUED
                for each in await self.ctx.outbox.deliveries(question.ref)
            ):
                await asyncio.sleep(0.005)
        return message

    async def ended(self, message: Posted) -> Posted:
        """The message as it is once it says how its question ended."""
        return await self.peer.message(lambda each: each.id == message.id and each.edits > 0)

    async def outcome(self, question: Question) -> Outcome:
        """What the asker gets."""
        return await self.desk.wait(question.id, timeout=WITHIN)

    async def value(self, question: Question) -> Any:
        """The value that the asker gets; fails unless ann gave it through Discord."""
        outcome = await self.outcome(question)
        assert isinstance(outcome, Answered)
        assert (outcome.by, outcome.channel, outcome.evidence) == ("ann", "discord", "discord-signature")
        return outcome.value

    def told(self, user: str) -> str:
        """What one person was told last, as nobody else saw it."""
        return self.told_message(user).shown

    def told_message(self, user: str) -> Posted:
        """The last message that only one person sees."""
        return [message for who, message in self.peer.told if who == user][-1]

    async def post(self, headers: Mapping[str, str], body: bytes) -> tuple[int, str, bytes]:
        """Discord's request to the server."""
        answer = await self.client.post(INBOUND, content=body, headers=dict(headers))
        return answer.status_code, answer.headers.get("content-type", ""), answer.content


@asynccontextmanager
async def open_team(peer: DiscordPeer, *, url: str = "memory:", **settings: Any) -> AsyncIterator[Team]:
    """A team whose people are known here, for as long as this context lasts."""
    peer.people |= {*PEOPLE.values(), STRANGER}
    given = ServerSettings(
        url=url,
        poll_interval=0.2,
        discord_bot_token=BOT_TOKEN,
        discord_public_key=peer.public_key,
        discord_api_url=peer.api_url,
        public_url="https://desk.example",
        **settings,
    )
    # However slow the machine is: one test is about what takes longer.
    with pytest.MonkeyPatch.context() as slow:
        slow.setattr(discord_channel, "_AT_ONCE", WITHIN)
        async with _open(peer, given) as team:
            yield team


@asynccontextmanager
async def _open(peer: DiscordPeer, given: ServerSettings) -> AsyncIterator[Team]:
    async with open_server(given) as ctx:
        app = create_app(ctx)
        inside = httpx2.ASGITransport(app=app, client=("192.0.2.1", 50_000))
        async with httpx2.AsyncClient(transport=inside, base_url=given.base_url, verify=False) as client:
            team = Team(peer, ctx, app, client, ctx.desk)
            await _introduce(ctx)
            peer.post = team.post
            yield team


async def _introduce(ctx: ServerContext) -> None:
    for person, user in PEOPLE.items():
        await ctx.directory.put_person("default", person, name=person, email=None, role=Role.MEMBER)
        await ctx.outbox.put_address(
            Address(workspace="default", recipient=person, channel="discord", id=user, to={"user": user})
        )
    await ctx.directory.put_group("default", "ops", list(PEOPLE))
    await ctx.outbox.put_address(
        Address(
            workspace="default", recipient="group:ops", channel="discord", id="room", to={"channel": ROOM}
        )
    )
