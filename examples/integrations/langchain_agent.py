"""An agent that asks a person, and whose refunds wait for an approval.

Run it with: python examples/integrations/langchain_agent.py
It needs: pip install "handraise[langchain]" langgraph-checkpoint-sqlite
"""

import asyncio

from langchain.agents import create_agent
from langgraph.checkpoint.sqlite import SqliteSaver
from scripted_langchain import model  # beside this file; yours is model = "openai:gpt-5"

import handraise
from handraise.integrations.langchain import ApprovalMiddleware
from handraise.integrations.langgraph import ask_human, run


def send_refund(order: str, amount: int) -> str:
    """Send money back."""
    return f"refunded {amount} for {order}"


async def main() -> None:
    """The same lines in the first run and after a crash."""
    async with handraise.open_desk() as desk:
        review = ApprovalMiddleware(desk, {"send_refund": True})
        with SqliteSaver.from_conn_string("checkpoints.db") as checkpointer:
            agent = create_agent(
                model, [ask_human, send_refund], middleware=[review], checkpointer=checkpointer
            )
            task = {"messages": [("user", "Refund order A-17.")]}
            result = await run(agent, task, desk=desk, key="refund-A-17")
            print(result["messages"][-1].content)


asyncio.run(main())
