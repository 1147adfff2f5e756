"""`handraise people find`: accounts of people at chat services, by their e-mail addresses."""

from __future__ import annotations

from typing import Annotated

import typer

from handraise.cli.environment import operator, with_context
from handraise.cli.exit_codes import CommandError
from handraise.cli.session import Workspace
from handraise.cli.terminal_output import show_table
from handraise.model.errors import MissingExtra
from handraise.model.visible import visible_line
from handraise.server import ServerContext
from handraise.server.account_search import (
    MatchState,
    SearchResult,
    find_accounts,
    open_find,
    searchable,
    set_account,
)

_STATES = {
    MatchState.FOUND: "found",
    MatchState.NOBODY: "nobody has this address there",
    MatchState.TAKEN: "somebody else here has this account",
}


def find(
    *,
    channel: Annotated[
        str, typer.Option(metavar="CHANNEL", help="Where to look: slack or teams, as the settings have it.")
    ],
    save: Annotated[
        bool, typer.Option("--save", help="Let people be reached at the accounts that were found.")
    ] = False,
    workspace: Workspace = None,
) -> None:
    """Find people in Slack or Teams by their e-mail addresses.

    Looks for everybody who has an e-mail address and cannot be reached there yet. Changes nothing without --save.
    """

    async def work(ctx: ServerContext) -> tuple[SearchResult, int]:
        if channel not in searchable(ctx.settings):
            known = " and ".join(searchable(ctx.settings)) or "none"
            raise CommandError(
                f"People cannot be found on {channel!r} with the settings of this shell, only on: {known}."
            )
        async with open_find(ctx.settings, channel) as finder:
            result = await find_accounts(ctx, ctx.settings.workspace, channel, finder)
        saved = 0
        for each in result.matches if save else ():
            if each.state is MatchState.FOUND and each.account is not None:
                saved += await set_account(ctx, each.person, channel, each.account, by=operator())
        return result, saved

    try:
        result, saved = with_context(work, workspace=workspace)
    except MissingExtra as error:
        raise CommandError(str(error)) from None
    if result.matches:
        show_table(
            ["PERSON", "E-MAIL", "ACCOUNT", "NAME THERE", "RESULT"],
            [
                [
                    visible_line(each.person.id),
                    visible_line(each.person.email or ""),
                    visible_line(each.account.id) if each.account else "",
                    visible_line(each.account.name) if each.account else "",
                    _STATES[each.state],
                ]
                for each in result.matches
            ],
        )
    elif result.problem is None:
        typer.echo("Everybody who has an e-mail address is reached there already.")
    found = sum(each.state is MatchState.FOUND for each in result.matches)
    if save:
        typer.echo(f"Saved {saved} {'address' if saved == 1 else 'addresses'}.")
    elif found:
        typer.echo("Nothing is changed yet. To save these addresses, run it again with --save.")
    if result.problem is not None:
        raise CommandError(f"The search ended early: {visible_line(result.problem)}.")
