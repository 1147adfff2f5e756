"""The places of events in the feed of a workspace, and the cursors that name them.

A place is a transaction and a number. Events that SQLite numbered itself have the transaction 0, which a cursor does not
show. In both SQL engines they have the same cursors, so that a workspace can move from one to the other.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from handraise.backends.sql.rows import Row

_CURSOR = re.compile(r"(?:([0-9]{1,18})\.)?([0-9]{1,18})", re.ASCII)


class Place(NamedTuple):
    """Where an event is; places are in the order of their feed."""

    transaction: int
    number: int

    def named(self, prefix: str = "") -> dict[str, int]:
        """Both parts as parameters of a statement."""
        return {f"{prefix}transaction": self.transaction, f"{prefix}number": self.number}

    def before(self) -> Place:
        """A place before this one, and after all others that are."""
        return Place(self.transaction, self.number - 1)

    def __str__(self) -> str:
        return f"{self.transaction}.{self.number}" if self.transaction else str(self.number)


BEGINNING = Place(0, -(2**63))
END = Place(2**63 - 1, 2**63 - 1)


def read_place(cursor: str) -> Place:
    """The place that a cursor names; `ValueError` if it names none."""
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise ValueError(f"{cursor[:100]!r} is not a cursor of this store")
    return Place(int(found[1] or 0), int(found[2]))


def end_or_place(cursor: str | None) -> Place:
    """The place before which a walk back begins: that of a cursor, or else the end."""
    return END if cursor is None else read_place(cursor)


def place_of(row: Row) -> Place:
    """The place of an event, from its row."""
    return Place(int(row["transaction"]), row["number"])


def cursor_of(row: Row) -> str:
    """The cursor of an event, from its row."""
    return str(place_of(row))
