"""An agent that asks a person, and whose refunds wait for an approval.

Run it with: python examples/integrations/openai_agent.py
It needs: pip install "handraise[openai-agents]"
"""

import asyncio

from agents import Agent, function_tool
from scripted_agents import model  # beside this file; yours is model = "gpt-5"

import handraise
from handraise.integrations.openai_agents import ask_human, editable, run


@function_tool(needs_approval=True)
def send_refund(order: str, amount: int) -> str:
    """Send money back."""
    return f"refunded {amount} for {order}"


async def main() -> None:
    """The same lines in the first run and after a crash."""
    agent = Agent(name="support", model=model, tools=[ask_human, editable(send_refund, "amount")])
    async with handraise.open_desk() as desk:
        result = await run(agent, "Refund order A-17.", desk=desk, key="refund-A-17")
        print(result.final_output)


asyncio.run(main())
