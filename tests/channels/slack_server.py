"""A server with Slack at the other end: people in both, and a question's whole way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

import httpx2
from fastapi import FastAPI

from handraise.channels.slack import channel as slack_channel
from handraise.desk.local_desk import LocalDesk
from handraise.model.deliveries import Address, DeliveryStatus
from handraise.model.identities import Role
from handraise.model.outcomes import Answered, Outcome
from handraise.model.questions import Question
from handraise.server import ServerContext, ServerSettings, create_app, open_server
from tests.channels.slack_peer import (
    APP_TOKEN,
    BOT_TOKEN,
    ROOM,
    SECRET,
    TEAM,
    WITHIN,
    Posted,
    SlackPeer,
    open_peer,
)

Transport = Literal["http", "socket"]
PEOPLE = {"ann": "U0ANN", "bob": "U0BOB"}
STRANGER = "U0EVE"
INBOUND = "/v1/channels/slack/inbound"


@dataclass
class Team:
    """Slack, a server, and the desk in it."""

    peer: SlackPeer
    ctx: ServerContext
    app: FastAPI
    client: httpx2.AsyncClient
    desk: LocalDesk

    @property
    def slack(self) -> slack_channel.Slack:
        """The channel itself."""
        found = self.ctx.channels["slack"]
        assert isinstance(found, slack_channel.Slack)
        return found

    def anew(self) -> Team:
        """The same team for another test: nobody remembers anything."""
        self.peer.told.clear()
        self.peer.views.clear()
        self.peer.people.update(dict.fromkeys((*PEOPLE.values(), STRANGER), TEAM))
        return self

    async def ask(self, prompt: str = "Which strategy?", **options: Any) -> tuple[Question, Posted]:
        """Post a question to ann, unless said otherwise, and wait for its message."""
        question = await self.desk.post(prompt, **({"recipients": ["ann"]} | options))
        return question, await self.sent(question)

    async def sent(self, question: Question) -> Posted:
        """The message of a question, once it has come and we know that it has."""
        message = await self.peer.message(lambda each: _is_about(each, question))
        async with asyncio.timeout(WITHIN):
            while any(
                each.status is DeliveryStatus.QUEUED
                for each in await self.ctx.outbox.deliveries(question.ref)
            ):
                await asyncio.sleep(0.005)
        return message

    async def ended(self, message: Posted) -> Posted:
        """The message as it is once it says how its question ended."""
        return await self.peer.message(
            lambda each: (each.channel, each.ts) == (message.channel, message.ts) and each.edits > 0
        )

    async def outcome(self, question: Question) -> Outcome:
        """What the asker gets."""
        return await self.desk.wait(question.id, timeout=WITHIN)

    async def value(self, question: Question) -> Any:
        """The value that the asker gets; fails unless ann gave it through Slack."""
        outcome = await self.outcome(question)
        assert isinstance(outcome, Answered)
        assert (outcome.by, outcome.channel) == ("ann", "slack")
        return outcome.value

    async def told(self, user: str, part: str = "") -> str:
        """What one person was told last, once they were told something, or something with this in it."""
        await self.peer.until(lambda: any(who == user and part in text for who, text in self.peer.told))
        return [text for who, text in self.peer.told if who == user][-1]

    async def post(self, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        """Slack's request to the server."""
        answer = await self.client.post(INBOUND, content=body, headers=dict(headers))
        return answer.status_code, answer.content


def _is_about(message: Posted, question: Question) -> bool:
    return bool(message.metadata) and message.metadata["event_payload"]["question"] == question.id


@asynccontextmanager
async def open_team(
    transport: Transport = "http", *, url: str = "memory:", **settings: Any
) -> AsyncIterator[Team]:
    """A team whose people are known here, for as long as this context lasts."""
    over = {"slack_signing_secret": SECRET} if transport == "http" else {"slack_app_token": APP_TOKEN}
    async with open_peer() as peer:
        peer.people.update(dict.fromkeys((*PEOPLE.values(), STRANGER), TEAM))
        given = ServerSettings(
            url=url,
            poll_interval=0.2,
            slack_bot_token=BOT_TOKEN,
            slack_api_url=peer.api_url,
            public_url="https://desk.example",
            **(over | settings),
        )
        async with open_server(given) as ctx:
            app = create_app(ctx)
            inside = httpx2.ASGITransport(app=app, client=("192.0.2.1", 50_000))
            async with httpx2.AsyncClient(transport=inside, base_url=given.base_url, verify=False) as client:
                team = Team(peer, ctx, app, client, ctx.desk)
                await _introduce(ctx)
                if transport == "http":
                    peer.post = team.post
                else:
                    await peer.socket()
                yield team


async def _introduce(ctx: ServerContext) -> None:
    for person, user in PEOPLE.items():
        await ctx.directory.put_person("default", person, name=person, email=None, role=Role.MEMBER)
        await ctx.outbox.put_address(
            Address(workspace="default", recipient=person, channel="slack", id=user, to={"user": user})
        )
    await ctx.directory.put_group("default", "ops", list(PEOPLE))
    await ctx.outbox.put_address(
        Address(workspace="default", recipient="group:ops", channel="slack", id="room", to={"channel": ROOM})
    )
