"""A graph that interrupts for a person, with LangGraph alone. The first run asks, the second has the answer.

Run it with: python examples/coming_from/langgraph_before.py [ANSWER]
It needs: pip install langgraph langgraph-checkpoint-sqlite
"""

import sys
from typing import TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt


class Plan(TypedDict, total=False):
    """What the graph knows."""

    strategy: str


def choose(state: Plan) -> Plan:
    """A node that asks."""
    del state
    return {"strategy": interrupt({"question": "Which strategy?", "choices": ["Canary", "Rolling"]})}


builder = StateGraph(Plan)
builder.add_node("choose", choose)
builder.add_edge(START, "choose")
with SqliteSaver.from_conn_string("checkpoints.db") as checkpointer:
    graph = builder.compile(checkpointer=checkpointer)
    config: RunnableConfig = {"configurable": {"thread_id": "deploy-42"}}
    if len(sys.argv) > 1:
        print(graph.invoke(Command(resume=sys.argv[1]), config))
    else:
        # Your program shows this to somebody, and calls again with what they say.
        print(graph.invoke({}, config)["__interrupt__"][0].value)
