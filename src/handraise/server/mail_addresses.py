"""Addresses of the e-mail channel, kept equal to people's e-mail addresses in the directory."""

from __future__ import annotations

from handraise.channels.person_mail import EMAIL, mail_address_of, sync_mail_address
from handraise.desk.everybody import everybody
from handraise.model.identities import Person
from handraise.model.people import OPERATOR
from handraise.server.context import ServerContext


async def sync_email_address(
    ctx: ServerContext, before: Person | None, now: Person | None, *, by: str | None
) -> None:
    """Replace a person's old e-mail address by the new one in the outbox."""
    uses_email = ctx.settings.sends_mail
    await sync_mail_address(ctx.outbox, before, now, uses_email=uses_email, by=by)


async def sync_all_email_addresses(ctx: ServerContext) -> None:
    """At start, add the e-mail addresses of everybody in the server's workspaces, if e-mail is on."""
    if ctx.settings.sends_mail:
        for workspace in {ctx.settings.workspace, ctx.settings.oidc_workspace}:
            await _sync_workspace(ctx, workspace)


async def _sync_workspace(ctx: ServerContext, workspace: str) -> None:
    known = {
        (each.recipient, each.id) for each in await ctx.outbox.addresses(workspace) if each.channel == EMAIL
    }
    async for person in everybody(ctx.directory, workspace):
        address = mail_address_of(person)
        if address is not None and (address.recipient, address.id) not in known:
            await ctx.outbox.put_address(address, by=OPERATOR)
