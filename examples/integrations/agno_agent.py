"""An Agno agent that asks a person, and refunds what a person has approved.

Run it with: python examples/integrations/agno_agent.py refund-A-17
It needs: pip install "handraise[agno]"
"""

import asyncio
import json
import sys
from typing import Any

from agno.agent import Agent
from agno.models.base import Model
from agno.models.message import Message
from agno.models.response import ModelResponse
from agno.tools import tool

import handraise
from handraise.integrations import agno


@tool(requires_confirmation=True)
def send_refund(order: str, amount: float) -> str:
    """Send money back."""
    print(f"refunding {amount} for {order}", flush=True)
    return "sent"


class Scripted(Model):
    """Stands in for a model: it asks two things at once, then says what it was told."""

    async def ainvoke(self, messages: list[Message], *_: Any, **__: Any) -> ModelResponse:
        """One turn."""
        told = {message.tool_call_id: message.content for message in messages if message.role == "tool"}
        if told:
            return ModelResponse(role="assistant", content=f"I was told: {told}")
        print("thinking", flush=True)
        calls = [
            ("call-1", "ask_human", {"question": "Why do they want it back?"}),
            ("call-2", "send_refund", {"order": "A-17", "amount": 40}),
        ]
        made = [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for call_id, name, arguments in calls
        ]
        return ModelResponse(role="assistant", tool_calls=made)

    def invoke(self, *_: Any, **__: Any) -> Any:
        """Not used here, nor are the others."""
        raise NotImplementedError

    invoke_stream = ainvoke_stream = _parse_provider_response = _parse_provider_response_delta = invoke


async def main(key: str) -> None:
    """Run it to its end. Killed in between and started again, it goes on where it was."""
    agent = Agent(
        model=Scripted(id="scripted"),  # your model goes here
        tools=[agno.ask_human, send_refund],
        telemetry=False,
    )
    async with handraise.open_desk() as desk:
        output = await agno.run(
            agent, "Refund A-17.", desk=desk, key=key, approvals={"send_refund": {"editable": ["amount"]}}
        )
    print(output.content, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
