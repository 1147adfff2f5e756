"""The charts of the insights. Every bar and column leads to the questions that it counts."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence

from handraise.model.statistics import Ending, Way
from handraise.presentation.translation import gettext, gettext_noop, grouped, local_time
from handraise.server.web.inbox.charts import Bar, Column, Series, Tone, bars, columns, pairs
from handraise.server.web.inbox.ended_by import WAYS, EndedBy
from handraise.server.web.inbox.insights_period import Period
from handraise.server.web.inbox.insights_rankings import Kind, Panel, Ranking, counted, rates

_HOURS = 24
_TICK_HOURS = 3
_ANSWERED_WITHIN = (
    (60, gettext_noop("under a minute"), ""),
    (300, gettext_noop("1 to 5 minutes"), "1m"),
    (900, gettext_noop("5 to 15 minutes"), "5m"),
    (3_600, gettext_noop("15 minutes to an hour"), "15m"),
    (14_400, gettext_noop("1 to 4 hours"), "1h"),
    (86_400, gettext_noop("4 hours to a day"), "4h"),
    (math.inf, gettext_noop("more than a day"), "1d"),
)
_AGES: tuple[tuple[float, str, str], ...] = (
    (3_600.0, "1h", gettext_noop("over an hour")),
    (86_400.0, "1d", gettext_noop("over a day")),
    (604_800.0, "7d", gettext_noop("over a week")),
)
"""The ages by which waiting questions are counted, as their list has them in its address."""
_OLD = 86_400.0


def panels(period: Period, pending: Mapping[float, int], names: Mapping[str, str]) -> tuple[Panel, ...]:
    """All charts. `names` are those of people, by their ids."""
    answered, decided = answered_by_people(period), approvals_by_people(period)
    promised = [each for each in period.endings if each.promised_seconds is not None]
    by_people = {"ended_by": "person"}
    approved = {"outcome": "approved", **by_people}

    def ranking(
        name: str, title: str, kind: Kind, endings: Sequence[Ending], link: Mapping[str, str]
    ) -> Ranking:
        return Ranking(id=name, title=title, kind=kind, endings=endings, link=link, names=names)

    def is_approved(ending: Ending) -> bool:
        return bool(ending.approved)

    late = ranking("promises", gettext("Past the promised time, by group"), "group", promised, {"late": "1"})
    people = ranking("people", gettext("Answered, by person"), "person", answered, by_people)
    person_rates = ranking("person-rates", gettext("Approved, by person"), "person", decided, approved)
    agents = ranking("agents", gettext("Ended, by agent"), "agent", period.endings, {})
    agent_rates = ranking("agent-rates", gettext("Approved, by agent"), "agent", decided, approved)
    tools = ranking("tools", gettext("Ended, by tool"), "tool", period.endings, {})
    tool_rates = ranking("tool-rates", gettext("Approved, by tool"), "tool", decided, approved)
    channels = ranking("channels", gettext("Answered through"), "channel", answered, by_people)
    return (
        _over_time(period),
        _by_hour(period, answered),
        _deciders(period),
        _ways(period),
        rates(period, late, lambda each: each.is_late),
        _times(period, answered),
        _waiting(pending),
        counted(period, channels),
        counted(period, people),
        rates(period, person_rates, is_approved),
        counted(period, agents),
        rates(period, agent_rates, is_approved),
        counted(period, tools),
        rates(period, tool_rates, is_approved),
    )


def answered_by_people(period: Period) -> list[Ending]:
    """Those that a person answered."""
    return [each for each in period.endings if each.way == "person"]


def approvals_by_people(period: Period) -> list[Ending]:
    """Those in which a person approved or denied an action."""
    return [each for each in period.endings if each.approved is not None]


def _series_of(ending: Ending) -> int:
    if ending.way == "person":
        return 0
    if ending.way == "returned":
        return 1
    return 3 if ending.way in WAYS["missed"] else 2


_SERIES_LINKS: tuple[dict[str, str], ...] = (
    {"ended_by": "person"},
    {"outcome": "returned"},
    {"ended_by": "otherwise"},
    {"ended_by": "missed"},
)


def _over_time(period: Period) -> Panel:
    span, starts = period.span, period.starts
    counts = [[0] * len(_SERIES_LINKS) for _ in starts]
    for each in period.endings:
        counts[max(bisect_right(starts, each.settled_at) - 1, 0)][_series_of(each)] += 1
    before = None if period.before is None else [0] * len(starts)
    if before is not None:
        before_starts = period.before_starts
        for each in period.before or ():
            before[max(bisect_right(before_starts, each.settled_at) - 1, 0)] += 1
    drawn = [
        Column(
            label=span.label(start),
            counts=tuple(some),
            tick=span.tick(start, place),
            before=None if before is None else before[place],
            href=period.settled_in(place),
            hrefs=tuple(period.settled_in(place, **link) for link in _SERIES_LINKS),
        )
        for place, (start, some) in enumerate(zip(starts, counts, strict=True))
    ]
    hourly = span.name == "day"
    series = (
        Series(gettext("answered by people"), "main"),
        Series(gettext("sent back"), "back"),
        Series(gettext("ended otherwise"), "other"),
        Series(gettext("expired or exhausted"), "loud"),
    )
    head = gettext("Hour") if hourly else gettext("Day")
    chart = columns(
        "over-time",
        span.chart_title,
        head,
        series,
        drawn,
        before="" if before is None else span.before,
    )
    title = gettext("Ended in each hour") if hourly else gettext("Ended in each day")
    return Panel("over-time", title, chart if period.endings else None, span.empty, is_wide=True)


def _by_hour(period: Period, answered: Sequence[Ending]) -> Panel:
    asked = Counter(local_time(each.asked_at).hour for each in period.endings)
    ended = Counter(local_time(each.settled_at).hour for each in answered)
    drawn = [
        Column(
            label=f"{hour:02}:00",
            counts=(asked[hour], ended[hour]),
            tick="" if hour % _TICK_HOURS else f"{hour:02}",
            hrefs=(
                period.settled(asked_hour=str(hour)),
                period.settled(ended_by="person", hour=str(hour)),
            ),
        )
        for hour in range(_HOURS)
    ]
    series = (Series(gettext("asked"), "other"), Series(gettext("answered by people"), "main"))
    title = gettext("Questions by the hour of the day")
    chart = pairs("hours", title, gettext("Hour"), series, drawn) if period.endings else None
    zone = gettext("Of the questions that ended in this time. Hours in {zone}.").format(
        zone=local_time(period.now).tzname()
    )
    empty = gettext("Nothing ended in this time.")
    return Panel("hours", gettext("Load by hour of the day"), chart, empty, zone, is_wide=True)


def _deciders(period: Period) -> Panel:
    deciders: tuple[tuple[str, EndedBy, Tone], ...] = (
        (gettext("People"), "people", "main"),
        (gettext("The policy"), "policy", "back"),
        (gettext("A grant"), "grant", "back"),
        (gettext("A standing answer"), "standing", "back"),
        (gettext("The answer to an equal question"), "shared", "back"),
        (gettext("Nobody"), "nobody", "other"),
    )
    counts = Counter[Way](each.way for each in period.endings)
    total = len(period.endings) or 1
    drawn = []
    for label, which, tone in deciders:
        count = sum(counts[way] for way in WAYS[which])
        if not count and which not in ("people", "nobody"):
            continue
        drawn.append(
            Bar(
                label=label,
                share=count / total,
                value=gettext("{count} · {percent}%").format(
                    count=grouped(count), percent=f"{100 * count / total:.0f}"
                ),
                tone=tone,
                href=period.settled(ended_by=which) if count else "",
            )
        )
    heads = (gettext("Decided by"), gettext("Questions"))
    title = gettext("Questions by who or what decided them")
    chart = bars("deciders", title, heads, drawn) if period.endings else None
    return Panel("deciders", gettext("Who decided"), chart, gettext("Nothing ended in this time."))


def _times(period: Period, answered: Sequence[Ending]) -> Panel:
    ends = [end for end, *_ in _ANSWERED_WITHIN]
    counts = Counter(bisect_right(ends, each.seconds) for each in answered)
    drawn = []
    for place, (end, label, tick) in enumerate(_ANSWERED_WITHIN):
        least, most = (int(ends[place - 1]) if place else 0), ("" if end == math.inf else str(end))
        href = period.settled(ended_by="person", took=f"{least}-{most}")
        drawn.append(
            Column(
                label=gettext(label),
                counts=(counts[place],),
                tick=tick,
                tick_at="start",
                href=href,
                hrefs=(href,),
            )
        )
    chart = columns(
        "times",
        gettext("How soon people answered"),
        gettext("Answered within"),
        (Series(gettext("answers"), "main"),),
        drawn,
    )
    empty = gettext("Nobody answered in this time.")
    return Panel("times", gettext("Time to answer"), chart if answered else None, empty)


def _waiting(pending: Mapping[float, int]) -> Panel:
    total = max(pending.values(), default=0)
    drawn = [_waiting_bar(gettext("all"), total, total, "", is_old=False)]
    for age, name, label in _AGES:
        drawn.append(
            _waiting_bar(gettext(label), total - pending.get(age, 0), total, name, is_old=age >= _OLD)
        )
    heads = (gettext("Waits for"), gettext("Questions"))
    title = gettext("Questions that wait now, by age")
    chart = bars("waiting", title, heads, drawn) if total else None
    note = gettext("In the whole workspace; the filters do not count.")
    return Panel("waiting", gettext("Waiting now, by age"), chart, gettext("Nothing is waiting."), note)


def _waiting_bar(label: str, count: int, total: int, age: str, *, is_old: bool) -> Bar:
    return Bar(
        label=label[:1].upper() + label[1:],
        share=count / (total or 1),
        value=grouped(count),
        tone=("loud" if is_old else "main") if count else "other",
        href=("/?all=1&each=1" + (f"&age={age}" if age else "")) if count else "",
    )


def _ways(period: Period) -> Panel:
    counts = Counter[Way](each.way for each in period.endings)
    ways: tuple[tuple[str, Way, dict[str, str], Tone], ...] = (
        (gettext("Answered by a person"), "person", {"ended_by": "person"}, "main"),
        (gettext("Answered by the policy"), "policy", {"ended_by": "policy"}, "other"),
        (gettext("Approved by a grant"), "grant", {"ended_by": "grant"}, "other"),
        (gettext("Answered by a standing answer"), "standing", {"ended_by": "standing"}, "other"),
        (gettext("Answered with an equal question"), "shared", {"ended_by": "shared"}, "other"),
        (gettext("Default taken, nobody answered"), "default", {"ended_by": "default"}, "other"),
        (gettext("Declined by a person"), "declined", {"outcome": "declined"}, "other"),
        (gettext("Sent back by a person"), "returned", {"outcome": "returned"}, "back"),
        (gettext("Withdrawn by the agent"), "withdrawn", {"outcome": "withdrawn"}, "other"),
        (gettext("Expired, nobody answered"), "expired", {"outcome": "expired"}, "loud"),
        (gettext("Exhausted, no answer fitted"), "exhausted", {"outcome": "exhausted"}, "loud"),
    )
    most = max(counts.values(), default=1)
    drawn = [
        Bar(
            label=label,
            share=counts[way] / most,
            value=grouped(counts[way]),
            tone=tone,
            href=period.settled(**link),
        )
        for label, way, link, tone in ways
        if counts[way]
    ]
    heads = (gettext("How it ended"), gettext("Questions"))
    chart = bars("ways", gettext("Questions by how they ended"), heads, drawn) if period.endings else None
    return Panel("ways", gettext("How they ended"), chart, gettext("Nothing ended in this time."))
