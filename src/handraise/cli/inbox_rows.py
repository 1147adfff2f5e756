"""The rows of the terminal's inbox: pending questions, most urgent first, equal questions of one agent in one row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from handraise.cli.session import CliSession
from handraise.model.forms import form_to_json
from handraise.model.pending_views import NO_FILTERS, Order, PendingFilters
from handraise.model.questions import Question
from handraise.model.urgency import FOLD, folded, likeness_of

_AT_ONCE = 100
_MOST_ROWS = 500
_MOST_READ = 1_500
"""The default limit of pending questions of one agent, and some more for others."""


@dataclass(frozen=True, slots=True)
class Equal:
    """A question that is equal to the one in a row. It is read when it is opened."""

    id: str
    asked_at: datetime


@dataclass(frozen=True, slots=True)
class Row:
    """A pending question, and those that are equal to it if they are too many to list."""

    question: Question
    likeness: int
    equal: tuple[Equal, ...] = ()


@dataclass(frozen=True, slots=True)
class Rows:
    """The pending questions as rows, their number, and whether there are more."""

    rows: Sequence[Row] = ()
    total: int = 0
    more: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """Something to mark in the list: a row, or one of the equal questions below an open one."""

    row: Row
    equal: Equal | None = None

    @property
    def id(self) -> str:
        """The question's id."""
        return self.row.question.id if self.equal is None else self.equal.id


async def rows_for(
    session: CliSession,
    *,
    aside: bool = False,
    filters: PendingFilters = NO_FILTERS,
    order: Order = "urgency",
) -> Rows:
    """The questions that this person may answer. Any number of equal ones do not push others out of the list.

    `aside` is for those that this person has set aside.
    """
    places: list[tuple[str, int]] = []
    equals: dict[str, Equal] = {}
    whole: dict[str, Question] = {}
    counts: Counter[int] = Counter()
    folds: list[tuple[str, ...]] = []
    after: str | None = None
    while len(folds) < _MOST_ROWS and len(places) < _MOST_READ:
        page = await session.desk.list_pending(
            recipient=session.me, order=order, filters=filters, after=after, limit=_AT_ONCE, aside=aside
        )
        for each in page.items:
            likeness = likeness_of(each, form_to_json(each.form))
            places.append((each.id, likeness))
            equals[each.id] = Equal(each.id, each.asked_at)
            counts[likeness] += 1
            if counts[likeness] <= FOLD:  # the others are folded into a row that shows the first of them
                whole[each.id] = each
        folds = folded(places)
        after = page.next
        if after is None:
            break
    likenesses = dict(places)
    rows = [
        Row(whole[first], likenesses[first], tuple(equals[each] for each in others))
        for first, *others in folds
    ]
    return Rows(rows, len(places), after is not None)


def entries_of(rows: Sequence[Row], opened: Collection[int]) -> Iterator[Entry]:
    """The entries that can be marked while these rows are open."""
    for row in rows:
        yield Entry(row)
        if row.likeness in opened:
            yield from (Entry(row, each) for each in row.equal)
