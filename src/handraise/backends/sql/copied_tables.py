"""Which tables and columns a copy of a store has. All that the schemas have are copied, except those that are listed here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from handraise.backends.sql.portable_values import Portable

LEFT_OUT: Mapping[str, str] = {
    "migrations": "both stores must be at the same schema already",
    "store_copy": "each store has its own side of the copy",
    "numbering": "a copy continues above the places of its source, which is computed",
    "listeners": "processes that listen at one store; nothing to copy for a bus",
    "search_entries": "the full-text search is indexed again from the events",
    "search_progress": "the full-text search is indexed again from the events",
    "search_words": "the full-text search is indexed again from the events",
}
"""The tables that are not copied, and why."""

COMPUTED: Mapping[str, Mapping[str, Callable[[Mapping[str, Portable]], Portable]]] = {
    "events": {
        "key": lambda row: json.loads(str(row["data"]))["key"] if row["kind"] == "joined" else None,
    },
}
"""Columns that only one engine has, because the other one computes their values where it needs them."""


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table as the catalogue of an engine describes it: its columns with their types, in any order, and its key."""

    name: str
    types: Mapping[str, str]
    key: Sequence[str]
    refers_to: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A table that both stores have; `types` are PostgreSQL's if one of them is PostgreSQL."""

    name: str
    columns: Sequence[str]
    types: Sequence[str]


_LOOSE = frozenset({"integer", "real", "text", "blob"})
"""The types of SQLite: those of PostgreSQL say more."""


class SchemasDiffer(Exception):
    """A table or column is in one store only, and nothing here says that this is right."""


def copied_tables(source: Iterable[StoredTable], target: Iterable[StoredTable]) -> list[CopiedTable]:
    """The tables to be copied; those that others refer to come first."""
    ours, theirs = _kept(source), _kept(target)
    if odd := ours.keys() ^ theirs.keys():
        raise SchemasDiffer(f"only one of the stores has the tables {', '.join(sorted(odd))}")
    referred = {
        name for table in (*ours.values(), *theirs.values()) for name in table.refers_to - {table.name}
    }
    names = sorted(ours, key=lambda name: (name not in referred, name))
    return [_common(ours[name], theirs[name]) for name in names]


def _kept(tables: Iterable[StoredTable]) -> dict[str, StoredTable]:
    return {each.name: each for each in tables if each.name not in LEFT_OUT}


def _common(one: StoredTable, other: StoredTable) -> CopiedTable:
    computed = COMPUTED.get(one.name, {}).keys()
    if odd := (one.types.keys() ^ other.types.keys()) - computed:
        raise SchemasDiffer(f"only one of the stores has the columns {', '.join(sorted(odd))} of {one.name}")
    columns = sorted((one.types.keys() & other.types.keys()) - computed)
    types = [one.types[name] if one.types[name] not in _LOOSE else other.types[name] for name in columns]
    return CopiedTable(one.name, columns, types)
