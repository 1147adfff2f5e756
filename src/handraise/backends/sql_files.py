"""Loading SQL from the `.sql` files next to a backend: named statements and numbered migrations.

A statement starts with `-- name: its_name`, then a sentence, then SQL with `:named` parameters. Nothing is
ever formatted into it. It may have several parts, each but the last with `;` at the end of a line: they run one after
the other in one transaction. After the name there may be a note on how to run it: `(may take long)` if nobody waits for
it, `(as keeper)` if it needs a special role, `(writes)` if only a function that it calls writes, `(only PostgreSQL)` if
the others have nothing to do, for example a lock, or several with commas. The statements in `sql/statements` are for
all engines; `sql/dialects.py` says how they are written. A migration starts with `-- oldest release: X.Y.Z`, the
oldest release that works on the schema it makes. The store keeps that, so such a release still starts after the
migration.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources

from handraise._version import __version__
from handraise.backends.sql.dialects import Dialect, expand
from handraise.model.errors import SchemaMismatch

_NAME = re.compile(r"^-- name: (\w+)(?: \((.*)\))?$", re.MULTILINE)
_OLDEST_RELEASE = re.compile(r"\A-- oldest release: (\d+\.\d+\.\d+)$", re.MULTILINE)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]\w*)")
_WRITES = re.compile(r"\b(?:insert into|update|delete from|merge into)\b", re.IGNORECASE)
_SHARED = "handraise.backends.sql"
PORT_FILES = ("questions.sql", "directory.sql", "outbox.sql", "ledger.sql", "policies.sql", "files.sql")


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL statement, in two forms: with `:named` parameters and with `$1` parameters."""

    name: str
    named: str
    numbered: str
    parameters: tuple[str, ...]
    may_take_long: bool = False
    as_keeper: bool = False
    writes: bool = True

    def arguments(self, **values: object) -> list[object]:
        """The values in the order of the numbered parameters."""
        return [values[name] for name in self.parameters]


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema, forward only."""

    number: int
    name: str
    sql: str
    oldest_release: str = __version__

    @property
    def digest(self) -> str:
        """What tells two migrations of one number apart; comments do not count."""
        lines = (line.strip() for line in self.sql.splitlines())
        said = "\n".join(line for line in lines if line and not line.startswith("--"))
        return hashlib.sha256(said.encode()).hexdigest()


@functools.cache
def load_statements(
    package: str, file: str = "statements.sql", dialect: Dialect | None = None
) -> dict[str, Statement]:
    """The named statements in a file, which is shared by all engines if it needs a dialect."""
    text = (resources.files(package) / file).read_text()
    _, *parts = _NAME.split(text)
    return {
        name: _statement(name, sql, frozenset((how or "").split(", ")), dialect)
        for name, how, sql in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    }


@functools.cache
def load_port_statements(
    package: str, dialect: Dialect, files: tuple[str, ...] = PORT_FILES
) -> dict[str, Statement]:
    """The statements of the ports that are written once for all engines: the shared ones, and an engine's own."""
    own = [(package, file, None) for file in files]
    shared = [(_SHARED, f"statements/{file}", dialect) for file in files]
    return {
        name: statement
        for home, file, spoken in (*own, *shared)
        if (resources.files(home) / file).is_file()
        for name, statement in load_statements(home, file, spoken).items()
    }


def without_doubles(*files: Mapping[str, Statement]) -> dict[str, Statement]:
    """The statements of several files; `ValueError` if a name stands twice, for one would run instead of the other."""
    statements: dict[str, Statement] = {}
    for file in files:
        if doubles := statements.keys() & file.keys():
            raise ValueError(f"these names stand twice: {', '.join(sorted(doubles))}")
        statements.update(file)
    return statements


def parts_of(statement: Statement) -> dict[str, Statement]:
    """The parts of a statement, which run one after the other; none if an engine has nothing to do.

    Those after the first have the name of the statement and their number, such as `use_link_2`.
    """
    parts = [part for part in statement.named.split(";\n") if part.strip()]
    names = [statement.name, *(f"{statement.name}_{number}" for number in range(2, len(parts) + 1))]
    return {name: _numbered(replace(statement, named=part)) for name, part in zip(names, parts, strict=False)}


@functools.cache
def load_migrations(package: str) -> tuple[Migration, ...]:
    """The numbered migrations of a backend, in order."""
    files = sorted((resources.files(package) / "migrations").iterdir(), key=lambda file: file.name)
    return tuple(
        _migration(file.name.removesuffix(".sql"), file.read_text())
        for file in files
        if file.name.endswith(".sql")
    )


@functools.cache
def joined(*statements: Statement) -> Statement:
    """Several statements that write and return nothing as one, which takes one round trip to PostgreSQL.

    They see one snapshot, so none may depend on what another one writes. Each parameter except `now` has the name of its
    statement in front.
    """
    *others, last = map(_own_parameters, statements)
    parts = ",\n".join(f"_{place} as (\n{sql}\n)" for place, sql in enumerate(others))
    name = "_and_".join(each.name for each in statements)
    return _statement(name, f"with {parts}\n{last}" if others else last, frozenset(), None)


def _own_parameters(statement: Statement) -> str:
    """The SQL of a statement, with its name in front of all parameters except `now`."""

    def renamed(found: re.Match[str]) -> str:
        return found[0] if found[1] == "now" else f":{statement.name}__{found[1]}"

    return _PARAMETER.sub(renamed, statement.named.removesuffix(";"))


def check_newer_schema(applied: int, known: int, stated: Mapping[int, str | None]) -> None:
    """Raise SchemaMismatch unless this release works on a schema of a later one.

    `stated` has, for each migration after `known`, the oldest release that it named when it was applied.
    """
    oldest = {stated.get(applied), *stated.values()}
    unreadable = {release for release in oldest if release is None or _order(release) > _order(__version__)}
    if not unreadable:
        return
    which = (
        "a newer release" if None in unreadable else f"release {max(filter(None, unreadable), key=_order)}"
    )
    raise SchemaMismatch(
        f"The store has schema {applied}, which needs {which} of Handraise; this is {__version__}, which knows "
        f"schema {known}. Upgrade Handraise on this machine, or restore the backup from before the migration."
    )


def check_same_schema(known: Sequence[Migration], applied: Mapping[int, str | None]) -> None:
    """Raise SchemaMismatch if another build made the store. `applied` has the digests of the applied migrations."""
    for migration in known:
        if migration.number in applied and applied[migration.number] != migration.digest:
            raise SchemaMismatch(
                f"Another build of Handraise made this store: its schema {migration.number} differs from that of this "
                f"{__version__}. Start the build that made it, or name a new store in HANDRAISE_URL."
            )


def _migration(name: str, sql: str) -> Migration:
    stated = _OLDEST_RELEASE.match(sql)
    return Migration(int(name[:4]), name, sql, stated[1] if stated else __version__)


def _order(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", release)[:3])


def _statement(name: str, sql: str, how: frozenset[str], dialect: Dialect | None) -> Statement:
    sql = "\n".join(line for line in sql.splitlines() if not line.lstrip().startswith("--")).strip()
    if dialect is not None:
        sql = expand(sql, dialect)
    if dialect is Dialect.SQLITE and "only PostgreSQL" in how:
        sql = ""
    return _numbered(
        Statement(
            name,
            sql,
            numbered="",
            parameters=(),
            may_take_long="may take long" in how,
            as_keeper="as keeper" in how,
            writes="writes" in how or bool(_WRITES.search(sql)),
        )
    )


def _numbered(statement: Statement) -> Statement:
    """A statement with the numbers of its parameters."""
    parameters = tuple(dict.fromkeys(_PARAMETER.findall(statement.named)))
    numbers = {parameter: f"${place}" for place, parameter in enumerate(parameters, 1)}
    numbered = _PARAMETER.sub(lambda found: numbers[found[1]], statement.named)
    return replace(statement, numbered=numbered, parameters=parameters)
