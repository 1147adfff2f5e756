"""W3C `traceparent`: the trace and the span of another program."""

from __future__ import annotations

import re

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?")


def trace_ids(traceparent: str | None) -> tuple[str | None, str | None]:
    """The ids of the trace and of the span in a `traceparent`, in hex; None for both if it is not one."""
    found = None if traceparent is None else _TRACEPARENT.fullmatch(traceparent)
    if found is None or not (found[1].strip("0") and found[2].strip("0")):
        return None, None
    return found[1], found[2]


def traceparent_of(trace_id: int, span_id: int, flags: int) -> str:
    """The `traceparent` of a span."""
    return f"00-{trace_id:032x}-{span_id:016x}-{flags:02x}"
