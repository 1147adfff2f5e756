"""The statements of all files, by their names."""

from __future__ import annotations

import sqlite3
from typing import Any

from handraise.backends.sql_files import load_statements

_PACKAGE = "handraise.backends.sqlite"
STATEMENTS = {
    name: statement
    for file in ("statements.sql", "directory.sql", "outbox.sql", "ledger.sql")
    for name, statement in load_statements(_PACKAGE, file).items()
}


def run(connection: sqlite3.Connection, name: str, /, **values: Any) -> list[sqlite3.Row]:
    """What a statement gives back."""
    return connection.execute(STATEMENTS[name].named, values).fetchall()
