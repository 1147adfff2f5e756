"""How a workspace answers: how soon, who, through which channel, and what nobody answered. For administrators."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias
from urllib.parse import quote

from fastapi import APIRouter, Request
from markupsafe import Markup
from starlette.responses import Response

from handraise.model.outcomes import Source, Status
from handraise.model.questions import Question, Ref
from handraise.model.statistics import MAX_ENDINGS, Ending, percentile
from handraise.model.visible import visible_line
from handraise.presentation.markdown import one_line
from handraise.presentation.names import channel_name
from handraise.presentation.report_text import shortened_line
from handraise.presentation.times import short_day, short_weekday
from handraise.presentation.translation import gettext, gettext_noop, grouped, local_time
from handraise.server.auth.authenticator import Context, CurrentPerson
from handraise.server.web.inbox.agent_text import mixes_alphabets
from handraise.server.web.inbox.charts import Bar, Column, Series, Tone, bars, columns
from handraise.server.web.inbox.page_texts import When, since, when
from handraise.server.web.pages import PageRoute, live_page, message

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

_MOST_BARS = 8
_LONGEST_NAME = 60
_EXCERPT = 120
Kind: TypeAlias = Literal["channel", "person", "agent"]
"""What the bars of a panel stand for."""
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_ANSWERED_WITHIN = (
    (60.0, gettext_noop("under a minute"), ""),
    (300.0, gettext_noop("1 to 5 minutes"), "1m"),
    (900.0, gettext_noop("5 to 15 minutes"), "5m"),
    (3_600.0, gettext_noop("15 minutes to an hour"), "15m"),
    (14_400.0, gettext_noop("1 to 4 hours"), "1h"),
    (86_400.0, gettext_noop("4 hours to a day"), "4h"),
    (math.inf, gettext_noop("more than a day"), "1d"),
)
_AGES = {
    60.0: gettext_noop("under a minute"),
    600.0: gettext_noop("1 to 10 minutes"),
    3_600.0: gettext_noop("10 minutes to an hour"),
    21_600.0: gettext_noop("1 to 6 hours"),
    86_400.0: gettext_noop("6 hours to a day"),
    604_800.0: gettext_noop("1 to 7 days"),
    math.inf: gettext_noop("more than a week"),
}
_OLD = 86_400.0


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


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart with its heading; without a chart, what it would show."""

    id: str
    title: str
    chart: Markup | None
    empty: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """An action that was approved and failed. Everything in it may be shown as it is."""

    href: str
    asker: str
    text: str
    report: str
    at: When


@pages.get("/insights")
async def show_insights(request: Request, ctx: Context, caller: CurrentPerson) -> Response:
    """The figures of the last day, week or month."""
    if not caller.is_admin:
        return message(
            gettext("This page is for administrators"),
            gettext(
                "It counts how the people of the whole workspace answer. What you may answer is in your inbox."
            ),
            status=403,
            lead=("/", gettext("Back to what waits")),
        )
    wanted = request.query_params.get("span")
    span = next((each for each in SPANS if each.name == wanted), WEEK)
    now = datetime.now(UTC)
    starts = span.starts(now)
    found = await ctx.store.endings(caller.workspace, since=starts[0], limit=MAX_ENDINGS + 1)
    queue_stats = await ctx.store.queue_stats(caller.workspace)
    endings = found[:MAX_ENDINGS]
    failed = [
        Ref(caller.workspace, each.failed_question)
        for each in endings
        if each.failed_after_approval and each.failed_question
    ]
    spent = sorted((each.settled_at - each.asked_at).total_seconds() for each in endings if _by_person(each))
    return live_page(
        "inbox/insights.html",
        person=caller.person,
        span=span,
        spans=SPANS,
        since=when(starts[0], now),
        cut=when(endings[-1].settled_at, now) if len(found) > MAX_ENDINGS else None,
        most=MAX_ENDINGS,
        ended=len(endings),
        waiting=max(queue_stats.pending.values(), default=0),
        missed=sum(map(_is_missed, endings)),
        failed=len(failed),
        failures=[_failure(each, now) for each in await ctx.store.read(failed[:_MOST_BARS]) if each],
        median=length(percentile(spent, 0.5)) if spent else None,
        ninetieth=length(percentile(spent, 0.9)) if spent else None,
        over_time=_over_time(span, starts, endings),
        panels=_panels(endings, spent, queue_stats.pending),
    )


def _failure(question: Question, now: datetime) -> Failure:
    report = question.report
    return Failure(
        href=f"/questions/{quote(question.id, safe='')}",
        asker=_name(question.asker),
        text=one_line(question.prompt, _EXCERPT),
        report="" if report is None else shortened_line(report.text, _EXCERPT),
        at=since(question.asked_at if report is None else report.at, now),
    )


def length(seconds: float) -> str:
    """A length of time in a few characters: its largest unit, and the next if that matters."""
    left = max(0, round(seconds))
    for place, (size, unit) in enumerate(_UNITS):
        count, rest = divmod(left, size)
        if count or size == 1:
            text = f"{count} {unit}"
            if place + 1 < len(_UNITS) and count < 10:  # noqa: PLR2004 -- a digit, and then some
                below, name = _UNITS[place + 1]
                text += f" {rest // below} {name}" if rest // below else ""
            return text
    raise AssertionError("a second is a second")


def _by_person(ending: Ending) -> bool:
    return ending.status is Status.ANSWERED and ending.source == "person"


def _is_missed(ending: Ending) -> bool:
    return ending.status in (Status.EXPIRED, Status.EXHAUSTED)


def _series_of(ending: Ending) -> int:
    if _by_person(ending):
        return 0
    if ending.status is Status.RETURNED:
        return 1
    return 3 if _is_missed(ending) else 2


def _over_time(span: Span, starts: Sequence[datetime], endings: Sequence[Ending]) -> Panel:
    counts = [[0, 0, 0, 0] for _ in starts]
    for each in endings:
        place = bisect_right(starts, each.settled_at) - 1
        counts[max(place, 0)][_series_of(each)] += 1
    drawn = [
        Column(label=span.label(start), counts=tuple(some), tick=span.tick(start, place))
        for place, (start, some) in enumerate(zip(starts, counts, strict=True))
    ]
    hourly = span.step == _HOUR
    series = (
        Series(gettext("answered by people"), "main"),
        Series(gettext("sent back"), "back"),
        Series(gettext("ended otherwise"), "other"),
        Series(gettext("expired or exhausted"), "loud"),
    )
    chart = columns(
        "over-time", span.chart_title, gettext("Hour") if hourly else gettext("Day"), series, drawn
    )
    title = gettext("Ended in each hour") if hourly else gettext("Ended in each day")
    return Panel("over-time", title, chart if endings else None, span.empty)


def _panels(
    endings: Sequence[Ending], spent: Sequence[float], pending: Mapping[float, int]
) -> tuple[Panel, ...]:
    by_people = [each for each in endings if _by_person(each)]
    decided = [each for each in by_people if each.approved is not None]
    return (
        _times(spent),
        _counted(
            "channels",
            gettext("Answered through"),
            "channel",
            (_channel(each) for each in by_people),
        ),
        _waiting(pending),
        _ways(endings),
        _counted("people", gettext("Answered, by person"), "person", (each.by for each in by_people)),
        _counted("agents", gettext("Ended, by agent"), "agent", (each.asker for each in endings)),
        _rates("person-rates", gettext("Approved, by person"), "person", decided, lambda each: each.by),
        _rates("agent-rates", gettext("Approved, by agent"), "agent", decided, lambda each: each.asker),
    )


def _times(spent: Sequence[float]) -> Panel:
    counts = [0] * len(_ANSWERED_WITHIN)
    for seconds in spent:
        counts[next(place for place, (end, *_) in enumerate(_ANSWERED_WITHIN) if seconds < end)] += 1
    drawn = [
        Column(label=gettext(label), counts=(count,), tick=tick, tick_at="start")
        for (_, label, tick), count in zip(_ANSWERED_WITHIN, counts, strict=True)
    ]
    chart = columns(
        "times",
        gettext("How soon people answered"),
        gettext("Answered within"),
        (Series(gettext("answers"), "main"),),
        drawn,
    )
    return Panel(
        "times", gettext("Time to answer"), chart if spent else None, gettext("Nobody answered in this time.")
    )


def _waiting(pending: Mapping[float, int]) -> Panel:
    rows: list[tuple[str, int, Tone]] = []
    younger = 0
    for age in sorted(pending):
        rows.append((gettext(_AGES[age]), pending[age] - younger, "loud" if age > _OLD else "main"))
        younger = pending[age]
    heads = (gettext("Waits for"), gettext("Questions"))
    title = gettext("Questions that wait now, by age")
    chart = bars("waiting", title, heads, _bars(rows)) if younger else None
    return Panel("waiting", gettext("Waiting now, by age"), chart, gettext("Nothing is waiting."))


def _ways(endings: Sequence[Ending]) -> Panel:
    counts = Counter[tuple[Status, Source]]((each.status, each.source or "person") for each in endings)
    ways: tuple[tuple[str, Status, Source, Tone], ...] = (
        (gettext("Answered by a person"), Status.ANSWERED, "person", "main"),
        (gettext("Approved by a grant"), Status.ANSWERED, "grant", "other"),
        (gettext("Default taken, nobody answered"), Status.ANSWERED, "default", "other"),
        (gettext("Declined by a person"), Status.DECLINED, "person", "other"),
        (gettext("Sent back by a person"), Status.RETURNED, "person", "back"),
        (gettext("Withdrawn by the agent"), Status.WITHDRAWN, "person", "other"),
        (gettext("Expired, nobody answered"), Status.EXPIRED, "person", "loud"),
        (gettext("Exhausted, no answer fitted"), Status.EXHAUSTED, "person", "loud"),
    )
    rows = [(label, counts[status, source], tone) for label, status, source, tone in ways]
    heads = (gettext("How it ended"), gettext("Questions"))
    chart = bars("ways", gettext("Questions by how they ended"), heads, _bars(rows)) if endings else None
    return Panel("ways", gettext("How they ended"), chart, gettext("Nothing ended in this time."))


def _bars(rows: Sequence[tuple[str, int, Tone]]) -> list[Bar]:
    most = max((count for _, count, _ in rows), default=0) or 1
    return [
        Bar(label=label, share=count / most, value=grouped(count), tone=tone if count else "other")
        for label, count, tone in rows
    ]


def _counted(name: str, title: str, kind: Kind, found: Iterable[str | None]) -> Panel:
    counts = Counter(each or gettext("nobody") for each in found)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    most = ordered[0][1] if ordered else 1
    drawn = [
        Bar(label=_name(each), share=count / most, value=grouped(count), from_agent=kind == "agent")
        for each, count in ordered[:_MOST_BARS]
    ]
    chart_title = {
        "channel": gettext("Questions by channel"),
        "person": gettext("Questions by person"),
        "agent": gettext("Questions by agent"),
    }[kind]
    chart = bars(name, chart_title, (_head(kind), gettext("Questions")), drawn) if drawn else None
    return Panel(name, title, chart, gettext("Nothing to count yet."), _rest(kind, len(ordered)))


def _rates(
    name: str, title: str, kind: Kind, decided: Iterable[Ending], whose: Callable[[Ending], str | None]
) -> Panel:
    approved, all_of = Counter[str](), Counter[str]()
    for each in decided:
        who = whose(each) or gettext("nobody")
        all_of[who] += 1
        approved[who] += bool(each.approved)
    ordered = sorted(all_of.items(), key=lambda item: (-item[1], item[0]))
    drawn = [
        Bar(
            label=_name(each),
            share=approved[each] / count,
            value=gettext("{some} of {all} · {percent}%").format(
                some=grouped(approved[each]),
                all=grouped(count),
                percent=f"{100 * approved[each] / count:.0f}",
            ),
            from_agent=kind == "agent",
        )
        for each, count in ordered[:_MOST_BARS]
    ]
    chart_title = gettext("Approvals by person") if kind == "person" else gettext("Approvals by agent")
    chart = bars(name, chart_title, (_head(kind), gettext("Approved")), drawn) if drawn else None
    empty = gettext("No action was approved or denied by a person in this time.")
    return Panel(name, title, chart, empty, _rest(kind, len(ordered)))


def _head(kind: Kind) -> str:
    return {"channel": gettext("Channel"), "person": gettext("Person"), "agent": gettext("Agent")}[kind]


def _rest(kind: Kind, found: int) -> str:
    """The sentence about those who have no bar."""
    if found <= _MOST_BARS:
        return ""
    sentence = {
        "channel": gettext("The {shown} with the most, of {count} channels."),
        "person": gettext("The {shown} with the most, of {count} people."),
        "agent": gettext("The {shown} with the most, of {count} agents."),
    }[kind]
    return sentence.format(shown=_MOST_BARS, count=grouped(found))


def _name(name: str) -> str:
    line = visible_line(name[:_LONGEST_NAME]) + ("…" if len(name) > _LONGEST_NAME else "")
    if not mixes_alphabets(name):
        return line
    return gettext("{name} (letters of several alphabets)").format(name=line)


def _channel(ending: Ending) -> str:
    name = gettext("no channel named") if ending.channel is None else channel_name(ending.channel)
    return name[:1].upper() + name[1:]
