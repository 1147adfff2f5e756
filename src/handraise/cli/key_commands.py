"""`handraise keys`: with a key, an agent can ask."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from handraise.cli.environment import operator, with_context
from handraise.cli.exit_codes import CommandError
from handraise.cli.session import Workspace
from handraise.cli.terminal_output import show_table, when
from handraise.model.identities import AgentKey
from handraise.model.json_values import text_problem
from handraise.model.visible import visible_line
from handraise.server import ServerContext
from handraise.server.auth.issuer import issue_admin_token, issue_key, issue_reader_key, issue_scim_key

app = typer.Typer(
    help="Keys of agents. With a key, an agent can ask; it cannot answer.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_PAGE = 500
_LONGEST = 200


@app.command()
def create(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The agent's name: the asker of its questions.")
    ],
    *,
    read_only: Annotated[
        bool,
        typer.Option(
            "--read-only",
            help="Make a key for a program that only reads settled questions, not for an agent.",
        ),
    ] = False,
    scim: Annotated[
        bool,
        typer.Option(
            "--scim",
            help="Make a key for your identity provider, which adds, disables and removes people with it.",
        ),
    ] = False,
    admin: Annotated[
        bool,
        typer.Option(
            "--admin",
            help="Make a token for a program that administers the workspace, such as one that applies a file. "
            "It cannot ask or answer.",
        ),
    ] = False,
    workspace: Workspace = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON and nothing else.")] = False,
) -> None:
    """Make a key for an agent, or another program. It is shown only once."""
    if read_only + scim + admin > 1:
        raise CommandError("Give one of --read-only, --scim and --admin.")
    issue = (
        issue_reader_key
        if read_only
        else issue_scim_key
        if scim
        else issue_admin_token
        if admin
        else issue_key
    )
    if not 1 <= len(name) <= _LONGEST or not name.isprintable():
        raise CommandError(
            f"No agent can be called {name!r}: up to {_LONGEST} printable characters are possible."
        )

    async def work(ctx: ServerContext) -> dict[str, str]:
        where = ctx.settings.workspace
        try:
            made = await issue(ctx, where, name, by=operator())
        except ValueError as error:
            raise CommandError(f"No key can be made for {name!r}: {error}.") from error
        return {"key": made.key, "id": made.id, "agent": made.agent, "workspace": where}

    key = with_context(work, workspace=workspace)
    if as_json:
        typer.echo(json.dumps(key))
        return
    typer.echo(f"A new key for {visible_line(key['agent'])}. It is shown only once:\n")
    typer.secho(key["key"], bold=True)
    typer.echo(f"\n{_use_of(read_only=read_only, scim=scim, admin=admin)}")
    typer.echo(f"To revoke it: handraise keys revoke {key['id']}")


@app.command("list")
def list_keys(*, workspace: Workspace = None) -> None:
    """List all keys, also revoked ones. The secrets themselves are not stored."""

    async def work(ctx: ServerContext) -> list[AgentKey]:
        found: list[AgentKey] = []
        while page := await ctx.directory.keys(
            ctx.settings.workspace, after=found[-1].id if found else None, limit=_PAGE
        ):
            found += page
        return found

    keys = with_context(work, workspace=workspace)
    if not keys:
        typer.echo("There are no keys yet. Make one: handraise keys create NAME")
        return
    show_table(
        ["ID", "AGENT", "CREATED", "MADE BY", "LAST USED"],
        [[key.id, key.agent, when(key.created_at), key.created_by, _state(key)] for key in keys],
    )


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The key's id, as `keys list` shows it.")],
    *,
    workspace: Workspace = None,
) -> None:
    """Revoke a key now. Its agent's questions stay as they are."""

    async def work(ctx: ServerContext) -> AgentKey | None:
        if text_problem(key_id):
            return None
        return await ctx.directory.revoke_key(ctx.settings.workspace, key_id, by=operator())

    key = with_context(work, workspace=workspace)
    if key is None:
        raise CommandError(f"There is no key {key_id!r} here. Look at: handraise keys list")
    typer.echo(f"The key of {visible_line(key.agent)} is revoked, since {when(key.revoked_at)}.")


def _use_of(*, read_only: bool, scim: bool, admin: bool) -> str:
    """What to do with a new key."""
    if scim:
        return "Give it to your identity provider as the secret token, with your server's address and /scim/v2 behind it."
    if admin:
        return (
            "Whoever has it decides who may answer here. Set it as HANDRAISE_KEY, and the server's address as "
            "HANDRAISE_URL, and run: handraise apply office.yaml"
        )
    if read_only:
        return "Set it as HANDRAISE_KEY to read: handraise export answers, or handraise list --settled --json"
    return "Give it to the agent as HANDRAISE_KEY, and the server's address as HANDRAISE_URL."


def _state(key: AgentKey) -> str:
    return when(key.last_used_at) if key.revoked_at is None else f"revoked {when(key.revoked_at)}"
