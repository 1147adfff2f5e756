"""What differs between PostgreSQL and SQLite in the statements that both share.

Such a statement is written as PostgreSQL understands it. For SQLite, `handraise.` before a table and casts such as
`::timestamptz` are left out. Everything else that differs is a macro, written `${name}` or `${name(argument, …)}`.
Macros are expanded when a file is loaded; nothing that a caller passes is ever in them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Dialect(StrEnum):
    """An engine, by the SQL that it understands."""

    POSTGRES = "postgres"
    SQLITE = "sqlite"


@dataclass(frozen=True, slots=True)
class Macro:
    """What stands for a macro in each dialect.

    `{0}` is its first argument. `{rest}` are all others, columns with their types: `{names}` are their names, `{members}`
    takes the values of these names from JSON, and `{arrays}` are parameters of these names that have arrays.
    """

    means: str
    postgres: str
    sqlite: str


MACROS = {
    "now": Macro(
        "The present instant. `:now` is null in production on PostgreSQL: the clock of the database is used.",
        "coalesce(:now::timestamptz, now())",
        ":now",
    ),
    "in": Macro(
        "Whether the value before it is in a list.",
        "= any ({0})",
        "in (select value from json_each({0}))",
    ),
    "items": Macro(
        "A table of the items of a list: `value`, and `key`, which counts from 0.",
        "(select value, key - 1 as key from unnest({0}) with ordinality as item (value, key))",
        "json_each({0})",
    ),
    "rows": Macro(
        "A table of the rows for which a statement is run, with these columns, each a name and its type.",
        "unnest({arrays}) as {0} ({names})",
        "(select {members} from json_each(:rows)) as {0}",
    ),
    "records": Macro(
        "A table of the objects in a JSON list, with these columns, each a name and its type.",
        "(select * from json_to_recordset({0}::text::json) as record ({rest}))",
        "(select {members} from json_each({0}))",
    ),
    "lock": Macro(
        "A lock on the rows that are read. SQLite needs none: whoever writes has locked the whole database.",
        "{0}",
        "",
    ),
    "locked": Macro(
        "The rows of a table with the workspaces and ids of `t`, locked in that order: PostgreSQL does not make a sub-select "
        "that locks a part of a join, so no plan changes the order.",
        "cross join lateral (select _.* from handraise.{1} as _ where _.workspace = t.workspace and _.id = t.id for {2}) as {0}",
        "join {1} as {0} on {0}.workspace = t.workspace and {0}.id = t.id",
    ),
    "clock": Macro(
        "The instant of this statement, and not that at which the transaction began.",
        "coalesce(:now::timestamptz, clock_timestamp())",
        ":now",
    ),
    "next_events": Macro(
        "Events after a place, in their order. PostgreSQL returns only those older than every transaction still running: such "
        "a transaction may store an event before a later one.",
        "({0}.transaction, {0}.number) > (:transaction::bigint::text::xid8, :number::bigint) "
        "and {0}.transaction < (select handraise.feed_edge()) order by {0}.transaction, {0}.number",
        '({0}."transaction", {0}.place) > (:transaction, :number) order by {0}."transaction", {0}.place',
    ),
    "groups_of": Macro(
        "The names of the groups of a person, who is a row of `people`, as a JSON list.",
        "handraise.groups_of({0}.workspace, {0}.id)",
        "(select json_group_array(m.group_name) from members as m where m.workspace = {0}.workspace and m.person = {0}.id)",
    ),
}
"""All macros, by their names. There are few, so that a statement can be read without this table."""

_MACRO = re.compile(r"\$\{(\w+)(?:\(([^{}]*)\))?\}")
_SCHEMA = re.compile(r"\bhandraise\.")
_CAST = re.compile(r"::\w+(?:\[\])?")


def expand(sql: str, dialect: Dialect) -> str:
    """A shared statement as one engine understands it; `KeyError` if a macro is not in the table."""

    def expanded(found: re.Match[str]) -> str:
        macro = MACROS[found[1]]
        first, *rest = (argument.strip() for argument in (found[2] or "").split(","))
        columns = [column.partition(" ")[::2] for column in rest]
        template = macro.postgres if dialect is Dialect.POSTGRES else macro.sqlite
        return template.format(
            first,
            *rest,
            rest=", ".join(rest),
            names=", ".join(name for name, _ in columns),
            members=", ".join(f"value ->> '{name}' as {name}" for name, _ in columns),
            arrays=", ".join(f":{name}::{kind}[]" for name, kind in columns),
        )

    written = _MACRO.sub(expanded, sql)
    return written if dialect is Dialect.POSTGRES else _CAST.sub("", _SCHEMA.sub("", written))
