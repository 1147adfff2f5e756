"""LangGraph: a node interrupts, the graph is resumed with the answer. Checkpoints in the same PostgreSQL."""

from __future__ import annotations

import asyncio
import sys
import uuid
from typing import Any, TypedDict

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from benchmarks.peer import ANSWER, QUESTION, measure


class State(TypedDict, total=False):
    """What the graph knows."""

    answer: dict[str, Any]


def ask(state: State) -> State:
    """Stop for the answer."""
    del state
    return {"answer": interrupt(QUESTION)}


async def main() -> None:
    """Compile, measure, and end."""
    builder = StateGraph(State)
    builder.add_node("ask", ask)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", END)
    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    async with AsyncConnectionPool(sys.argv[1], min_size=8, max_size=16, kwargs=options) as pool:
        saver = AsyncPostgresSaver(pool)  # type: ignore[arg-type]  # its pool of dictionaries is one by its options
        await saver.setup()
        graph = builder.compile(checkpointer=saver)

        async def pair() -> None:
            thread: Any = {"configurable": {"thread_id": uuid.uuid4().hex}}
            await graph.ainvoke({}, thread, durability="sync")
            done = await graph.ainvoke(Command(resume=ANSWER), thread, durability="sync")
            if done["answer"] != ANSWER:
                raise RuntimeError("the answer did not arrive")

        await measure(pair)


asyncio.run(main())
