"""The filters of the settled questions: from one day to another, how they ended, and by whom."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, cast

from fastapi import Depends, Request

from handraise.model.identities import Person
from handraise.model.json_values import text_problem
from handraise.model.questions import Question
from handraise.model.visible import visible_line
from handraise.ports.settled_filter import ENDED, Ended, SettledFilter
from handraise.presentation.names import display_name
from handraise.presentation.times import day_in_words
from handraise.presentation.translation import current_locale, find_time_zone, gettext, pgettext
from handraise.server.web.inbox.search import Offered
from handraise.server.web.inbox.status_view import status_name

_LONGEST = 200
_FIRST_YEAR, _LAST_YEAR = 1970, 9990
_MOST_NAMES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledFilters:
    """What the address asks for; both days are part of it."""

    first: date | None = None
    last: date | None = None
    outcome: Ended | None = None
    by: str = ""

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The filters as the address has them."""
        given = {
            "since": self.first.isoformat() if self.first else "",
            "until": self.last.isoformat() if self.last else "",
            "outcome": self.outcome or "",
            "by": self.by,
        }
        return tuple((name, value) for name, value in given.items() if value)

    def without(self, *names: str) -> tuple[tuple[str, str], ...]:
        """The others, as the address has them."""
        return tuple((name, value) for name, value in self.pairs if name not in names)

    @property
    def wanted(self) -> SettledFilter:
        """The same for the store: days begin at midnight where the person is."""
        return SettledFilter(
            since=None if self.first is None else _midnight(self.first),
            until=None if self.last is None else _midnight(self.last + timedelta(days=1)),
            outcome=self.outcome,
            by=self.by or None,
        )

    def days(self, today: date) -> str | None:
        """Which days, in words; None if any."""
        if self.first is None and self.last is None:
            return None
        if self.first == self.last and self.first is not None:
            return day_in_words(self.first, today)
        if self.last is None:
            return gettext("{day} or later").format(day=day_in_words(cast("date", self.first), today))
        if self.first is None:
            return gettext("{day} or earlier").format(day=day_in_words(self.last, today))
        return gettext("{first} to {last}").format(
            first=day_in_words(self.first, today), last=day_in_words(self.last, today)
        )


async def filters_of(request: Request) -> SettledFilters:
    """What the address asks for; invalid values are ignored."""
    outcome, by = request.query_params.get("outcome", ""), request.query_params.get("by", "")[:_LONGEST]
    return SettledFilters(
        first=_day(request.query_params.get("since", "")),
        last=_day(request.query_params.get("until", "")),
        outcome=outcome if outcome in ENDED else None,
        by="" if text_problem(by) else by,
    )


FiltersDep = Annotated[SettledFilters, Depends(filters_of)]


def outcome_offers() -> Sequence[Offered]:
    """All ways to end."""
    return [Offered(each, outcome_name(each), ours=True) for each in ENDED]


def outcome_name(outcome: Ended) -> str:
    """A way to end as an option of the filter."""
    return gettext("Answered in any way") if outcome == "answered" else status_name(outcome)


def person_offers(
    people: Iterable[Person], questions: Iterable[Question], chosen: str, *, me: str
) -> Sequence[Offered]:
    """The people who may have settled something: you, who is in the directory, and who settled these questions."""
    names = {each.id: each.name for each in people}
    for question in questions:
        for name in (getattr(question.outcome, "by", None), *(vote.by for vote in question.votes)):
            if name and len(names) < _MOST_NAMES:
                names.setdefault(name, name)
    for name in filter(None, (chosen, me)):
        names.setdefault(name, name)
    made = [Offered(each, _shown(each, name)) for each, name in names.items() if each != me]
    mine = Offered(me, pgettext("who settled it", "you"), ours=True)
    return [mine, *sorted(made, key=lambda each: (each.shown.casefold(), each.value))]


def _shown(person_id: str, name: str) -> str:
    return (
        display_name(person_id) if name == person_id else f"{visible_line(name)} ({display_name(person_id)})"
    )


def _midnight(day: date) -> datetime:
    zone = find_time_zone(current_locale().time_zone) or UTC
    return datetime.combine(day, time(), zone).astimezone(UTC)


def _day(text: str) -> date | None:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if _FIRST_YEAR <= day.year <= _LAST_YEAR else None
