"""People's own e-mail addresses: where e-mail is on, whoever has one in the directory is reached there."""

from __future__ import annotations

from handraise.channels.email.server_urls import mail_address
from handraise.model.deliveries import Address
from handraise.model.identities import Person, fold_email
from handraise.model.people import OPERATOR
from handraise.server.context import ServerContext

_CHANNEL = "email"
_PAGE = 500


async def follow_email(
    ctx: ServerContext, before: Person | None, now: Person | None, *, by: str | None
) -> None:
    """Reach a person at the e-mail address that they have now, and not at the one that they had."""
    person = now or before
    if person is None or not await _is_on(ctx, person.workspace):
        return
    old, new = _address_of(before), _address_of(now)
    if old is not None and (new is None or new.id != old.id):
        await ctx.outbox.remove_address(old.workspace, old.recipient, _CHANNEL, old.id, by=by)
    if new is not None:
        await ctx.outbox.put_address(new, by=by)


async def follow_everybody(ctx: ServerContext) -> None:
    """At the start, reach everybody of the server's own workspaces: also who was here before there was e-mail."""
    if ctx.settings.email_smtp_url is not None:
        for workspace in {ctx.settings.workspace, ctx.settings.oidc_workspace}:
            await _follow_all(ctx, workspace)


async def _follow_all(ctx: ServerContext, workspace: str) -> None:
    known = {
        (each.recipient, each.id)
        for each in await ctx.outbox.addresses(workspace)
        if each.channel == _CHANNEL
    }
    after = None
    while people := await ctx.directory.people(workspace, after=after, limit=_PAGE):
        for address in filter(None, map(_address_of, people)):
            if (address.recipient, address.id) not in known:
                await ctx.outbox.put_address(address, by=OPERATOR)
        after = people[-1].id


async def _is_on(ctx: ServerContext, workspace: str) -> bool:
    """Whether the workspace has e-mail. A command beside the server may not know its settings."""
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
