"""Values as they go from one SQL engine to another, and a digest of rows that is the same in all of them.

A portable value is what SQLite keeps: instants and spans are whole microseconds, what is true is 1, JSON is text. The
declared types of PostgreSQL say what a column is, so this is the only place that knows how its values are converted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from handraise.model.json_values import canonical_json

Portable: TypeAlias = str | int | float | bytes | None
PortableRow: TypeAlias = Sequence[Portable]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DIGEST = 32
_MANY = 1 << (8 * _DIGEST)


class Conversion(NamedTuple):
    """How the values of a type become portable, and back. Without a function they are as they are."""

    read: Callable[[Any], Portable] | None = None
    write: Callable[[Any], Any] | None = None


def micros(at: datetime) -> int:
    """An instant in microseconds. The driver gives `-infinity` as the first instant, without a time zone."""
    return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND


def instant_at(micros_since_1970: int) -> datetime:
    """The instant that many microseconds after 1970."""
    return _EPOCH + timedelta(microseconds=micros_since_1970)


CONVERSIONS: Mapping[str, Conversion] = {
    "timestamp with time zone": Conversion(micros, instant_at),
    "interval": Conversion(lambda span: span // _MICROSECOND, lambda number: timedelta(microseconds=number)),
    "boolean": Conversion(int, bool),
    **dict.fromkeys(
        ("smallint", "integer", "bigint", "xid8", "double precision", "text", "json", "jsonb", "bytea"),
        Conversion(),
    ),
}
"""The types of PostgreSQL that the schema uses."""

_REWRITTEN = "jsonb"
"""The type whose texts PostgreSQL writes in its own way, so that only their canonical texts can be compared."""


class TableDigest:
    """The number of rows of a table, and a digest of them in whatever order they come."""

    def __init__(self, types: Sequence[str]) -> None:
        self.rows = 0
        self._sum = 0
        self._json = [place for place, name in enumerate(types) if name == _REWRITTEN]
        self._real = [place for place, name in enumerate(types) if name in ("double precision", "real")]

    def add(self, rows: Iterable[PortableRow]) -> None:
        """Add these rows."""
        for row in rows:
            values = list(row)
            for place in self._json:
                values[place] = _canonical(values[place])
            for place in self._real:
                value = values[place]
                values[place] = None if value is None else float(value)
            digest = hashlib.sha256(repr(values).encode("utf-8", "surrogatepass")).digest()
            self._sum = (self._sum + int.from_bytes(digest)) % _MANY
            self.rows += 1

    @property
    def digest(self) -> str:
        """The digest in hex. Rows add up, so that both engines may read them in an order of their own."""
        return self._sum.to_bytes(_DIGEST).hex()


def _canonical(text: Any) -> Any:
    return text if text is None else _canonical_text(text)


@lru_cache(10_000)
def _canonical_text(text: str) -> str:
    return canonical_json(json.loads(text))
