"""A support agent asks in a chat, and is started anew for every message.

Ana wants a refund. The agent asks for the order number, asks again on the same question when a reply does not
fit, and carries on with what Ana wanted in the first place. Another person in the same thread cannot answer
for her. Between any two messages everything is stopped: only the desk keeps the conversation.

Run it with: python examples/support_agent.py [sqlite:///file.db | postgresql://…]
"""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

import handraise
from handraise.conversations import Agent, AgentRegistry, AgentReply, IncomingMessage

ANSWERED = [
    ("ana", "I want a refund for the lamp"),
    ("bob", "I would just buy another one"),
    ("ana", "the one I bought in May"),
    ("ana", "A-1017"),
]
EXHAUSTED = [
    ("ana", "I want a refund for the chair"),
    ("ana", "the chair"),
    ("ana", "it is blue"),
    ("ana", "never mind"),
]


class SupportAgent(Agent):
    """Pays refunds for orders that it knows."""

    name = "support"
    description = "Customer support with refunds."

    async def handle(self, message: IncomingMessage) -> AgentReply:
        """A reply to our question, a wish for a refund, or something else."""
        pending = await self.get_pending_ask()
        if pending is not None:
            return await self.handle_pending_ask(
                pending, message.text, self.refund, self.skip, validator=self.check
            )
        if "refund" in message.text:
            return await self.ask(
                "What is your order number?",
                context={"wish": message.text},
                form=handraise.Open(max_length=20),
                expires_in=24 * 3600,
            )
        return AgentReply("Write “refund”, and I will help.")

    def check(self, order: str) -> str | None:
        """What is wrong with an order number, or None."""
        return None if order.startswith("A-") else "order numbers look like A-1017"

    async def refund(self, order: str, context: Any) -> AgentReply:
        """Carry on with the answer."""
        return AgentReply(f"You wrote “{context['wish']}”. Order {order} is refunded.")

    async def skip(self, context: Any) -> AgentReply:
        """Carry on without one."""
        return AgentReply(f"You wrote “{context['wish']}”. A colleague will call you.")


class Printed:
    """A channel that prints what people would see."""

    name = "chat"
    is_trigger = False

    async def send(self, conversation: str, text: str) -> None:
        """Show a text in its thread."""
        print(f"[{conversation}] support: " + text.replace("\n", " / "))


async def one_life(url: str, workspace: str, message: IncomingMessage) -> None:
    """Start everything, hand over one message, stop everything."""
    async with (
        handraise.open_desk(url, workspace=workspace) as desk,
        AgentRegistry(desk, agents=[SupportAgent()], channels=[Printed()]) as registry,
    ):
        await registry.receive(message)


def main(url: str) -> None:
    """Play two conversations, each message in a life of its own."""
    workspace = f"example {Path(tempfile.mkdtemp(prefix='run-')).name}"
    for conversation, script in (("lamp", ANSWERED), ("chair", EXHAUSTED)):
        for person, text in script:
            print(f"[{conversation}] {person}: {text}")
            message = IncomingMessage(conversation=conversation, text=text, by=person, channel="chat")
            asyncio.run(one_life(url, workspace, message))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{Path(tempfile.mkdtemp()) / 'questions.db'}")
