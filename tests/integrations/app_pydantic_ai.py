"""An agent that asks and wants approvals, for the tests to start and kill: `app_pydantic_ai.py desk key log`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import handraise
from handraise.integrations.pydantic_ai import ask_human, run

_, URL, KEY, LOG = sys.argv


def write(line: str) -> None:
    with Path(LOG).open("a", encoding="utf-8") as log:
        log.write(line + "\n")


def think(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Looks up, then asks and refunds and looks up at once, then asks again, then tells what came of it."""
    del info
    parts = [part for message in messages for part in message.parts]
    results = {part.tool_call_id: str(part.content) for part in parts if isinstance(part, ToolReturnPart)}
    if "c1" not in results:
        return ModelResponse([ToolCallPart("look_up", {"customer": "Ana"}, tool_call_id="c1")])
    if "c2" not in results:
        why = {"question": "Why?", "choices": ["late", "broken"]}
        return ModelResponse(
            [
                ToolCallPart("ask_human", why, tool_call_id="c2"),
                ToolCallPart("look_up", {"customer": "Ben"}, tool_call_id="c3"),
                ToolCallPart("refund", {"order": "A-17", "amount": 40}, tool_call_id="c4"),
                ToolCallPart("refund", {"order": "B-2", "amount": 7}, tool_call_id="c5"),
            ]
        )
    if "c6" not in results:
        return ModelResponse([ToolCallPart("ask_human", {"question": "Anything else?"}, tool_call_id="c6")])
    return ModelResponse([TextPart("\n".join(results[each] for each in ("c2", "c4", "c5", "c6")))])


agent = Agent(FunctionModel(think), tools=[ask_human])


@agent.tool_plain
def look_up(customer: str) -> str:
    """Look up a customer."""
    write(f"looked up {customer}")
    return "has two orders"


@agent.tool_plain(requires_approval=True)
def refund(order: str, amount: int) -> str:
    """Refund an order."""
    write(f"refunded {amount} for {order}")
    return f"refunded {amount} for {order}"


async def main() -> None:
    async with handraise.open_desk(URL) as desk:
        result = await run(
            agent, "Refund it.", desk=desk, key=KEY, approvals={"refund": {"editable": ["amount"]}}
        )
        print(result.output)


asyncio.run(main())
