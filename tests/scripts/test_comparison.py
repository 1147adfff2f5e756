"""The comparison with other tools has a date in each row; a release needs rows that are younger than six months."""

from __future__ import annotations

import re
from datetime import date, timedelta

from scripts.release.comparison import OLDEST, PAGE, comparison_faults

TEXT = PAGE.read_text(encoding="utf-8")
DAYS = sorted(date.fromisoformat(day) for day in re.findall(r", (\d{4}-\d{2}-\d{2}) \|$", TEXT, re.MULTILINE))


def test_every_row_says_what_was_read_and_when() -> None:
    assert len(DAYS) >= 10
    assert comparison_faults(TEXT, DAYS[-1]) == []


def test_a_row_older_than_six_months_is_a_fault() -> None:
    [fault] = {
        each.partition(": ")[2] for each in comparison_faults(TEXT, DAYS[0] + OLDEST + timedelta(days=1))
    }
    assert fault == f"read on {DAYS[0]}; read it again"


def test_a_row_without_a_date_or_a_link_or_its_second_half_is_a_fault() -> None:
    undated = TEXT.replace(", 2026-11-18 |", " |", 1)
    assert any("does not say when" in each for each in comparison_faults(undated, DAYS[-1]))
    unlinked = TEXT.replace("(https://github.com/agno-agi/agno)", "()")
    assert any("no link" in each for each in comparison_faults(unlinked, DAYS[-1]))
    lines = TEXT.splitlines()
    halved = "\n".join(line for line in lines if not line.startswith("| [Agno]") or "wheel" not in line)
    assert comparison_faults(halved, DAYS[-1]) == ["the two tables have different rows"]
