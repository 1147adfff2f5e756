"""Answers as data: one flat record for each settled question, as JSON lines or as CSV."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

from pydantic_core import from_json, to_json

from handraise.model.json_values import Json
from handraise.model.settled_rows import SettledRow
from handraise.model.traceparent import trace_ids
from handraise.model.visible import visible
from handraise.presentation.csv_cells import safe_cell

AnswerRecord: TypeAlias = dict[str, Json]
"""One settled question with the fields of `FIELDS`, in their order. What does not apply is None."""

FieldType = Literal["text", "json", "time", "number", "integer", "boolean"]

FIELDS: Final[Mapping[str, FieldType]] = {
    "id": "text",
    "agent": "text",
    "conversation": "text",
    "topic": "text",
    "kind": "text",
    "prompt": "text",
    "options": "json",
    "tool": "text",
    "tool_call": "text",
    "arguments": "json",
    "risk": "text",
    "recipients": "json",
    "status": "text",
    "decision": "text",
    "edited": "boolean",
    "answer": "json",
    "reason": "text",
    "decided_by": "text",
    "source": "text",
    "channel": "text",
    "evidence": "text",
    "voters": "json",
    "policy_version": "integer",
    "policy_rules": "json",
    "asked_at": "time",
    "settled_at": "time",
    "seconds": "number",
    "consumed_at": "time",
    "taken_back_at": "time",
    "succeeded": "boolean",
    "trace_id": "text",
    "span_id": "text",
}
"""The fields of a record and their types. The HTTP API's page says what each of them means."""

MEDIA_TYPES = {"jsonl": "application/jsonl", "csv": "text/csv; charset=utf-8"}
"""The formats of a response, and their media types."""

_DECISIONS = {"approve": "approved", "deny": "denied"}


def answer_record(row: SettledRow) -> AnswerRecord:
    """The record of a settled question. Nobody may change its parts: equal ones may be shared."""
    form = from_json(row.form)
    outcome = from_json(row.outcome)
    ruling = None if row.ruling is None else _parsed(row.ruling)
    is_answered = row.status == "answered"
    value = outcome.get("value") if is_answered else None
    action, decided = form.get("action"), {}
    if action is not None and isinstance(value, dict):
        decided = value
    trace_id, span_id = trace_ids(row.trace)
    return {
        "id": row.id,
        "agent": row.asker,
        "conversation": row.conversation,
        "topic": row.topic,
        "kind": form["kind"],
        "prompt": row.prompt,
        "options": form.get("options"),
        "tool": None if action is None else action["tool"],
        "tool_call": row.tool_call,
        "arguments": None if action is None else action["arguments"],
        "risk": None if action is None else form.get("risk", "medium"),
        "recipients": _parsed(row.recipients),
        "status": row.status,
        "decision": _DECISIONS.get(decided.get("decision", "")),
        "edited": "arguments" in decided if decided else None,
        "answer": value,
        "reason": decided.get("reason") if decided else outcome.get("reason"),
        "decided_by": outcome.get("by"),
        "source": outcome.get("source", "person") if is_answered else None,
        "channel": outcome.get("channel"),
        "evidence": outcome.get("evidence"),
        "voters": None if row.votes is None else sorted(from_json(row.votes)),
        "policy_version": None if ruling is None else ruling["version"],
        "policy_rules": None if ruling is None else ruling["matches"],
        "asked_at": row.asked_at.isoformat(),
        "settled_at": row.settled_at.isoformat(),
        "seconds": (row.settled_at - row.asked_at).total_seconds(),
        "consumed_at": _instant(row.consumed_at),
        "taken_back_at": _instant(row.taken_back_at),
        "succeeded": None if row.report is None else from_json(row.report)["ok"],
        "trace_id": trace_id,
        "span_id": span_id,
    }


def jsonl_lines(records: Iterable[AnswerRecord]) -> bytes:
    """Records as lines of JSON in plain ASCII, which is harmless at a terminal too."""
    lines = [*map(to_json, records), b""]
    text = b"\n".join(lines)
    if text.isascii():
        return text
    # Most lines have nothing to be escaped, and this takes several times as long.
    return b"\n".join(line if line.isascii() else _escaped(line) for line in lines)


def csv_head() -> bytes:
    """The first line of a CSV file."""
    return f"{','.join(FIELDS)}\r\n".encode()


def csv_lines(records: Iterable[AnswerRecord]) -> bytes:
    """Records as lines of CSV. JSON is text in a cell; nothing is a formula, and nothing is invisible."""
    return "\r\n".join([*map(_csv_line, records), ""]).encode()


_SIGNS = frozenset("=+-@")
_SIGN_WITHIN = re.compile(r"""[;,"'] *[=+\-@]""")
"""Where a formula could begin within a printable text of ASCII. It is found several times as fast as `safe_cell` runs."""


def _csv_line(record: AnswerRecord) -> str:
    # Twice as fast as `csv.writer`, which looks at every character of every cell.
    cells = zip(record.values(), _CELL_WRITERS, strict=True)
    return ",".join(
        ["" if value is None else value if write is None else write(value) for value, write in cells]
    )


def _text_cell(text: str) -> str:
    if text.isascii() and text.isprintable():
        is_formula = text.lstrip(" ")[:1] in _SIGNS or _SIGN_WITHIN.search(text)
        return _quoted(safe_cell(text) if is_formula else text)
    return _quoted(safe_cell(visible(text)))


def _json_cell(value: Json) -> str:
    return _text_cell(to_json(value).decode())


def _plain_cell(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _quoted(cell: str) -> str:
    if '"' in cell:
        cell = cell.replace('"', '""')
    elif "," not in cell and "\n" not in cell and "\r" not in cell:
        return cell
    return f'"{cell}"'


_WRITERS: dict[FieldType, Callable[[Any], str] | None] = {
    "text": _text_cell,
    "json": _json_cell,
    "time": None,
    "number": _plain_cell,
    "integer": _plain_cell,
    "boolean": _plain_cell,
}
_REPEATED = {
    "agent",
    "kind",
    "tool",
    "risk",
    "status",
    "decision",
    "decided_by",
    "source",
    "channel",
    "evidence",
}
"""Fields in which a few texts are repeated."""
_CELL_WRITERS = [
    lru_cache(maxsize=10_000)(_text_cell) if name in _REPEATED else _WRITERS[kind]
    for name, kind in FIELDS.items()
]


def _escaped(line: bytes) -> bytes:
    return json.dumps(json.loads(line), separators=(",", ":"), allow_nan=False).encode()


@lru_cache(maxsize=1_000)
def _parsed(text: str) -> Json:
    """Parsed JSON that many questions share, such as their recipients."""
    return from_json(text)


def _instant(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
