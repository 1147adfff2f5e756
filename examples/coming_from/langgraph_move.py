"""The old node with the new driver, for threads that wait at an interrupt of the old code.

Run it with: python examples/coming_from/langgraph_move.py
It needs: pip install "handraise[langgraph]" langgraph-checkpoint-sqlite
"""

import asyncio
from typing import TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt

import handraise
from handraise.integrations.langgraph import run


class Plan(TypedDict, total=False):
    """What the graph knows."""

    strategy: str


def choose(state: Plan) -> Plan:
    """The node as it was."""
    del state
    return {"strategy": interrupt({"question": "Which strategy?", "choices": ["Canary", "Rolling"]})}


async def main() -> None:
    """Ask about the interrupt that waits, and go on."""
    builder = StateGraph(Plan)
    builder.add_node("choose", choose)
    builder.add_edge(START, "choose")
    with SqliteSaver.from_conn_string("checkpoints.db") as checkpointer:
        graph = builder.compile(checkpointer=checkpointer)
        async with handraise.open_desk() as desk:
            print(await run(graph, {}, desk=desk, key="deploy-42"))


asyncio.run(main())
