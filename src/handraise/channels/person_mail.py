"""The address of the e-mail channel that a person has because of their e-mail address in the directory."""

from __future__ import annotations

from handraise.channels.email.server_urls import mail_address
from handraise.model.deliveries import Address
from handraise.model.identities import Person, fold_email
from handraise.ports import Outbox

EMAIL = "email"


def mail_address_of(person: Person | None) -> Address | None:
    """The address of the e-mail channel that belongs to a person's e-mail address."""
    address = mail_address(None if person is None else person.email)
    if person is None or address is None:
        return None
    return Address(
        workspace=person.workspace,
        recipient=person.id,
        channel=EMAIL,
        id=fold_email(address),
        to={"address": address},
    )


async def sync_mail_address(
    outbox: Outbox, before: Person | None, now: Person | None, *, uses_email: bool, by: str | None
) -> None:
    """Replace a person's old e-mail address by the new one in the outbox.

    Without `uses_email` this happens only if the workspace has an address of this channel: a command may not know the
    settings of the servers.
    """
    person = now or before
    old, new = mail_address_of(before), mail_address_of(now)
    if person is None:
        return
    if not uses_email and all(each.channel != EMAIL for each in await outbox.addresses(person.workspace)):
        return
    if old is not None and (new is None or new.id != old.id):
        await outbox.remove_address(old.workspace, old.recipient, EMAIL, old.id, by=by)
    if new is not None:
        await outbox.put_address(new, by=by)
