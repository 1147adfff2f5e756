"""The page that compares Handraise with other tools: a row says which version it speaks of, and when that was read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "explanation" / "comparison.md"
OLDEST = timedelta(days=182)


def comparison_faults(text: str, today: date) -> list[str]:
    """What is wrong with the tables of the page: a row without a date, without a link, or older than six months."""
    asking, running = (
        list(_rows(part)) for part in re.split(r"^## Running it in a company$", text, flags=re.MULTILINE)
    )
    found = []
    if [row[0] for row in asking] != [row[0] for row in running]:
        found.append("the two tables have different rows")
    for name, *_, seen in running:
        if name == "**Handraise**":
            continue
        if not re.match(r"\[[^]]+\]\(https://github\.com/[\w./-]+\)", name):
            found.append(f"{name}: no link to its source or its documentation")
        day = re.search(r", (\d{4}-\d{2}-\d{2})$", seen)
        if day is None:
            found.append(f"{name}: it does not say when it was read")
        elif not today - OLDEST <= date.fromisoformat(day[1]) <= today:
            found.append(f"{name}: read on {day[1]}; read it again")
    return found


def _rows(part: str) -> Iterator[list[str]]:
    for line in part.splitlines():
        if line.startswith(("| **Handraise**", "| [")):
            yield [cell.strip() for cell in line.strip("|").split("|")]
