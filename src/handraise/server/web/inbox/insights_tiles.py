"""The large figures of the insights, each with the same of the period before."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from handraise.model.statistics import Ending, percentile
from handraise.presentation.translation import gettext, grouped
from handraise.server.web.inbox.ended_by import WAYS
from handraise.server.web.inbox.insights_period import Period
from handraise.server.web.inbox.question_figures import Tile

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def tiles(period: Period, pending: Mapping[float, int]) -> tuple[Tile, ...]:
    """The large figures."""
    waiting = max(pending.values(), default=0)
    return (
        _number(period, gettext("Ended"), lambda _: True, gettext("in all ways"), {}),
        _time(period, 0.5, gettext("Median time to answer"), gettext("half came sooner")),
        _time(period, 0.9, gettext("90th percentile"), gettext("nine in ten came sooner")),
        _share(
            period,
            gettext("Past the promised time"),
            (lambda each: each.promised_seconds is not None, lambda each: each.is_late),
            {"late": "1"},
            empty=gettext("nothing had a timeline"),
        ),
        _share(
            period,
            gettext("Decided without a person"),
            (lambda _: True, lambda each: each.way in WAYS["rules"]),
            {"ended_by": "rules"},
            empty=gettext("nothing ended yet"),
        ),
        _number(
            period,
            gettext("Expired or exhausted"),
            lambda each: each.way in WAYS["missed"],
            gettext("of {count} that ended").format(count=grouped(len(period.endings))),
            {"ended_by": "missed"},
            is_bad=True,
        ),
        _number(
            period,
            gettext("Failed after approval"),
            lambda each: each.failed_after_approval,
            gettext("as agents reported"),
            {"failed": "1"},
            is_bad=True,
        ),
        Tile(
            title=gettext("Waiting now"),
            value=grouped(waiting),
            note=gettext("in the whole workspace") if waiting else gettext("nothing is waiting"),
            href="/?all=1&each=1" if waiting else "",
        ),
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


def _number(
    period: Period,
    title: str,
    counts: Callable[[Ending], bool],
    note: str,
    link: Mapping[str, str],
    *,
    is_bad: bool = False,
) -> Tile:
    count = sum(map(counts, period.endings))
    before = None if period.before is None else sum(map(counts, period.before))
    return Tile(
        title=title,
        value=grouped(count),
        note=note,
        href=period.settled(**link) if count else "",
        was="" if before is None else _was(grouped(before)),
        was_href=period.settled_before(**link) if before else "",
        is_loud=is_bad and bool(count),
    )


def _time(period: Period, share: float, title: str, note: str) -> Tile:
    """How soon people answered. It leads to all answers, or to those that took longer than nearly all others."""
    spent = _spent(period.endings)
    if not spent:
        return Tile(title=title, value="–", note=gettext("nobody answered yet"))
    before, seconds = _spent(period.before or ()), percentile(spent, share)
    took = {} if share <= 0.5 else {"took": f"{math.floor(seconds)}-"}  # noqa: PLR2004 -- a half
    return Tile(
        title=title,
        value=length(seconds),
        note=note,
        href=period.settled(ended_by="person", **took),
        was=_was(length(percentile(before, share))) if before else "",
        was_href=period.settled_before(ended_by="person") if before else "",
    )


def _share(
    period: Period,
    title: str,
    parts_of: tuple[Callable[[Ending], bool], Callable[[Ending], bool]],
    link: Mapping[str, str],
    *,
    empty: str,
) -> Tile:
    """A share: of those that fit the first, how many also fit the second."""
    among, counts = parts_of

    def parts(endings: Iterable[Ending]) -> tuple[int, int]:
        all_of = [each for each in endings if among(each)]
        return sum(map(counts, all_of)), len(all_of)

    (some, all_of), (some_before, all_before) = parts(period.endings), parts(period.before or ())
    if not all_of:
        return Tile(title=title, value="–", note=empty)
    return Tile(
        title=title,
        value=_percent(some, all_of),
        note=gettext("{some} of {all}").format(some=grouped(some), all=grouped(all_of)),
        href=period.settled(**link) if some else "",
        was=_was(_percent(some_before, all_before)) if all_before else "",
        was_href=period.settled_before(**link) if some_before else "",
    )


def _was(figure: str) -> str:
    return gettext("was {figure}").format(figure=figure)


def _percent(some: int, all_of: int) -> str:
    return gettext("{percent}%").format(percent=f"{100 * some / all_of:.0f}")


def _spent(endings: Iterable[Ending]) -> list[float]:
    return sorted(each.seconds for each in endings if each.way == "person")
