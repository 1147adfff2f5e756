"""The questions of the last 30 days that a person may see: those of an agent, of a tool, or that somebody settled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from handraise.desk.local_desk import LocalDesk
from handraise.model.pending_views import PendingFilters
from handraise.model.people import Responder
from handraise.model.questions import Question
from handraise.ports.desk import Page
from handraise.ports.settled_filter import SettledFilter

RECENTLY = timedelta(days=30)
MOST_PENDING = 200
_MOST_SETTLED = 1_000
_AT_ONCE = 200
_MOST_READS = 6
"""How many statements look for settled questions. Each reads a limited part of the past."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentQuestions:
    """What is pending and what has ended, each the newest first; `is_cut` says that there may be more."""

    pending: Sequence[Question]
    settled: Sequence[Question]
    is_cut: bool

    @property
    def all(self) -> Sequence[Question]:
        """What is pending, and then what has ended."""
        return [*self.pending, *self.settled]


async def recent_questions(
    desk: LocalDesk,
    recipient: Responder | None,
    now: datetime,
    *,
    asker: str | None = None,
    tool: str | None = None,
) -> RecentQuestions:
    """What an agent asked, or what a tool was asked for. With a `recipient`, only what this person may see."""
    pending, is_cut = await read_pending(desk, recipient, asker=asker, tool=tool)

    async def read(after: str | None) -> Page[Question]:
        wanted = SettledFilter(since=now - RECENTLY, tool=tool)
        return await desk.list_ended(wanted, recipient=recipient, asker=asker, after=after, limit=_AT_ONCE)

    settled, after = await read_settled(read, most=_MOST_SETTLED)
    return RecentQuestions(pending=pending, settled=settled, is_cut=is_cut or after is not None)


async def read_pending(
    desk: LocalDesk,
    recipient: Responder | None,
    *,
    conversation: str | None = None,
    asker: str | None = None,
    tool: str | None = None,
) -> tuple[Sequence[Question], bool]:
    """Pending questions, the newest first, also those that the recipient set aside; and whether there are more."""
    found: dict[str, Question] = {}
    is_cut = False
    for aside in (False,) if recipient is None else (False, True):
        page = await desk.list_pending(
            conversation=conversation,
            recipient=recipient,
            asker=asker,
            aside=aside,
            filters=PendingFilters(tool=tool),
            order="newest",
            limit=MOST_PENDING,
        )
        found |= {each.id: each for each in page}
        is_cut = is_cut or page.next is not None
    return sorted(found.values(), key=lambda each: (each.asked_at, each.id), reverse=True), is_cut


async def read_settled(
    read: Callable[[str | None], Awaitable[Page[Question]]], *, most: int, after: str | None = None
) -> tuple[Sequence[Question], str | None]:
    """Settled questions after a cursor, by a limited number of statements; and the cursor of what follows.

    Whole pages are read, so there can be a few more than `most`.
    """
    found: list[Question] = []
    for _ in range(_MOST_READS):
        page = await read(after)
        found += page
        after = page.next
        if after is None or len(found) >= most:
            break
    return found, after
