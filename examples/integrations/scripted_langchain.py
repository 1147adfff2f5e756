"""A chat model that says what it is told to, instead of one that costs money."""

from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult


class Script(BaseChatModel):
    """Asks for the reason and refunds in one turn, then tells what came of it."""

    @property
    def _llm_type(self) -> str:
        return "script"

    def bind_tools(self, *tools: Any, **options: Any) -> "Script":
        """Take any tools."""
        del tools, options
        return self

    def _generate(self, messages: list[BaseMessage], *more: Any, **options: Any) -> ChatResult:
        del more, options
        results = [str(each.content) for each in messages if isinstance(each, ToolMessage)]
        calls: list[Any] = [
            {"id": "call_1", "name": "ask_human", "args": {"question": "Why do they want it back?"}},
            {"id": "call_2", "name": "send_refund", "args": {"order": "A-17", "amount": 40}},
        ]
        said = AIMessage("\n".join(results)) if results else AIMessage("", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=said)])


model = Script()
