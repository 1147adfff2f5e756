"""Votes: what each person voted, and whether the people who must agree still can."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from handraise.model.events import Event, EventKind
from handraise.model.forms import AnyForm, Approval
from handraise.model.json_values import Json
from handraise.model.people import GROUP
from handraise.model.questions import Question, Vote

_VOTING = (EventKind.VOTED, EventKind.ANSWERED, EventKind.DECLINED)
"""Kinds of events that record a vote; the vote that completes the agreement is recorded with the outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CastVote:
    """A person's current vote. `value` is what they answered, or None if they declined to answer."""

    by: str
    ballot: str = field(repr=False)
    at: datetime
    channel: str | None = None
    value: Json = field(default=None, repr=False)
    reason: str | None = field(default=None, repr=False)


def cast_votes(question: Question, events: Iterable[Event]) -> tuple[CastVote, ...]:
    """The votes that count now, oldest first, with the details from the question's history."""
    latest = {event.by: event for event in events if event.kind in _VOTING}
    found = [_cast(question.form, vote, latest[vote.by]) for vote in question.votes if vote.by in latest]
    return tuple(sorted(found, key=lambda vote: vote.at))


def has_voted(question: Question, person: str) -> bool:
    """Whether this person has voted on it."""
    return any(vote.by == person for vote in question.votes)


def most_agreeing(question: Question) -> int:
    """How many of the votes so far are equal."""
    return max(Counter(vote.ballot for vote in question.votes).values(), default=0)


def can_still_agree(question: Question, groups: Mapping[str, Collection[str]]) -> bool:
    """Whether enough people can agree without anybody changing a vote. `groups` are the people of each group.

    People to whom it will be escalated count. A group that is not in `groups` may have any number of people.
    """
    voters = _voters(question, groups)
    if voters is None:
        return True
    left = voters - {vote.by for vote in question.votes} - {question.asker}
    return most_agreeing(question) + len(left) >= question.quorum


def _voters(question: Question, groups: Mapping[str, Collection[str]]) -> set[str] | None:
    """Who may vote now or after an escalation; None if that may be anybody."""
    if not question.recipients:
        return None
    found: set[str] = set()
    for name in (*question.recipients, *(name for step in question.steps for name in step.to)):
        if not name.startswith(GROUP):
            found.add(name)
        elif (group := name.removeprefix(GROUP)) in groups:
            found |= set(groups[group])
        else:
            return None
    return found


def _cast(form: AnyForm, vote: Vote, event: Event) -> CastVote:
    data = event.data if isinstance(event.data, dict) else {}
    value = data.get("value")
    told = value if isinstance(form, Approval) and isinstance(value, dict) else data
    reason = told.get("reason")
    return CastVote(
        by=vote.by,
        ballot=vote.ballot,
        at=event.at,
        channel=event.channel,
        value=value,
        reason=reason if isinstance(reason, str) else None,
    )
