"""A transaction in PostgreSQL, for statements that take many rows as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from handraise.backends.postgres.database import Run
from handraise.backends.sql.dialects import Dialect
from handraise.backends.sql.parameters import AsJson, json_text
from handraise.backends.sql.rows import Row
from handraise.backends.sql.transactions import Values
from handraise.backends.sql_files import (
    joined,
    load_port_statements,
    load_statements,
    parts_of,
    without_doubles,
)

STATEMENTS = without_doubles(
    load_statements("handraise.backends.postgres"),
    load_statements("handraise.backends.postgres", "views.sql"),
    load_port_statements("handraise.backends.postgres", Dialect.POSTGRES),
)
PARTS = {name: tuple(parts_of(statement).values()) for name, statement in STATEMENTS.items()}


class PostgresTransaction:
    """Runs statements for many rows at once. See `handraise.backends.sql.transactions.Transaction`."""

    def __init__(self, run: Run, workspace: str | None = None) -> None:
        self._run = run
        self._workspace = workspace

    async def __call__(self, name: str, /, **values: Any) -> Sequence[Row]:
        """What a statement returns; without another one, about the workspace of this transaction."""
        rows: Sequence[Row] = []
        for part in PARTS[name]:
            rows = await self._run(part, **{"workspace": self._workspace, **adapted(values)})
        return rows

    async def fetch_each(self, name: str, rows: Sequence[Values], /) -> Sequence[Row]:
        """What a statement returns for these rows."""
        if not rows:
            return []
        return await self._run(STATEMENTS[name], **dict(columns_of(rows)))

    async def write(self, rows: Mapping[str, Sequence[Values]], /) -> None:
        """Run statements that return nothing, as one: they take one round trip."""
        names = [name for name, each in rows.items() if each]
        values = {f"{name}__{column}": values for name in names for column, values in columns_of(rows[name])}
        if names:
            await self._run(joined(*(STATEMENTS[name] for name in names)), **values)


def columns_of(rows: Sequence[Values]) -> Iterable[tuple[str, list[Any] | None]]:
    """The columns of rows. One that is null in all of them is one null: the driver takes that sooner than an array."""
    for name in rows[0]:
        column = [row[name] for row in rows]
        is_empty = column[0] is None and column.count(None) == len(column)
        yield name, None if is_empty else column


def adapted(values: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a statement as the driver takes them."""
    return {
        name: json_text(value.value) if isinstance(value, AsJson) else value for name, value in values.items()
    }
