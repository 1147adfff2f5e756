"""Make many questions of a few, by SQL in a SQLite file: each is a real one with another id, with its inbox and its events."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

_NAMED = {"questions": ("id", "key"), "inbox": ("question_id",), "events": ("question_id",)}


def multiply_questions(file: Path, count: int) -> int:
    """Repeat the questions of a file until there are about so many; return how many there are."""
    with closing(sqlite3.connect(file)) as database, database:
        there: int
        (there,) = database.execute("select count(*) from questions").fetchone()
        times = max(0, round(count / there) - 1)
        for table, named in _NAMED.items():
            listed = database.execute("select name from pragma_table_info(?)", [table])
            columns = [name for (name,) in listed if (table, name) != ("events", "number")]
            values = [
                f"printf('%07d-', n) || \"{name}\"" if name in named else f'"{name}"' for name in columns
            ]
            names = ", ".join(f'"{name}"' for name in columns)
            made = (
                "with recursive copies (n) as (select 1 union all select n + 1 from copies where n < :times)"
            )
            database.execute(
                f"{made} insert into {table} ({names}) select {', '.join(values)} from copies, {table} "  # noqa: S608 -- names of the catalogue
                f"where :times > 0 and {named[0]} <> ''",
                {"times": times},
            )
        return there * (times + 1)
