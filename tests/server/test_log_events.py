"""Every line that the server logs names its event, and each event is in the list for operators."""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "handraise"
PAGE = ROOT / "docs" / "reference" / "log-events.md"

LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
NOT_OF_THE_SERVER = {"client", "conversations", "integrations", "tools"}
"""What logs in programs of agents. They configure their logs themselves."""


def calls() -> Iterator[tuple[str, ast.Call]]:
    """Every call that logs a line, with its place."""
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE)
        if name.parts[0] in NOT_OF_THE_SERVER:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in LEVELS
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id.strip("_") in ("log", "logger", "logging")
            ):
                yield f"{name}:{node.lineno}", node


def event_of(call: ast.Call) -> str | None:
    """The event of a line, written as it is: `extra={"event": "store_lost"}`."""
    for keyword in call.keywords:
        if keyword.arg == "extra" and isinstance(keyword.value, ast.Dict):
            for key, value in zip(keyword.value.keys, keyword.value.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "event" and isinstance(value, ast.Constant):
                    return str(value.value)
    return None


@cache
def events() -> dict[str, str | None]:
    gc.disable()  # Python 3.11 miscounts the depth of a tree if the collector runs code while it is made
    try:
        return {place: event_of(call) for place, call in calls()}
    finally:
        gc.enable()


def test_every_line_names_its_event() -> None:
    without = [place for place, event in events().items() if event is None]
    assert without == [], 'add extra={"event": "…"}, and the event to docs/reference/log-events.md'
    assert len(events()) > 50


def test_every_event_is_listed_and_every_listed_event_exists() -> None:
    listed = re.findall(
        r"^\| `([a-z_]+)` \| (?:debug|info|warning|error) \|", PAGE.read_text("utf-8"), re.MULTILINE
    )
    assert len(listed) == len(set(listed))
    assert set(listed) == {event for event in events().values() if event is not None}
