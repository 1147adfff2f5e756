"""A server with the agent's own chat as a channel, and two people in it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from handraise import Outcome, Question
from handraise.channels.chat import Chat, open_chat
from handraise.conversations import MemoryChannel
from handraise.model.deliveries import Address, DeliveryStatus
from handraise.model.identities import Role
from handraise.model.json_values import Json
from handraise.server import ServerContext, ServerSettings, open_server
from handraise.testing import ManualClock
from handraise.testing.contract.channel import Received

WITHIN = 10.0


class Wire(MemoryChannel):
    """A chat in which some conversations are gone."""

    def __init__(self) -> None:
        super().__init__("chat")
        self.gone: set[str] = set()

    async def send(self, conversation: str, text: str) -> None:
        assert 0 < len(text) <= 12_000
        assert conversation.strip()
        if conversation in self.gone:
            raise ConnectionError("token=hunter2")
        await super().send(conversation, text)

    def received(self) -> Sequence[Received]:
        """Everything that was said; see the contract of channels."""
        return [Received(f"{where}\n{text}".encode(), text) for where, text in self.sent]


@asynccontextmanager
async def opened(
    wire: MemoryChannel, store: str = "memory:", *, clock: ManualClock | None = None
) -> AsyncIterator[ServerContext]:
    settings = ServerSettings(url=store, poll_interval=0.05, public_url="https://desk.example")
    openers = [lambda replies: open_chat(wire, replies)]
    async with open_server(settings, clock=clock, channels=openers) as ctx:
        for person in ("ann", "bob"):
            await ctx.directory.put_person("default", person, name=person, email=None, role=Role.MEMBER)
            await put(ctx, person, f"U-{person}", {"conversation": "*"})
        await ctx.directory.put_group("default", "ops", ["ann", "bob"])
        yield ctx


async def put(ctx: ServerContext, recipient: str, identity: str, to: Json) -> None:
    await ctx.outbox.put_address(
        Address(workspace="default", recipient=recipient, channel="chat", id=identity, to=to)
    )


def chat_of(ctx: ServerContext) -> Chat:
    chat = ctx.channels["chat"]
    assert isinstance(chat, Chat)
    return chat


numbers = itertools.count()


async def reply(
    ctx: ServerContext, text: str, *, by: str = "U-ann", where: str = "thread-9", **more: Any
) -> Any:
    given = {"workspace": "default", "id": f"m-{next(numbers)}"} | more
    said = await chat_of(ctx).take(given["workspace"], where, text, by=by, id=given["id"])
    return None if said is None else (said.kind, said.text)


async def ask(ctx: ServerContext, prompt: str = "Which strategy?", **options: Any) -> Question:
    """Ask ann in thread-9, unless said otherwise, and wait until it was told."""
    given = {"recipients": ["ann"], "conversation": "thread-9"} | options
    question = await ctx.desk.post(prompt, **given)
    await becomes(ctx, question, DeliveryStatus.SENT)
    return question


async def becomes(ctx: ServerContext, question: Question, *statuses: DeliveryStatus) -> None:
    async with asyncio.timeout(WITHIN):
        while {each.status for each in await ctx.outbox.deliveries(question.ref)} != set(statuses):
            await asyncio.sleep(0.01)


async def outcome(ctx: ServerContext, question: Question) -> Outcome:
    return await ctx.desk.wait(question.id, timeout=WITHIN)


def reference_in(text: str) -> str:
    return next(word for word in text.split() if word.startswith("#")).rstrip(",")
