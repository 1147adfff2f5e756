"""What stays undone when somebody is removed or disabled: found before it happens, so that somebody can see to it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

from handraise.desk.everybody import everybody
from handraise.desk.handover_returns import StaffWithout, questions_by_name, returning_to
from handraise.desk.people_rights import PeoplePorts
from handraise.desk.workspace_shortages import staffing_in
from handraise.model.agreement import are_enough
from handraise.model.identities import Person
from handraise.policies.rule_shortages import Staffing
from handraise.policies.rules import parse_policy
from handraise.ports import Policies

MOST_QUESTIONS = 100
"""How many questions are named, and looked for."""
_MOST_READ = 5_000
"""How many questions of a person are read; a group may have very many, and somebody waits for the page."""


class DeparturePorts(PeoplePorts, Protocol):
    """Also what the rules say."""

    @property
    def policies(self) -> Policies:
        """The policy of each workspace."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """What a person leaves behind: questions that nobody else can answer, rules, and people for whom they answer."""

    questions: tuple[str, ...]
    """Their ids, up to `MOST_QUESTIONS`."""
    rules: tuple[Staffing, ...]
    """The rules that nobody can fulfil without this person."""
    deputy_of: tuple[str, ...]
    """Who is or will be away, and has this person as deputy."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left behind."""
        return not (self.questions or self.rules or self.deputy_of)


async def departure_of(ports: DeparturePorts, person: Person) -> Departure:
    """What would stay undone without this person, who is still here."""
    others = [
        each
        async for each in everybody(ports.directory, person.workspace)
        if each.id != person.id and each.disabled_at is None
    ]
    now = datetime.now(UTC)
    return Departure(
        questions=await _questions(ports, person, {each.id for each in others}),
        rules=await _rules(ports, person),
        deputy_of=tuple(
            each.id for each in others if each.away and each.deputy == person.id and each.away.until > now
        ),
    )


async def _questions(ports: DeparturePorts, person: Person, others: Collection[str]) -> tuple[str, ...]:
    """Questions that name this person and that the others are too few to answer."""
    groups = await ports.directory.groups(person.workspace)
    staff = StaffWithout(ports.directory, person)
    found: list[str] = []
    number = 0
    async for question in questions_by_name(ports.store, person):
        number += 1
        back = {each.id for each in await returning_to(ports.store, staff, question)}
        aside = tuple(each for each in question.aside if each.person not in back)
        if not are_enough(replace(question, aside=aside), others, groups):
            found.append(question.id)
        if len(found) == MOST_QUESTIONS or number == _MOST_READ:
            break
    return tuple(found)


async def _rules(ports: DeparturePorts, person: Person) -> tuple[Staffing, ...]:
    current = await ports.policies.current(person.workspace)
    if current is None:
        return ()
    policy = parse_policy(current.version.document)
    before = await staffing_in(ports.directory, person.workspace, policy)
    was_short = {(each.rule, each.names) for each in before if each.is_short}
    after = await staffing_in(ports.directory, person.workspace, policy, without=person.id)
    return tuple(each for each in after if each.is_short and (each.rule, each.names) not in was_short)
