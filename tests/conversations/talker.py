"""A program that lives for one message: it starts everything, hands it over, prints what was said, and exits.

Run it with: python talker.py <address> <workspace> <conversation> <person> <text>
"""

from __future__ import annotations

import asyncio
import sys

from handraise import open_desk
from handraise.conversations import Agent, AgentRegistry, AgentReply, IncomingMessage, MemoryChannel
from handraise.model.json_values import Json


class Refunds(Agent):
    """Asks for an order number that starts with an A."""

    name = "refunds"

    async def handle(self, message: IncomingMessage) -> AgentReply:
        pending = await self.get_pending_ask()
        if pending is None:
            return await self.ask("Which order?", context={"wants": message.text}, max_retries=1)
        return await self.handle_pending_ask(
            pending, message.text, self.refund, self.skip, validator=self.validate
        )

    def validate(self, value: Json) -> str | None:
        return None if value.startswith("A-") else "order numbers start with A-"

    async def refund(self, order: Json, context: Json) -> AgentReply:
        return AgentReply(f"Done: {context['wants']} for {order}.")

    async def skip(self, context: Json) -> AgentReply:
        return AgentReply(f"No {context['wants']} then.")


async def main(address: str, workspace: str, conversation: str, person: str, text: str) -> None:
    channel = MemoryChannel()
    async with (
        open_desk(address, workspace=workspace) as desk,
        AgentRegistry(desk, agents=[Refunds()], channels=[channel]) as registry,
    ):
        await registry.receive(
            IncomingMessage(conversation=conversation, text=text, by=person, channel="chat")
        )
    print("\n--\n".join(channel.sent_to(conversation)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
