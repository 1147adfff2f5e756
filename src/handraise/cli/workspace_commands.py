"""`handraise export workspace` and `handraise import`: a whole workspace as a file, to move it or to keep it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from handraise.backends.sql.workspace_file import Contents, read_header
from handraise.backends.sql.workspace_transfer import cancel_import, import_workspace, remove_workspace
from handraise.backends.sql.workspace_transfer import export_workspace as write_workspace
from handraise.cli.exit_codes import CommandError
from handraise.cli.export_files import open_output
from handraise.cli.progress_bar import count_bar, share_bar
from handraise.cli.session import Workspace, is_server, store_address, workspace_on_store
from handraise.cli.terminal_texts import shown
from handraise.desk_factory import open_tables, without_secrets


def export_workspace(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The file to write to; stdout if not given.")
    ] = None,
    *,
    remove: Annotated[
        bool,
        typer.Option(
            "--remove",
            help="Write nothing. Remove the workspace from this store, if it still is exactly what FILE has.",
        ),
    ] = False,
    workspace: Workspace = None,
) -> None:
    """Write all of a workspace as JSON lines, for `handraise import`.

    It is the workspace as it is at one instant; others may use it meanwhile. The file appears when it is complete: after an
    interruption, give the command again. Keep it as safe as the store: it has every question and answer.
    """
    url, name = _store(), workspace_on_store(workspace)
    if remove:
        if file is None:
            raise typer.BadParameter("With --remove, name the FILE that has the workspace.")
        found = asyncio.run(_removed(url, name, file))
        typer.echo(_summary(found, f"is removed from {shown(without_secrets(url))}"))
        return

    async def work() -> Contents:
        with open_output(file) as out, share_bar("Exporting") as advance:
            async with open_tables(url, name, may_write=False) as tables:
                return await write_workspace(tables, out.write, advance)

    found = asyncio.run(work())
    typer.echo(_summary(found, f"is in {shown(str(file))}" if file else "was exported"), err=file is None)


def import_file(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A file of `handraise export workspace`; - for stdin.")
    ],
    *,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Give an unfinished import up, and remove what it has stored.")
    ] = False,
) -> None:
    """Import a workspace into a store that does not have it.

    The store is at HANDRAISE_URL; it may be new, and others may use its other workspaces. If the command is interrupted, give it
    again: it continues. Until it is complete, the workspace cannot be used. At the end, what was stored is read again and
    compared with the file. Log in to PostgreSQL as the role that owns the tables.
    """
    url = _store()
    found = asyncio.run(_imported(url, file, cancel=cancel))
    where = shown(without_secrets(url))
    if found is None:
        typer.echo(f"What was imported of this file is removed from {where}.")
    else:
        typer.echo(_summary(found, f"is in {where}, and equal to the file"))


def _store() -> str:
    address = store_address()
    if is_server(address):
        raise CommandError(
            "HANDRAISE_URL is the address of a server, but this command works on a store. Set it to sqlite:///file.db or "
            "postgresql://…."
        )
    return address


async def _imported(url: str, file: Path, *, cancel: bool) -> Contents | None:
    with _opened(file) as (lines, size), count_bar("Importing", size) as advance:
        first = next(lines, b"")
        async with open_tables(url, read_header(first).workspace, may_write=True) as tables:
            if cancel:
                await cancel_import(tables)
                return None
            return await import_workspace(tables, chain([first], lines), advance)


async def _removed(url: str, workspace: str, file: Path) -> Contents:
    with _opened(file) as (lines, _):
        async with open_tables(url, workspace, may_write=True) as tables:
            return await remove_workspace(tables, lines)


@contextmanager
def _opened(file: Path) -> Iterator[tuple[Iterator[bytes], int]]:
    """The lines of a file, and its size."""
    if str(file) == "-":
        yield iter(sys.stdin.buffer), 0
        return
    if not file.is_file():
        raise CommandError(f"There is no file {file}.")
    with file.open("rb") as lines:
        yield iter(lines), file.stat().st_size


def _summary(found: Contents, where: str) -> str:
    head = (
        "Nothing of its audit trail is sealed."
        if found.head is None
        else f"Head of its audit trail: {found.head}"
    )
    return (
        f"The workspace {shown(found.workspace)} {where}: {found.rows['questions']:,} questions, {found.rows['events']:,} "
        f"events, {found.rows.total():,} rows. {head}"
    )
