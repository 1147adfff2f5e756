"""Pages: places by urgency, and walks back over past events.

There is no index of settled questions, so settling a question does not have to update one. The ends of questions are
found among the events of their workspace instead, a limited number at a time.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias

from handraise.model.pending_views import Order, rank_of
from handraise.model.questions import Question
from handraise.model.statistics import Ending
from handraise.model.urgency import NO_END, Walk, all_walks, walks_after
from handraise.ports import MAX_EVENTS_SCANNED, Endings, SearchPage, SettledPage, Waiting, WaitingPage

_EVENTS_AN_ENDING = 10
"""How many events are read for each ending that is wanted."""


_CURSOR = re.compile(r"([0-9]{1,12})\.([0-9]{1,18})\.(.{1,300})", re.DOTALL)


class Cursor(NamedTuple):
    """The place after which a page begins, and which second was the last that was soon when its first page was read."""

    soon: int
    rank: int
    id: str


def read_cursor(after: str | None) -> Cursor | None:
    """The place after which a page begins; None for the first page."""
    if after is None:
        return None
    found = _CURSOR.fullmatch(after)
    if found is None:
        raise ValueError(f"{after[:100]!r} is not a cursor of this store")
    return Cursor(int(found[1]), int(found[2]), found[3])


def walks_of(cursor: Cursor | None, order: Order) -> list[Walk]:
    """The walks that together have a page: several for an order that changes with time."""
    if order == "urgency":
        return all_walks() if cursor is None else walks_after(cursor.rank, cursor.id, cursor.soon)
    return [Walk(-1, "", NO_END)] if cursor is None else [Walk(cursor.rank, cursor.id, NO_END)]


def paged(places: Sequence[Waiting], limit: int, order: Order, soon: int) -> WaitingPage:
    """A page in this order; one more than `limit` shows that there are more."""
    last = places[limit - 1] if len(places) > limit else None
    cursor = None if last is None else f"{soon}.{rank_of(last.urgency, order, soon)}.{last.id}"
    return WaitingPage(places[:limit], cursor)


def search_page(questions: Sequence[Question], edge: str | None, limit: int) -> SearchPage:
    """A page of a search; one more than `limit` shows that there are more, and else `edge` is where they begin."""
    return SearchPage(questions[:limit], questions[limit - 1].id if len(questions) > limit else edge)


class Edge(NamedTuple):
    """The last event that was read, if there may be others after it."""

    cursor: str
    at: datetime


Look: TypeAlias = Callable[[str | None, int], Awaitable[tuple[Sequence[Ending], Edge | None]]]
"""Reads up to so many endings from one stretch of events after a cursor; also returns where the stretch ends."""


def settled_page(placed: Sequence[tuple[str, Question]], edge: str | None, limit: int) -> SettledPage:
    """A page of questions with their cursors; one more than `limit` shows that there are more."""
    questions = [question for _, question in placed[:limit]]
    return SettledPage(questions, placed[limit - 1][0] if len(placed) > limit else edge)


async def endings_since(look: Look, *, since: datetime, limit: int) -> Endings:
    """Read one stretch after the other until there are enough, or until the events are too old."""
    found: list[Ending] = []
    edge: Edge | None = None
    for _ in range(1 + _EVENTS_AN_ENDING * limit // MAX_EVENTS_SCANNED):
        endings, edge = await look(edge.cursor if edge else None, limit + 1 - len(found))
        found += endings
        if edge is None or edge.at < since or len(found) > limit:
            return endings_page(found, since=since, limit=limit)
    return Endings(found, edge.at if edge else since, is_complete=False)


def endings_page(found: Sequence[Ending], *, since: datetime, limit: int) -> Endings:
    """The latest endings; one more than `limit` shows that there are more."""
    if len(found) <= limit:
        return Endings(found, since, is_complete=True)
    return Endings(found[:limit], found[limit - 1].settled_at, is_complete=False)
