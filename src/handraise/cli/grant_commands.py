"""`handraise grants`: approvals that are remembered, and how to end them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from handraise.cli.session import AsPerson, CliSession, Workspace, as_person
from handraise.cli.terminal_output import show_table, when
from handraise.cli.terminal_texts import shown
from handraise.model.grants import Grant
from handraise.presentation.translation import gettext

app = typer.Typer(
    help="Grants: remembered approvals, until they end or are revoked.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_PAGE = 500


@app.command("list")
def list_grants(
    *,
    everything: Annotated[bool, typer.Option("--all", help="Also those that have ended.")] = False,
    name: AsPerson = None,
    workspace: Workspace = None,
) -> None:
    """List the valid grants."""

    async def work(session: CliSession) -> list[Grant]:
        found: list[Grant] = []
        after: str | None = None
        while True:
            page = await session.desk.list_grants(after=after, limit=_PAGE)
            found += page
            if (after := page.next) is None:
                return found

    grants = as_person(work, name=name, workspace=workspace)
    listed = [each for each in grants if everything or _ended(each) is None]
    if not listed:
        typer.echo(gettext("There are no grants: every approval is for one use."))
        return
    show_table(
        [
            gettext("ID"),
            gettext("AGENT"),
            gettext("TOOL"),
            gettext("SCOPE"),
            gettext("GIVEN BY"),
            gettext("UNTIL"),
        ],
        [
            [
                each.id,
                each.asker,
                each.tool,
                _scope(each),
                each.granted_by,
                _ended(each) or when(each.expires_at),
            ]
            for each in listed
        ],
    )


@app.command()
def revoke(
    grant_id: Annotated[str, typer.Argument(metavar="ID", help="The grant's id, as `grants list` shows it.")],
    *,
    name: AsPerson = None,
    workspace: Workspace = None,
) -> None:
    """End a grant now. The next such action needs an approval again."""

    async def work(session: CliSession) -> Grant:
        return await session.desk.revoke_grant(grant_id, by=session.me.id)

    grant = as_person(work, name=name, workspace=workspace)
    text = gettext(
        "{agent} has to ask again before it runs {tool}: the grant of {person} is revoked, since {when}."
    )
    typer.echo(
        text.format(
            agent=shown(grant.asker),
            tool=shown(grant.tool),
            person=shown(grant.granted_by),
            when=when(grant.revoked_at),
        )
    )


def _scope(grant: Grant) -> str:
    if grant.scope == "session":
        return gettext("conversation {name}").format(name=grant.conversation)
    return gettext("always")


def _ended(grant: Grant) -> str | None:
    if grant.revoked_at is not None:
        return gettext("revoked {when}").format(when=when(grant.revoked_at))
    if grant.expires_at <= datetime.now(UTC):
        return gettext("ended {when}").format(when=when(grant.expires_at))
    return None
