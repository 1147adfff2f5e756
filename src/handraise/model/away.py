"""People who are away, and who answers for them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from handraise.model.people import GROUP
from handraise.model.problems import Problem
from handraise.model.questions import Draft

_STEPS = 2
"""How many deputies are looked at: a deputy who is away too has one of their own, and there it ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Away:
    """A period in which a person is away, and the deputy who answers for them. `until` is not part of it."""

    starts: datetime
    until: datetime
    deputy: str | None = None

    def covers(self, at: datetime) -> bool:
        """Whether the person is away at this instant."""
        return self.starts <= at < self.until


def away_problems(person: str, away: Away, now: datetime) -> list[Problem]:
    """What is wrong with a period in which a person wants to be away. Whether the deputy exists is not checked here."""
    problems = []
    if away.until <= now:
        problems.append(Problem("until", "is in the past"))
    elif away.until <= away.starts:
        problems.append(Problem("until", "is not after the beginning"))
    if away.deputy == person:
        problems.append(Problem("deputy", "is the person who is away: name somebody else"))
    return problems


def deputy_of(person: str, away: Mapping[str, Away]) -> str | None:
    """Who answers for a person now; None if they are not away, or nobody answers for them.

    `away` has everybody who is away now. A deputy who is away too is followed one more step, never in a circle.
    """
    seen = {person}
    for _ in range(_STEPS):
        absence = away.get(person)
        if absence is None or absence.deputy is None or absence.deputy in seen:
            return None
        person = absence.deputy
        if person not in away:
            return person
        seen.add(person)
    return None


def deputies_for(draft: Draft, away: Mapping[str, Away]) -> tuple[str, ...]:
    """The deputies who are asked besides the recipients of a question, each once and in order.

    A recipient counts if they are named, not if they are only in a group. The asker is never a deputy. If the
    policy decides who answers, nobody can answer for them, so there are none. Nor are there any at high risk: an
    administrator who sets somebody away could name themselves.
    """
    if draft.policy_decides_who or draft.risk == "high":
        return ()
    found = dict.fromkeys(_deputies(draft.recipients, away))
    return tuple(name for name in found if name != draft.asker and name not in draft.recipients)


def _deputies(names: Collection[str], away: Mapping[str, Away]) -> Iterator[str]:
    for name in names:
        deputy = None if name.startswith(GROUP) else deputy_of(name, away)
        if deputy is not None:
            yield deputy
