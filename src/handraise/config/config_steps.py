"""The steps of a plan. Each replaces only what the plan was made for, and raises `PreconditionFailed` for anything else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from handraise.channels.person_mail import sync_mail_address
from handraise.config.config_state import Facts, facts_of
from handraise.config.config_target import ConfigTarget
from handraise.desk.people_rights import disable_person_safely, put_person_safely, remove_person_safely
from handraise.desk.policy_admin import put_policy
from handraise.model.deliveries import Address
from handraise.model.errors import PreconditionFailed
from handraise.model.identities import Person
from handraise.model.json_values import Json
from handraise.model.seals import Rule
from handraise.model.working_hours import WorkingHours
from handraise.model.workspace_quotas import WorkspaceQuotas

T = TypeVar("T")


def _unchanged(expected: T) -> Callable[[T], None]:
    """A check that something is as the plan expects it."""

    def check(found: T) -> None:
        if found != expected:
            raise _changed()

    return check


def _changed() -> PreconditionFailed:
    return PreconditionFailed(
        "Somebody else has changed the workspace meanwhile. What was applied before this stays. Apply the file again."
    )


async def put_person(target: ConfigTarget, name: str, expected: Facts | None, facts: Facts) -> None:
    """Add or change a person."""
    before, person = await put_person_safely(
        target.ports.directory,
        target.workspace,
        name,
        name=facts.name,
        email=facts.email,
        role=facts.role,
        by=target.by,
        check=_is_person(expected),
    )
    if person is None:
        raise _changed()  # somebody has got the e-mail address
    was_disabled = expected is not None and expected.disabled
    if facts.disabled and not was_disabled:
        await disable_person_safely(target.ports, person, by=target.by)
    elif was_disabled and not facts.disabled:
        await target.ports.directory.enable_person(target.workspace, name, by=target.by)
    await _sync(target, before, person)


async def remove_person(target: ConfigTarget, name: str, expected: Facts) -> None:
    """Remove a person, with everything that is theirs. Their answers stay."""
    person = await target.ports.directory.find_person(target.workspace, name)
    if person is not None:
        check = _is_person(expected)
        check(person)
        await remove_person_safely(target.ports, person, by=target.by, check=check)


def _is_person(expected: Facts | None) -> Callable[[Person | None], None]:
    def check(found: Person | None) -> None:
        if (None if found is None else facts_of(found)) != expected:
            raise _changed()

    return check


async def _sync(target: ConfigTarget, before: Person | None, now: Person) -> None:
    uses_email = target.uses_email
    await sync_mail_address(target.ports.outbox, before, now, uses_email=uses_email, by=target.by)


async def put_group(target: ConfigTarget, name: str, expected: Iterable[str], people: Iterable[str]) -> None:
    """Set the people of a group."""
    await target.ports.directory.put_group(
        target.workspace,
        name,
        sorted(people),
        by=target.by,
        check=lambda found: _unchanged(sorted(expected))(sorted(found)),
    )


async def put_policy_version(target: ConfigTarget, document: dict[str, Json], expected: int) -> None:
    """Store a version of the policy."""
    await put_policy(target.ports.policies, target.workspace, document, by=target.by, expected=expected)


async def put_hours(
    target: ConfigTarget, group: str, expected: WorkingHours | None, hours: WorkingHours | None
) -> None:
    """Set when a group works."""
    await target.ports.directory.put_hours(
        target.workspace, group, hours, by=target.by, check=_unchanged(expected)
    )


async def put_rota(
    target: ConfigTarget, group: str, expected: str | None, rota: str | None, text: str | None
) -> None:
    """Set which calendar a group follows."""
    await target.ports.directory.put_rota(
        target.workspace, group, rota, text=text, by=target.by, check=_unchanged(expected)
    )
    if rota is not None:
        await target.rota_changed(group)


async def put_quotas(target: ConfigTarget, expected: WorkspaceQuotas, quotas: WorkspaceQuotas) -> None:
    """Set the quotas."""
    await target.ports.policies.put_quotas(target.workspace, quotas, by=target.by, check=_unchanged(expected))


async def put_address(
    target: ConfigTarget, place: tuple[str, str, str], expected: Address | None, to: Json
) -> None:
    """Store an address."""
    recipient, channel, address_id = place
    address = Address(workspace=target.workspace, recipient=recipient, channel=channel, id=address_id, to=to)
    await target.ports.outbox.put_address(address, by=target.by, check=_unchanged(expected))


async def remove_address(target: ConfigTarget, place: tuple[str, str, str], expected: Address | None) -> None:
    """Remove an address."""
    await target.ports.outbox.remove_address(
        target.workspace, *place, by=target.by, check=_unchanged(expected)
    )


async def put_routing(target: ConfigTarget, expected: Json, routing: Json) -> None:
    """Replace the routing."""
    await target.ports.outbox.put_routing(target.workspace, routing, by=target.by, check=_unchanged(expected))


async def put_rule(target: ConfigTarget, expected: Rule | None, rule: Rule | None) -> None:
    """Set how long settled questions are kept."""
    _unchanged(expected)(await target.ports.ledger.rules(target.workspace))
    await target.ports.ledger.put_rule(target.workspace, rule, by=target.by)
