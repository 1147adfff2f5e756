"""The filters of the settled questions: from one day to another, how they ended, by whom, and what they were about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, cast, get_args

from fastapi import Depends, Request

from handraise.model.forms import Risk
from handraise.model.identities import Person
from handraise.model.json_values import text_problem
from handraise.model.questions import Question
from handraise.model.stops import tool_of
from handraise.model.visible import visible_line
from handraise.ports.settled_filter import ENDED, NO_CHANNEL, Ended, SettledFilter
from handraise.presentation.names import channel_name, display_name
from handraise.presentation.times import day_in_words, moment_text, span
from handraise.presentation.translation import (
    current_locale,
    find_time_zone,
    gettext,
    gettext_noop,
    local_time,
    pgettext,
)
from handraise.server.web.inbox.ended_by import WAYS, EndedBy, ended_by, ended_by_name
from handraise.server.web.inbox.search import Offered
from handraise.server.web.inbox.status_view import status_name

_LONGEST = 200
_FIRST_YEAR, _LAST_YEAR = 1970, 9990
_MOST_NAMES = 200
_HOURS = 24
_MOST_SECONDS = 10**9
UNNAMED = "-"
"""A channel that nobody named, in the address."""
_BY_HAND = ("since", "until", "outcome", "by", "ended_by", "tool", "risk")
"""The filters that the form has; the others are set by links."""

RISK_NAMES: Mapping[Risk, str] = {
    "high": gettext_noop("High"),
    "medium": gettext_noop("Medium"),
    "low": gettext_noop("Low"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledFilters:
    """What the address asks for; both days are part of it. Links may have instants instead of days."""

    first: date | None = None
    last: date | None = None
    begins: datetime | None = None
    ends: datetime | None = None
    outcome: Ended | None = None
    by: str = ""
    ended_by: EndedBy | None = None
    channel: str | None = None
    tool: str = ""
    risk: Risk | None = None
    group: str = ""
    took: tuple[int, int | None] | None = None
    """At least so many seconds, and fewer than so many."""
    is_late: bool = False
    has_failed: bool = False
    hour: int | None = None
    """The hour of the day in which it ended."""
    asked_hour: int | None = None

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The filters as the address has them."""
        begins, ends = self.begins or self.first, self.ends or self.last
        given = {
            "since": begins.isoformat() if begins else "",
            "until": ends.isoformat() if ends else "",
            "outcome": self.outcome or "",
            "by": self.by,
            "ended_by": self.ended_by or "",
            "channel": UNNAMED if self.channel == NO_CHANNEL else self.channel or "",
            "tool": self.tool,
            "risk": self.risk or "",
            "group": self.group,
            "took": "" if self.took is None else f"{self.took[0]}-{self.took[1] or ''}",
            "late": "1" if self.is_late else "",
            "failed": "1" if self.has_failed else "",
            "hour": "" if self.hour is None else str(self.hour),
            "asked_hour": "" if self.asked_hour is None else str(self.asked_hour),
        }
        return tuple((name, value) for name, value in given.items() if value)

    @property
    def kept(self) -> tuple[tuple[str, str], ...]:
        """The filters that the form has no field for, so that it must keep them."""
        return self.without(*_BY_HAND)

    def without(self, *names: str) -> tuple[tuple[str, str], ...]:
        """The others, as the address has them."""
        return tuple((name, value) for name, value in self.pairs if name not in names)

    @property
    def wanted(self) -> SettledFilter:
        """The same for the store: days begin at midnight where the person is."""
        return SettledFilter(
            since=self.begins or (None if self.first is None else _midnight(self.first)),
            until=self.ends or (None if self.last is None else _midnight(self.last + timedelta(days=1))),
            outcome=self.outcome,
            by=self.by or None,
            ways=None if self.ended_by is None else WAYS[self.ended_by],
            channel=self.channel,
            tool=self.tool or None,
            risk=self.risk,
            group=self.group or None,
            took_at_least=None if self.took is None else timedelta(seconds=self.took[0]),
            took_less=None if self.took is None or self.took[1] is None else timedelta(seconds=self.took[1]),
            is_late=self.is_late,
            has_failed=self.has_failed,
        )

    def fits_hours(self, question: Question) -> bool:
        """Whether it was asked, and ended, in these hours where the person is. No store knows about that."""
        return (self.asked_hour in (None, local_time(question.asked_at).hour)) and (
            question.outcome is None or self.hour in (None, local_time(question.outcome.at).hour)
        )

    def chips(self) -> list[tuple[str, str, str]]:
        """The filters that are set and have no list of options: their names in the address, their labels and texts."""
        found: list[tuple[str, str, str]] = []
        if self.ended_by is not None:
            found.append(("ended_by", pgettext("filter", "decided by"), ended_by_name(self.ended_by)))
        if self.channel is not None:
            channel = channel_name(self.channel) if self.channel else gettext("no channel named")
            found.append(("channel", pgettext("filter", "through"), channel))
        if self.tool:
            found.append(("tool", pgettext("filter", "tool"), visible_line(self.tool)))
        if self.risk is not None:
            found.append(("risk", pgettext("filter", "risk"), gettext(RISK_NAMES[self.risk])))
        if self.group:
            found.append(("group", pgettext("filter", "asked of the group"), visible_line(self.group)))
        if self.took is not None:
            found.append(("took", pgettext("filter", "after"), _took_in_words(*self.took)))
        if self.is_late:
            found.append(("late", pgettext("filter", "ended"), gettext("after the promised time")))
        if self.has_failed:
            found.append(("failed", pgettext("filter", "report"), gettext("failed after approval")))
        for name, label, hour in (
            ("asked_hour", pgettext("filter", "asked from"), self.asked_hour),
            ("hour", pgettext("filter", "ended from"), self.hour),
        ):
            if hour is not None:
                found.append((name, label, hour_in_words(hour)))
        return found

    def days(self, today: date) -> str | None:
        """Which days, in words; None if any."""
        if self.begins is not None or self.ends is not None:
            return _instants_in_words(self.begins or _start(self.first), self.ends or _end(self.last))
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

    def given(name: str) -> str:
        text = request.query_params.get(name, "")[:_LONGEST]
        return "" if text_problem(text) else text

    outcome, risk, channel = given("outcome"), given("risk"), given("channel")
    return SettledFilters(
        first=_day(given("since")),
        last=_day(given("until")),
        begins=_instant(given("since")),
        ends=_instant(given("until")),
        outcome=outcome if outcome in ENDED else None,
        by=given("by"),
        ended_by=ended_by(given("ended_by")),
        channel=NO_CHANNEL if channel == UNNAMED else channel or None,
        tool=given("tool"),
        risk=risk_of(risk),
        group=given("group"),
        took=_took(given("took")),
        is_late=bool(given("late")),
        has_failed=bool(given("failed")),
        hour=_hour(given("hour")),
        asked_hour=_hour(given("asked_hour")),
    )


FiltersDep = Annotated[SettledFilters, Depends(filters_of)]


def outcome_offers() -> Sequence[Offered]:
    """All ways to end."""
    return [Offered(each, outcome_name(each), ours=True) for each in ENDED]


def outcome_name(outcome: Ended) -> str:
    """A way to end as an option of the filter."""
    return gettext("Answered in any way") if outcome == "answered" else status_name(outcome)


def risk_of(text: str) -> Risk | None:
    """The risk with this name, or None if there is none."""
    return next((each for each in get_args(Risk) if each == text), None)


def risk_offers() -> Sequence[Offered]:
    """All risks, the highest first."""
    return [Offered(each, gettext(name), ours=True) for each, name in RISK_NAMES.items()]


def tool_offers(questions: Iterable[Question], chosen: str) -> Sequence[Offered]:
    """The tools of these questions, and the chosen one."""
    names = {tool for each in questions if (tool := tool_of(each))} | ({chosen} if chosen else set())
    return [Offered(each, display_name(each)) for each in sorted(names)[:_MOST_NAMES]]


def hour_in_words(hour: int) -> str:
    """An hour of the day, from its beginning to its end."""
    return gettext("{start} to {end}").format(start=f"{hour:02}:00", end=f"{(hour + 1) % _HOURS:02}:00")


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


def _start(day: date | None) -> datetime | None:
    return None if day is None else _midnight(day)


def _end(day: date | None) -> datetime | None:
    return None if day is None else _midnight(day + timedelta(days=1))


def _instants_in_words(begins: datetime | None, ends: datetime | None) -> str:
    first = "" if begins is None else moment_text(local_time(begins))
    last = "" if ends is None else moment_text(local_time(ends))
    if not last:
        return gettext("{day} or later").format(day=first)
    if not first:
        return gettext("before {day}").format(day=last)
    return gettext("{first} to {last}").format(first=first, last=last)


def _took_in_words(least: int, most: int | None) -> str:
    if most is None:
        return gettext("{span} or more").format(span=span(timedelta(seconds=least)))
    if not least:
        return gettext("less than {span}").format(span=span(timedelta(seconds=most)))
    return gettext("{first} to {last}").format(
        first=span(timedelta(seconds=least)), last=span(timedelta(seconds=most))
    )


def _instant(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    # Without an offset it is a day, or means nothing.
    return found if found.tzinfo is not None and _FIRST_YEAR <= found.year <= _LAST_YEAR else None


def _took(text: str) -> tuple[int, int | None] | None:
    least, dash, most = text.partition("-")
    if not dash or not all(_is_number(each) for each in filter(None, (least, most))) or text == "-":
        return None
    found = int(least or 0), int(most) if most else None
    return None if max(each or 0 for each in found) > _MOST_SECONDS else found


def _hour(text: str) -> int | None:
    return int(text) if _is_number(text) and int(text) < _HOURS else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def _day(text: str) -> date | None:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if _FIRST_YEAR <= day.year <= _LAST_YEAR else None
