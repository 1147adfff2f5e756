"""A Strands agent that asks a person, and refunds what a person has approved.

Run it with: python examples/integrations/strands_agent.py refund-A-17
It needs: pip install "handraise[strands]"
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterable
from typing import Any

from strands import Agent, tool
from strands.models import Model
from strands.types.content import Messages
from strands.types.streaming import StreamEvent

import handraise
from handraise.integrations import strands


@tool
def send_refund(order: str, amount: float) -> str:
    """Send money back."""
    print(f"refunding {amount} for {order}", flush=True)
    return "sent"


class Scripted(Model):
    """Stands in for a model: it asks two things at once, then says what it was told."""

    async def stream(self, messages: Messages, *_: Any, **__: Any) -> AsyncIterable[StreamEvent]:
        """One turn."""
        results = [
            each["toolResult"] for message in messages for each in message["content"] if "toolResult" in each
        ]
        yield {"messageStart": {"role": "assistant"}}
        if results:
            told = {each["toolUseId"]: each["content"][0]["text"] for each in results}
            yield {"contentBlockDelta": {"delta": {"text": f"I was told: {told}"}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn"}}
            return
        print("thinking", flush=True)
        for call_id, name, arguments in (
            ("call-1", "ask_human", {"question": "Why do they want it back?"}),
            ("call-2", "send_refund", {"order": "A-17", "amount": 40}),
        ):
            yield {"contentBlockStart": {"start": {"toolUse": {"toolUseId": call_id, "name": name}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(arguments)}}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use"}}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        """Not used here."""
        raise NotImplementedError

    def update_config(self, **_: Any) -> None:
        """There is nothing to configure."""

    def get_config(self) -> dict[str, Any]:
        """There is nothing to configure."""
        return {}


async def main(key: str) -> None:
    """Run it to its end. Killed in between and started again, it goes on where it was."""
    agent = Agent(
        model=Scripted(),  # your model goes here
        tools=[strands.ask_human, send_refund],
        hooks=[strands.RequireApproval("send_refund")],
        callback_handler=None,
    )
    async with handraise.open_desk() as desk:
        result = await strands.run(
            agent, "Refund A-17.", desk=desk, key=key, approvals={"send_refund": {"editable": ["amount"]}}
        )
    print(str(result).strip(), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
