"""The same graph with Handraise: one run asks, waits and has the answer.

Run it with: python examples/coming_from/langgraph_after.py
It needs: pip install "handraise[langgraph]" langgraph-checkpoint-sqlite
"""

import asyncio
from typing import TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph

import handraise
from handraise.integrations.langgraph import ask, run


class Plan(TypedDict, total=False):
    """What the graph knows."""

    strategy: str


def choose(state: Plan) -> Plan:
    """A node that asks."""
    del state
    return {"strategy": ask("Which strategy?", choices=["Canary", "Rolling"])}


async def main() -> None:
    """The same lines in the first run and after a crash."""
    builder = StateGraph(Plan)
    builder.add_node("choose", choose)
    builder.add_edge(START, "choose")
    with SqliteSaver.from_conn_string("checkpoints.db") as checkpointer:
        graph = builder.compile(checkpointer=checkpointer)
        async with handraise.open_desk() as desk:
            print(await run(graph, {}, desk=desk, key="deploy-42"))


asyncio.run(main())
