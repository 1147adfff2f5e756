"""Sharing the work: what must hold before a person brings others in, hands over, or sets a question aside."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from handraise.model.agreement import is_left_to_somebody
from handraise.model.drafting import Limits, recipient_problems
from handraise.model.errors import CannotShare
from handraise.model.lifecycle import TAKEN_FOR
from handraise.model.people import GROUP
from handraise.model.problems import Problem
from handraise.model.questions import Question


def check_people(question: Question, people: Sequence[str], limits: Limits, *, by: str, leave: bool) -> None:
    """Raise `CannotShare` if these people cannot be brought in, or if it cannot be handed over to them."""
    if isinstance(people, str):
        raise TypeError(f"people are a list of names: write [{people!r}]")
    if problems := list(_people_problems(question, people, limits, by=by, leave=leave)):
        raise CannotShare(problems)


def _people_problems(
    question: Question, people: Sequence[str], limits: Limits, *, by: str, leave: bool
) -> Iterator[Problem]:
    if not people:
        yield Problem("people", "name at least one person or group")
    for place, name in enumerate(people):
        yield from recipient_problems(f"people[{place}]", name, limits)
        if name == question.asker:
            yield Problem(f"people[{place}]", "the asker cannot answer: name somebody else")
        if leave and name == by:
            yield Problem(f"people[{place}]", "you cannot hand it over to yourself: name somebody else")
    most = limits.recipients
    if len({*question.recipients, *question.added, *people}) > most:
        yield Problem("people", f"at most {most} people and groups can be asked")
    if question.ruling is not None and question.ruling.names_people:
        yield Problem("people", "the policy says who answers this: ask an administrator if that is wrong")
    elif leave and question.policy_decides_who:
        yield Problem("people", "the policy needs certain people here: bring others in, but stay")


def check_aside_until(until: datetime | None) -> None:
    """Raise `CannotShare` if a time has no time zone."""
    if until is not None and until.tzinfo is None:
        raise CannotShare([Problem("until", "give a time with a time zone")])


def check_left(
    question: Question, groups: Mapping[str, Collection[str]], everybody: Collection[str] | None
) -> None:
    """Raise `CannotShare` if a question, as it would be set aside for good, is in nobody's inbox. See `is_left_to_somebody`."""
    if not is_left_to_somebody(question, groups, everybody):
        raise CannotShare(
            [Problem("person", "nobody else has this in their inbox: hand it over, snooze it, or decline it")]
        )


def may_be_several(question: Question) -> bool:
    """Whether more than one person may answer: one of them who declines would end it for everyone."""
    names = question.audience
    return not names or len(names) > 1 or names[0].startswith(GROUP)


def with_taker_at(question: Question, at: datetime) -> Question:
    """The same question, with the person who was on it at this time as its taker, or with none.

    A message is drawn from it and has no clock. It is the same if it is drawn again after somebody else took it.
    """
    since = None if question.taken_until is None else question.taken_until - TAKEN_FOR
    return with_taker_now(question, at) if since is None or since <= at else _untaken(question)


def with_taker_now(question: Question, now: datetime) -> Question:
    """The same question, with the person who is still on it as its taker, or with none."""
    return question if question.taker(now) is not None else _untaken(question)


def _untaken(question: Question) -> Question:
    return replace(question, taken_by=None, taken_until=None)
