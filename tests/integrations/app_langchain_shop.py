"""An agent of LangChain whose refunds wait for an approval, for the tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver

from handraise import Desk
from handraise.integrations.langchain import ApprovalMiddleware
from handraise.integrations.langgraph import Graph, ask_human, run

Mode = Literal["batched", "per_call"]
MODES: list[Mode] = ["batched", "per_call"]


class Script(FakeMessagesListChatModel):
    def bind_tools(self, *tools: Any, **options: Any) -> Script:
        del tools, options
        return self


class Shop:
    """An agent that calls tools as it is told to, and what it executed; `refund_tool` may take the place of its own tool."""

    def __init__(
        self,
        desk: Desk,
        *calls: dict[str, Any],
        mode: Mode = "per_call",
        allowed: Any = True,
        does: Callable[[], object] = lambda: None,
        reviewed_by: Callable[..., Any] | None = None,
        checkpointer: Any = None,
        refund_tool: BaseTool | None = None,
        outer: Sequence[AgentMiddleware[Any, Any, Any]] = (),
    ) -> None:
        self.refunds: list[tuple[str, int]] = []
        said: list[Any] = [
            AIMessage("", tool_calls=[{"id": f"c{place}", **call} for place, call in enumerate(calls)]),
            AIMessage("Done."),
        ]

        @tool
        def refund(order: str, amount: int, way: Literal["cash", "card"] = "cash") -> str:
            """Refund an order."""
            del way
            self.refunds.append((order, amount))
            does()
            return f"refunded {amount}"

        review = reviewed_by or partial(ApprovalMiddleware, desk)
        self._model = Script(responses=said)
        self.graph: Graph = create_agent(
            self._model,
            [refund_tool or refund, ask_human],
            middleware=[*outer, review({"refund": allowed}, interrupt_mode=mode)],
            checkpointer=checkpointer or InMemorySaver(),
        )

    def go_on(self) -> None:
        """Go on after the calls, which are in the checkpoint."""
        self._model.i = 1

    async def run(self, desk: Desk, **options: Any) -> list[ToolMessage]:
        """What the tools gave back to the model."""
        result = await run(self.graph, {"messages": [("user", "Go.")]}, desk=desk, key="shop", **options)
        assert result["messages"][-1].content == "Done."
        return [each for each in result["messages"] if isinstance(each, ToolMessage)]


def refund_of(order: str, amount: int, **more: Any) -> dict[str, Any]:
    return {"name": "refund", "args": {"order": order, "amount": amount, **more}}
