"""An agent whose payment dies in its middle: `app_langchain_payment.py desk checkpoints log mode saver where`."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

import handraise
from handraise.integrations.langchain import ApprovalMiddleware
from handraise.integrations.langgraph import run

_, URL, CHECKPOINTS, LOG, MODE, SAVER, WHERE = sys.argv
mode: Any = MODE


def write(line: str) -> None:
    with Path(LOG).open("a", encoding="utf-8") as log:
        log.write(line + "\n")


def die_the_first_time(where: str) -> None:
    """Die there, unless this program has died before."""
    if where == WHERE and "died" not in Path(LOG).read_text(encoding="utf-8"):
        write("died")
        os._exit(9)


@tool
def pay_invoice(invoice: str, amount: int) -> str:
    """Pay an invoice."""
    write(f"paid {amount} for {invoice}")
    die_the_first_time("in the tool")
    return f"paid {amount} for {invoice}"


class Before(AgentMiddleware[Any, Any, Any]):
    """Dies when the approval is there, and before it is used. In the mode `per_call` a tool call begins twice."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        self.begin()
        return handler(request)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        self.begin()
        return await handler(request)

    def begin(self) -> None:
        write("began")
        if Path(LOG).read_text(encoding="utf-8").count("began") == {"batched": 1, "per_call": 2}[MODE]:
            die_the_first_time("before the tool")


class Script(BaseChatModel):
    """Pays, and tells what it has read."""

    @property
    def _llm_type(self) -> str:
        return "script"

    def bind_tools(self, *tools: Any, **options: Any) -> Script:
        del tools, options
        return self

    def _generate(self, messages: list[BaseMessage], *more: Any, **options: Any) -> ChatResult:
        del more, options
        results = [str(each.content) for each in messages if isinstance(each, ToolMessage)]
        calls: list[Any] = [
            {"id": "c1", "name": "pay_invoice", "args": {"invoice": "7", "amount": 40}},
        ]
        said = AIMessage("\n".join(results)) if results else AIMessage("", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=said)])


async def main() -> None:
    async with AsyncExitStack() as stack:
        checkpointer: Any = (
            stack.enter_context(SqliteSaver.from_conn_string(CHECKPOINTS))
            if SAVER == "blocking"
            else await stack.enter_async_context(AsyncSqliteSaver.from_conn_string(CHECKPOINTS))
        )
        desk = await stack.enter_async_context(handraise.open_desk(URL))
        review = ApprovalMiddleware(desk, {"pay_invoice": True}, interrupt_mode=mode)
        agent = create_agent(
            Script(), [pay_invoice], middleware=[Before(), review], checkpointer=checkpointer
        )
        result = await run(agent, {"messages": [("user", "Pay it.")]}, desk=desk, key="pay-7")
        print(result["messages"][-1].content)


asyncio.run(main())
