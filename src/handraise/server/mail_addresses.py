"""Addresses of the e-mail channel, kept equal to people's e-mail addresses in the directory."""

from __future__ import annotations

from handraise.channels.email.server_urls import mail_address
from handraise.desk.everybody import everybody
from handraise.model.deliveries import Address
from handraise.model.identities import Person, fold_email
from handraise.model.people import OPERATOR
from handraise.server.context import ServerContext

_CHANNEL = "email"


async def sync_email_address(
    ctx: ServerContext, before: Person | None, now: Person | None, *, by: str | None
) -> None:
    """Replace a person's old e-mail address by the new one in the outbox."""
    person = now or before
    if person is None or not await _has_email(ctx, person.workspace):
        return
    old, new = _address_of(before), _address_of(now)
    if old is not None and (new is None or new.id != old.id):
        await ctx.outbox.remove_address(old.workspace, old.recipient, _CHANNEL, old.id, by=by)
    if new is not None:
        await ctx.outbox.put_address(new, by=by)


async def sync_all_email_addresses(ctx: ServerContext) -> None:
    """At start, add the e-mail addresses of everybody in the server's workspaces, if e-mail is on."""
    if ctx.settings.email_smtp_url is not None:
        for workspace in {ctx.settings.workspace, ctx.settings.oidc_workspace}:
            await _sync_workspace(ctx, workspace)


async def _sync_workspace(ctx: ServerContext, workspace: str) -> None:
    known = {
        (each.recipient, each.id)
        for each in await ctx.outbox.addresses(workspace)
        if each.channel == _CHANNEL
    }
    async for person in everybody(ctx.directory, workspace):
        address = _address_of(person)
        if address is not None and (address.recipient, address.id) not in known:
            await ctx.outbox.put_address(address, by=OPERATOR)


async def _has_email(ctx: ServerContext, workspace: str) -> bool:
    """Whether the workspace uses e-mail. A command may not know the server's settings, so addresses count too."""
    if ctx.settings.email_smtp_url is not None:
        return True
    return any(each.channel == _CHANNEL for each in await ctx.outbox.addresses(workspace))


def _address_of(person: Person | None) -> Address | None:
    address = mail_address(None if person is None else person.email)
    if person is None or address is None:
        return None
    return Address(
        workspace=person.workspace,
        recipient=person.id,
        channel=_CHANNEL,
        id=fold_email(address),
        to={"address": address},
    )
