"""A graph that asks two people at once, for the tests to start and kill: `app_langgraph.py desk checkpoints key log`."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph

import handraise
from handraise.integrations.langgraph import ask, run

_, URL, CHECKPOINTS, KEY, LOG = sys.argv


class Plan(TypedDict, total=False):
    strategy: str
    region: str
    result: str


def write(line: str) -> None:
    with Path(LOG).open("a", encoding="utf-8") as log:
        log.write(line + "\n")


def prepare(plan: Plan) -> Plan:
    del plan
    write("prepared")
    return {}


def strategy(plan: Plan) -> Plan:
    del plan
    return {"strategy": ask("Which strategy?", choices=["Canary", "Rolling"])}


def region(plan: Plan) -> Plan:
    del plan
    return {"region": ask("Which region?")}


def deploy(plan: Plan) -> Plan:
    write(f"deployed {plan['strategy']} in {plan['region']}")
    return {"result": f"{plan['strategy']} in {plan['region']}"}


def saver() -> AbstractContextManager[Any]:
    if CHECKPOINTS.startswith("postgresql:"):
        from langgraph.checkpoint.postgres import PostgresSaver  # noqa: PLC0415 -- each costs a second

        return PostgresSaver.from_conn_string(CHECKPOINTS)
    from langgraph.checkpoint.sqlite import SqliteSaver  # noqa: PLC0415 -- each costs a second

    return SqliteSaver.from_conn_string(CHECKPOINTS)


async def main() -> None:
    builder = StateGraph(Plan)
    nodes: list[Any] = [prepare, strategy, region, deploy]
    for node in nodes:
        builder.add_node(node)
    builder.add_edge(START, "prepare")
    builder.add_edge("prepare", "strategy")
    builder.add_edge("prepare", "region")
    builder.add_edge(["strategy", "region"], "deploy")
    builder.add_edge("deploy", END)
    with saver() as checkpointer:
        checkpointer.setup()
        async with handraise.open_desk(URL) as desk:
            result = await run(builder.compile(checkpointer=checkpointer), {}, desk=desk, key=KEY)
            print(result["result"])


asyncio.run(main())
