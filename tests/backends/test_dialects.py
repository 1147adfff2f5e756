"""The statements that PostgreSQL and SQLite share, and the macros in them."""

from __future__ import annotations

import re
import sqlite3
from importlib import resources
from pathlib import Path

import pytest

from handraise.backends.postgres.transaction import PARTS as POSTGRES_PARTS
from handraise.backends.sql.dialects import MACROS, Dialect, expand
from handraise.backends.sql_files import PORT_FILES, load_statements
from handraise.backends.sqlite import open_sqlite
from handraise.backends.sqlite.statements import PARTS as SQLITE_PARTS

SHARED = resources.files("handraise.backends.sql") / "statements"
TEXTS = {file: (SHARED / file).read_text() for file in PORT_FILES if (SHARED / file).is_file()}
NAMES = sorted(name for text in TEXTS.values() for name in re.findall(r"^-- name: (\w+)", text, re.MULTILINE))
_GROUPS_IN_SQLITE = (
    "returning (select json_group_array(m.group_name) from members as m "
    "where m.workspace = people.workspace and m.person = people.id)"
)


@pytest.mark.parametrize(
    ("written", "postgres", "sqlite"),
    [
        ("select 1", "select 1", "select 1"),
        ("from handraise.people as p", "from handraise.people as p", "from people as p"),
        ("limit :limit::bigint", "limit :limit::bigint", "limit :limit"),
        ("values (:data::text::jsonb)", "values (:data::text::jsonb)", "values (:data)"),
        ("at <= ${now}", "at <= coalesce(:now::timestamptz, now())", "at <= :now"),
        ("id ${in(:ids::text[])}", "id = any (:ids::text[])", "id in (select value from json_each(:ids))"),
        (
            "from ${items(:ids::text[])} as t",
            "from (select value, key - 1 as key from unnest(:ids::text[]) with ordinality as item (value, key)) as t",
            "from json_each(:ids) as t",
        ),
        (
            "from ${records(:tries, id text, after interval)} as t",
            "from (select * from json_to_recordset(:tries::text::json) as record (id text, after interval)) as t",
            "from (select value ->> 'id' as id, value ->> 'after' as after from json_each(:tries)) as t",
        ),
        ("where id = :id ${lock(for key share)}", "where id = :id for key share", "where id = :id "),
        (
            "where ${next_events(e)}",
            (
                "where (e.transaction, e.number) > (:transaction::bigint::text::xid8, :number::bigint) "
                "and e.transaction < (select handraise.feed_edge()) order by e.transaction, e.number"
            ),
            'where (e."transaction", e.place) > (:transaction, :number) order by e."transaction", e.place',
        ),
        (
            "returning ${groups_of(people)}",
            "returning handraise.groups_of(people.workspace, people.id)",
            _GROUPS_IN_SQLITE,
        ),
    ],
)
def test_a_statement_is_written_once_and_expanded_for_each_engine(
    written: str, postgres: str, sqlite: str
) -> None:
    assert expand(written, Dialect.POSTGRES) == postgres
    assert expand(written, Dialect.SQLITE) == sqlite


def test_a_macro_that_is_not_in_the_table_is_refused() -> None:
    with pytest.raises(KeyError, match="nowhere"):
        expand("select ${nowhere}", Dialect.SQLITE)


def test_there_are_few_macros_and_all_are_used() -> None:
    used = {name for text in TEXTS.values() for name in re.findall(r"\$\{(\w+)", text)}
    assert used == set(MACROS)
    assert len(MACROS) <= 10


@pytest.mark.parametrize("engine", ["postgres", "sqlite"])
def test_no_engine_has_another_statement_of_the_same_name(engine: str) -> None:
    package = resources.files(f"handraise.backends.{engine}")
    own = [
        name
        for file in PORT_FILES
        if (package / file).is_file()
        for name in load_statements(f"handraise.backends.{engine}", file)
    ]
    assert len({*NAMES, *own}) == len(NAMES) + len(own)


@pytest.mark.parametrize("name", [name for name in NAMES if SQLITE_PARTS[name]])
def test_only_the_last_part_of_a_statement_returns_rows(name: str) -> None:
    """PostgreSQL returns the rows of the last part, and SQLite those of all."""
    for part in POSTGRES_PARTS[name][:-1]:
        assert part.writes
        assert "returning" not in part.named


async def test_sqlite_understands_every_shared_statement(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "questions.db"):
        pass
    connection = sqlite3.connect(tmp_path / "questions.db")
    try:
        for name in NAMES:
            for part in SQLITE_PARTS[name]:
                connection.execute(f"explain {part}", dict.fromkeys(re.findall(r":(\w+)", part)))
    finally:
        connection.close()
