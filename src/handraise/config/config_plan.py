"""What a file changes in a workspace, and in which order it is done.

The order gives nobody more rights for a moment than the workspace has before or after: first somebody becomes an
administrator, then people leave and lose the role, groups lose people, the policy changes, people are added, groups get
people, and then everything that gives no rights. Every step only replaces what the plan was made for.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias

from handraise.config import config_steps
from handraise.config.config_document import GroupConfig, PersonConfig, RotaConfig, WorkspaceConfig
from handraise.config.config_state import ConfigState, Facts, facts_of, read_state, retention_of
from handraise.config.config_target import ConfigTarget
from handraise.desk.policy_admin import check_author, checked_document
from handraise.desk.public_holidays import check_holidays
from handraise.model.errors import InvalidPolicy, InvalidRequest, MissingExtra
from handraise.model.group_calendars import FILE, WHOLE_WORKSPACE
from handraise.model.identities import Role, fold_email
from handraise.model.json_values import Json
from handraise.model.people import ANYONE, GROUP
from handraise.model.problems import Problem
from handraise.model.seals import Rule
from handraise.model.unknown_recipients import nearest, unknown_recipient
from handraise.model.working_hours import WorkingHours
from handraise.model.workspace_events import source_of
from handraise.policies.rule_shortages import Staffing, staffing_of
from handraise.policies.rules import named_recipients, parse_policy

Step: TypeAlias = Callable[[], Awaitable[None]]
_PROVIDED = "comes from your identity provider over SCIM: change it there, and leave it out here"
_RULE = re.compile(r"rule (?P<name>'.*?'|\".*?\")(?:: (?P<rest>.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """Something that the file changes: a part of it, and in that part what has this name, if there is more than one.

    `before` and `after` have only what differs, and never a secret. `warning` says what cannot be undone.
    """

    part: str
    name: str = ""
    change: Literal["added", "changed", "removed"] = "changed"
    before: Json = None
    after: Json = None
    warning: str | None = None


@dataclass(frozen=True, slots=True)
class ConfigPlan:
    """What a file changes, and the steps that do it. Without changes there are no steps."""

    changes: tuple[ConfigChange, ...]
    steps: tuple[Step, ...] = field(repr=False)
    staffing: tuple[Staffing, ...]
    """The rules for which there are not enough people afterwards, or just enough."""
    tag: str
    """The `ConfigState.tag` of the workspace when the plan was made."""


async def plan_config(target: ConfigTarget, config: WorkspaceConfig, *, prune: bool) -> ConfigPlan:
    """What a configuration changes; `prune` removes what a part does not name. Raises `InvalidRequest` with every problem.

    A part that the file does not have stays as it is, also with `prune`.
    """
    state = await read_state(target.ports, target.workspace)
    texts = {
        name: await target.ports.directory.rota_text(target.workspace, name)
        for name, group in config.groups.items()
        if group.rota is not None and group.rota.text is not None
    }
    policy, problems = await _policy(target, config)
    planner = _Planner(target, state, config, policy, texts, prune=prune)
    planner.problems += problems
    return planner.plan()


async def _policy(target: ConfigTarget, config: WorkspaceConfig) -> tuple[dict[str, Json], list[Problem]]:
    """The document of the policy as it is stored, and what is wrong with it."""
    document = config.policy.document()
    try:
        return await checked_document(document, workspace=target.workspace, recipients=None), []
    except InvalidPolicy as error:
        places = {rule.name: place for place, rule in enumerate(config.policy.rules)}
        return document, [
            Problem(_path_in_policy(each.path, places), each.message) for each in error.problems
        ]


def _path_in_policy(path: str, places: Mapping[str, int]) -> str:
    """The path in the file of something in the policy, whose paths name rules."""
    if (match := _RULE.fullmatch(path)) is None or (place := places.get(match["name"][1:-1])) is None:
        return f"policy.{path}".removesuffix(".")
    rest = (match["rest"] or "").replace("require", "then.require", 1)
    return ".".join(filter(None, ["policy.rules", str(place), rest.replace("[", ".").replace("]", "")]))


class _Planner:
    """Goes through the parts of a file once; `steps` grow in the order in which they are done."""

    def __init__(
        self,
        target: ConfigTarget,
        state: ConfigState,
        config: WorkspaceConfig,
        policy: dict[str, Json],
        texts: Mapping[str, str | None],
        *,
        prune: bool,
    ) -> None:
        self.problems: list[Problem] = []
        self._target = target
        self._state = state
        self._config = config
        self._policy = policy
        self._texts = texts
        self._prune = prune
        self._changes: list[ConfigChange] = []
        self._steps: list[Step] = []
        # How things are after the steps so far.
        self._people = {name: facts_of(each) for name, each in state.people.items()}
        self._groups = {name: frozenset(people) for name, people in state.groups.items()}
        self._wanted_people = self._people_afterwards()
        self._wanted_groups = self._groups_afterwards()
        self._changes_policy = config.manages("policy") and policy != state.policy_document

    def plan(self) -> ConfigPlan:
        """The whole plan; raises `InvalidRequest`."""
        self._check_people()
        self._check_names()
        self._note_people()
        self._note_groups()
        held_back = self._take_rights()
        self._put_policy()
        self._give_rights(held_back)
        self._put_hours()
        self._put_quotas()
        self._put_addresses()
        self._put_routing()
        self._put_retention()
        if self.problems:
            raise InvalidRequest(self.problems)
        return ConfigPlan(tuple(self._changes), tuple(self._steps), self._staffing(), self._state.tag)

    def _staffing(self) -> tuple[Staffing, ...]:
        document = self._policy if self._config.manages("policy") else self._state.policy_document
        people = [name for name, facts in self._wanted_people.items() if not facts.disabled]
        return tuple(staffing_of(parse_policy(document), people, self._wanted_groups))

    # -- what is there afterwards --

    def _people_afterwards(self) -> dict[str, Facts]:
        if not self._config.manages("people"):
            return dict(self._people)
        written = {name: self._written_person(name, each) for name, each in self._config.people.items()}
        kept = {
            name: facts
            for name, facts in self._people.items()
            if not self._prune or self._comes_by_itself(name)
        }
        return kept | written

    def _comes_by_itself(self, name: str) -> bool:
        """Whether somebody is here because their provider says so, who would come again if they were removed."""
        return (
            name in self._state.scim_people
            or self._state.people[name].admin_provided
            or self._target.may_come(self._target.workspace, name)
        )

    def _written_person(self, name: str, written: PersonConfig) -> Facts:
        """What the file and the provider together say about a person."""
        now = self._people.get(name)
        if now is None:
            return Facts(written.name or name, written.email, written.role, bool(written.disabled))
        role = Role.ADMIN if self._state.people[name].admin_provided else written.role
        if name in self._state.scim_people:
            said = {"name": now.name, "email": now.email, "disabled": now.disabled}
            for part, value in said.items():
                if getattr(written, part) not in (None, value):
                    self.problems.append(Problem(f"people.{name}.{part}", _PROVIDED))
            return now._replace(role=role)
        disabled = now.disabled if written.disabled is None else written.disabled
        return Facts(written.name or name, written.email, role, disabled)

    def _groups_afterwards(self) -> dict[str, frozenset[str]]:
        left = {name: people & self._wanted_people.keys() for name, people in self._groups.items()}
        if not self._config.manages("groups"):
            return left
        written = {
            name: self._provided(name).union(each.people) for name, each in self._config.groups.items()
        }
        for name, each in self._config.groups.items():
            if name in self._state.scim_groups:
                written[name] = self._provided(name)
                if "people" in each.model_fields_set and written[name] != frozenset(each.people):
                    self.problems.append(Problem(f"groups.{name}.people", _PROVIDED))
        if self._prune:
            left = {name: self._provided(name) for name in left if self._provided(name)}
        return left | written

    def _provided(self, group: str) -> frozenset[str]:
        """The people of a group who are in it because a provider says so."""
        scim = group in self._state.scim_groups
        provided = self._groups.get(group, ()) if scim else self._state.provided_groups.get(group, ())
        return frozenset(provided) & self._wanted_people.keys()

    # -- what is wrong --

    def _check_people(self) -> None:
        holders: dict[str, str] = {}
        for name, facts in self._wanted_people.items():
            if facts.email is None:
                continue
            other = holders.setdefault(fold_email(facts.email), name)
            if other != name:
                self.problems.append(Problem(f"people.{name}.email", f"is that of {other!r} too"))
        administered = any(each.administers for each in self._people.values())
        if administered and not any(each.administers for each in self._wanted_people.values()):
            self.problems.append(
                Problem("people", "nobody would administer the workspace: give somebody `role: admin`")
            )

    def _check_names(self) -> None:
        known = [*self._wanted_people, *(GROUP + name for name, each in self._wanted_groups.items() if each)]
        for name, group in self._config.groups.items():
            for place, person in enumerate(group.people):
                if person not in self._wanted_people:
                    self._unknown(f"groups.{name}.people.{place}", person, [*self._wanted_people])
        if not self._wanted_people:
            return  # there is nothing to compare with
        for recipient in self._config.addresses:
            if recipient not in (*known, ANYONE):
                self._unknown(f"addresses.{recipient}", recipient, known)
        if not (self._config.manages("policy") and self._target.checks_recipients):
            return
        reached = {recipient for recipient, _, _ in self._state.addresses} | self._config.addresses.keys()
        places = {rule.name: place for place, rule in enumerate(self._config.policy.rules)}
        for path, name in named_recipients(self._config.policy):
            may_come = self._target.may_come(self._target.workspace, name)
            if name not in known and name not in reached and not may_come:
                self._unknown(_path_in_policy(path, places), name, known)

    def _unknown(self, path: str, name: str, known: Sequence[str]) -> None:
        self.problems.append(Problem(path, unknown_recipient(name, nearest(name, known))))

    # -- people and groups --

    def _note_people(self) -> None:
        for name in sorted({*self._people, *self._wanted_people}):
            one, other = self._people.get(name), self._wanted_people.get(name)
            self._note("people", name, _person_facts(one), _person_facts(other))

    def _note_groups(self) -> None:
        names = {*self._groups, *self._wanted_groups, *self._own_calendars(), *self._config.groups}
        for name in sorted(names):
            before, after = self._group_before(name), self._group_after(name)
            if self._changes_rota(name) and after and before.get("rota") == after.get("rota"):
                after = {**after, "rota": f"{after['rota']} (another address or text)"}
            self._note("groups", name, before or None, after or None)

    def _own_calendars(self) -> set[str]:
        return {
            name
            for name, each in self._state.calendars.items()
            if name != WHOLE_WORKSPACE and (each.hours is not None or each.rota is not None)
        }

    def _group_before(self, name: str) -> dict[str, Json]:
        calendar = self._state.calendars.get(name)
        return _group_facts(
            self._state.groups.get(name, ()),
            None if calendar is None else calendar.hours,
            None if calendar is None else source_of(calendar.rota),
        )

    def _group_after(self, name: str) -> dict[str, Json]:
        people = self._wanted_groups.get(name, frozenset())
        written = self._written_group(name)
        if written is None:  # only its people may have changed, because some are removed
            return {**self._group_before(name), **_group_facts(sorted(people), None, None)}
        return _group_facts(sorted(people), written.hours, _source(written.rota))

    def _written_group(self, name: str) -> GroupConfig | None:
        """What the file says about a group; without a word about it, pruning leaves nothing of it."""
        if name in self._config.groups:
            return self._config.groups[name]
        return GroupConfig() if self._prune and self._config.manages("groups") else None

    def _take_rights(self) -> list[str]:
        """Make administrators, then remove people, roles and memberships; return who must stay until others are there."""
        for name, facts in self._wanted_people.items():
            now = self._people.get(name)
            if now is not None and facts.role is Role.ADMIN:
                self._put_person(name, now._replace(role=Role.ADMIN))
        leaving = [name for name in self._people if name not in self._wanted_people]
        losing = {
            name: now._replace(
                role=Role.MEMBER if wanted.role is Role.MEMBER else now.role,
                disabled=now.disabled or wanted.disabled,
            )
            for name, now in self._people.items()
            if (wanted := self._wanted_people.get(name)) is not None
        }
        staying = {name for name, facts in self._people.items() if facts.administers}
        safe = {name for name in staying if name in losing and losing[name].administers}
        keep = [] if safe else sorted(staying)
        for name, facts in losing.items():
            if name not in keep:
                self._put_person(name, facts)
        for name in leaving:
            if name not in keep:
                self._remove_person(name)
        self._free_emails()
        for name, people in list(self._groups.items()):
            members = self._wanted_groups.get(name, frozenset())
            if self._changes_policy or members < people:
                self._put_group(name, people & members)
        return keep

    def _free_emails(self) -> None:
        """Take an e-mail address from who has it, if somebody else gets it."""
        wanted = {fold_email(each.email): name for name, each in self._wanted_people.items() if each.email}
        for name, facts in list(self._people.items()):
            if facts.email and wanted.get(fold_email(facts.email), name) != name:
                self._put_person(name, facts._replace(email=None))

    def _give_rights(self, held_back: Sequence[str]) -> None:
        for name, facts in self._wanted_people.items():
            if name not in held_back:
                self._put_person(name, facts)
        for name in held_back:
            if name in self._wanted_people:
                self._put_person(name, self._wanted_people[name])
            else:
                self._remove_person(name)
        for name, people in self._wanted_groups.items():
            self._put_group(name, people)

    def _put_person(self, name: str, facts: Facts) -> None:
        now = self._people.get(name)
        if now != facts:
            self._steps.append(partial(config_steps.put_person, self._target, name, now, facts))
            self._people[name] = facts

    def _remove_person(self, name: str) -> None:
        self._steps.append(partial(config_steps.remove_person, self._target, name, self._people.pop(name)))
        self._groups = {group: people - {name} for group, people in self._groups.items()}

    def _put_group(self, name: str, people: frozenset[str]) -> None:
        now = self._groups.get(name, frozenset())
        if now != people:
            self._steps.append(partial(config_steps.put_group, self._target, name, now, people))
            self._groups[name] = people

    # -- everything else --

    def _put_policy(self) -> None:
        if self._changes_policy:
            check_author(self._policy, None, by=self._target.by)
            self._note("policy", "", self._state.policy_document, self._policy)
            self._steps.append(
                partial(
                    config_steps.put_policy_version, self._target, self._policy, self._state.policy_version
                )
            )

    def _put_hours(self) -> None:
        if self._config.manages("hours"):
            self._change_hours(WHOLE_WORKSPACE, self._config.hours, "hours")
            before = self._hours_of(WHOLE_WORKSPACE)
            self._note("hours", "", _hours(before), _hours(self._config.hours))
        for name in sorted({*self._config.groups, *self._own_calendars()}):
            if (group := self._written_group(name)) is not None:
                self._change_hours(name, group.hours, f"groups.{name}.hours")
                self._change_rota(name, group.rota)

    def _hours_of(self, group: str) -> WorkingHours | None:
        calendar = self._state.calendars.get(group)
        return None if calendar is None else calendar.hours

    def _change_hours(self, group: str, hours: WorkingHours | None, path: str) -> None:
        before = self._hours_of(group)
        if before == hours:
            return
        try:
            if hours is not None:
                check_holidays(hours)
        except (MissingExtra, ValueError) as error:
            self.problems.append(Problem(f"{path}.country", str(error)))
        self._steps.append(partial(config_steps.put_hours, self._target, group, before, hours))

    def _rota_of(self, group: str) -> str | None:
        calendar = self._state.calendars.get(group)
        return None if calendar is None else calendar.rota

    def _changes_rota(self, name: str) -> bool:
        group, before = self._written_group(name), self._rota_of(name)
        if group is None:
            return False
        match group.rota:
            case None:
                return before is not None
            case RotaConfig(address=str(address)):
                return before != address
            case RotaConfig(text=str(text)):
                return before != FILE or self._texts.get(name) != text
            case _:
                return False

    def _change_rota(self, name: str, rota: RotaConfig | None) -> None:
        before, path = self._rota_of(name), f"groups.{name}.rota"
        if rota is not None and rota.file is not None:
            self.problems.append(Problem(f"{path}.file", "only the command reads files; send `text`"))
        if rota is not None and rota.source is not None and rota.source != source_of(before):
            self.problems.append(
                Problem(f"{path}.source", "this group follows no calendar from there: write its address")
            )
        address = None if rota is None else rota.address
        if address not in (None, before) and (problem := self._target.rota_problem(address or "")):
            self.problems.append(Problem(f"{path}.address", problem))
        if self._changes_rota(name):
            source = None if rota is None else rota.address or FILE
            text = None if rota is None else rota.text
            self._steps.append(partial(config_steps.put_rota, self._target, name, before, source, text))

    def _put_quotas(self) -> None:
        before, after = self._state.quotas, self._config.quotas
        if self._config.manages("quotas") and before != after:
            one, other = (each.model_dump(mode="json", exclude_defaults=True) for each in (before, after))
            self._note("quotas", "", one, other)
            self._steps.append(partial(config_steps.put_quotas, self._target, before, after))

    def _put_addresses(self) -> None:
        if not self._config.manages("addresses"):
            return
        written = {
            (recipient, channel, address_id): to
            for recipient, channels in self._config.addresses.items()
            for channel, ids in channels.items()
            for address_id, to in ids.items()
        }
        for place, to in written.items():
            stored, path = self._state.addresses.get(place), f"addresses.{'.'.join(place)}"
            if to is None:
                if stored is None:
                    self.problems.append(Problem(path, "is not stored here: write where it is"))
            elif stored is None or stored.to != to:
                self.problems += [Problem(path, why) for why in self._target.address_problems(place[1], to)]
                self._note_address(place, "added" if stored is None else "changed")
                self._steps.append(partial(config_steps.put_address, self._target, place, stored, to))
        if not self._prune:
            return
        for place, stored in self._state.addresses.items():
            stays = place[0] in self._wanted_people or place[0] not in self._state.people
            if place not in written and stays and not self._state.is_derived(stored):
                self._note_address(place, "removed")
                self._steps.append(partial(config_steps.remove_address, self._target, place, stored))

    def _note_address(
        self, place: tuple[str, str, str], change: Literal["added", "changed", "removed"]
    ) -> None:
        """Without the address itself, which may be secret."""
        self._changes.append(ConfigChange(part="addresses", name=" ".join(place), change=change))

    def _put_routing(self) -> None:
        before, after = self._state.routing, self._config.routing
        if self._config.manages("routing") and before != after:
            one, other = (each.model_dump(mode="json", exclude_defaults=True) for each in (before, after))
            self._note("routing", "", one, other)
            self._steps.append(
                partial(config_steps.put_routing, self._target, self._state.stored_routing, other)
            )

    def _put_retention(self) -> None:
        before, after = self._state.rule, self._config.retention.rule
        if self._config.manages("retention") and before != after:
            one, other = (retention_of(each).model_dump(mode="json") for each in (before, after))
            self._changes.append(
                ConfigChange(
                    part="retention", before=one, after=other, warning=self._is_shorter(before, after)
                )
            )
            self._steps.append(partial(config_steps.put_rule, self._target, before, after))

    def _is_shorter(self, before: Rule | None, after: Rule | None) -> str | None:
        one, other = map(self._target.keeps, (before, after))
        if other is None or (one is not None and one <= other):
            return None
        return (
            "Settled questions that are older than this are removed soon after, and cannot be brought back."
        )

    def _note(self, part: str, name: str, before: Any, after: Any) -> None:
        """Note a change of two mappings, or one of them and nothing; nothing if they are equal."""
        if before == after:
            return
        if before is not None and after is not None:
            keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
            self._changes.append(
                ConfigChange(
                    part=part,
                    name=name,
                    before={key: before[key] for key in keys if key in before},
                    after={key: after[key] for key in keys if key in after},
                )
            )
        elif before is None:
            self._changes.append(ConfigChange(part=part, name=name, change="added", after=after))
        else:
            self._changes.append(ConfigChange(part=part, name=name, change="removed", before=before))


def _person_facts(facts: Facts | None) -> dict[str, Json] | None:
    if facts is None:
        return None
    found: dict[str, Json] = {"name": facts.name, "email": facts.email, "role": facts.role.value}
    if facts.disabled:
        found["disabled"] = True
    return {name: value for name, value in found.items() if value is not None}


def _group_facts(people: Sequence[str], hours: WorkingHours | None, rota: str | None) -> dict[str, Json]:
    found: dict[str, Json] = {"people": list(people), "hours": _hours(hours), "rota": rota}
    return {name: value for name, value in found.items() if value}


def _hours(hours: WorkingHours | None) -> dict[str, Json] | None:
    return None if hours is None else hours.model_dump(mode="json", exclude_defaults=True)


def _source(rota: RotaConfig | None) -> str | None:
    if rota is None:
        return None
    return rota.source or (FILE if rota.address is None else source_of(rota.address))
