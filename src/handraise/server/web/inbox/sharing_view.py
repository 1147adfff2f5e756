"""Sharing on a question's page: who is on it, who was brought in, and what this person can do with it besides deciding."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Literal

from handraise.model.events import Event, EventKind
from handraise.model.identities import Person
from handraise.model.people import GROUP
from handraise.model.questions import Question
from handraise.model.sharing_rules import may_be_several
from handraise.model.visible import visible, visible_line
from handraise.presentation.names import display_name, person_name
from handraise.presentation.snooze_times import SNOOZES, SnoozeName, snooze_text, snooze_until
from handraise.presentation.times import moment_text
from handraise.presentation.translation import gettext, local_time

ShareAction = Literal["take", "release", "bring in", "hand over", "not for me", "snooze", "put back"]
SHARING: frozenset[str] = frozenset(
    {"take", "release", "bring in", "hand over", "not for me", "snooze", "put back"}
)
"""What a form on the page can say to share a question."""
_MOST_NAMES = 500


@dataclass(frozen=True, slots=True)
class Name:
    """Somebody who can be brought in. `value` is what the form sends."""

    value: str
    shown: str


@dataclass(frozen=True, slots=True)
class SnoozeChoice:
    """A time until which a person can snooze the question."""

    value: SnoozeName
    text: str
    full: str
    is_late: bool
    """Whether the question expires before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingView:
    """How a question is shared. Everything in it may be shown as it is."""

    taken: str | None
    """Who is on it, in a sentence."""
    is_mine: bool
    """Whether that is this person."""
    aside: str | None
    """That this person has set it aside, in a sentence."""
    brought_in: tuple[str, str | None] | None
    """Who brought this person in, in a sentence, and why."""
    is_for_others: bool
    """Whether others may answer too: then this person can leave it to them."""
    ends_for_all: bool
    """Whether one person who declines ends it for the others."""
    snoozes: Sequence[SnoozeChoice] = ()
    first_day: str = ""
    fixed: str | None = None
    """Why nobody can be brought in, in a sentence."""
    must_stay: bool = False
    """Whether it can only be shared and not handed over."""
    names: Sequence[Name] = ()


def sharing_of(
    question: Question,
    events: Sequence[Event],
    person: Person,
    now: datetime,
    called: Mapping[str, str] = MappingProxyType({}),
) -> SharingView:
    """How a pending question is shared, for one of the people who may answer it. `called` has display names by id."""
    several = may_be_several(question)
    ruling = question.ruling
    names_people = ruling is not None and ruling.names_people
    return SharingView(
        taken=taken_text(question, person.id, now, called),
        is_mine=question.taker(now) == person.id,
        aside=_aside_text(question, person.id, now),
        brought_in=_brought_in(events, person, called),
        is_for_others=several,
        ends_for_all=several and (question.veto or not question.takes_votes),
        snoozes=tuple(_snooze(each, question, now) for each in SNOOZES),
        first_day=(local_time(now).date() + timedelta(days=1)).isoformat(),
        fixed=gettext("The policy says who answers this. Ask an administrator if that is wrong.")
        if names_people
        else None,
        must_stay=bool(question.needs),
    )


def taken_text(
    question: Question, me: str, now: datetime, called: Mapping[str, str] = MappingProxyType({})
) -> str | None:
    """Who is on it until when, or None if nobody is."""
    taker = question.taker(now)
    if taker is None or question.taken_until is None:
        return None
    until = f"{local_time(question.taken_until):%H:%M}"
    if taker == me:
        return gettext("You are on this until {time}").format(time=until)
    return gettext("{person} is on this until {time}").format(
        person=display_name(called.get(taker, taker)), time=until
    )


def names_to_bring_in(
    question: Question, people: Sequence[Person], groups: Mapping[str, Collection[str]], me: str
) -> tuple[Name, ...]:
    """The people and groups who are not asked yet."""
    asked = {*question.eligible, question.asker, me}
    persons = (Name(each.id, visible_line(each.name)) for each in people if each.id not in asked)
    groups_shown = (
        Name(f"{GROUP}{each}", gettext("the group {name}").format(name=display_name(each)))
        for each in groups
        if f"{GROUP}{each}" not in asked
    )
    return (*groups_shown, *persons)[:_MOST_NAMES]


def _aside_text(question: Question, me: str, now: datetime) -> str | None:
    mine = next((each for each in question.aside if each.person == me), None)
    if mine is None or not question.is_aside(me, now):
        return None
    if mine.until is None:
        return gettext("You set this aside: it is not in your inbox.")
    return gettext("You snoozed this until {when}.").format(when=moment_text(mine.until))


def _brought_in(
    events: Sequence[Event], person: Person, called: Mapping[str, str]
) -> tuple[str, str | None] | None:
    principals = person.responder.principals
    for event in reversed(events):
        data = event.data if isinstance(event.data, dict) else {}
        if event.kind not in (EventKind.BROUGHT_IN, EventKind.HANDED_OVER) or event.by == person.id:
            continue
        if not any(name in principals for name in data.get("to", ())):
            continue
        known = called.get(event.by or "")
        by = person_name(event.by, viewer=person.id) if known is None else display_name(known)
        handed = gettext("{person} handed this over to you")
        text = handed if event.kind is EventKind.HANDED_OVER else gettext("{person} brought you in")
        reason = data.get("reason")
        return text.format(person=by), visible(reason) if isinstance(reason, str) else None
    return None


def _snooze(name: SnoozeName, question: Question, now: datetime) -> SnoozeChoice:
    until = snooze_until(name, now)
    is_late = question.expires_at is not None and until >= question.expires_at
    return SnoozeChoice(name, snooze_text(name), moment_text(until), is_late)
