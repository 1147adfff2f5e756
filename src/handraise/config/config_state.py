"""What is configured in a workspace now, and the file that says the same."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple, Protocol

import pydantic

from handraise.channels.address_secrets import may_be_secret
from handraise.channels.person_mail import EMAIL, mail_address_of
from handraise.channels.push_subscriptions import NAME as WEBPUSH
from handraise.config.config_document import (
    GroupConfig,
    PersonConfig,
    RetentionConfig,
    RotaConfig,
    WorkspaceConfig,
)
from handraise.desk.everybody import everybody
from handraise.desk.policy_admin import NO_POLICY
from handraise.model.deliveries import Address
from handraise.model.group_calendars import WHOLE_WORKSPACE, GroupCalendar
from handraise.model.identities import Person, Role
from handraise.model.json_values import Json, canonical_json
from handraise.model.policy_versions import CurrentPolicy
from handraise.model.routing import Routing
from handraise.model.seals import Rule
from handraise.model.workspace_events import source_of
from handraise.model.workspace_quotas import WorkspaceQuotas
from handraise.policies.rules import parse_policy
from handraise.ports import Directory, Ledger, Outbox, Policies, Store


class Facts(NamedTuple):
    """What a file says about a person."""

    name: str
    email: str | None
    role: Role
    disabled: bool = False

    @property
    def administers(self) -> bool:
        """Whether they administer the workspace; somebody who is disabled does not."""
        return self.role is Role.ADMIN and not self.disabled


def facts_of(person: Person) -> Facts:
    """A person as a file says it."""
    return Facts(person.name, person.email, person.role, person.disabled_at is not None)


class ConfigPorts(Protocol):
    """What keeps the configuration of workspaces: a `Backend` and a server both have it."""

    @property
    def store(self) -> Store:
        """The grants that somebody loses who is removed."""
        ...

    @property
    def directory(self) -> Directory:
        """People, groups and calendars."""
        ...

    @property
    def outbox(self) -> Outbox:
        """Addresses and routing."""
        ...

    @property
    def ledger(self) -> Ledger:
        """Retention."""
        ...

    @property
    def policies(self) -> Policies:
        """The policy and the quotas."""
        ...


@dataclass(frozen=True, kw_only=True)
class ConfigState:
    """Everything of a workspace that its file may have, as it is stored. It is read part by part, not at one instant."""

    people: Mapping[str, Person]
    groups: Mapping[str, Sequence[str]]
    provided_groups: Mapping[str, Sequence[str]]
    """The memberships that come from people's OIDC provider. They are not in a file."""
    scim_people: frozenset[str]
    """Whom an identity provider provisions over SCIM: name, address and whether they are disabled are not in a file."""
    scim_groups: frozenset[str]
    """Groups whose people the provider says over SCIM."""
    calendars: Mapping[str, GroupCalendar]
    addresses: Mapping[tuple[str, str, str], Address] = field(repr=False)
    stored_routing: Json
    policy: CurrentPolicy | None
    rule: Rule | None
    quotas: WorkspaceQuotas

    @property
    def routing(self) -> Routing:
        """The routing of the workspace."""
        try:
            return Routing.model_validate(self.stored_routing or {})
        except pydantic.ValidationError:
            return Routing()

    @property
    def policy_version(self) -> int:
        """The latest version of the policy; 0 if there is none."""
        return 0 if self.policy is None else self.policy.version.version

    @property
    def policy_document(self) -> Json:
        """The document of the latest version of the policy."""
        return NO_POLICY if self.policy is None else self.policy.version.document

    @property
    def tag(self) -> str:
        """A text that is another one as soon as anything of the configuration is, also what an export leaves out."""
        hidden: Json = [
            sorted([*place, canonical_json(each.to)] for place, each in self.addresses.items()),
            sorted([name, each.rota] for name, each in self.calendars.items() if each.rota is not None),
            self.policy_version,
        ]
        said = canonical_json([config_of(self).document(), hidden])
        return hashlib.sha256(said.encode()).hexdigest()

    def is_derived(self, address: Address) -> bool:
        """Whether an address comes from the e-mail address of a person, or was added by their browser."""
        if address.channel == WEBPUSH:
            return True
        return address.channel == EMAIL and mail_address_of(self.people.get(address.recipient)) == address


async def read_state(ports: ConfigPorts, workspace: str) -> ConfigState:
    """What is configured now."""
    found = await ports.outbox.addresses(workspace)
    return ConfigState(
        people={each.id: each async for each in everybody(ports.directory, workspace)},
        groups=await ports.directory.groups(workspace),
        provided_groups=await ports.directory.provided_groups(workspace),
        scim_people=frozenset(each.id for each in await ports.directory.provisioned(workspace, "User")),
        scim_groups=frozenset(each.id for each in await ports.directory.provisioned(workspace, "Group")),
        calendars=(await ports.directory.calendars(workspace)).groups,
        addresses={(each.recipient, each.channel, each.id): each for each in found},
        stored_routing=await ports.outbox.routing(workspace),
        policy=await ports.policies.current(workspace),
        rule=await ports.ledger.rules(workspace),
        quotas=await ports.policies.quotas(workspace),
    )


def config_of(state: ConfigState) -> WorkspaceConfig:
    """The file that says what is configured. What may be secret is left out, and applying that keeps it."""
    calendars = {name: each for name, each in state.calendars.items() if name != WHOLE_WORKSPACE}
    own = {name for name, each in calendars.items() if each.hours is not None or each.rota is not None}
    whole = state.calendars.get(WHOLE_WORKSPACE)
    by_hand = {name: _by_hand(state, name) for name in state.groups}
    return WorkspaceConfig(
        people={
            name: _person(each, provisioned=name in state.scim_people) for name, each in state.people.items()
        },
        groups={
            name: _group(by_hand.get(name, ()), calendars.get(name))
            for name in sorted({*(name for name, people in by_hand.items() if people), *own})
        },
        hours=None if whole is None else whole.hours,
        addresses=_addresses(state),
        routing=state.routing,
        policy=parse_policy(state.policy_document),
        retention=retention_of(state.rule),
        quotas=state.quotas,
    )


def retention_of(rule: Rule | None) -> RetentionConfig:
    """How long settled questions are kept, as a file says it."""
    if rule is None:
        return RetentionConfig()
    if rule.keep is None:
        return RetentionConfig(keep_settled_days="forever")
    days = rule.keep / timedelta(days=1)
    return RetentionConfig(keep_settled_days=int(days) if days.is_integer() else days)


def _person(person: Person, *, provisioned: bool) -> PersonConfig:
    role = Role.MEMBER if person.admin_provided else person.role
    if provisioned:
        return PersonConfig(role=role)
    name = None if person.name == person.id else person.name
    disabled = None if person.disabled_at is None else True
    return PersonConfig(name=name, email=person.email, role=role, disabled=disabled)


def _by_hand(state: ConfigState, group: str) -> Sequence[str]:
    """The people of a group who are not in it because a provider says so."""
    provided = state.provided_groups.get(group, ())
    people = () if group in state.scim_groups else state.groups[group]
    return [each for each in people if each not in provided]


def _group(people: Sequence[str], calendar: GroupCalendar | None) -> GroupConfig:
    source = None if calendar is None else source_of(calendar.rota)
    return GroupConfig(
        people=tuple(people),
        hours=None if calendar is None else calendar.hours,
        rota=None if source is None else RotaConfig(source=source),
    )


def _addresses(state: ConfigState) -> dict[str, dict[str, dict[str, Json]]]:
    found: dict[str, dict[str, dict[str, Json]]] = {}
    for (recipient, channel, address_id), each in sorted(state.addresses.items()):
        if not state.is_derived(each):
            to = None if may_be_secret(channel, each.to) else each.to
            found.setdefault(recipient, {}).setdefault(channel, {})[address_id] = to
    return found
