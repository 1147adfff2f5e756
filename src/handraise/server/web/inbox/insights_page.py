"""How a workspace answers: how soon, who, through what, and what nobody answered. For administrators."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from fastapi import APIRouter, Request
from markupsafe import Markup
from starlette.responses import Response

from handraise.model.outcomes import Source, Status
from handraise.model.statistics import MAX_ENDINGS, Ending, percentile
from handraise.model.visible import visible_line
from handraise.presentation.names import channel_name
from handraise.presentation.times import moment_text
from handraise.server.auth.authenticator import Context, CurrentPerson
from handraise.server.web.inbox.agent_text import mixes_alphabets
from handraise.server.web.inbox.charts import Bar, Column, Series, Tone, bars, columns
from handraise.server.web.pages import PageRoute, live_page, message

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

_MOST_BARS = 8
_LONGEST_NAME = 60
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_ANSWERED_WITHIN = (
    (60.0, "less than a minute", ""),
    (300.0, "1 to 5 minutes", "1m"),
    (900.0, "5 to 15 minutes", "5m"),
    (3_600.0, "15 minutes to an hour", "15m"),
    (14_400.0, "1 to 4 hours", "1h"),
    (86_400.0, "4 hours to a day", "4h"),
    (math.inf, "more than a day", "1d"),
)
_AGES = {
    60.0: "less than a minute",
    600.0: "1 to 10 minutes",
    3_600.0: "10 minutes to an hour",
    21_600.0: "1 to 6 hours",
    86_400.0: "6 hours to a day",
    604_800.0: "1 to 7 days",
    math.inf: "more than a week",
}
_OLD = 86_400.0

_PEOPLE = Series("answered by people", "main")
_OTHERWISE = Series("ended otherwise", "other")
_MISSED = Series("expired or exhausted", "loud")


@dataclass(frozen=True, slots=True)
class Span:
    """How far back one looks, in steps that begin when a clock strikes."""

    name: Literal["day", "week", "month"]
    words: str
    step: timedelta
    steps: int

    def starts(self, now: datetime) -> list[datetime]:
        """When each step begins, the oldest first; the last one is going on."""
        last = now.replace(minute=0, second=0, microsecond=0)
        if self.step == _DAY:
            last = last.replace(hour=0)
        return [last - self.step * back for back in reversed(range(self.steps))]

    def label(self, start: datetime) -> str:
        """A step in words."""
        match self.name:
            case "day":
                return f"{start:%H}:00"
            case "week":
                return f"{start:%a} {start.day} {start:%b}"
            case "month":
                return f"{start.day} {start:%b}"

    def tick(self, start: datetime, place: int) -> str:
        """What stands below a step, where there is room for it."""
        match self.name:
            case "day":
                return f"{start:%H}:00" if start.hour % 6 == 0 and 0 < place < self.steps - 1 else ""
            case "week":
                return f"{start:%a}"
            case "month":
                return f"{start.day} {start:%b}" if (place + 3) % 7 == 0 else ""


WEEK = Span("week", "the last 7 days", _DAY, 7)
SPANS = (Span("day", "the last 24 hours", _HOUR, 24), WEEK, Span("month", "the last 30 days", _DAY, 30))


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart under its heading; without a chart, what there would be to see."""

    id: str
    title: str
    chart: Markup | None
    empty: str
    note: str = ""


@pages.get("/insights")
async def show_insights(request: Request, ctx: Context, caller: CurrentPerson) -> Response:
    """The figures of the last day, week or month."""
    if not caller.is_admin:
        return message(
            "This page is for administrators",
            "It counts how the people of the whole workspace answer. What you may answer is in your inbox.",
            status=403,
            lead=("/", "Back to what waits"),
        )
    wanted = request.query_params.get("span")
    span = next((each for each in SPANS if each.name == wanted), WEEK)
    now = datetime.now(UTC)
    starts = span.starts(now)
    found = await ctx.store.endings(caller.workspace, since=starts[0], limit=MAX_ENDINGS + 1)
    queue_stats = await ctx.store.queue_stats(caller.workspace)
    endings = found[:MAX_ENDINGS]
    spent = sorted((each.settled_at - each.asked_at).total_seconds() for each in endings if _by_person(each))
    return live_page(
        "inbox/insights.html",
        person=caller.person,
        span=span,
        spans=SPANS,
        since=moment_text(starts[0]),
        cut=moment_text(endings[-1].settled_at) if len(found) > MAX_ENDINGS else None,
        most=MAX_ENDINGS,
        ended=len(endings),
        waiting=max(queue_stats.pending.values(), default=0),
        missed=sum(map(_is_missed, endings)),
        median=length(percentile(spent, 0.5)) if spent else None,
        ninetieth=length(percentile(spent, 0.9)) if spent else None,
        over_time=_over_time(span, starts, endings),
        panels=_panels(endings, spent, queue_stats.pending),
    )


def length(seconds: float) -> str:
    """A length of time in a few characters: its largest unit, and the next where that says much."""
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


def _over_time(span: Span, starts: Sequence[datetime], endings: Sequence[Ending]) -> Panel:
    counts = [[0, 0, 0] for _ in starts]
    for each in endings:
        # The store's clock may be a little ahead of this one.
        place = min(int((each.settled_at - starts[0]) / span.step), len(starts) - 1)
        counts[max(place, 0)][0 if _by_person(each) else 2 if _is_missed(each) else 1] += 1
    drawn = [
        Column(label=span.label(start), counts=tuple(some), tick=span.tick(start, place))
        for place, (start, some) in enumerate(zip(starts, counts, strict=True))
    ]
    unit = "Hour" if span.step == _HOUR else "Day"
    chart = columns(
        "over-time",
        f"Questions that ended in each {unit.lower()} of {span.words}",
        unit,
        (_PEOPLE, _OTHERWISE, _MISSED),
        drawn,
    )
    title = f"Ended in each {unit.lower()}"
    return Panel("over-time", title, chart if endings else None, f"Nothing ended in {span.words}.")


def _panels(
    endings: Sequence[Ending], spent: Sequence[float], pending: Mapping[float, int]
) -> tuple[Panel, ...]:
    by_people = [each for each in endings if _by_person(each)]
    decided = [each for each in by_people if each.approved is not None]
    return (
        _times(spent),
        _counted("channels", "Answered through", "Channel", (_channel(each) for each in by_people)),
        _waiting(pending),
        _ways(endings),
        _counted("people", "Answered, by person", "Person", (each.by for each in by_people)),
        _counted("agents", "Ended, by agent", "Agent", (each.asker for each in endings)),
        _rates("person-rates", "Approved, by person", "Person", decided, lambda each: each.by),
        _rates("agent-rates", "Approved, by agent", "Agent", decided, lambda each: each.asker),
    )


def _times(spent: Sequence[float]) -> Panel:
    counts = [0] * len(_ANSWERED_WITHIN)
    for seconds in spent:
        counts[next(place for place, (end, *_) in enumerate(_ANSWERED_WITHIN) if seconds < end)] += 1
    drawn = [
        Column(label=label, counts=(count,), tick=tick, tick_at="start")
        for (_, label, tick), count in zip(_ANSWERED_WITHIN, counts, strict=True)
    ]
    title = "How soon people answered"
    chart = columns("times", title, "Answered within", (Series("answers", "main"),), drawn)
    return Panel("times", "Time to answer", chart if spent else None, "Nobody answered in this time.")


def _waiting(pending: Mapping[float, int]) -> Panel:
    rows: list[tuple[str, int, Tone]] = []
    younger = 0
    for age in sorted(pending):
        rows.append((_AGES[age], pending[age] - younger, "loud" if age > _OLD else "main"))
        younger = pending[age]
    title = "Questions that wait now, by age"
    chart = bars("waiting", title, ("Waits for", "Questions"), _bars(rows)) if younger else None
    return Panel("waiting", "Waiting now, by age", chart, "Nothing is waiting.")


def _ways(endings: Sequence[Ending]) -> Panel:
    counts = Counter[tuple[Status, Source]]((each.status, each.source or "person") for each in endings)
    ways: tuple[tuple[str, Status, Source, Tone], ...] = (
        ("Answered by a person", Status.ANSWERED, "person", "main"),
        ("Approved by a grant", Status.ANSWERED, "grant", "other"),
        ("Default taken, nobody answered", Status.ANSWERED, "default", "other"),
        ("Declined by a person", Status.DECLINED, "person", "other"),
        ("Withdrawn by the agent", Status.WITHDRAWN, "person", "other"),
        ("Expired, nobody answered", Status.EXPIRED, "person", "loud"),
        ("Exhausted, no answer fitted", Status.EXHAUSTED, "person", "loud"),
    )
    rows = [(label, counts[status, source], tone) for label, status, source, tone in ways]
    title = "Questions by how they ended"
    chart = bars("ways", title, ("How it ended", "Questions"), _bars(rows)) if endings else None
    return Panel("ways", "How they ended", chart, "Nothing ended in this time.")


def _bars(rows: Sequence[tuple[str, int, Tone]]) -> list[Bar]:
    most = max((count for _, count, _ in rows), default=0) or 1
    return [
        Bar(label=label, share=count / most, value=f"{count:,}", tone=tone if count else "other")
        for label, count, tone in rows
    ]


def _counted(name: str, title: str, head: str, found: Iterable[str | None]) -> Panel:
    counts = Counter(each or "nobody" for each in found)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    most = ordered[0][1] if ordered else 1
    drawn = [
        Bar(label=_name(each), share=count / most, value=f"{count:,}", from_agent=head == "Agent")
        for each, count in ordered[:_MOST_BARS]
    ]
    chart = bars(name, f"Questions by {head.lower()}", (head, "Questions"), drawn) if drawn else None
    return Panel(name, title, chart, "Nothing to count yet.", _rest(head, len(ordered)))


def _rates(
    name: str, title: str, head: str, decided: Iterable[Ending], whose: Callable[[Ending], str | None]
) -> Panel:
    approved, all_of = Counter[str](), Counter[str]()
    for each in decided:
        all_of[whose(each) or "nobody"] += 1
        approved[whose(each) or "nobody"] += bool(each.approved)
    ordered = sorted(all_of.items(), key=lambda item: (-item[1], item[0]))
    drawn = [
        Bar(
            label=_name(each),
            share=approved[each] / count,
            value=f"{approved[each]:,} of {count:,} · {approved[each] / count:.0%}",
            from_agent=head == "Agent",
        )
        for each, count in ordered[:_MOST_BARS]
    ]
    chart = bars(name, f"Approvals by {head.lower()}", (head, "Approved"), drawn) if drawn else None
    empty = "No action was approved or denied by a person in this time."
    return Panel(name, title, chart, empty, _rest(head, len(ordered)))


def _rest(head: str, found: int) -> str:
    """What is said of those for whom there is no bar."""
    left = found - _MOST_BARS
    people = "people" if head == "Person" else f"{head.lower()}s"
    return f"The {_MOST_BARS} with the most, of {found:,} {people}." if left > 0 else ""


def _name(name: str) -> str:
    line = visible_line(name[:_LONGEST_NAME]) + ("…" if len(name) > _LONGEST_NAME else "")
    return f"{line} (letters of several alphabets)" if mixes_alphabets(name) else line


def _channel(ending: Ending) -> str:
    name = "no channel named" if ending.channel is None else channel_name(ending.channel)
    return name[:1].upper() + name[1:]
