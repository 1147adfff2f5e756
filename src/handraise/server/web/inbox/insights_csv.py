"""Endings as CSV, for a spreadsheet. Nothing in a cell can become a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

from handraise.model.statistics import Ending
from handraise.model.visible import visible_line
from handraise.presentation.csv_cells import safe_cell

HEADS = (
    "question",
    "asked",
    "settled",
    "seconds",
    "status",
    "source",
    "by",
    "voters",
    "channel",
    "agent",
    "kind",
    "tool",
    "risk",
    "groups",
    "approved",
    "promised_seconds",
    "late",
    "failed",
)
_AT_ONCE = 500


def csv_lines(endings: Iterable[Ending]) -> Iterator[str]:
    """The file in parts: its heads, and one line for each ending."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(HEADS)
    for number, ending in enumerate(endings, start=1):
        writer.writerow(map(safe_cell, _cells(ending)))
        if number % _AT_ONCE == 0:
            yield _taken(buffer)
    yield _taken(buffer)


def _cells(ending: Ending) -> tuple[str, ...]:
    return (
        ending.id,
        ending.asked_at.isoformat(),
        ending.settled_at.isoformat(),
        f"{ending.seconds:.0f}",
        ending.status.value,
        ending.source or "",
        visible_line(ending.by or ""),
        ", ".join(map(visible_line, sorted(ending.voters))),
        visible_line(ending.channel or ""),
        visible_line(ending.asker),
        ending.kind,
        visible_line(ending.tool or ""),
        ending.risk or "",
        ", ".join(map(visible_line, ending.groups)),
        _yes_or_no(ending.approved),
        "" if ending.promised_seconds is None else f"{ending.promised_seconds:.0f}",
        _yes_or_no(None if ending.promised_seconds is None else ending.is_late),
        _yes_or_no(ending.failed),
    )


def _yes_or_no(value: bool | None) -> str:  # noqa: FBT001 -- it is written, and changes nothing
    return "" if value is None else "yes" if value else "no"


def _taken(buffer: io.StringIO) -> str:
    text = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return text
