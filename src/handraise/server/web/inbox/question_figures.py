"""Figures about some questions: how they were answered and how long that took, and what they were about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from handraise.model.outcomes import Answered, Status
from handraise.model.questions import Question
from handraise.model.statistics import ending_of, percentile
from handraise.presentation.times import span
from handraise.presentation.translation import gettext, grouped, ngettext

_MOST_COUNTS = 12


@dataclass(frozen=True, slots=True)
class Tile:
    """One large figure; `was` is the same of the period before. A loud one needs attention."""

    title: str
    value: str
    note: str
    href: str = ""
    was: str = ""
    was_href: str = ""
    is_loud: bool = False


@dataclass(frozen=True, slots=True)
class Count:
    """How often something occurred. `share` is a percentage of the most frequent one."""

    name: str
    number: int
    share: int
    href: str | None = None
    note: str = ""
    mixed: bool = False


def figures_of(questions: Sequence[Question]) -> Sequence[Tile]:
    """How questions ended, and the median time to answer."""
    ended = [each for each in map(ending_of, questions) if each is not None]
    total = len(ended)
    statuses = Counter(each.status for each in ended)
    decisions = Counter(each.decision.approved for each in questions if each.decision is not None)
    waits = sorted(each.seconds for each in ended if each.way == "person")
    failed = sum(each.failed_after_approval for each in ended)
    alone = sum(isinstance(each.outcome, Answered) and each.outcome.source != "person" for each in questions)
    median = span(timedelta(seconds=percentile(waits, 0.5))) if waits else "–"
    return (
        Tile(
            gettext("Answered"), grouped(statuses[Status.ANSWERED]), _share(statuses[Status.ANSWERED], total)
        ),
        Tile(
            gettext("Approved"),
            grouped(decisions[True]),
            gettext("{count} denied").format(count=grouped(decisions[False])),
        ),
        Tile(
            gettext("Sent back"),
            grouped(statuses[Status.RETURNED]),
            gettext("{count} declined").format(count=grouped(statuses[Status.DECLINED])),
        ),
        Tile(
            gettext("Expired"),
            grouped(statuses[Status.EXPIRED]),
            _share(statuses[Status.EXPIRED], total),
            is_loud=statuses[Status.EXPIRED] > 0,
        ),
        Tile(
            gettext("Median time to answer"),
            median,
            ngettext("{count} answer without a person", "{count} answers without a person", alone).format(
                count=grouped(alone)
            )
            if alone or not waits
            else gettext("half came sooner"),
        ),
        Tile(
            gettext("Failed after approval"),
            grouped(failed),
            gettext("as agents reported"),
            is_loud=failed > 0,
        ),
    )


def counts_of(names: Iterable[Count]) -> Sequence[Count]:
    """The most frequent ones first, with their shares of the first one; `number` of what comes in is added up."""
    added: dict[tuple[str, str | None], Count] = {}
    for each in names:
        known = added.get((each.name, each.href))
        number = each.number + (0 if known is None else known.number)
        added[each.name, each.href] = Count(each.name, number, 0, each.href, each.note, each.mixed)
    ordered = sorted(added.values(), key=lambda each: (-each.number, each.name))[:_MOST_COUNTS]
    most = max((each.number for each in ordered), default=1)
    return [
        Count(
            each.name, each.number, max(1, round(100 * each.number / most)), each.href, each.note, each.mixed
        )
        for each in ordered
    ]


def _share(number: int, total: int) -> str:
    if not total:
        return gettext("nothing ended")
    return gettext("{share} % of {count}").format(share=round(100 * number / total), count=grouped(total))
