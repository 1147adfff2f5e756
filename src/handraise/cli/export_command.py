"""`handraise export answers`: the settled questions of a workspace and their answers, as data."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias

import typer
from pydantic_core import from_json

from handraise.cli.exit_codes import CommandError
from handraise.cli.export_files import AnswerWriter, ExportFormat, open_output, open_writer
from handraise.cli.progress_bar import progress_bar
from handraise.cli.question_commands import instant_of
from handraise.cli.session import Workspace, is_server, session_at, store_address, workspace_on_store
from handraise.cli.terminal_texts import shown
from handraise.cli.workspace_commands import export_workspace
from handraise.client.http_transport import HttpTransport
from handraise.desk.answer_pages import answer_pages
from handraise.desk_factory import open_backend
from handraise.model.settled_rows import SettledRow
from handraise.wire.answer_records import AnswerRecord, answer_record
from handraise.wire.credentials import read_token

app = typer.Typer(
    help="Export answers as data, or a whole workspace as a file.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class _Format(StrEnum):
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


class _Part(NamedTuple):
    """Records as they are written, how many they are, and when the last of them ended."""

    encoded: Any
    number: int
    until: datetime


_Parts: TypeAlias = AsyncGenerator[_Part, None]


@app.command()
def answers(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The file to write to; stdout if not given.")
    ] = None,
    *,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="Only questions settled since then: a date, a date and time, or a span such as 7d.",
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Only questions settled before then; like --since.")
    ] = None,
    kind: Annotated[
        _Format | None,
        typer.Option("--format", help="The format. Default: as the name of the file ends, else jsonl."),
    ] = None,
    workspace: Workspace = None,
) -> None:
    """Write all settled questions with their answers as data, oldest first.

    Works on a store, and at a server with the session of an administrator or a key that only reads: see
    `handraise keys create --read-only`. The file appears when it is complete. In CSV, an apostrophe is put before
    everything that a spreadsheet could run as a formula: use the other formats for programs.
    """
    chosen = _format(file, kind)
    begin = None if since is None else instant_of(since)
    end = None if until is None else instant_of(until)

    async def work() -> int:
        number = 0
        with open_output(file) as out, progress_bar("Exporting", begin, end or datetime.now(UTC)) as advance:
            writer = open_writer(chosen, out)
            async with _source(writer, workspace, begin, end) as parts:
                async for part in parts:
                    writer.write(part.encoded)
                    number += part.number
                    advance(part.until)
            writer.finish()
        return number

    number = asyncio.run(work())
    if file:
        what = "1 settled question is" if number == 1 else f"{number:,} settled questions are"
        typer.echo(f"{what} in {shown(str(file))}.")


app.command("workspace")(export_workspace)


def _format(file: Path | None, kind: _Format | None) -> ExportFormat:
    named = "" if file is None else file.suffix.removeprefix(".").lower()
    if named and kind is None and named not in set(_Format):
        raise typer.BadParameter(
            f"There is no export as .{named}: end the name of FILE with .jsonl, .csv or .parquet, or give --format."
        )
    chosen = kind or (_Format(named) if named in set(_Format) else _Format.JSONL)
    if chosen is _Format.PARQUET and file is None and sys.stdout.isatty():
        raise typer.BadParameter("Parquet is not for a terminal: name a FILE.")
    return chosen.value


@asynccontextmanager
async def _source(
    writer: AnswerWriter, workspace: str | None, since: datetime | None, until: datetime | None
) -> AsyncIterator[_Parts]:
    """All parts of an export: from the server at HANDRAISE_URL, or from the store there."""
    address = store_address()
    if is_server(address):
        token = os.environ.get("HANDRAISE_KEY") or session_at(address)
        known = read_token(token)
        if known is None or workspace not in (None, known.workspace):
            raise CommandError("HANDRAISE_KEY is not the key of a reader of this workspace.")
        transport = HttpTransport([each.strip() for each in address.split(",")])
        try:
            async with aclosing(_from_server(transport, token, writer, since, until)) as parts:
                yield parts
        finally:
            await transport.close()
        return
    if address == "memory:":
        raise CommandError("HANDRAISE_URL is memory:, which keeps nothing after this command. Name a file.")

    def convert(rows: Sequence[SettledRow]) -> _Part:
        return _Part(writer.encode([answer_record(row) for row in rows]), len(rows), rows[-1].settled_at)

    async with open_backend(address) as backend:
        pages = answer_pages(backend.store, workspace_on_store(workspace), convert, since=since, until=until)
        async with aclosing(pages):
            yield pages


async def _from_server(
    transport: HttpTransport,
    token: str,
    writer: AnswerWriter,
    since: datetime | None,
    until: datetime | None,
) -> _Parts:
    given = {"since": since, "until": until}
    query = {name: at.isoformat() for name, at in given.items() if at is not None}
    async with aclosing(transport.lines("/v1/answers", token=token, query=query)) as pages:
        async for lines in pages:
            records: list[AnswerRecord] = [from_json(line) for line in lines]
            last = datetime.fromisoformat(records[-1]["settled_at"])
            yield _Part(writer.encode(records), len(records), last)
