"""The result of an AG-UI agent's run: its messages, its state, its tool calls, and how it ended."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import Any

import pydantic
from ag_ui.core import Event, EventType, RunFinishedEvent, RunFinishedInterruptOutcome

from handraise.model.json_values import Json

_EVENT: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(Event)
_KNOWN = frozenset(each.value for each in EventType)


@dataclass
class Transcript:
    """The conversation so far, updated by each event of a run. Events of subagents are ignored."""

    messages: list[dict[str, Json]]
    state: Json = None
    end: RunFinishedEvent | None = None
    error: tuple[str, str | None] | None = None
    started: bool = False
    _text: str | None = None
    _call: str | None = None
    _calls: dict[str, dict[str, Json]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._remember_calls()

    @property
    def interrupts(self) -> list[Any]:
        """The interrupts that the run waits for; empty if it does not wait."""
        outcome = self.end.outcome if self.end else None
        return list(outcome.interrupts) if isinstance(outcome, RunFinishedInterruptOutcome) else []

    def call(self, call_id: str | None) -> tuple[str, dict[str, Json]] | None:
        """The tool and the arguments of a call, or None if the call is unknown or its arguments cannot be read."""
        if call_id is None or call_id not in self._calls:
            return None
        function = self._calls[call_id]["function"]
        try:
            arguments = json.loads(function["arguments"] or "{}")
        except ValueError:
            return None
        return (function["name"], arguments) if isinstance(arguments, dict) else None

    def result(self, call_id: str | None) -> tuple[bool, Json] | None:
        """Whether a tool call went well, and its result; None if there is none."""
        for message in reversed(self.messages):
            if call_id is not None and message.get("role") == "tool" and message.get("toolCallId") == call_id:
                failed = message.get("error")
                return (False, failed) if failed else (True, message.get("content"))
        return None

    def read(self, data: str) -> None:
        """Take one event of the stream. Unknown events are ignored."""
        raw = json.loads(data)
        if not isinstance(raw, dict) or raw.get("type") not in _KNOWN:
            return
        event = _EVENT.validate_python(raw)
        if getattr(event, "subagent_run_id", None) is not None:
            if event.type is EventType.TOOL_CALL_START or event.type is EventType.TOOL_CALL_ARGS:
                self._take_call(event, kept=False)
            return
        self._take(event)

    def _take(self, event: Any) -> None:
        match event.type:
            case EventType.RUN_STARTED:
                self.started = True
            case EventType.RUN_FINISHED:
                self.end = event
            case EventType.RUN_ERROR:
                self.error = (event.message, event.code)
            case EventType.STATE_SNAPSHOT:
                self.state = event.snapshot
            case EventType.STATE_DELTA:
                self.state = patched(self.state, [each.model_dump(by_alias=True) for each in event.delta])
            case EventType.MESSAGES_SNAPSHOT:
                self.messages = [each.model_dump(mode="json", by_alias=True) for each in event.messages]
                self._remember_calls()
            case EventType.TEXT_MESSAGE_START | EventType.TEXT_MESSAGE_CONTENT | EventType.TEXT_MESSAGE_CHUNK:
                self._take_text(event)
            case EventType.TOOL_CALL_START | EventType.TOOL_CALL_ARGS | EventType.TOOL_CALL_CHUNK:
                self._take_call(event)
            case EventType.TOOL_CALL_RESULT:
                content = event.model_dump(mode="json", by_alias=True)["content"]
                said = {"id": event.message_id, "role": "tool", "content": content}
                self.messages.append({**said, "toolCallId": event.tool_call_id})
            case _:
                pass

    def _take_text(self, event: Any) -> None:
        self._text = event.message_id or self._text
        said = self._message(self._text or "", getattr(event, "role", None) or "assistant")
        said["content"] = (said.get("content") or "") + (getattr(event, "delta", None) or "")

    def _take_call(self, event: Any, *, kept: bool = True) -> None:
        self._call = event.tool_call_id or self._call
        call_id = self._call or ""
        if call_id not in self._calls:
            function = {"name": getattr(event, "tool_call_name", None) or "", "arguments": ""}
            self._calls[call_id] = {"id": call_id, "type": "function", "function": function}
            if kept:
                parent = self._message(getattr(event, "parent_message_id", None) or call_id, "assistant")
                parent.setdefault("toolCalls", []).append(self._calls[call_id])
        self._calls[call_id]["function"]["arguments"] += getattr(event, "delta", None) or ""

    def _message(self, message_id: str, role: str) -> dict[str, Json]:
        for message in reversed(self.messages):
            if message.get("id") == message_id:
                return message
        self.messages.append({"id": message_id, "role": role})
        return self.messages[-1]

    def _remember_calls(self) -> None:
        for message in self.messages:
            for call in message.get("toolCalls") or []:
                self._calls[call["id"]] = call


def patched(document: Json, operations: list[dict[str, Json]]) -> Json:
    """A document after a JSON Patch (RFC 6902); raises ValueError if it does not apply."""
    root = {"": copy.deepcopy(document)}
    for each in operations:
        steps = _steps(each["path"])
        match each["op"]:
            case "add":
                _put(root, steps, copy.deepcopy(each.get("value")), new=True)
            case "replace":
                _get(root, steps)
                _put(root, steps, copy.deepcopy(each.get("value")), new=False)
            case "remove":
                _take_out(root, steps)
            case "copy":
                _put(root, steps, copy.deepcopy(_get(root, _steps(each["from"]))), new=True)
            case "move":
                _put(root, steps, _take_out(root, _steps(each["from"])), new=True)
            case "test" if _get(root, steps) != each.get("value"):
                raise ValueError(f"the state is not what the patch expects at {each['path']!r}")
    return root[""]


def _steps(pointer: str) -> list[str]:
    parts = pointer.split("/")[1:]
    return ["", *(part.replace("~1", "/").replace("~0", "~") for part in parts)]


def _get(place: Json, steps: list[str]) -> Json:
    for step in steps:
        try:
            place = place[int(step)] if isinstance(place, list) else place[step]
        except (KeyError, IndexError, TypeError, ValueError):
            raise ValueError(f"the state has no {'/'.join(steps)!r}") from None
    return place


def _put(root: Json, steps: list[str], value: Json, *, new: bool) -> None:
    parent, last = _get(root, steps[:-1]), steps[-1]
    if isinstance(parent, list):
        place = len(parent) if last == "-" else _index(last)
        if place > len(parent):
            raise ValueError(f"the state has no {'/'.join(steps)!r}")
        parent[place : place if new else place + 1] = [value]
    elif not isinstance(parent, dict):
        raise ValueError(f"the state has no {'/'.join(steps)!r}")  # noqa: TRY004 -- the patch is wrong, not the caller
    else:
        parent[last] = value


def _take_out(root: Json, steps: list[str]) -> Json:
    value, parent = _get(root, steps), _get(root, steps[:-1])
    del parent[int(steps[-1]) if isinstance(parent, list) else steps[-1]]
    return value


def _index(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{text!r} is not an index of a list")
    return int(text)
