"""A workspace as a file of JSON lines, which any SQL engine writes and reads.

The first line is a header, then comes a line for each row, with its table and without the columns that are null, and the last
line says how many rows there are, with a digest of each table. A value is what SQLite keeps: instants and spans are whole
microseconds, what is true is 1, and JSON is its text, which is sealed as it was written. Bytes are in base64.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from pydantic_core import from_json, to_json

from handraise.backends.sql.feed_places import Place
from handraise.backends.sql.rows import stored_seal
from handraise.model.errors import UnsafeStore
from handraise.model.json_values import canonical_json
from handraise.model.seals import HeadMark

Portable: TypeAlias = str | int | float | bytes | None
Record: TypeAlias = Mapping[str, Portable]

FORMAT = "handraise workspace"
VERSION = 1

MAX_ROWS = 2_000
MAX_BYTES = 4_000_000
"""How much is stored at once at most."""
_DIGEST = 32


class Table(NamedTuple):
    """A table with a workspace, as the catalogue of an engine describes it: the type of each other column."""

    name: str
    types: Mapping[str, str]


class Line(NamedTuple):
    """A line of a file after the first: its number, and a row of a table, or if there is no table the end."""

    number: int
    table: str
    row: Mapping[str, Any]


@dataclass
class Contents:
    """What a workspace holds: the number of rows of each table, their digests, and the head of the audit trail."""

    workspace: str
    rows: Counter[str] = field(default_factory=Counter)
    transaction: int = 0
    """The last one of its events."""
    _sums: Counter[str] = field(default_factory=Counter)
    _last_seal: Record | None = None

    def add(self, table: str, rows: Iterable[Record]) -> None:
        """Count these rows. They may come in any order."""
        for row in rows:
            values = [(name, _comparable(row[name])) for name in sorted(row) if row[name] is not None]
            digest = hashlib.sha256(repr(values).encode("utf-8", "surrogatepass")).digest()
            self._sums[table] = (self._sums[table] + int.from_bytes(digest)) % (1 << 8 * _DIGEST)
            self.rows[table] += 1
            if table == "events":
                self.transaction = max(self.transaction, int(str(row["transaction"])))
            elif table == "seals":
                self._last_seal = max(self._last_seal or row, row, key=lambda seal: int(str(seal["number"])))

    @property
    def head(self) -> HeadMark | None:
        """The head of the audit trail."""
        if self._last_seal is None:
            return None
        row = {"key_id": None, "signature": None, **self._last_seal, "workspace": self.workspace}
        place = Place(int(str(row["last_transaction"])), int(str(row["last_number"])))
        seal = stored_seal({**row, "cursor": str(place)})
        return HeadMark(seal.number, seal.digest)

    def differences(self, other: Contents) -> list[str]:
        """The tables that are not the same in both."""
        names = self.rows.keys() | other.rows.keys()
        return sorted(name for name in names if self._sums[name] != other._sums[name])

    def record(self) -> dict[str, Any]:
        """The last line of a file: two workspaces are equal if theirs are."""
        return {
            "end": FORMAT,
            "workspace": self.workspace,
            "rows": {name: self.rows[name] for name in sorted(self.rows)},
            "digests": {name: self._sums[name].to_bytes(_DIGEST).hex() for name in sorted(self.rows)},
            "audit_head": None if self.head is None else str(self.head),
        }


def _comparable(value: Portable) -> Portable:
    """A value as it is digested: JSON in its canonical form, because PostgreSQL writes it in its own way."""
    return _canonical(value) if isinstance(value, str) and value[:1] in ("{", "[") else value


@lru_cache(10_000)
def _canonical(text: str) -> str:
    try:
        return canonical_json(json.loads(text))
    except (ValueError, RecursionError):
        return text  # the words of somebody that only begin like JSON


def header_line(workspace: str, schema: int) -> bytes:
    """The first line of a new file."""
    at = datetime.now(UTC).isoformat()
    return _line(
        {"format": FORMAT, "version": VERSION, "schema": schema, "workspace": workspace, "exported_at": at}
    )


def row_lines(table: str, rows: Iterable[Record]) -> bytes:
    """The lines of rows."""
    return b"".join(
        _line({"table": table, "row": {name: _plain(row[name]) for name in row if row[name] is not None}})
        for row in rows
    )


def end_line(contents: Contents) -> bytes:
    """The last line of a file."""
    return _line(contents.record())


def _line(record: Mapping[str, Any]) -> bytes:
    return to_json(record) + b"\n"


def _plain(value: Portable) -> str | int | float | None:
    return b64encode(value).decode() if isinstance(value, bytes) else value


class Header(NamedTuple):
    """What the first line of a file says."""

    workspace: str
    schema: int


def read_header(line: bytes) -> Header:
    """The first line of a file; `UnsafeStore` if this release cannot import it."""
    try:
        header = from_json(line)
        if (header["format"], header["version"]) == (FORMAT, VERSION):
            return Header(str(header["workspace"]), int(header["schema"]))
    except (ValueError, KeyError, TypeError):
        pass
    raise UnsafeStore("This file is not one that `handraise export workspace` of this release has written.")


def read_lines(lines: Iterable[bytes], tables: Mapping[str, Table]) -> Iterator[tuple[Line, int]]:
    """Each line, and its length."""
    for number, line in enumerate(lines, 2):
        try:
            record = from_json(line)
            if "end" in record:
                yield Line(number, "", record), len(line)
                continue
            table, row = tables[record["table"]], record["row"]
            read = {name: _stored(row[name], table.types[name]) for name in row}
        except (ValueError, KeyError, TypeError) as error:
            raise UnsafeStore(f"Line {number} of the file cannot be imported here: {error!r}") from None
        yield Line(number, table.name, read), len(line)


def _stored(value: Any, kind: str) -> Portable:
    return b64decode(value, validate=True) if kind in ("bytea", "blob") else value


def batches(lines: Iterable[tuple[Line, int]], advance: Callable[[int], object]) -> Iterator[list[Line]]:
    """Lines in batches of a bounded size, which `advance` gets when a batch is done."""
    batch, size = list[Line](), 0
    for line, length in lines:
        batch.append(line)
        size += length
        if len(batch) == MAX_ROWS or size >= MAX_BYTES:
            yield batch
            advance(size)
            batch, size = [], 0
    if batch:
        yield batch
        advance(size)
