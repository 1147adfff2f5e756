"""What a model may see of a history: everything except the client's own calls and their results.

Three APIs write histories differently, and the shape of each message shows which one it is: chat completions
(`tool_calls`, role `tool`), Anthropic's messages (blocks `tool_use` and `tool_result`) and Responses (items
`function_call` and `function_call_output`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

CLIENT = "client."
HITL = "hitl_"
APPROVAL = "approval_"

_log = logging.getLogger(__name__)


def filter_client_messages(messages: Sequence[Any]) -> list[Any]:
    """Return what goes to the model: the same messages or items without the client's calls and their results.

    Takes histories of chat completions, of Anthropic's messages and of Responses. An unchanged message is the
    same object. A turn keeps its other calls; an empty turn is dropped, and so is a result whose call is
    missing, because no model API accepts it. Only Responses accepts one, if the call is in the previous
    response.
    """
    kept: list[Any] = []
    calls: set[Any] = set()
    hidden: set[Any] = set()
    for message in messages:
        match _part(message, "type"):
            case "function_call":
                call_id = _text(_part(message, "call_id"))
                if _is_client(_part(message, "name"), call_id, _part(message, "id")):
                    hidden.add(call_id)
                    continue
                kept.append(message)
            case "function_call_output":
                call_id = _text(_part(message, "call_id"))
                if not _is_client_id(call_id) and call_id not in hidden:
                    kept.append(message)
            case _:
                kept += _for_model(message, calls)
    if len(kept) < len(messages):
        _log.debug("%d of %d messages are the client's own", len(messages) - len(kept), len(messages))
    return kept


def _for_model(message: Any, calls: set[Any]) -> list[Any]:
    """The message as the model may see it, or nothing if nothing is left; `calls` are those made so far."""
    if _part(message, "role") == "tool" and not _is_own_result(_part(message, "tool_call_id"), calls):
        return []
    left = [each for plain in _without_client_blocks(message, calls) for each in _without_client_calls(plain)]
    for each in left:
        given = _part(each, "tool_calls")
        calls.update(_text(_part(call, "id")) for call in (given if isinstance(given, (list, tuple)) else ()))
    return left


def _without_client_blocks(message: Any, calls: set[Any]) -> list[Any]:
    """A message whose content is blocks, as Anthropic writes them."""
    blocks = _part(message, "content")
    if not isinstance(blocks, (list, tuple)):
        return [message]
    own = []
    for block in blocks:
        match _part(block, "type"):
            case "tool_use":
                call_id = _text(_part(block, "id"))
                if _is_client(_part(block, "name"), call_id):
                    continue
                calls.add(call_id)
            case "tool_result":
                if not _is_own_result(_part(block, "tool_use_id"), calls):
                    continue
        own.append(block)
    if len(own) == len(blocks) or not isinstance(message, dict):
        return [message]
    return [{**message, "content": own}] if own or message.get("tool_calls") else []


def _without_client_calls(message: Any) -> list[Any]:
    """A message of chat completions."""
    if not isinstance(message, dict):
        return [message]
    plain = {name: part for name, part in message.items() if name != "toolCallStatus"}
    given = message.get("tool_calls")
    calls = given if isinstance(given, list) else []
    own = [
        call for call in calls if not _is_client(_part(_part(call, "function"), "name"), _part(call, "id"))
    ]
    if len(own) < len(calls):
        plain["tool_calls"] = own
        if not own:
            del plain["tool_calls"]
            if not any(plain.get(part) for part in ("content", "refusal", "audio", "function_call")):
                return []
    return [plain if len(own) < len(calls) or len(plain) < len(message) else message]


def _is_client(name: Any, *ids: Any) -> bool:
    return (isinstance(name, str) and name.startswith(CLIENT)) or any(map(_is_client_id, ids))


def _is_client_id(call_id: Any) -> bool:
    return isinstance(call_id, str) and call_id.startswith((HITL, APPROVAL))


def _is_own_result(call_id: Any, calls: set[Any]) -> bool:
    return isinstance(call_id, str) and call_id in calls and not _is_client_id(call_id)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _part(value: Any, name: str) -> Any:
    """A part of a message, which may be a dict or an object of a client library."""
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)
