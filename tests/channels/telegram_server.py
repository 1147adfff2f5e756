"""A server with Telegram at the other end: people in both, and a question's whole way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

import httpx2

from handraise.channels.telegram import Telegram
from handraise.desk.local_desk import LocalDesk
from handraise.model.deliveries import Address, DeliveryStatus
from handraise.model.identities import Role
from handraise.model.outcomes import Answered, Outcome
from handraise.model.questions import Question
from handraise.server import ServerContext, ServerSettings, create_app, open_server
from tests.channels.telegram_peer import BOT_TOKEN, ROOM, SECRET, WITHIN, Posted, TelegramPeer, open_peer

Transport = Literal["webhook", "poll"]
ANN, BOB, EVE = 1_001, 1_002, 1_666
PEOPLE = {"ann": ANN, "bob": BOB}
INBOUND = "/v1/channels/telegram/inbound"


@dataclass
class Team:
    """Telegram, a server, and the desk in it."""

    peer: TelegramPeer
    ctx: ServerContext
    client: httpx2.AsyncClient
    desk: LocalDesk

    @property
    def telegram(self) -> Telegram:
        """The channel itself."""
        found = self.ctx.channels["telegram"]
        assert isinstance(found, Telegram)
        return found

    def anew(self) -> Team:
        """The same team for another test: nobody remembers anything."""
        self.peer.toasts.clear()
        self.peer.blocked.clear()
        return self

    async def ask(self, prompt: str = "Which strategy?", **options: Any) -> tuple[Question, Posted]:
        """Post a question to ann, unless said otherwise, and wait for its message."""
        question = await self.desk.post(prompt, **({"recipients": ["ann"]} | options))
        return question, await self.sent(question)

    async def sent(self, question: Question) -> Posted:
        """The message of a question, once it has come and we know that it has."""
        message = await self.peer.message(lambda each: question.id in each.shown)
        await self.delivered(question)
        return message

    async def delivered(self, question: Question, *but: DeliveryStatus) -> None:
        """Return once no delivery of a question is on its way, or in one of these other ways."""
        async with asyncio.timeout(WITHIN):
            while {each.status for each in await self.ctx.outbox.deliveries(question.ref)} & {
                DeliveryStatus.QUEUED,
                *but,
            }:
                await asyncio.sleep(0.005)

    async def ended(self, message: Posted) -> Posted:
        """The message as it is once it says how its question ended."""
        return await self.peer.message(
            lambda each: (each.chat, each.id) == (message.chat, message.id) and each.edits > 0
        )

    async def now(self, message: Posted) -> Posted:
        """The message as it is now."""
        return await self.peer.message(lambda each: (each.chat, each.id) == (message.chat, message.id))

    async def prompt(self, message: Posted) -> Posted:
        """The last message that wants a reply, below this one."""
        return await self.peer.message(lambda each: each.wants_reply and each.id > message.id)

    async def told(self, message: Posted) -> str:
        """What the bot wrote last below a message."""
        found = await self.peer.message(lambda each: each.chat == message.chat and each.id > message.id)
        return found.shown

    async def told_in(self, chat: int) -> str:
        """What the bot wrote last in a chat."""
        return (await self.peer.message(lambda each: each.chat == chat)).shown

    def toast(self, user: int) -> str:
        """What one person was told last over a button."""
        return [text for who, text, _ in self.peer.toasts if who == user][-1]

    async def outcome(self, question: Question) -> Outcome:
        """What the asker gets."""
        return await self.desk.wait(question.id, timeout=WITHIN)

    async def value(self, question: Question) -> Any:
        """The value that the asker gets; fails unless ann gave it through Telegram."""
        outcome = await self.outcome(question)
        assert isinstance(outcome, Answered)
        assert (outcome.by, outcome.channel) == ("ann", "telegram")
        return outcome.value

    async def post(self, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        """Telegram's request to the server."""
        answer = await self.client.post(INBOUND, content=body, headers=dict(headers))
        return answer.status_code, answer.content


@asynccontextmanager
async def open_team(
    transport: Transport = "webhook", *, url: str = "memory:", **settings: Any
) -> AsyncIterator[Team]:
    """A team whose people are known here, for as long as this context lasts."""
    async with open_peer() as peer, open_server_for(peer, transport, url=url, **settings) as team:
        yield team


@asynccontextmanager
async def open_server_for(
    peer: TelegramPeer, transport: Transport = "webhook", *, url: str = "memory:", **settings: Any
) -> AsyncIterator[Team]:
    """One of the servers behind a bot."""
    peer.people.update((*PEOPLE.values(), EVE))
    over = {"telegram_webhook_secret": SECRET} if transport == "webhook" else {}
    given = ServerSettings(
        url=url,
        poll_interval=0.2,
        telegram_bot_token=BOT_TOKEN,
        telegram_api_url=peer.url,
        **({"public_url": "https://desk.example"} | over | settings),
    )
    async with open_server(given) as ctx:
        inside = httpx2.ASGITransport(app=create_app(ctx), client=("192.0.2.1", 50_000))
        async with httpx2.AsyncClient(transport=inside, base_url=given.base_url, verify=False) as client:
            team = Team(peer, ctx, client, ctx.desk)
            await _introduce(ctx)
            if transport == "webhook":
                peer.post = team.post
                await peer.until(lambda: peer.webhook is not None)
            yield team


async def _introduce(ctx: ServerContext) -> None:
    workspace = ctx.settings.workspace
    for person, user in PEOPLE.items():
        await ctx.directory.put_person(workspace, person, name=person, email=None, role=Role.MEMBER)
        await ctx.outbox.put_address(
            Address(
                workspace=workspace, recipient=person, channel="telegram", id=str(user), to={"chat": user}
            )
        )
    await ctx.directory.put_group(workspace, "ops", list(PEOPLE))
    await ctx.outbox.put_address(
        Address(workspace=workspace, recipient="group:ops", channel="telegram", id="room", to={"chat": ROOM})
    )
