"""Questions that agents ask in a chat by themselves, beside those that are told there by a channel."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from handraise import Responder, Status
from handraise.conversations import Agent, AgentRegistry, AgentReply, IncomingMessage
from handraise.model.deliveries import DeliveryStatus
from handraise.model.json_values import Json
from handraise.model.provenance import Provenance
from handraise.server import ServerContext
from tests.channels.chat_server import Wire, ask, becomes, opened, reply


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
async def ctx(wire: Wire) -> AsyncIterator[ServerContext]:
    async with opened(wire) as ctx:
        yield ctx


class Support(Agent):
    """Asks, and is called again with the reply."""

    name = "support"

    async def handle(self, message: IncomingMessage) -> AgentReply:
        pending = await self.get_pending_ask()
        if pending is None:
            return await self.ask("What is your order number?", context={"wish": message.text})
        return await self.handle_pending_ask(pending, message.text, self.refund)

    async def refund(self, order: Json, context: Json) -> AgentReply:
        return AgentReply(f"{context['wish']}: {order} is refunded.")


@asynccontextmanager
async def with_support(ctx: ServerContext, wire: Wire) -> AsyncIterator[Callable[[str], Any]]:
    """What a chat does with every text: a reply to a question that was told, else a message to the agent."""
    async with AgentRegistry(ctx.desk, agents=[Support()], channels=[wire]) as registry:

        async def write(text: str) -> AgentReply | None:
            if await reply(ctx, text) is not None:
                return None
            message = IncomingMessage(conversation="thread-9", text=text, by=Responder("ann"), channel="chat")
            return await registry.receive(message)

        yield write


async def test_what_an_agent_asks_in_the_chat_itself_is_said_once_and_answered_to_it(
    ctx: ServerContext, wire: Wire
) -> None:
    async with with_support(ctx, wire) as write:
        asked = await write("A refund")
        question = await ctx.desk.get(asked.waiting_for)
        await becomes(ctx, question, DeliveryStatus.SENT)
        await write("A-17")
        await becomes(ctx, question, DeliveryStatus.UPDATED)
    assert wire.sent_to("thread-9") == ["What is your order number?", "A refund: A-17 is refunded."]


async def test_what_an_agent_asked_in_the_chat_and_was_answered_elsewhere_is_told_there(
    ctx: ServerContext, wire: Wire
) -> None:
    async with with_support(ctx, wire) as write:
        asked = await write("A refund")
        question = await ctx.desk.get(asked.waiting_for)
        await becomes(ctx, question, DeliveryStatus.SENT)
        await ctx.desk.answer(question.id, "A-17", by="ann", provenance=Provenance(channel="web"))
        await becomes(ctx, question, DeliveryStatus.UPDATED)
    assert wire.sent_to("thread-9")[1:] == [
        "Answered by ann.\n│ A-17\nsupport had asked:\n│ What is your order number?"
    ]


async def test_a_told_question_and_one_of_an_agents_own_do_not_get_in_each_others_way(
    ctx: ServerContext, wire: Wire
) -> None:
    async with with_support(ctx, wire) as write:
        asked = await write("A refund")
        told = await ask(ctx, "Shall I deploy?", form=bool)
        assert await write("yes") is None
        assert (await ctx.desk.get(told.id)).status is Status.ANSWERED
        assert (await ctx.desk.get(asked.waiting_for)).outcome is None
        done = await write("A-17")
        assert done.text == "A refund: A-17 is refunded."
