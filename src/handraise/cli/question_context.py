"""What a terminal shows of a question besides itself: its history, and the question that it replaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from handraise.cli.session import CliSession
from handraise.model.errors import NotFound, PermissionDenied
from handraise.model.events import Event
from handraise.model.people import Responder, may_see
from handraise.model.questions import Question


@dataclass(frozen=True, slots=True)
class QuestionContext:
    """The history of a question if there is more in it than that it was asked, and the question that it replaces.

    `reader` is who looks at it.
    """

    events: Sequence[Event] = ()
    replaced: Question | None = None
    reader: Responder | None = None


async def context_of(session: CliSession, question: Question) -> QuestionContext:
    """Read what belongs to a question; what this person may not see is left out."""
    has_more = question.votes or question.thread or question.added
    events = await session.desk.history(question.id) if has_more else ()
    replaced = None
    if question.replaces is not None:
        try:
            found = await session.desk.get(question.replaces)
            replaced = found if may_see(found, session.me) else None
        except (NotFound, PermissionDenied):
            pass
    return QuestionContext(events, replaced, session.me)
