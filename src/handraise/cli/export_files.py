"""Writing exported answers: JSON lines, CSV or Parquet, to a file that appears only when it is complete."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol, assert_never

from pydantic_core import to_json

from handraise.cli.exit_codes import CommandError
from handraise.model.errors import MissingExtra
from handraise.wire.answer_records import FIELDS, AnswerRecord, FieldType, csv_head, csv_lines, jsonl_lines

ExportFormat = Literal["jsonl", "csv", "parquet"]

_ROWS_IN_GROUP = 20_000
"""How many rows of a Parquet file are written at once. They are held in memory until then."""


class AnswerWriter(Protocol):
    """Writes records to an open file."""

    def encode(self, records: Sequence[AnswerRecord]) -> Any:
        """Records as they are written. This may run in a thread."""
        ...

    def write(self, part: Any) -> None:
        """Write what `encode` returned."""
        ...

    def finish(self) -> None:
        """Write what is still missing at the end."""
        ...


@contextmanager
def open_output(path: Path | None) -> Iterator[BinaryIO]:
    """The file to write to, which gets its name at the end; stdout without a path.

    If anything fails, there is no such file. A process that is killed may leave a hidden file that ends with `.part`.
    """
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if path.exists():
        raise CommandError(f"{path} exists already, and is left as it is.")
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(number, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).rename(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def open_writer(kind: ExportFormat, file: BinaryIO) -> AnswerWriter:
    """A writer of this format; raises `MissingExtra` if that needs a package that is not installed."""
    match kind:
        case "jsonl":
            return JsonLinesWriter(file)
        case "csv":
            return CsvWriter(file)
        case "parquet":
            return ParquetWriter(file)
        case _:
            assert_never(kind)


class JsonLinesWriter:
    """One line of JSON for each record."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def encode(self, records: Sequence[AnswerRecord]) -> bytes:
        """Records as lines."""
        return jsonl_lines(records)

    def write(self, part: bytes) -> None:
        """Write lines."""
        self._file.write(part)

    def finish(self) -> None:
        """Nothing is missing."""


class CsvWriter(JsonLinesWriter):
    """A head, and one line of CSV for each record."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        file.write(csv_head())

    def encode(self, records: Sequence[AnswerRecord]) -> bytes:
        """Records as lines."""
        return csv_lines(records)


class ParquetWriter:
    """A table with one row for each record. JSON is text in it."""

    def __init__(self, file: BinaryIO) -> None:
        try:
            arrow: Any = import_module("pyarrow")
            parquet: Any = import_module("pyarrow.parquet")
        except ImportError as error:
            raise MissingExtra("pyarrow", "parquet") from error
        self._arrow = arrow
        types: dict[FieldType, Any] = {
            "text": arrow.string(),
            "json": arrow.string(),
            "time": arrow.timestamp("us", tz="UTC"),
            "number": arrow.float64(),
            "integer": arrow.int64(),
            "boolean": arrow.bool_(),
        }
        self._schema = arrow.schema([(name, types[kind]) for name, kind in FIELDS.items()])
        self._writer = parquet.ParquetWriter(file, self._schema, compression="zstd")
        self._held: list[Any] = []

    def encode(self, records: Sequence[AnswerRecord]) -> Any:
        """Records as columns."""
        columns = [
            self._arrow.array(_values(records, name, kind), self._schema.field(name).type)
            for name, kind in FIELDS.items()
        ]
        return self._arrow.RecordBatch.from_arrays(columns, schema=self._schema)

    def write(self, part: Any) -> None:
        """Take rows, and write them if there are enough."""
        self._held.append(part)
        if sum(each.num_rows for each in self._held) >= _ROWS_IN_GROUP:
            self._write_held()

    def finish(self) -> None:
        """Write the rest and the end of the file."""
        self._write_held()
        self._writer.close()

    def _write_held(self) -> None:
        if self._held:
            self._writer.write_table(self._arrow.Table.from_batches(self._held, self._schema))
            self._held = []


def _values(records: Sequence[AnswerRecord], name: str, kind: FieldType) -> list[Any]:
    """A column, as Arrow takes it."""
    values = [record[name] for record in records]
    match kind:
        case "json":
            return [None if each is None else to_json(each).decode() for each in values]
        case "time":
            return [None if each is None else datetime.fromisoformat(each) for each in values]
        case _:
            return values
