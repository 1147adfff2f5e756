"""The registry: it receives messages, passes each to its agent, and sends the agent's reply."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

from handraise import Desk, HandraiseError, Responder
from handraise.conversations.agents import Agent
from handraise.conversations.asks import LEASE, oldest_asks, put, put_again, unsent_conversations
from handraise.conversations.channels import Channel
from handraise.conversations.chat_messages import AgentReply, IncomingMessage
from handraise.conversations.conversation_errors import (
    AgentNotRegistered,
    ChannelNotRegistered,
    InvalidRegistry,
    MissingConversation,
    RegistryStopped,
    UnroutedMessage,
)
from handraise.conversations.turns import Turn, taking
from handraise.model.people import responder_of

Named = TypeVar("Named", Agent, Channel)

_log = logging.getLogger(__name__)


class AgentRegistry:
    """Runs agents and channels on a desk inside this context.

    Everything is stored in the desk: another registry, in another process, continues where this one was
    stopped. The desk stays open when it stops.
    """

    def __init__(self, desk: Desk, *, agents: Sequence[Agent], channels: Sequence[Channel]) -> None:
        self._desk = desk
        self._agents = _by_name("agent", agents)
        self._channels = _by_name("channel", channels)
        self._started = False
        self._under_way = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Take messages from now on; soon after, send questions that a dead process left unsent."""
        for agent in self._agents.values():
            if agent.registry not in (None, self):
                raise InvalidRegistry(
                    f"Agent {agent.name!r} is in another started registry; make a new agent."
                )
        for agent in self._agents.values():
            agent.registry = self
        self._started = True
        self._soon(self._ask_left_over())

    async def stop(self) -> None:
        """Take no more messages, and finish those that are being handled. Not from inside `handle`."""
        if not self._started:
            return
        self._started = False
        await self._idle.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for agent in self._agents.values():
            agent.registry = None

    async def receive(self, message: IncomingMessage) -> AgentReply:
        """Pass a message to its agent, send the reply to the message's channel, and return it.

        A message that an agent wrote itself is ignored: an echo changes nothing, and its reply is empty.
        """
        if not self._started:
            raise RegistryStopped
        if not (message.conversation or "").strip():
            raise MissingConversation(message.channel)
        channel = self._channel(message.channel)
        responder = responder_of(message.by)
        if responder.id in self._agents:
            return AgentReply()
        with self._working():
            agent = await self._route(message, responder)
            desk = self._desk.scoped(asker=agent.name)
            turn = Turn(message=message, channel=channel, responder=responder, desk=desk)
            with taking(turn):
                reply = await agent.handle(message)
            if reply.text:
                await turn.say(reply.text)
            await self._ask_next(message.conversation)
        return reply

    async def _route(self, message: IncomingMessage, responder: Responder) -> Agent:
        """The agent that is named, else the one with the oldest question for this person, else the only one."""
        if message.agent is not None:
            if message.agent not in self._agents:
                raise AgentNotRegistered(message.agent)
            return self._agents[message.agent]
        if len(self._agents) == 1:
            return next(iter(self._agents.values()))
        asks = await oldest_asks(self._desk, message.conversation, self._agents, recipient=responder)
        if not asks:
            raise UnroutedMessage(self._agents)
        return self._agents[asks[0].agent]

    async def _ask_next(self, conversation: str) -> None:
        """Send the questions whose turn has come because those before them are settled, and those never sent."""
        for ask in await oldest_asks(self._desk, conversation, self._agents):
            if not ask.was_sent and not await put(self._desk, self._channel(ask.channel), ask):
                # Another process sends it, or died while sending it. That shows when its lease is over.
                self._soon(self._ask_later(conversation))

    async def _ask_left_over(self) -> None:
        """Send questions that dead processes have left.

        Not at once: a lease of theirs may not be over yet; and a message that starts a process was written
        before the question, so it must not be taken as its reply.
        """
        await asyncio.sleep(LEASE)
        for name in self._agents:
            with _logged():
                for conversation in await unsent_conversations(self._desk.scoped(asker=name), name):
                    await self._ask_again(conversation)

    async def _ask_later(self, conversation: str) -> None:
        await asyncio.sleep(LEASE)
        with _logged():
            await self._ask_again(conversation)

    async def _ask_again(self, conversation: str) -> None:
        for ask in await oldest_asks(self._desk, conversation, self._agents):
            if not ask.was_sent and ask.channel in self._channels:
                with _logged():
                    await put_again(self._desk, self._channels[ask.channel], ask)

    def _soon(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _channel(self, name: str) -> Channel:
        if name not in self._channels:
            raise ChannelNotRegistered(name, self._channels)
        return self._channels[name]

    @contextmanager
    def _working(self) -> Iterator[None]:
        self._under_way += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()


@contextmanager
def _logged() -> Iterator[None]:
    """Log failures in the background: the next message of the conversation tries again."""
    try:
        yield
    except HandraiseError:
        _log.warning("A question that was never sent could not be sent again.", exc_info=True)


def _by_name(kind: str, named: Sequence[Named]) -> dict[str, Named]:
    if not named:
        raise InvalidRegistry(f"A registry needs at least one {kind}.")
    found: dict[str, Named] = {}
    for each in named:
        name = getattr(each, "name", "")
        if not name.strip():
            raise InvalidRegistry(f"{type(each).__name__} has no name: give every {kind} one.")
        if name in found:
            raise InvalidRegistry(f"Two {kind}s are named {name!r}; messages could not tell them apart.")
        found[name] = each
    return found
