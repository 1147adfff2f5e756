"""The period that the insights count: the last day, week or month, the one before it, and what ended in both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal
from urllib.parse import urlencode

from fastapi import Request

from handraise.model.forms import Risk
from handraise.model.json_values import text_problem
from handraise.model.statistics import MAX_ENDINGS, Ending
from handraise.ports import Store
from handraise.presentation.names import display_name
from handraise.presentation.times import short_day, short_weekday
from handraise.presentation.translation import gettext, local_time
from handraise.server.web.inbox.search import Offered
from handraise.server.web.inbox.settled_filters import risk_of

_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_LONGEST = 200
_MOST_CHOICES = 200


@dataclass(frozen=True, slots=True)
class Span:
    """How far back the page looks, in steps of whole hours or days."""

    name: Literal["day", "week", "month"]
    step: timedelta
    steps: int

    @property
    def title(self) -> str:
        """Its name, for a person."""
        return {"day": gettext("Day"), "week": gettext("Week"), "month": gettext("Month")}[self.name]

    @property
    def heading(self) -> str:
        """How far back that is."""
        match self.name:
            case "day":
                return gettext("The last 24 hours")
            case "week":
                return gettext("The last 7 days")
            case "month":
                return gettext("The last 30 days")

    @property
    def empty(self) -> str:
        """What is said if nothing ended."""
        match self.name:
            case "day":
                return gettext("Nothing ended in the last 24 hours")
            case "week":
                return gettext("Nothing ended in the last 7 days")
            case "month":
                return gettext("Nothing ended in the last 30 days")

    @property
    def before(self) -> str:
        """The period before, in the legend of a chart."""
        match self.name:
            case "day":
                return gettext("the 24 hours before")
            case "week":
                return gettext("the 7 days before")
            case "month":
                return gettext("the 30 days before")

    @property
    def chart_title(self) -> str:
        """What its chart shows."""
        match self.name:
            case "day":
                return gettext("Questions that ended in each hour of the last 24 hours")
            case "week":
                return gettext("Questions that ended in each day of the last 7 days")
            case "month":
                return gettext("Questions that ended in each day of the last 30 days")

    def starts(self, now: datetime) -> list[datetime]:
        """When each step begins on the reader's clock, the oldest first; the last one has not ended."""
        last = local_time(now).replace(minute=0, second=0, microsecond=0)
        places = reversed(range(self.steps))
        if self.step == _DAY:
            # A day on which clocks are changed is not 24 hours long.
            return [last.replace(hour=0) - _DAY * back for back in places]
        return [local_time(last.astimezone(UTC) - _HOUR * back) for back in places]

    def earlier(self, now: datetime) -> datetime:
        """The same time of the period before."""
        if self.step == _DAY:
            return (local_time(now) - self.step * self.steps).astimezone(UTC)
        return now - self.step * self.steps

    def label(self, start: datetime) -> str:
        """A step in words."""
        match self.name:
            case "day":
                return f"{start:%H}:00"
            case "week":
                return gettext("{weekday} {date}").format(weekday=short_weekday(start), date=short_day(start))
            case "month":
                return short_day(start)

    def tick(self, start: datetime, place: int) -> str:
        """The text below a step, if there is room for it."""
        match self.name:
            case "day":
                return f"{start:%H}:00" if start.hour % 6 == 0 and 0 < place < self.steps - 1 else ""
            case "week":
                return short_weekday(start)
            case "month":
                return short_day(start) if (place + 3) % 7 == 0 else ""


WEEK = Span("week", _DAY, 7)
SPANS = (Span("day", _HOUR, 24), WEEK, Span("month", _DAY, 30))


@dataclass(frozen=True, slots=True, kw_only=True)
class InsightsFilters:
    """What the address asks for. The settled questions have filters of the same names."""

    agent: str = ""
    group: str = ""
    tool: str = ""
    risk: Risk | None = None

    @property
    def pairs(self) -> dict[str, str]:
        """The filters as the address has them."""
        given = {"group": self.group, "agent": self.agent, "tool": self.tool, "risk": self.risk or ""}
        return {name: value for name, value in given.items() if value}

    def fits(self, ending: Ending) -> bool:
        """Whether it is counted."""
        return (
            self.agent in ("", ending.asker)
            and (not self.group or self.group in ending.groups)
            and self.tool in ("", ending.tool)
            and self.risk in (None, ending.risk)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """The options of the filters."""

    agents: Sequence[Offered]
    groups: Sequence[Offered]
    tools: Sequence[Offered]


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """What ended in a period, the newest first, and in the one before."""

    span: Span
    filters: InsightsFilters
    now: datetime
    starts: Sequence[datetime]
    """When each step begins."""
    endings: Sequence[Ending]
    before: Sequence[Ending] | None
    """Those of the same part of the period before; None if nothing ended in it, or if not all of it was read."""
    cut: datetime | None
    """Since when all of the period is counted, if that is not since its beginning."""
    offers: Offers

    @property
    def before_starts(self) -> Sequence[datetime]:
        """When each step of the period before begins."""
        return self.span.starts(self.span.earlier(self.now))

    def address(self, path: str = "/insights", **changes: str) -> str:
        """This page, or another one of the same figures, with some changes."""
        given = {"span": self.span.name, **self.filters.pairs, **changes}
        return f"{path}?{urlencode({name: value for name, value in given.items() if value})}"

    def settled(self, **more: str) -> str:
        """The settled questions of this period, narrowed further."""
        since = self.cut.isoformat() if self.cut else _bound(self.starts[0], self.span)
        return _settled({"since": since, **self.filters.pairs, **more})

    def settled_before(self, **more: str) -> str:
        """The settled questions of the period before, narrowed further."""
        until = self.span.earlier(self.now).isoformat()
        return _settled(
            {"since": _bound(self.before_starts[0], self.span), "until": until, **self.filters.pairs, **more}
        )

    def settled_in(self, place: int, **more: str) -> str:
        """The settled questions of one step, narrowed further."""
        start = self.starts[place]
        since = self.cut.isoformat() if self.cut and self.cut > start else _bound(start, self.span)
        if self.span.step == _DAY:
            return self.settled(since=since, until=start.date().isoformat(), **more)
        return self.settled(since=since, until=_later(start).isoformat(), **more)


async def period_of(request: Request, store: Store, workspace: str) -> Period:
    """The period that the address asks for, with what ended in it; invalid values are ignored."""

    def given(name: str) -> str:
        text = request.query_params.get(name, "")[:_LONGEST]
        return "" if text_problem(text) else text

    span, now = next((each for each in SPANS if each.name == given("span")), WEEK), datetime.now(UTC)
    filters = InsightsFilters(
        agent=given("agent"), group=given("group"), tool=given("tool"), risk=risk_of(given("risk"))
    )
    earlier = span.earlier(now)
    starts, before_start = span.starts(now), span.starts(earlier)[0]
    found = await store.endings(workspace, since=before_start, limit=MAX_ENDINGS)
    fitting = [each for each in found.items if filters.fits(each)]
    is_comparable = found.is_complete and any(each.settled_at < earlier for each in found.items)
    return Period(
        span=span,
        filters=filters,
        now=now,
        starts=starts,
        endings=[each for each in fitting if each.settled_at >= starts[0]],
        before=[each for each in fitting if each.settled_at < earlier] if is_comparable else None,
        cut=found.since if not found.is_complete and found.since > starts[0] else None,
        offers=_offers(found.items, filters),
    )


def _offers(endings: Sequence[Ending], filters: InsightsFilters) -> Offers:
    def offered(chosen: str, names: Callable[[Ending], Sequence[str | None]]) -> Sequence[Offered]:
        found = {name for each in endings for name in names(each) if name}
        shown = sorted(found)[:_MOST_CHOICES]
        return [Offered(each, display_name(each)) for each in sorted({*shown, *filter(None, (chosen,))})]

    return Offers(
        agents=offered(filters.agent, lambda each: (each.asker,)),
        groups=offered(filters.group, lambda each: each.groups),
        tools=offered(filters.tool, lambda each: (each.tool,)),
    )


def _settled(given: dict[str, str]) -> str:
    return f"/settled?{urlencode({'all': '1', **given})}"


def _bound(start: datetime, span: Span) -> str:
    return start.date().isoformat() if span.step == _DAY else start.isoformat()


def _later(start: datetime) -> datetime:
    return local_time(start.astimezone(UTC) + _HOUR)
