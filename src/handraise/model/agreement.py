"""Votes: what each person voted, and whether the people who must agree still can."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from handraise.model.events import Event, EventKind
from handraise.model.forms import AnyForm, Approval
from handraise.model.json_values import Json
from handraise.model.people import GROUP
from handraise.model.questions import Draft, Need, Question, Vote, open_stage

_VOTING = (EventKind.VOTED, EventKind.ANSWERED, EventKind.DECLINED, EventKind.RETURNED)
"""Kinds of events that record a vote; the vote that completes the agreement is recorded with the outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CastVote:
    """A person's current vote. `value` is what they answered, or None if they declined to answer or sent it back."""

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


def with_votes_told(question: Question, events: Iterable[Event]) -> Question:
    """The question with what each person voted, from its history."""
    said = {vote.by: vote for vote in cast_votes(question, events)}
    votes = (
        replace(vote, value=said[vote.by].value, reason=said[vote.by].reason) if vote.by in said else vote
        for vote in question.votes
    )
    return replace(question, votes=tuple(votes))


def outdated_approvals(question: Question, events: Iterable[Event]) -> tuple[str, ...]:
    """Who approved before the asker's last reply: their vote does not count any more, and they must approve again."""
    if not question.replied or not question.takes_votes or question.outcome is not None:
        return ()
    latest = {event.by: event.data for event in events if event.kind in _VOTING}
    return tuple(sorted(by for by, data in latest.items() if by and _is_outdated(question, data)))


class Tally(NamedTuple):
    """How many people each ballot has, and for each need how many people it lacks among them."""

    people: Mapping[str, int]
    lacking: Mapping[str, tuple[int, ...]]
    missing: tuple[int, ...]
    """What the leading ballot lacks: the one that is in the latest stage, and among those the one that lacks least."""

    def agreeing(self, ballot: str) -> int:
        """How many people gave this ballot."""
        return self.people.get(ballot, 0)

    def are_needs_met(self, ballot: str) -> bool:
        """Whether enough of the people of each need gave this ballot."""
        return not any(self.lacking.get(ballot, ()))


def tally_votes(
    needs: Sequence[Need], votes: Sequence[Vote], groups_of: Callable[[str], Collection[str]]
) -> Tally:
    """Count votes. A vote counts for each need that names the voter or one of their groups."""
    people = Counter(vote.ballot for vote in votes)
    if not needs or not votes:
        return Tally(people, {}, ())
    names = {vote.by: {vote.by, *(GROUP + group for group in groups_of(vote.by))} for vote in votes}
    lacking = {
        ballot: tuple(
            max(
                0,
                need.count
                - sum(not names[vote.by].isdisjoint(need.people) for vote in votes if vote.ballot == ballot),
            )
            for need in needs
        )
        for ballot in people
    }

    def place(ballot: str) -> tuple[float, int, str]:
        stage = open_stage(needs, lacking[ballot])
        return -math.inf if stage is None else -stage, sum(lacking[ballot]), ballot

    return Tally(people, lacking, lacking[min(lacking, key=place)])


def newly_asked(question: Question, before: int | None) -> tuple[str, ...]:
    """Who may answer now and could not in the stage before, because a vote has opened another stage."""
    if question.stage == before:
        return ()
    return tuple(sorted(set(question.audience) - set(question.asked_in(before))))


def has_voted(question: Question, person: str) -> bool:
    """Whether this person has voted on it."""
    return any(vote.by == person for vote in question.votes)


def most_agreeing(question: Question) -> int:
    """How many of the votes so far are equal."""
    return max(Counter(vote.ballot for vote in question.votes).values(), default=0)


def can_agree(draft: Draft) -> bool:
    """Whether so many people may answer a new question as must agree. A group may have any number of people."""
    escalated = (name for step in draft.steps for name in step.to)
    needed = [(_people(need.people, {}), need.count) for need in draft.needs]
    if draft.recipients:
        needed.append((_people((*draft.recipients, *escalated), {}), draft.quorum))
    return all(people is None or len(people - {draft.asker}) >= count for people, count in needed)


def can_still_agree(question: Question, groups: Mapping[str, Collection[str]]) -> bool:
    """Whether enough people can agree without anybody changing a vote. `groups` are the people of each group.

    People to whom it will be escalated count. A group that is not in `groups` may have any number of people, and
    somebody who is in none of them may be in any group, because a program vouches for them.
    """
    sides: dict[str, set[str]] = {"": set()}
    for vote in question.votes:
        sides.setdefault(vote.ballot, set()).add(vote.by)
    gone = {vote.by for vote in question.votes} | {question.asker}
    known = {person for people in groups.values() for person in people}
    everybody = _people(_asked_some_time(question), groups) if question.recipients else None

    def could(side: set[str]) -> bool:
        if everybody is not None and len(side) + len(everybody - gone) < question.quorum:
            return False
        for need in question.needs:
            people = _people(need.people, groups)
            if people is None:
                continue
            have = sum(voter in people or voter not in known for voter in side)
            if have + len(people - gone) < need.count:
                return False
        return True

    return any(map(could, sides.values()))


def groups_too_small(question: Question, groups: Mapping[str, Collection[str]]) -> Sequence[str] | None:
    """The groups that have too few people for an agreement, whoever votes what; None if there are enough people.

    It may be no group, if people are named.
    """
    if can_still_agree(replace(question, votes=()), groups):
        return None
    lacking = [
        names
        for names, count in _counts(question)
        if (people := _people(names, groups)) is not None and len(people - {question.asker}) < count
    ]
    return list(dict.fromkeys(name for names in lacking for name in names if name.startswith(GROUP)))


def are_enough(question: Question, people: Collection[str], groups: Mapping[str, Collection[str]]) -> bool:
    """Whether these people can answer a question if nobody else is there. `groups` are the people of each group.

    Who has set it aside for good does not count.
    """
    there = set(people) - set_aside_for_good(question) - {question.asker}
    if not question.audience:
        return len(there) >= question.quorum
    named = [
        ([name for name in names if _is_known(name, groups)], count) for names, count in _counts(question)
    ]
    return all(len(there.intersection(_people(names, groups) or ())) >= count for names, count in named)


def is_left_to_somebody(
    question: Question, groups: Mapping[str, Collection[str]], everybody: Collection[str] | None
) -> bool:
    """Whether somebody has a question in their inbox, now or when they stop snoozing it.

    `groups` are the people of each group, and `everybody` is who sees a question that names nobody; None is anybody.
    """
    people = _people(question.audience, groups) if question.audience else everybody
    return people is None or not set_aside_for_good(question) | {question.asker} >= set(people)


def is_stranded(
    question: Question,
    followed: Question | None,
    groups: Mapping[str, Collection[str]],
    everybody: Collection[str] | None,
) -> bool:
    """Whether a pending question is in nobody's inbox, and no time will change that.

    `followed` is the question that it follows; see `is_left_to_somebody` for the rest.
    """
    if question.due_at is not None or question.closes_at is not None:
        return False
    if question.follows is not None:
        return followed is None or followed.outcome is not None or followed.follows is not None
    return not is_left_to_somebody(question, groups, everybody)


def set_aside_for_good(question: Question) -> frozenset[str]:
    """Who does not want a question in their inbox any more."""
    return frozenset(each.person for each in question.aside if each.until is None)


def _asked_some_time(question: Question) -> tuple[str, ...]:
    """Everybody who may answer now or later: also those brought in, and those to whom it will be escalated."""
    return (*question.recipients, *question.added, *(name for step in question.steps for name in step.to))


def _counts(question: Question) -> list[tuple[Sequence[str], int]]:
    """From whom how many people must agree."""
    asked = [(_asked_some_time(question), question.quorum)] if question.recipients else []
    return [*asked, *((need.people, need.count) for need in question.needs)]


def _is_known(name: str, groups: Mapping[str, Collection[str]]) -> bool:
    return not name.startswith(GROUP) or name.removeprefix(GROUP) in groups


def _people(names: Iterable[str], groups: Mapping[str, Collection[str]]) -> set[str] | None:
    """The people of these names; None if that may be anybody."""
    found: set[str] = set()
    for name in names:
        if not name.startswith(GROUP):
            found.add(name)
        elif (group := name.removeprefix(GROUP)) in groups:
            found |= set(groups[group])
        else:
            return None
    return found


def _is_outdated(question: Question, data: Json) -> bool:
    """Whether this vote approved a conversation that ended before the asker's last reply."""
    value = data.get("value") if isinstance(data, dict) else None
    approves = isinstance(value, dict) and value.get("decision") == "approve"
    return isinstance(question.form, Approval) and approves and (data.get("seen") or 0) < question.replied


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
