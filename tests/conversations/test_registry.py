"""The registry: which agent gets a message, and what is refused at its door."""

from __future__ import annotations

import asyncio

import pytest

from handraise import HandraiseError, PermissionDenied, open_desk
from handraise.conversations import (
    Agent,
    AgentNotRegistered,
    AgentRegistry,
    AgentReply,
    ChannelNotRegistered,
    IncomingMessage,
    InvalidRegistry,
    MemoryChannel,
    MissingConversation,
    RegistryStopped,
    UnroutedMessage,
    current_turn,
)

SOON = 10.0


class Asking(Agent):
    """Asks at the first message and takes the next one as the answer."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def handle(self, message: IncomingMessage) -> AgentReply:
        pending = await self.get_pending_ask()
        if pending is None:
            return await self.ask(f"{self.name} asks?")
        return await self.handle_pending_ask(
            pending, message.text, lambda value, _: AgentReply(f"{self.name} got {value}.")
        )


class Slow(Agent):
    """Works on a message until it is let go."""

    name = "slow"

    def __init__(self) -> None:
        self.working, self.go = asyncio.Event(), asyncio.Event()

    async def handle(self, message: IncomingMessage) -> AgentReply:
        self.working.set()
        await asyncio.wait_for(self.go.wait(), SOON)
        return await self.ask(f"{message.text}?")


def message(
    text: str, *, conversation: str = "c1", by: str = "ana", channel: str = "chat", agent: str | None = None
) -> IncomingMessage:
    return IncomingMessage(conversation=conversation, text=text, by=by, channel=channel, agent=agent)


async def test_a_message_goes_to_the_agent_it_names_else_to_the_one_that_waits_for_it() -> None:
    chat = MemoryChannel()
    async with (
        open_desk("memory:") as desk,
        AgentRegistry(desk, agents=[Asking("sales"), Asking("support")], channels=[chat]) as registry,
    ):
        with pytest.raises(UnroutedMessage, match="'sales', 'support' are registered"):
            await registry.receive(message("hello"))
        await registry.receive(message("hello", agent="support"))
        await registry.receive(message("hello", agent="sales"))
        assert chat.sent_to("c1") == ["support asks?", "sales asks?"]
        assert (await registry.receive(message("one"))).text == "support got one."
        assert (await registry.receive(message("two"))).text == "sales got two."
        with pytest.raises(UnroutedMessage):
            await registry.receive(message("three"))


async def test_a_named_agent_gets_its_reply_though_another_one_asked_before() -> None:
    chat = MemoryChannel()
    async with (
        open_desk("memory:") as desk,
        AgentRegistry(desk, agents=[Asking("sales"), Asking("support")], channels=[chat]) as registry,
    ):
        await registry.receive(message("hello", agent="support"))
        await registry.receive(message("hello", agent="sales"))
        assert (await registry.receive(message("two", agent="sales"))).text == "sales got two."
        assert (await registry.receive(message("one"))).text == "support got one."


async def test_no_agent_takes_what_another_one_wrote() -> None:
    chat = MemoryChannel()
    async with (
        open_desk("memory:") as desk,
        AgentRegistry(desk, agents=[Asking("sales"), Asking("support")], channels=[chat]) as registry,
    ):
        asked = await registry.receive(message("hello", agent="support"))
        assert await registry.receive(message("an answer?", by="sales")) == AgentReply()
        assert asked.waiting_for is not None
        assert (await desk.get(asked.waiting_for)).attempts == 0


async def test_a_reply_goes_to_the_channel_that_the_message_came_from() -> None:
    web, slack = MemoryChannel("web"), MemoryChannel("slack")
    async with (
        open_desk("memory:") as desk,
        AgentRegistry(desk, agents=[Asking("support")], channels=[web, slack]) as registry,
    ):
        asked = await registry.receive(message("hello", channel="slack"))
        assert (web.sent, slack.sent) == ([], [("c1", "support asks?")])
        await registry.receive(message("one", channel="web"))
        assert web.sent == [("c1", "support got one.")]
        assert asked.waiting_for is not None
        assert "'one'" in str((await desk.get(asked.waiting_for)).outcome)


async def test_what_is_wrong_with_a_message_is_said_before_any_agent_sees_it() -> None:
    async with (
        open_desk("memory:") as desk,
        AgentRegistry(desk, agents=[Asking("support")], channels=[MemoryChannel()]) as registry,
    ):
        for wrong, refusal in (
            (message("hello", conversation=" "), MissingConversation),
            (message("hello", channel="telegraph"), ChannelNotRegistered),
            (message("hello", agent="sales"), AgentNotRegistered),
            (message("hello", by=""), PermissionDenied),
        ):
            with pytest.raises(refusal) as error:
                await registry.receive(wrong)
            assert isinstance(error.value, HandraiseError)
        assert not (await desk.list_pending()).items


async def test_a_registry_that_is_not_started_takes_no_messages() -> None:
    async with open_desk("memory:") as desk:
        registry = AgentRegistry(desk, agents=[Asking("support")], channels=[MemoryChannel()])
        with pytest.raises(RegistryStopped):
            await registry.receive(message("hello"))
        async with registry:
            await registry.receive(message("hello"))
        with pytest.raises(RegistryStopped):
            await registry.receive(message("one"))
        await registry.stop()
        await registry.start()
        assert (await registry.receive(message("one"))).text == "support got one."


async def test_stopping_finishes_what_is_being_handled() -> None:
    agent, chat = Slow(), MemoryChannel()
    async with open_desk("memory:") as desk:
        registry = AgentRegistry(desk, agents=[agent], channels=[chat])
        await registry.start()
        handling = asyncio.create_task(registry.receive(message("Which")))
        await asyncio.wait_for(agent.working.wait(), SOON)
        stopping = asyncio.create_task(registry.stop())
        await asyncio.sleep(0)
        with pytest.raises(RegistryStopped):
            await registry.receive(message("another"))
        assert not stopping.done()
        agent.go.set()
        assert (await asyncio.wait_for(handling, SOON)).waiting_for is not None
        await asyncio.wait_for(stopping, SOON)
        assert chat.sent_to("c1") == ["Which?"]
        assert agent.registry is None


async def test_an_error_of_an_agent_reaches_whoever_brought_the_message() -> None:
    class Failing(Asking):
        async def handle(self, message: IncomingMessage) -> AgentReply:
            raise ZeroDivisionError(message.text)

    async with (
        open_desk("memory:") as desk,
        AgentRegistry(desk, agents=[Failing("support")], channels=[MemoryChannel()]) as registry,
    ):
        with pytest.raises(ZeroDivisionError, match="hello"):
            await registry.receive(message("hello"))
        assert current_turn() is None


async def test_agents_and_channels_must_be_told_apart() -> None:
    class Nameless(Asking):
        def __init__(self) -> None:
            pass

    chat, support = MemoryChannel(), Asking("support")
    async with open_desk("memory:") as desk:
        with pytest.raises(InvalidRegistry, match="Two agents are named 'support'"):
            AgentRegistry(desk, agents=[support, Asking("support")], channels=[chat])
        with pytest.raises(InvalidRegistry, match="Two channels"):
            AgentRegistry(desk, agents=[support], channels=[chat, MemoryChannel()])
        with pytest.raises(InvalidRegistry, match="at least one channel"):
            AgentRegistry(desk, agents=[support], channels=[])
        with pytest.raises(InvalidRegistry, match="Nameless has no name"):
            AgentRegistry(desk, agents=[Nameless()], channels=[chat])
        async with AgentRegistry(desk, agents=[support], channels=[chat]):
            with pytest.raises(InvalidRegistry, match="another started registry"):
                await AgentRegistry(desk, agents=[support], channels=[chat]).start()


async def test_the_turn_holds_the_conversation_the_channel_and_the_message() -> None:
    seen = []

    class Looking(Asking):
        async def handle(self, message: IncomingMessage) -> AgentReply:
            del message
            seen.append(current_turn())
            return AgentReply()

    chat = MemoryChannel()
    async with (
        open_desk("memory:") as desk,
        AgentRegistry(desk, agents=[Looking("support")], channels=[chat]) as registry,
    ):
        hello = message("hello")
        await registry.receive(hello)
    (turn,) = seen
    assert turn is not None
    assert (turn.conversation, turn.channel, turn.message) == ("c1", chat, hello)
    assert (turn.desk.asker, turn.responder.id) == ("support", "ana")
    assert current_turn() is None
