"""`handraise shards`: workspaces spread over several PostgreSQL databases."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from handraise.cli.environment import settings_with
from handraise.cli.exit_codes import CommandError
from handraise.cli.terminal_output import show_table
from handraise.cli.terminal_texts import shown
from handraise.desk_factory import without_secrets

_SCHEME = "postgresql+shards"

app = typer.Typer(
    help="Shards: the databases that workspaces are spread over. HANDRAISE_URL is postgresql+shards://…",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command()
def add(
    address: Annotated[
        str, typer.Argument(metavar="ADDRESS", help="A database: postgresql://user@host/database.")
    ],
) -> None:
    """Make a database a shard, with the workspaces that it has. Run it again if its address changes."""
    from handraise.backends.shards import enlist  # noqa: PLC0415 -- asyncpg is an extra

    if not address.startswith(("postgresql://", "postgres://")):
        raise CommandError("A shard is a PostgreSQL database: postgresql://user@host/database.")
    number = asyncio.run(enlist(_placements(), address))
    typer.echo(f"{shown(without_secrets(address))} is shard {number}. New workspaces may go there.")


@app.command("list")
def list_all() -> None:
    """List the shards and how many workspaces are on each."""
    from handraise.backends.shards import list_shards  # noqa: PLC0415 -- asyncpg is an extra

    lines = asyncio.run(list_shards(_placements()))
    if not lines:
        typer.echo("There are no shards yet. Run: handraise shards add postgresql://…")
        return
    show_table(
        ["SHARD", "WORKSPACES", "NEW ONES", "ADDRESS"],
        [
            [
                str(each.number),
                str(each.workspaces),
                "yes" if each.open else "no",
                without_secrets(each.address),
            ]
            for each in lines
        ],
    )


@app.command()
def move(
    workspace: Annotated[str, typer.Argument(metavar="WORKSPACE", help="The workspace to move.")],
    *,
    to: Annotated[int, typer.Option("--to", metavar="N", help="The number of the shard to move it to.")],
) -> None:
    """Move a workspace to another shard while it is in use. Run it again to continue an interrupted move.

    To cancel an unfinished move, move it to the shard that it is still on.
    """
    from handraise.backends.shards import move_workspace  # noqa: PLC0415 -- asyncpg is an extra

    moved = asyncio.run(move_workspace(_placements(), workspace, to=to))
    if moved.source == moved.target:
        typer.echo(f"{shown(workspace)} is on shard {to}.")
        return
    typer.echo(
        f"{shown(workspace)} is on shard {to} now: {moved.rows} rows and {moved.changes} changes were copied, and "
        f"writes waited for {moved.fenced:.2f} seconds."
    )


@app.command("tidy")
def tidy_up() -> None:
    """Delete data that interrupted moves left behind on shards that workspaces have moved away from."""
    from handraise.backends.shards import tidy  # noqa: PLC0415 -- asyncpg is an extra

    number = asyncio.run(tidy(_placements()))
    typer.echo(f"{number} workspaces were cleaned up.")


def _placements() -> str:
    from handraise.backends.shards import placement_address  # noqa: PLC0415 -- asyncpg is an extra

    address = settings_with().url
    if not address.startswith(f"{_SCHEME}:"):
        raise CommandError(
            f"HANDRAISE_URL is not the address of a placement database. Set it to {_SCHEME}://user@host/database."
        )
    return placement_address(address)
