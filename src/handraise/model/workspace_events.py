"""What changes in a workspace besides its questions: people, groups, keys, passkeys, policies, stops, links and so on.

Each change leaves one event in the audit trail, with who made it and what was different before. It belongs to
no question, so it is in no feed and no history. It never holds a secret.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from urllib.parse import urlsplit

from handraise.model.deliveries import Address, Delivery
from handraise.model.identities import AgentKey, Link, Person, Session
from handraise.model.json_values import Json
from handraise.model.passkey_signatures import Passkey
from handraise.model.people import ADDRESS_BY, GROUP
from handraise.model.policy_versions import PolicyVersion, policy_changes
from handraise.model.stops import Stop
from handraise.model.working_hours import WorkingHours
from handraise.model.workspace_quotas import WorkspaceQuotas

_SALT = "salt"
"""The key of the random text in the stored data of an event. Without it, nobody can guess an erased event."""
_PEOPLE = "people"
"""The key in the stored data of an event that names everybody concerned: the event is erased with any of them."""


class WorkspaceEventKind(StrEnum):
    """What happened in a workspace, to something other than a question."""

    PERSON_ADDED = "person.added"
    PERSON_CHANGED = "person.changed"
    PERSON_REMOVED = "person.removed"
    PERSON_DISABLED = "person.disabled"
    PERSON_ENABLED = "person.enabled"
    PERSON_AWAY = "person.away"
    PERSON_BACK = "person.back"
    GROUP_CHANGED = "group.changed"
    HOURS_CHANGED = "hours.changed"
    ROTA_CHANGED = "rota.changed"
    KEY_CREATED = "key.created"
    KEY_REVOKED = "key.revoked"
    ADDRESS_ADDED = "address.added"
    ADDRESS_CHANGED = "address.changed"
    ADDRESS_REMOVED = "address.removed"
    ROUTING_CHANGED = "routing.changed"
    LINK_CREATED = "link.created"
    LINK_USED = "link.used"
    SESSION_OPENED = "session.opened"
    SESSION_ENDED = "session.ended"
    PASSKEY_ADDED = "passkey.added"
    PASSKEY_REMOVED = "passkey.removed"
    POLICY_CHANGED = "policy.changed"
    SUSPENSION_LIFTED = "policy.suspension_lifted"
    STOP_BEGUN = "stop.begun"
    STOP_ENDED = "stop.ended"
    RETENTION_CHANGED = "retention.changed"
    QUOTAS_CHANGED = "quotas.changed"
    HOLD_PLACED = "hold.placed"
    HOLD_LIFTED = "hold.lifted"
    PERSON_ERASED = "person.erased"
    DELIVERY_RETRIED = "delivery.retried"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceEvent:
    """An event of the audit trail that is about no question.

    `cursor` is its place among all events of its workspace.
    """

    cursor: str
    workspace: str
    kind: WorkspaceEventKind
    at: datetime
    by: str | None
    data: dict[str, Json] = field(repr=False)

    @property
    def question_id(self) -> str:
        """An empty text instead of a question's id."""
        return ""

    @property
    def channel(self) -> None:
        """It came through no channel."""
        return

    def concerns(self, person: str) -> bool:
        """Whether it is erased together with this person."""
        return self.by == person or person in self.data.get(_PEOPLE, ())

    @property
    def details(self) -> dict[str, Json]:
        """The event's data without the parts that only the audit trail needs."""
        return {name: value for name, value in self.data.items() if name not in (_SALT, _PEOPLE)}


@dataclass(frozen=True, slots=True)
class Change:
    """The event that a backend stores in the transaction that makes the change."""

    kind: WorkspaceEventKind
    by: str | None
    details: dict[str, Json]
    people: Collection[str | None] = ()

    def stored(self, salt: bytes) -> dict[str, Json]:
        """The data as it is stored and sealed."""
        concerned: Json = sorted({each for each in self.people if each is not None})
        return {**self.details, _PEOPLE: concerned, _SALT: salt.hex()}


def person_put(before: Person | None, after: Person, *, by: str | None) -> Change | None:
    """A person was added or changed; None if nothing changed."""
    kind = WorkspaceEventKind.PERSON_ADDED if before is None else WorkspaceEventKind.PERSON_CHANGED
    changes = _differences(before, after)
    return Change(kind, by, {"person": after.id, "changes": changes}, [after.id]) if changes else None


def person_removed(person: Person, *, by: str | None) -> Change:
    """A person was removed."""
    details: dict[str, Json] = {"person": person.id, "changes": _differences(person, None)}
    return Change(WorkspaceEventKind.PERSON_REMOVED, by, details, [person.id])


def person_disabled(person: Person, *, by: str | None) -> Change:
    """A person was disabled."""
    return Change(WorkspaceEventKind.PERSON_DISABLED, by, {"person": person.id}, [person.id])


def person_enabled(person: Person, *, by: str | None) -> Change:
    """A person who was disabled is enabled again."""
    return Change(WorkspaceEventKind.PERSON_ENABLED, by, {"person": person.id}, [person.id])


def away_set(before: Person, after: Person, *, by: str | None) -> Change | None:
    """A person is away for a while, or back; None if nothing changed."""
    if before.away == after.away:
        return None
    away = after.away
    if away is None:
        return Change(WorkspaceEventKind.PERSON_BACK, by, {"person": after.id}, [after.id])
    details: dict[str, Json] = {
        "person": after.id,
        "from": away.starts.astimezone(UTC).isoformat(),
        "until": away.until.astimezone(UTC).isoformat(),
        "deputy": away.deputy,
    }
    return Change(WorkspaceEventKind.PERSON_AWAY, by, details, [after.id, away.deputy])


def group_put(
    group: str, before: Collection[str], after: Collection[str], *, by: str | None
) -> Change | None:
    """The people of a group changed; None if they are the same."""
    added, removed = sorted({*after} - {*before}), sorted({*before} - {*after})
    if not (added or removed):
        return None
    details: dict[str, Json] = {"group": group, "added": [*added], "removed": [*removed]}
    return Change(WorkspaceEventKind.GROUP_CHANGED, by, details, [*added, *removed])


def hours_put(
    group: str, before: WorkingHours | None, after: WorkingHours | None, *, by: str | None
) -> Change | None:
    """The working hours of a group, or without one of the workspace, changed; None if they are the same."""
    if before == after:
        return None
    one, other = (None if each is None else each.model_dump() for each in (before, after))
    return Change(WorkspaceEventKind.HOURS_CHANGED, by, {"group": group or None, "from": one, "to": other})


def rota_put(
    group: str, before: str | None, after: str | None, *, is_new: bool, by: str | None
) -> Change | None:
    """A group follows another calendar, or a new text of it; None if nothing changed. Addresses may be secret."""
    if before == after and not is_new:
        return None
    details: dict[str, Json] = {"group": group, "from": source_of(before), "to": source_of(after)}
    return Change(WorkspaceEventKind.ROTA_CHANGED, by, details)


def source_of(rota: str | None) -> str | None:
    """Where a rota comes from, without what may be secret: a host or `file`."""
    if rota is None or "://" not in rota:
        return rota
    return urlsplit(rota).hostname or "an address"


def key_created(key: AgentKey) -> Change:
    """An agent got a key."""
    return Change(WorkspaceEventKind.KEY_CREATED, key.created_by, {"key": key.id, "agent": key.agent})


def key_revoked(key: AgentKey) -> Change:
    """A key was revoked."""
    return Change(WorkspaceEventKind.KEY_REVOKED, key.revoked_by, {"key": key.id, "agent": key.agent})


def address_put(before: Address | None, after: Address, *, by: str | None) -> Change | None:
    """A recipient's address was added or changed; None if it is the same. Its `to` may be secret and is left out."""
    if before is not None and before.to == after.to:
        return None
    kind = WorkspaceEventKind.ADDRESS_ADDED if before is None else WorkspaceEventKind.ADDRESS_CHANGED
    return _address(kind, after, by)


def address_removed(address: Address, *, by: str | None) -> Change:
    """A recipient's address was removed."""
    return _address(WorkspaceEventKind.ADDRESS_REMOVED, address, by)


def routing_put(before: Json, after: Json, *, by: str | None) -> Change | None:
    """The routing of a workspace changed; None if it is the same."""
    if before == after:
        return None
    return Change(WorkspaceEventKind.ROUTING_CHANGED, by, {"from": before, "to": after})


def policy_put(before: Json, after: PolicyVersion) -> Change:
    """A new version of the policy was stored. The event has the rules that differ, by name, and other settings."""
    changes = policy_changes(before, after.document)
    details: dict[str, Json] = {"version": after.version, "changes": changes}
    return Change(WorkspaceEventKind.POLICY_CHANGED, after.by, details)


def suspension_lifted(name: str, rule: str, *, by: str | None) -> Change:
    """A rule that was suspended by a spot check may allow questions again."""
    return Change(WorkspaceEventKind.SUSPENSION_LIFTED, by, {"rule": name, "digest": rule})


def stop_begun(stop: Stop) -> Change:
    """Somebody stopped a workspace, an agent or a tool."""
    return Change(WorkspaceEventKind.STOP_BEGUN, stop.by, _stop(stop))


def stop_ended(stop: Stop, *, by: str | None) -> Change:
    """Somebody ended a stop."""
    return Change(WorkspaceEventKind.STOP_ENDED, by, _stop(stop))


def _stop(stop: Stop) -> dict[str, Json]:
    return {"stop": stop.id, "agent": stop.agent, "tool": stop.tool, "why": stop.why}


def retention_put(days: float | None, *, is_rule: bool, by: str | None) -> Change:
    """A workspace keeps settled questions for so many days, for ever without a number, or has no rule of its own."""
    to: Json = None if not is_rule else "forever" if days is None else days
    return Change(WorkspaceEventKind.RETENTION_CHANGED, by, {"to": to})


def quotas_put(before: WorkspaceQuotas, after: WorkspaceQuotas, *, by: str | None) -> Change | None:
    """The quotas of a workspace changed; None if they are the same."""
    if before == after:
        return None
    one, other = (each.model_dump(exclude_defaults=True) for each in (before, after))
    return Change(WorkspaceEventKind.QUOTAS_CHANGED, by, {"from": one, "to": other})


def hold_placed(name: str, question_id: str | None, reason: str, *, by: str | None) -> Change:
    """A hold was placed on a workspace or on one question."""
    details: dict[str, Json] = {"hold": name, "question": question_id, "reason": reason}
    return Change(WorkspaceEventKind.HOLD_PLACED, by, details)


def hold_lifted(name: str, *, by: str | None) -> Change:
    """A hold was lifted."""
    return Change(WorkspaceEventKind.HOLD_LIFTED, by, {"hold": name})


def person_erased(*, by: str) -> Change:
    """Somebody was erased. The event does not say who: that is what erasing means."""
    return Change(WorkspaceEventKind.PERSON_ERASED, by, {})


def delivery_retried(delivery: Delivery, *, by: str | None) -> Change:
    """A message that had failed is tried again."""
    details: dict[str, Json] = {
        "delivery": delivery.id,
        "question": delivery.question_id,
        "recipient": delivery.recipient,
        "channel": delivery.channel,
    }
    concerned = [] if delivery.recipient.startswith(GROUP) else [delivery.recipient]
    return Change(WorkspaceEventKind.DELIVERY_RETRIED, by, details, concerned)


def link_created(link: Link, *, by: str | None) -> Change:
    """A sign-in link was made."""
    return _link(WorkspaceEventKind.LINK_CREATED, link, by)


def link_used(link: Link) -> Change:
    """A sign-in link was used."""
    return _link(WorkspaceEventKind.LINK_USED, link, link.person)


def session_opened(session: Session) -> Change:
    """A person signed in."""
    return _session(WorkspaceEventKind.SESSION_OPENED, session, session.person)


def session_ended(session: Session, *, by: str | None) -> Change:
    """A session was ended before it expired."""
    return _session(WorkspaceEventKind.SESSION_ENDED, session, by)


def passkey_added(passkey: Passkey) -> Change:
    """A person registered a passkey. Its public key is in the event, so that what it signs can be checked later."""
    return _passkey(WorkspaceEventKind.PASSKEY_ADDED, passkey, passkey.person)


def passkey_removed(passkey: Passkey, *, by: str | None) -> Change:
    """A passkey was removed."""
    return _passkey(WorkspaceEventKind.PASSKEY_REMOVED, passkey, by)


def _passkey(kind: WorkspaceEventKind, passkey: Passkey, by: str | None) -> Change:
    details: dict[str, Json] = {
        "passkey": passkey.id,
        "person": passkey.person,
        "name": passkey.name,
        "domain": passkey.domain,
        "public_key": passkey.public_key,
        "vouched_by": passkey.vouched_by,
    }
    return Change(kind, by, details, [passkey.person, _voucher(passkey.vouched_by)])


def _differences(before: Person | None, after: Person | None) -> dict[str, Json]:
    one, other = _facts(before), _facts(after)
    return {
        name: {"from": one.get(name), "to": other.get(name)}
        for name in ("name", "email", "role", "groups")
        if one.get(name) != other.get(name)
    }


def _facts(person: Person | None) -> dict[str, Json]:
    if person is None:
        return {}
    groups: Json = sorted(person.groups) or None
    return {"name": person.name, "email": person.email, "role": person.role.value, "groups": groups}


def _address(kind: WorkspaceEventKind, address: Address, by: str | None) -> Change:
    details: dict[str, Json] = {
        "recipient": address.recipient,
        "channel": address.channel,
        "address": address.id,
    }
    return Change(kind, by, details, [] if address.recipient.startswith(GROUP) else [address.recipient])


def _link(kind: WorkspaceEventKind, link: Link, by: str | None) -> Change:
    details: dict[str, Json] = {
        "link": link.id,
        "person": link.person,
        "purpose": link.purpose,
        "vouched_by": link.vouched_by,
    }
    return Change(kind, by, details, [link.person, _voucher(link.vouched_by)])


def _session(kind: WorkspaceEventKind, session: Session, by: str | None) -> Change:
    details: dict[str, Json] = {
        "session": session.id,
        "person": session.person,
        "how": session.how,
        "vouched_by": session.vouched_by,
    }
    return Change(kind, by, details, [session.person, _voucher(session.vouched_by)])


def _voucher(vouched_by: str | None) -> str | None:
    return None if vouched_by is None else vouched_by.removeprefix(ADDRESS_BY)
