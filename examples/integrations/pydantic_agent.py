"""An agent that asks a person, and whose refunds wait for an approval.

Run it with: python examples/integrations/pydantic_agent.py
It needs: pip install "handraise[pydantic-ai]"
"""

import asyncio

from pydantic_ai import Agent, Tool
from scripted_pydantic import model  # beside this file; yours is model = "openai:gpt-5"

import handraise
from handraise.integrations.pydantic_ai import ask_human, run


def send_refund(order: str, amount: int) -> str:
    """Send money back."""
    return f"refunded {amount} for {order}"


async def main() -> None:
    """The same lines in the first run and after a crash."""
    agent = Agent(model, tools=[ask_human, Tool(send_refund, requires_approval=True)])
    async with handraise.open_desk() as desk:
        result = await run(
            agent,
            "Refund order A-17.",
            desk=desk,
            key="refund-A-17",
            approvals={"send_refund": {"editable": ["amount"]}},
        )
        print(result.output)


asyncio.run(main())
