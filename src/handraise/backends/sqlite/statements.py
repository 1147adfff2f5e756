"""The statements of all files, by their names, and their parameters."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import singledispatch
from types import NoneType
from typing import Any

from handraise.backends.sql.dialects import Dialect
from handraise.backends.sql.parameters import AsJson
from handraise.backends.sql_files import load_port_statements, load_statements, parts_of, without_doubles
from handraise.backends.sqlite.timestamps import length, micros

_PACKAGE = "handraise.backends.sqlite"
STATEMENTS = without_doubles(
    load_statements(_PACKAGE),
    load_statements(_PACKAGE, "search.sql"),
    load_statements(_PACKAGE, "views.sql"),
    load_port_statements(_PACKAGE, Dialect.SQLITE),
)
PARTS = {
    name: [part.named for part in parts_of(statement).values()] for name, statement in STATEMENTS.items()
}
"""One statement elsewhere may be several here, run one after the other: SQLite has no writes inside `with`. A statement
that has no parts is not needed here, for example a lock."""


_PLAIN = {str, int, float, bool, bytes, NoneType}


def run(connection: sqlite3.Connection, name: str, /, **values: Any) -> list[sqlite3.Row]:
    """The rows that all parts of a statement return."""
    adapted = {each: value if type(value) in _PLAIN else _adapted(value) for each, value in values.items()}
    return [row for part in PARTS[name] for row in connection.execute(part, adapted).fetchall()]


@singledispatch
def _adapted(value: Any) -> Any:
    """A parameter as SQLite takes it."""
    return value


_adapted.register(datetime, micros)
_adapted.register(timedelta, length)


@_adapted.register(list)
@_adapted.register(tuple)
def _(value: Sequence[Any]) -> str:
    return json.dumps(value, default=_adapted)


@_adapted.register
def _(value: AsJson) -> str:
    return json.dumps(value.value, default=_adapted)
