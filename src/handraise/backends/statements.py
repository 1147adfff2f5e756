"""Loading SQL from the `.sql` files beside a backend: named statements and numbered migrations.

A statement starts with `-- name: its_name`, then a sentence, then SQL with `:named` parameters. Nothing is
ever formatted into it.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from importlib import resources

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]\w*)")


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL statement, in the form with `:named` and in the one with `$1` parameters."""

    name: str
    named: str
    numbered: str
    parameters: tuple[str, ...]

    def arguments(self, **values: object) -> list[object]:
        """The values in the order of the numbered parameters."""
        return [values[name] for name in self.parameters]


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema, forward only."""

    number: int
    name: str
    sql: str


@functools.cache
def load_statements(package: str, file: str = "statements.sql") -> dict[str, Statement]:
    """The named statements in a file of a backend."""
    text = (resources.files(package) / file).read_text()
    _, *parts = _NAME.split(text)
    return {name: _statement(name, sql) for name, sql in zip(parts[::2], parts[1::2], strict=True)}


@functools.cache
def load_migrations(package: str) -> tuple[Migration, ...]:
    """The numbered migrations of a backend, in order."""
    files = sorted((resources.files(package) / "migrations").iterdir(), key=lambda file: file.name)
    return tuple(
        Migration(int(file.name[:4]), file.name.removesuffix(".sql"), file.read_text())
        for file in files
        if file.name.endswith(".sql")
    )


def _statement(name: str, sql: str) -> Statement:
    sql = "\n".join(line for line in sql.splitlines() if not line.lstrip().startswith("--")).strip()
    parameters = tuple(dict.fromkeys(_PARAMETER.findall(sql)))
    numbers = {parameter: f"${place}" for place, parameter in enumerate(parameters, 1)}
    return Statement(name, sql, _PARAMETER.sub(lambda found: numbers[found[1]], sql), parameters)
