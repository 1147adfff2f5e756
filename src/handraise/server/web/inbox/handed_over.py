"""Whom a person handed questions over to, as pages say it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from handraise.model.events import Event, EventKind
from handraise.model.questions import Question
from handraise.presentation.translation import gettext
from handraise.server.context import ServerContext
from handraise.server.web.inbox.typed_names import display_names

_LEAVES = (EventKind.HANDED_OVER, EventKind.SET_ASIDE, EventKind.PUT_BACK)
_MOST_EVENTS = 1_000


def handed_to(events: Sequence[Event], me: str) -> Sequence[str]:
    """To whom this person handed a question over, if that is how it left their inbox; empty otherwise."""
    last = next((each for each in reversed(events) if each.by == me and each.kind in _LEAVES), None)
    if last is None or last.kind is not EventKind.HANDED_OVER or not isinstance(last.data, dict):
        return ()
    return [str(each) for each in last.data.get("to", ())]


async def handed_over(
    ctx: ServerContext, questions: Sequence[Question], me: str, now: datetime
) -> Mapping[str, str]:
    """The sentence "Handed over to Ben" for each of these questions that this person handed over."""
    left = [each for each in questions if each.added and each.is_aside(me, now)]
    if not left:
        return {}
    workspace = left[0].workspace
    events = await ctx.store.histories(
        workspace, [each.id for each in left], kinds=_LEAVES, limit=_MOST_EVENTS
    )
    said = {}
    for question in left:
        to = handed_to([each for each in events if each.question_id == question.id], me)
        if to:
            people = await display_names(ctx.directory, workspace, to, me=me)
            said[question.id] = gettext("Handed over to {people}").format(people=people)
    return said
