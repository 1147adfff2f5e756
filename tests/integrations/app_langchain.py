"""An agent that asks and wants approvals, for the tests to start and kill: `app_langchain.py desk checkpoints key log`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver

import handraise
from handraise.integrations.langchain import ApprovalMiddleware
from handraise.integrations.langgraph import ask_human, run

_, URL, CHECKPOINTS, KEY, LOG = sys.argv


def write(line: str) -> None:
    with Path(LOG).open("a", encoding="utf-8") as log:
        log.write(line + "\n")


@tool
def look_up(customer: str) -> str:
    """Look up a customer."""
    write(f"looked up {customer}")
    return "has two orders"


@tool
def refund(order: str, amount: int) -> str:
    """Refund an order."""
    write(f"refunded {amount} for {order}")
    return f"refunded {amount} for {order}"


class Script(BaseChatModel):
    """Looks up, then asks and refunds at once, then tells what came of it."""

    @property
    def _llm_type(self) -> str:
        return "script"

    def bind_tools(self, *tools: Any, **options: Any) -> Script:
        del tools, options
        return self

    def _generate(self, messages: list[BaseMessage], *more: Any, **options: Any) -> ChatResult:
        del more, options
        results = [str(each.content) for each in messages if isinstance(each, ToolMessage)]
        calls: list[Any] = []
        if not results:
            calls = [{"id": "c1", "name": "look_up", "args": {"customer": "Ana"}}]
        elif len(results) == 1:
            calls = [
                {
                    "id": "c2",
                    "name": "ask_human",
                    "args": {"question": "Which reason?", "choices": ["late", "broken"]},
                },
                {"id": "c3", "name": "refund", "args": {"order": "A-17", "amount": 40}},
                {"id": "c4", "name": "refund", "args": {"order": "B-2", "amount": 7}},
            ]
        said = AIMessage("" if calls else "\n".join(results[1:]), tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=said)])


async def main() -> None:
    async with handraise.open_desk(URL) as desk:
        review = ApprovalMiddleware(desk, {"refund": True})
        with SqliteSaver.from_conn_string(CHECKPOINTS) as checkpointer:
            agent = create_agent(
                Script(), [ask_human, look_up, refund], middleware=[review], checkpointer=checkpointer
            )
            result = await run(agent, {"messages": [("user", "Refund it.")]}, desk=desk, key=KEY)
            print(result["messages"][-1].content)


asyncio.run(main())
