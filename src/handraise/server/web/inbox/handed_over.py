"""Whom a person handed questions over to, as pages say it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from handraise.model.handovers import INBOX_EVENTS, handovers
from handraise.model.questions import Question
from handraise.presentation.translation import gettext
from handraise.server.context import ServerContext
from handraise.server.web.inbox.typed_names import display_names

_MOST_EVENTS = 1_000


async def handed_over(
    ctx: ServerContext, questions: Sequence[Question], me: str, now: datetime
) -> Mapping[str, str]:
    """The sentence "Handed over to Ben" for each of these questions that this person handed over."""
    left = [each for each in questions if each.added and each.is_aside(me, now)]
    if not left:
        return {}
    workspace = left[0].workspace
    events = await ctx.store.histories(
        workspace, [each.id for each in left], kinds=INBOX_EVENTS, limit=_MOST_EVENTS
    )
    said = {}
    for question in left:
        to = handovers(each for each in events if each.question_id == question.id).get(me)
        if to:
            people = await display_names(ctx.directory, workspace, to, me=me)
            said[question.id] = gettext("Handed over to {people}").format(people=people)
    return said
