"""A smolagents agent that asks a person, and refunds what a person has approved.

Run it with: python examples/integrations/smolagents_agent.py refund-A-17
It needs: pip install "handraise[smolagents]"
"""

import sys
from typing import Any

from smolagents import ChatMessage, MessageRole, Model, ToolCallingAgent  # type: ignore[import-untyped]
from smolagents.models import (  # type: ignore[import-untyped]
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
)

from handraise.blocking import open_desk
from handraise.integrations.smolagents import AskHuman, approved


def send_refund(order: str, amount: float) -> str:
    """Send money back.

    Args:
        order: The order.
        amount: How much.
    """
    print(f"refunding {amount} for {order}", flush=True)
    return "sent"


class Scripted(Model):  # type: ignore[misc]  # smolagents has no types
    """Stands in for a model: it asks, then refunds, then says what it was told."""

    def generate(self, messages: list[Any], **_: Any) -> ChatMessage:
        """One turn."""
        told = [str(message.content) for message in messages if message.role == MessageRole.TOOL_RESPONSE]
        turns: list[tuple[str, dict[str, Any]]] = [
            ("ask_human", {"question": "Why do they want it back?"}),
            ("send_refund", {"order": "A-17", "amount": 40}),
            ("final_answer", {"answer": f"I was told: {told}"}),
        ]
        if not told:
            print("thinking", flush=True)
        name, arguments = turns[len(told)]
        function = ChatMessageToolCallFunction(name=name, arguments=arguments)
        call = ChatMessageToolCall(id=f"call-{len(told)}", type="function", function=function)
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=[call])


def main(key: str) -> None:
    """Run it to its end. Started again it begins again, and finds the answers that it has had."""
    with open_desk() as desk:
        tools = [AskHuman(desk, key=key), approved(send_refund, desk, key=key, editable=["amount"])]
        agent = ToolCallingAgent(tools=tools, model=Scripted(), verbosity_level=0)
        print(agent.run("Refund A-17."), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
