"""Several agents and many conversations at once never see each other's questions."""

from __future__ import annotations

import asyncio

from handraise import Answered, Desk, open_desk
from handraise.conversations import (
    Agent,
    AgentRegistry,
    AgentReply,
    IncomingMessage,
    MemoryChannel,
    current_turn,
)

SOON = 30.0
CONVERSATIONS = [f"c{number}" for number in range(40)]
AGENTS = ("billing", "support")


class Meeting(Agent):
    """Asks for the name of the conversation, and meets everybody else at every step."""

    def __init__(self, name: str, meeting: asyncio.Barrier) -> None:
        self.name = name
        self._meeting = meeting
        self.seen: list[tuple[str, str, str]] = []

    async def handle(self, message: IncomingMessage) -> AgentReply:
        await self._meet()
        pending = await self.get_pending_ask()
        await self._meet()
        if pending is None:
            reply = await self.ask(
                f"{self.name} asks in {message.conversation}?", context=message.conversation
            )
            await self._meet()
            return reply
        assert pending.agent == self.name
        reply = await self.handle_pending_ask(pending, message.text, self.carry_on)
        await self._meet()
        return reply

    async def carry_on(self, answer: str, context: str) -> AgentReply:
        await self._meet()
        turn = current_turn()
        assert turn is not None
        self.seen.append((turn.conversation, context, answer))
        return AgentReply(f"{self.name} got {answer}")

    async def _meet(self) -> None:
        await asyncio.wait_for(self._meeting.wait(), SOON)


async def answered_in(desk: Desk, question_id: str) -> tuple[str, str | None, str]:
    question = await desk.get(question_id)
    assert isinstance(question.outcome, Answered)
    return question.asker, question.conversation, question.outcome.value


async def test_many_conversations_and_two_agents_in_lockstep_never_mix() -> None:
    meeting = asyncio.Barrier(len(CONVERSATIONS) * len(AGENTS))
    agents = [Meeting(name, meeting) for name in AGENTS]
    chat = MemoryChannel()
    async with (
        open_desk("memory:") as desk,
        AgentRegistry(desk, agents=agents, channels=[chat]) as registry,
    ):

        async def write(conversation: str, agent: str, text: str) -> AgentReply:
            return await registry.receive(
                IncomingMessage(
                    conversation=conversation,
                    text=text,
                    by=f"person of {conversation}",
                    channel="chat",
                    agent=agent,
                )
            )

        talks = [(conversation, agent) for conversation in CONVERSATIONS for agent in AGENTS]
        asked = await asyncio.gather(*(write(*talk, "hello") for talk in talks))
        assert len({reply.waiting_for for reply in asked}) == len(talks)
        replies = await asyncio.gather(*(write(*talk, "/".join(talk)) for talk in talks))

        for (conversation, agent), first, second in zip(talks, asked, replies, strict=True):
            said = f"{conversation}/{agent}"
            assert first.waiting_for is not None
            assert await answered_in(desk, first.waiting_for) == (agent, conversation, said)
            assert second.text == f"{agent} got {said}"
        for one in agents:
            assert sorted(one.seen) == sorted((each, each, f"{each}/{one.name}") for each in CONVERSATIONS)
        for conversation in CONVERSATIONS:
            assert sorted(chat.sent_to(conversation)) == sorted(
                text
                for agent in AGENTS
                for text in (f"{agent} asks in {conversation}?", f"{agent} got {conversation}/{agent}")
            )
        assert not (await desk.list_pending()).items


async def test_a_task_that_an_agent_started_stays_in_its_own_conversation() -> None:
    both_asked = asyncio.Barrier(2)
    later: list[asyncio.Task[AgentReply]] = []

    class Later(Agent):
        name = "later"

        async def handle(self, message: IncomingMessage) -> AgentReply:
            later.append(asyncio.create_task(self.ask_later(message.text)))
            return AgentReply()

        async def ask_later(self, text: str) -> AgentReply:
            await asyncio.wait_for(both_asked.wait(), SOON)
            return await self.ask(f"{text}?")

    chat = MemoryChannel()
    async with (
        open_desk("memory:") as desk,
        AgentRegistry(desk, agents=[Later()], channels=[chat]) as registry,
    ):
        for conversation in ("c1", "c2"):
            await registry.receive(
                IncomingMessage(conversation=conversation, text=conversation, by="ana", channel="chat")
            )
        await asyncio.wait_for(asyncio.gather(*later), SOON)
    assert sorted(chat.sent) == [("c1", "c1?"), ("c2", "c2?")]
