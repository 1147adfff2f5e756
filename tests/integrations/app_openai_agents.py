"""An agent that asks and wants approvals, for the tests to start and kill: `app_openai_agents.py desk key log`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from agents import Agent, function_tool, set_tracing_disabled
from agents.testing import ModelCall, ModelStep, ScriptedModel, assistant_message, function_call

import handraise
from handraise.integrations.openai_agents import ask_human, editable, run

_, URL, KEY, LOG = sys.argv


def write(line: str) -> None:
    with Path(LOG).open("a", encoding="utf-8") as log:
        log.write(line + "\n")


@function_tool
def look_up(customer: str) -> str:
    """Look up a customer."""
    write(f"looked up {customer}")
    return "has two orders"


@function_tool(needs_approval=True)
def refund(order: str, amount: int) -> str:
    """Refund an order."""
    write(f"refunded {amount} for {order}")
    return f"refunded {amount} for {order}"


def think(call: ModelCall) -> list[Any]:
    """Looks up, then asks and refunds and looks up at once, then asks again, then tells what came of it."""
    results = {
        each["call_id"]: each["output"] for each in call.input if each.get("type") == "function_call_output"
    }
    if "c1" not in results:
        return [function_call("look_up", {"customer": "Ana"}, call_id="c1")]
    if "c2" not in results:
        return [
            function_call("ask_human", {"question": "Why?", "choices": ["late", "broken"]}, call_id="c2"),
            function_call("look_up", {"customer": "Ben"}, call_id="c3"),
            function_call("refund", {"order": "A-17", "amount": 40}, call_id="c4"),
            function_call("refund", {"order": "B-2", "amount": 7}, call_id="c5"),
        ]
    if "c6" not in results:
        return [function_call("ask_human", {"question": "Anything else?"}, call_id="c6")]
    return [assistant_message("\n".join(results[each] for each in ("c2", "c4", "c5", "c6")))]


async def main() -> None:
    set_tracing_disabled(True)
    agent = Agent(
        name="shop",
        model=ScriptedModel([ModelStep.respond(think)] * 5),
        tools=[ask_human, look_up, editable(refund, "amount")],
    )
    async with handraise.open_desk(URL) as desk:
        result = await run(agent, "Refund it.", desk=desk, key=KEY)
        print(result.final_output)


asyncio.run(main())
