"""What a guarded tool gave back to LangChain: the report for people, and the notice for the model that a person edited its call.

A tool may return a message, a `Command` or a list of both. LangChain's types do not have the list, so results are `Any` here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from handraise.errors import MissingExtra
from handraise.tools.automatic_reports import ToolReport, result_report

try:
    from langchain_core.messages import ToolCall, ToolMessage
    from langgraph.types import Command
except ImportError as error:
    raise MissingExtra(error.name or "langchain", "langchain") from error


def report_of(result: Any, call: ToolCall) -> ToolReport:
    """The report of a tool that returned this; it never raises, because the tool has run."""
    messages = list(_messages_in(result))
    if not messages:
        return result_report(result.update if isinstance(result, Command) else result)
    own = next((each for each in messages if each.tool_call_id == call["id"]), messages[0])
    return result_report(own.content)._replace(ok=own.status != "error")


def with_edit_notice(result: Any, notice: str, call: ToolCall) -> Any:
    """The same result; its message for the model begins with the notice and with the call that was executed."""
    if isinstance(result, list):
        return [with_edit_notice(each, notice, call) for each in result]
    if isinstance(result, Command):
        messages = _messages_of(result)
        if not messages or not isinstance(result.update, dict):
            return result
        return replace(result, update={**result.update, "messages": with_edit_notice(messages, notice, call)})
    if isinstance(result, ToolMessage) and result.tool_call_id == call["id"]:
        executed = f"{call['name']} with arguments {json.dumps(call['args'], default=str)}"
        return _after(f"{notice} Executed instead: {executed}.", result)
    return result


def _messages_in(result: Any) -> Iterator[ToolMessage]:
    match result:
        case ToolMessage():
            yield result
        case Command():
            yield from _messages_in(_messages_of(result))
        case list():
            for each in result:
                yield from _messages_in(each)


def _messages_of(command: Command[Any]) -> list[Any]:
    messages = command.update.get("messages") if isinstance(command.update, dict) else None
    return messages if isinstance(messages, list) else []


def _after(notice: str, message: ToolMessage) -> ToolMessage:
    """The message with the notice before its content, in the shape that the content has."""
    content = message.content
    if not content:
        return message.model_copy(update={"content": notice})
    notice = f"{notice}\n\nTool response:"
    if isinstance(content, str):
        return message.model_copy(update={"content": f"{notice}\n{content}"})
    has_texts = all(isinstance(each, str) for each in content)  # providers may refuse a mixture
    return message.model_copy(
        update={"content": [notice if has_texts else {"type": "text", "text": notice}, *content]}
    )
