"""A server with Microsoft at the other end: people in both, and a question's whole way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from handraise.channels.teams.channel import Teams
from handraise.desk.local_desk import LocalDesk
from handraise.model.deliveries import Address, DeliveryStatus
from handraise.model.identities import Role
from handraise.model.outcomes import Answered, Outcome
from handraise.model.questions import Question
from handraise.server import ServerContext, ServerSettings, create_app, open_server
from tests.channels.teams_peer import APP, ROOM, SECRET, TENANT, WITHIN, Posted, TeamsPeer, open_peer

ANN = "0a0a0a0a-0000-4000-8000-00000000000a"
BOB = "0b0b0b0b-0000-4000-8000-00000000000b"
STRANGER = "0e0e0e0e-0000-4000-8000-00000000000e"
PEOPLE = {"ann": ANN, "bob": BOB}
INBOUND = "/v1/channels/teams/inbound"


@dataclass
class Office:
    """Microsoft, a server, and the desk in it."""

    peer: TeamsPeer
    ctx: ServerContext
    client: httpx2.AsyncClient
    desk: LocalDesk

    @property
    def teams(self) -> Teams:
        """The channel itself."""
        found = self.ctx.channels["teams"]
        assert isinstance(found, Teams)
        return found

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
        return await self.peer.message(
            lambda each: (each.conversation, each.id) == (message.conversation, message.id) and each.edits > 0
        )

    async def outcome(self, question: Question) -> Outcome:
        """What the asker gets."""
        return await self.desk.wait(question.id, timeout=WITHIN)

    async def value(self, question: Question) -> Any:
        """The value that the asker gets; fails unless ann gave it through Teams."""
        outcome = await self.outcome(question)
        assert isinstance(outcome, Answered)
        assert (outcome.by, outcome.channel, outcome.evidence) == ("ann", "teams", "teams-token")
        return outcome.value

    async def untouched(self, question: Question) -> None:
        """Fail unless nothing has happened to a question since it was asked."""
        now = await self.desk.get(question.id)
        assert (now.outcome, now.attempts, now.votes) == (None, 0, ())
        assert [each.kind.value for each in await self.desk.history(question.id)] == ["asked"]

    async def told(self, conversation: str) -> str:
        """What was said in a conversation in answer to what somebody typed, once it was."""
        message = await self.peer.message(
            lambda each: each.conversation == conversation and each.card is None
        )
        return message.shown

    async def post(self, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        """Microsoft's request to the server."""
        answer = await self.client.post(INBOUND, content=body, headers=dict(headers))
        return answer.status_code, answer.content


@asynccontextmanager
async def open_office(*, url: str = "memory:", **settings: Any) -> AsyncIterator[Office]:
    """An office whose people are known here, for as long as this context lasts."""
    async with open_peer() as peer:
        peer.people.update(dict.fromkeys((*PEOPLE.values(), STRANGER), TENANT))
        async with open_server_for(peer, url=url, **settings) as office:
            yield office


@asynccontextmanager
async def open_server_for(peer: TeamsPeer, *, url: str = "memory:", **settings: Any) -> AsyncIterator[Office]:
    """A server on a store, with a peer that may have had another one before."""
    given = ServerSettings(
        url=url,
        poll_interval=0.2,
        public_url="https://desk.example",
        teams_app_id=APP,
        teams_app_secret=SECRET,
        teams_tenant=TENANT,
        teams_service_urls=[peer.service],
        teams_login_url=f"{peer.url}/login",
        teams_metadata_url=peer.metadata_url,
        **settings,
    )
    async with open_server(given) as ctx:
        inside = httpx2.ASGITransport(app=create_app(ctx), client=("192.0.2.1", 50_000))
        async with httpx2.AsyncClient(transport=inside, base_url=given.base_url, verify=False) as client:
            office = Office(peer, ctx, client, ctx.desk)
            await _introduce(ctx)
            peer.post = office.post
            yield office


async def _introduce(ctx: ServerContext) -> None:
    for person, user in PEOPLE.items():
        await ctx.directory.put_person("default", person, name=person, email=None, role=Role.MEMBER)
        await ctx.outbox.put_address(
            Address(workspace="default", recipient=person, channel="teams", id=user, to={"user": user})
        )
    await ctx.directory.put_group("default", "ops", list(PEOPLE))
    await ctx.outbox.put_address(
        Address(
            workspace="default", recipient="group:ops", channel="teams", id="room", to={"conversation": ROOM}
        )
    )
