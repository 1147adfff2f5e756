"""An agent of the Microsoft Agent Framework that asks a person, and refunds what a person has approved.

Run it with: python examples/integrations/agent_framework_agent.py refund-A-17
It needs: pip install "handraise[agent-framework]"
"""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
    tool,
)

import handraise
from handraise.integrations import agent_framework


@tool(approval_mode="always_require")
def send_refund(order: str, amount: float) -> str:
    """Send money back."""
    print(f"refunding {amount} for {order}", flush=True)
    return "sent"


class Scripted(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """Stands in for a model: it asks two things at once, then says what it was told."""

    async def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> ChatResponse[Any]:
        del stream, options, kwargs
        contents = [content for message in messages for content in message.contents]
        told = [str(content.result) for content in contents if content.type == "function_result"]
        if told:
            return ChatResponse(messages=[Message("assistant", [f"I was told: {told}"])])
        print("thinking", flush=True)
        calls = [
            Content.from_function_call(
                "call-1", "ask_human", arguments={"question": "Why do they want it back?"}
            ),
            Content.from_function_call("call-2", "send_refund", arguments={"order": "A-17", "amount": 40}),
        ]
        return ChatResponse(messages=[Message("assistant", calls)])


async def main(key: str) -> None:
    """Run it to its end. Killed in between and started again, it goes on where it was."""
    agent = Agent(Scripted(), tools=[agent_framework.ask_human, send_refund])
    async with handraise.open_desk() as desk:
        response = await agent_framework.run(
            agent, "Refund A-17.", desk=desk, key=key, approvals={"send_refund": {"editable": ["amount"]}}
        )
    print(response.text, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
