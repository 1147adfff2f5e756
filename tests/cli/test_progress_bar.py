"""The bar of a long command shows how far it is in time, only at a terminal, and on stderr."""

from __future__ import annotations

import io
import sys
from datetime import UTC, datetime, timedelta

import pytest

from handraise.cli.progress_bar import progress_bar

NOON, HOUR = datetime(2026, 11, 18, 12, tzinfo=UTC), timedelta(hours=1)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("begin", "end", "told"),
    [
        (NOON, NOON + 4 * HOUR, [NOON + HOUR, NOON + 2 * HOUR]),
        (NOON, NOON - 4 * HOUR, [NOON - HOUR, NOON - 2 * HOUR]),
        (None, NOON + 4 * HOUR, [NOON, NOON + 2 * HOUR]),
    ],
    ids=["forward", "back", "from the first"],
)
def test_a_bar_shows_how_far_it_is_and_ends_full(
    monkeypatch: pytest.MonkeyPatch, begin: datetime | None, end: datetime, told: list[datetime]
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with progress_bar("Exporting", begin, end) as advance:
        for at in told:
            advance(at)
        halfway = screen.getvalue()
    assert "Exporting" in halfway
    assert "50%" in halfway
    assert "100%" not in halfway
    assert "100%" in screen.getvalue()


def test_without_a_terminal_there_is_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("Exporting", NOON, NOON) as advance:
        advance(NOON)
    assert capsys.readouterr() == ("", "")
