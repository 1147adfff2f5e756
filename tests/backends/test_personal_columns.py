"""Every column of both schemas is in the catalogue of what holds a person or their words, and erasing goes by it."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Set as AbstractSet
from contextlib import closing
from importlib import resources
from pathlib import Path

import asyncpg
import pytest

from handraise import open_desk
from handraise.backends.sql.personal_columns import IMPERSONAL, KEPT, PERSONAL

_INTERNAL = ("sqlite_", "search_words_")
"""Tables that SQLite itself keeps, for the full-text search among others."""

Columns = AbstractSet[tuple[str, str]]


async def test_every_column_of_sqlite_is_in_the_catalogue(tmp_path: Path) -> None:
    file = tmp_path / "questions.db"
    async with open_desk(f"sqlite:///{file}"):
        pass
    with closing(sqlite3.connect(file)) as connection:
        rows = connection.execute(
            "select m.name, c.name from sqlite_master as m, pragma_table_info(m.name) as c where m.type = 'table'"
        )
        found = {(table, column) for table, column in rows if not table.startswith(_INTERNAL)}
    assert _unnamed(found) == set()


async def test_every_column_of_postgresql_is_in_the_catalogue(postgres: str) -> None:
    connection = await asyncpg.connect(postgres)
    rows = await connection.fetch(
        """
        select c.relname, a.attname
        from pg_class as c
        join pg_attribute as a on a.attrelid = c.oid
        where c.relnamespace = 'handraise'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
            and a.attnum > 0 and not a.attisdropped
        """
    )
    await connection.close()
    assert _unnamed({(table, column) for table, column in rows}) == set()


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_what_is_replaced_is_in_the_statement_that_erases_a_person(engine: str) -> None:
    replaced = {
        (table, column) for table, each in PERSONAL.items() for column in each if each[column] == "replaced"
    }
    assert {each for each in replaced if not _is_set(_erasing(engine), *each)} == set()


def _is_set(erasing: str, table: str, column: str) -> bool:
    updates = re.findall(rf"update (?:handraise\.)?{table}\b(.*?);", erasing, re.DOTALL)
    return any(re.search(rf"\b{column} = ", each.split("where")[0]) for each in updates)


def _erasing(engine: str) -> str:
    package = resources.files(f"handraise.backends.{engine}")
    if engine == "sqlite":
        return (
            (package / "ledger.sql")
            .read_text()
            .partition("-- name: erase_person")[2]
            .partition("-- name:")[0]
        )
    schema = (package / "migrations" / "0001_schema.sql").read_text()
    return schema.partition("create function handraise.erase_person")[2].partition("$$;")[0]


def _unnamed(columns: Columns) -> Columns:
    return {
        (table, column)
        for table, column in columns
        if column != "workspace"
        and column not in PERSONAL.get(table, ())
        and column not in IMPERSONAL.get(table, ())
        and f"{table}.{column}" not in KEPT
    }
