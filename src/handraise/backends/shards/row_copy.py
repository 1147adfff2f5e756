"""Copying the rows of a workspace from one database to another, unchanged.

Except for `RowSecurity`, this is the only SQL that Python puts together. It inserts only names of tables and columns,
which come quoted from the catalogue. Values are parameters.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import asyncpg

PAGE = 2_000
"""How many rows are copied in one transaction."""
_BLOB_PAGE = 50
"""The same of parts of files, which are large."""

Connected: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


@dataclass(frozen=True, slots=True)
class Table:
    """A table of workspaces; `related` says that it refers to another one, or another to it."""

    name: str
    columns: Sequence[str]
    key: Sequence[str]
    types: Sequence[str]
    related: bool

    @property
    def place(self) -> Sequence[str]:
        """The key without the workspace, which is the same for all rows."""
        return [name for name in self.key if name != "workspace"]

    @property
    def page(self) -> int:
        """How many of its rows are copied in one transaction."""
        return _BLOB_PAGE if self.name == "blobs" else PAGE

    @property
    def stage(self) -> str:
        """Where its rows arrive first."""
        return f"moving_{self.name}"

    def columns_of(self, alias: str) -> str:
        """All columns, each with this table alias."""
        return ", ".join(f"{alias}.{name}" for name in self.columns)

    def same(self, one: str, other: str) -> str:
        """The condition that two rows have the same key."""
        return " and ".join(f"{one}.{name} = {other}.{name}" for name in self.key)


async def enter(connected: Connected, workspace: str) -> None:
    """Enter a workspace until the end of the transaction, as its mover."""
    await connected.execute(
        "select handraise.set_workspace($1), set_config('handraise.moving', 'on', true)", workspace
    )


async def read_page(
    source: Connected, table: Table, workspace: str, after: Sequence[str] | None
) -> tuple[bytes, Sequence[str] | None]:
    """The rows after a place, up to one page, and the place to continue from; None at the end."""
    if not table.place:
        return await _copied(
            source,
            f"select {table.columns_of('t')} from handraise.{table.name} as t "  # noqa: S608 -- names of the catalogue
            "where t.workspace = $1",
            workspace,
        ), None
    names = ", ".join(f"t.{name}" for name in table.place)
    types = dict(zip(table.key, table.types, strict=True))
    marks = [f"${number}::text::{types[name]}" for number, name in enumerate(table.place, 2)]
    behind = f"and ({names}) > ({', '.join(marks)})" if after else ""
    last = await source.fetchrow(
        f"select {', '.join(f't.{name}::text' for name in table.place)} from handraise.{table.name} as t "  # noqa: S608 -- names of the catalogue
        f"where t.workspace = $1 {behind} order by {names} offset {table.page - 1} limit 1",
        workspace,
        *(after or ()),
    )
    place = None if last is None else [str(value) for value in last.values()]
    upto = ""
    if place:
        first = len(table.place) + 2 if after else 2
        ends = [f"${number}::text::{types[name]}" for number, name in enumerate(table.place, first)]
        upto = f"and ({names}) <= ({', '.join(ends)})"
    rows = await _copied(
        source,
        f"select {table.columns_of('t')} from handraise.{table.name} as t where t.workspace = $1 {behind} {upto}",  # noqa: S608 -- names of the catalogue
        workspace,
        *(after or ()),
        *(place or ()),
    )
    return rows, place


async def read_keys(source: Connected, table: Table, keys: Sequence[Any]) -> bytes:
    """The existing rows with these keys."""
    return await _copied(
        source,
        f"select {table.columns_of('t')} from handraise.{table.name} as t "  # noqa: S608 -- names of the catalogue
        f"join jsonb_populate_recordset(null::handraise.{table.name}, $1::text::jsonb) as k on {table.same('t', 'k')}",
        json.dumps(keys),
    )


async def read_of(source: Connected, table: Table, workspace: str, column: str, ids: Sequence[str]) -> bytes:
    """The rows of some questions."""
    return await _copied(
        source,
        f"select {table.columns_of('t')} from handraise.{table.name} as t "  # noqa: S608 -- names of the catalogue
        f"where t.workspace = $1 and t.{column} = any ($2::text[])",
        workspace,
        list(ids),
    )


async def put(target: Connected, table: Table, rows: bytes) -> None:
    """Store rows, replacing those with the same keys."""
    await stage(target, table, rows)
    values = [name for name in table.columns if name not in table.key]
    if table.name == "people":  # an address may have moved from one person to another
        await target.execute(
            "update handraise.people as t set email = null, email_folded = null from moving_people as m "  # noqa: S608 -- names of the catalogue
            f"where {table.same('t', 'm')}"
        )
    if table.name == "archive":
        await target.execute(_ARCHIVE_ROOM)
    instead = "nothing"
    if values and table.name != "events":
        instead = "update set " + ", ".join(f"{name} = excluded.{name}" for name in values)
    await target.execute(
        f"insert into handraise.{table.name} ({', '.join(table.columns)}) overriding system value "  # noqa: S608 -- names of the catalogue
        f"select {table.columns_of('m')} from {table.stage} as m "
        f"on conflict ({', '.join(table.key)}) do {instead}"
    )


_ARCHIVE_ROOM = """
    select handraise.add_archive_month(m.month)
    from (select distinct date_trunc('month', settled_at, 'UTC') as month from moving_archive) as m;
    update handraise.archive_hand as h
    set mark = greatest(h.mark, left(newest.id, 8) || '~')
    from (select max(id collate "C") as id from moving_archive) as newest
    where newest.id is not null
"""
"""Adds the partitions that archived rows need, and marks their ids as taken; see the migration."""


async def stage(target: Connected, table: Table, rows: bytes) -> None:
    """Load rows into a temporary table, because policies do not let them be copied directly into their table."""
    await target.execute(
        f"create temporary table if not exists {table.stage} (like handraise.{table.name}); "
        f"truncate {table.stage}"
    )
    if not rows:  # not even the head of the format, which PostgreSQL would miss
        return
    await target.copy_to_table(
        table.stage,
        source=io.BytesIO(rows),
        columns=[each.strip('"') for each in table.columns],
        format="binary",
    )


async def drop_keys(target: Connected, table: Table, keys: Sequence[Any]) -> None:
    """Delete the rows with these keys that are not among the loaded ones."""
    await target.execute(
        f"delete from handraise.{table.name} as t "  # noqa: S608 -- names of the catalogue
        f"using jsonb_populate_recordset(null::handraise.{table.name}, $1::text::jsonb) as k "
        f"where {table.same('t', 'k')} and not exists (select from {table.stage} as m where {table.same('m', 'k')})",
        json.dumps(keys),
    )


async def drop_of(target: Connected, table: Table, workspace: str, column: str, ids: Sequence[str]) -> None:
    """Delete the rows of some questions that are not among the loaded ones."""
    await target.execute(
        f"delete from handraise.{table.name} as t where t.workspace = $1 and t.{column} = any ($2::text[]) "  # noqa: S608 -- names of the catalogue
        f"and not exists (select from {table.stage} as m where {table.same('m', 't')})",
        workspace,
        list(ids),
    )


async def drop_some(connected: Connected, table: Table, workspace: str) -> int:
    """Delete some rows of a workspace; return how many that were."""
    done = await connected.execute(
        f"delete from handraise.{table.name} where ctid = any (array("  # noqa: S608 -- names of the catalogue
        f"select ctid from handraise.{table.name} where workspace = $1 limit {PAGE})) and workspace = $1",
        workspace,
    )
    return int(done.split()[-1])


def tables_of(rows: Iterable[asyncpg.Record]) -> list[Table]:
    """The tables, as the catalogue describes them."""
    return [Table(row["name"], row["columns"], row["key"], row["types"], row["related"]) for row in rows]


async def _copied(source: Connected, query: str, *values: Any) -> bytes:
    taken = io.BytesIO()
    await source.copy_from_query(query, *values, output=taken, format="binary")
    return taken.getvalue()
