"""What stays undone when somebody is removed or disabled: found before it happens, so that somebody can see to it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from handraise.desk.everybody import everybody
from handraise.desk.handed_over import pending_of
from handraise.desk.people_rights import PeoplePorts
from handraise.desk.workspace_shortages import staffing_in
from handraise.model.identities import Person
from handraise.model.people import GROUP
from handraise.model.questions import Question
from handraise.policies.rule_shortages import Staffing
from handraise.policies.rules import parse_policy
from handraise.ports import Policies

MOST_QUESTIONS = 100
"""How many questions are named, and looked for."""


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
    others = [each async for each in everybody(ports.directory, person.workspace) if each.id != person.id]
    active = {each.id for each in others if each.disabled_at is None}
    groups = await ports.directory.groups(person.workspace)
    in_groups = {f"{GROUP}{name}": active & {*some} for name, some in groups.items()}
    questions = []
    async for question in pending_of(ports.store, person.workspace, person.responder):
        if not _can_answer(question, active, in_groups):
            questions.append(question.id)
            if len(questions) >= MOST_QUESTIONS:
                break
    return Departure(
        questions=tuple(questions),
        rules=await _rules(ports, person),
        deputy_of=tuple(each.id for each in others if each.deputy == person.id),
    )


def _can_answer(question: Question, people: Collection[str], groups: dict[str, set[str]]) -> bool:
    """Whether one of these people may answer it now."""
    if not question.audience:
        return bool(people)
    return any(groups.get(name) if name.startswith(GROUP) else name in people for name in question.audience)


async def _rules(ports: DeparturePorts, person: Person) -> tuple[Staffing, ...]:
    current = await ports.policies.current(person.workspace)
    if current is None:
        return ()
    policy = parse_policy(current.version.document)
    before = await staffing_in(ports.directory, person.workspace, policy)
    was_short = {(each.rule, each.names) for each in before if each.is_short}
    after = await staffing_in(ports.directory, person.workspace, policy, without=person.id)
    return tuple(each for each in after if each.is_short and (each.rule, each.names) not in was_short)
