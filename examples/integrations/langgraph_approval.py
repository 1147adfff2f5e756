"""A graph whose payment waits for an approval, and is made at most once, also if the process dies in it.

Run it with: python examples/integrations/langgraph_approval.py
It needs: pip install "handraise[langgraph]" langgraph-checkpoint-sqlite
"""

import asyncio
from typing import TypedDict

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph

import handraise
from handraise.integrations.langgraph import run
from handraise.tools import requires_approval


class Payment(TypedDict, total=False):
    """What the graph knows."""

    invoice: str
    amount: int
    result: str


def pay_invoice(invoice: str, amount: int) -> str:
    """Send the money."""
    return f"paid {amount} for invoice {invoice}"


async def main() -> None:
    """The same lines in the first run and after a crash."""
    async with (
        handraise.open_desk() as desk,
        AsyncSqliteSaver.from_conn_string("checkpoints.db") as checkpointer,
    ):
        pay_approved = requires_approval(
            desk, call_key=lambda call: f"pay-{call['invoice']}", editable=["amount"]
        )(pay_invoice)

        async def pay(state: Payment) -> Payment:
            """Ask, wait and pay: all in one node."""
            try:
                return {"result": await pay_approved(state["invoice"], state["amount"])}
            except handraise.NotApproved as refused:
                return {"result": f"not paid: {refused.reason}"}
            except handraise.errors.AlreadyConsumed:
                return {"result": "perhaps paid before a crash: find out before you ask again"}

        builder = StateGraph(Payment)
        builder.add_node("pay", pay)
        builder.add_edge(START, "pay")
        graph = builder.compile(checkpointer=checkpointer)
        state = await run(graph, {"invoice": "7", "amount": 40}, desk=desk, key="invoice-7")
        print(state["result"])


asyncio.run(main())
