"""The promises, and the mark that links a test to the promises that it checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from handraise.errors import MissingExtra

Test = TypeVar("Test", bound=Callable[..., object])

PROMISES = {
    "P1": "An acknowledged question is never lost.",
    "P2": "At most one outcome is ever recorded, and every reader sees the same one.",
    "P3": "An acknowledged answer is never lost.",
    "P4": "Every settled question reaches every live waiter within the poll interval, normally at once.",
    "P5": "Nothing is delivered that was not recorded.",
    "P6": "A settled status never changes.",
    "P7": "Every transition leaves exactly one event.",
    "P8": "No row crosses a workspace.",
    "P9": "The same key gives the same question.",
    "P10": "Nobody waits for ever unless they asked to.",
    "P11": "An error never means approved.",
    "P12": "An answer that does not fit leaves the question pending, and its giver is told why.",
    "P13": "The result says how it came about.",
    "P14": "An acknowledged policy applies to every question posted after it, on every server.",
    "P15": "An approval covers the conversation its giver saw; an approval of an older one is refused.",
    "P16": "An approval is used within its validity, at most once, and never after it was taken back.",
    "P17": "Everything an administrator does is in the audit trail, with their name.",
    "P18": "After an acknowledged stop, nothing it covers is given out.",
}
"""The promises, by id."""


def promise(*ids: str) -> Callable[[Test], Test]:
    """Link a test to the promises that it proves."""
    unknown = [each for each in ids if each not in PROMISES]
    if unknown:
        raise ValueError(f"There is no promise {', '.join(unknown)}.")
    try:
        import pytest  # noqa: PLC0415 -- an extra, and a clock needs none
    except ImportError as error:
        raise MissingExtra("pytest", "testing") from error
    return pytest.mark.promise(*ids)
