"""Who loses what if a person is changed, disabled or removed; and a workspace that has an administrator keeps one.

A disabled administrator administers nothing, so they do not count as one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from handraise.desk.everybody import everybody
from handraise.desk.handover_returns import return_handovers
from handraise.model.errors import PermissionDenied
from handraise.model.identities import Person, Role
from handraise.ports import Directory, Outbox, Store

Check = Callable[[Person | None], None]
_PAGE = 500


class PeoplePorts(Protocol):
    """What keeps everything that is a person's: a `Backend` and a server both have it."""

    @property
    def store(self) -> Store:
        """Grants."""
        ...

    @property
    def directory(self) -> Directory:
        """People, sessions and links."""
        ...

    @property
    def outbox(self) -> Outbox:
        """Addresses."""
        ...


async def put_person_safely(
    directory: Directory,
    workspace: str,
    person_id: str,
    *,
    name: str,
    email: str | None,
    role: Role,
    by: str,
    check: Check | None = None,
) -> tuple[Person | None, Person | None]:
    """Add or change a person as the directory does; return them as they were and as they are.

    Raises `PermissionDenied` if the last administrator would lose the role.
    """
    before = await directory.find_person(workspace, person_id)
    stepping_down = before if before and before.is_admin and role is not Role.ADMIN else None
    if stepping_down:
        await _check_others_administer(directory, stepping_down, by)
    person = await directory.put_person(
        workspace, person_id, name=name, email=email, role=role, by=by, check=check
    )
    if person is not None and stepping_down:
        await _undo_if_nobody_administers(directory, stepping_down, by)
    return before, person


async def disable_person(ports: PeoplePorts, workspace: str, person_id: str, *, by: str) -> Person | None:
    """Disable a person at once, and revoke their grants for good. None if there is no such person.

    What was handed over to them is back in the inbox of who gave it.

    Also the last administrator: what the identity provider says about somebody who has left is never refused.
    """
    person = await ports.directory.disable_person(workspace, person_id, by=by)
    if person is not None:
        await _let_go(ports, person, by)
    return person


async def disable_person_safely(ports: PeoplePorts, person: Person, *, by: str) -> Person | None:
    """The same; raises `PermissionDenied` for the last administrator."""
    await _check_others_administer(ports.directory, person, by)
    disabled = await disable_person(ports, person.workspace, person.id, by=by)
    if person.is_admin and not await _somebody_administers(ports.directory, person.workspace, besides=None):
        # Two administrators may have disabled each other at once.
        await ports.directory.enable_person(person.workspace, person.id, by=by)
        raise _nobody_left(by)
    return disabled


async def remove_person(
    ports: PeoplePorts, workspace: str, person_id: str, *, by: str, check: Check | None = None
) -> bool:
    """Remove a person, with their addresses and grants: a later person with this name is somebody else.

    What was handed over to them is back in the inbox of who gave it.

    Also the last administrator, as `disable_person`.
    """
    person = await ports.directory.find_person(workspace, person_id)
    if check is not None:
        check(person)
    if person is not None:
        # Before they are removed: if this process ends in between, removing them again does the rest.
        await _let_go(ports, person, by)
    removed = await ports.directory.remove_person(workspace, person_id, by=by, check=check)
    for address in await ports.outbox.addresses(workspace, [person_id]):
        await ports.outbox.remove_address(workspace, person_id, address.channel, address.id, by=by)
    await _revoke_grants(ports.store, workspace, person_id, by)  # those that they gave meanwhile
    return removed


async def remove_person_safely(
    ports: PeoplePorts, person: Person, *, by: str, check: Check | None = None
) -> bool:
    """The same; raises `PermissionDenied` for the last administrator."""
    if person.is_admin:
        await _check_others_administer(ports.directory, person, by)
        await _put(ports.directory, replace(person, role=Role.MEMBER), by=by, check=check)
        await _undo_if_nobody_administers(ports.directory, person, by)
        check = None  # it was checked with the change before
    return await remove_person(ports, person.workspace, person.id, by=by, check=check)


async def _check_others_administer(directory: Directory, person: Person, by: str) -> None:
    if person.is_admin and not await _somebody_administers(directory, person.workspace, besides=person.id):
        raise _nobody_left(by)


async def _undo_if_nobody_administers(directory: Directory, before: Person, by: str) -> None:
    """Check again afterwards: two administrators may have removed each other at once."""
    if not await _somebody_administers(directory, before.workspace, besides=None):
        await _put(directory, before, by=by)
        raise _nobody_left(by)


def _nobody_left(by: str) -> PermissionDenied:
    return PermissionDenied(by, "the workspace would have no administrator left")


async def _somebody_administers(directory: Directory, workspace: str, *, besides: str | None) -> bool:
    async for person in everybody(directory, workspace):
        if person.is_admin and person.id != besides:
            return True
    return False


async def _put(directory: Directory, person: Person, *, by: str, check: Check | None = None) -> None:
    await directory.put_person(
        person.workspace,
        person.id,
        name=person.name,
        email=person.email,
        role=person.role,
        by=by,
        check=check,
    )


async def _let_go(ports: PeoplePorts, person: Person, by: str) -> None:
    """What happens whenever somebody leaves, for a while or for good."""
    await _revoke_grants(ports.store, person.workspace, person.id, by)
    await return_handovers(ports.store, ports.directory, person)


async def _revoke_grants(store: Store, workspace: str, person_id: str, by: str) -> None:
    """Revoke what is left of the grants of a person, who must not get them back by coming back."""
    after = None
    while grants := await store.grants(workspace, after=after, limit=_PAGE):
        for grant in grants:
            if grant.granted_by == person_id and grant.revoked_at is None:
                await store.revoke(workspace, grant.id, by=by)
        after = grants[-1].id
