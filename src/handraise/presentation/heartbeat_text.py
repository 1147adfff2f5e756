"""Whether somebody still waits for an answer, in words."""

from __future__ import annotations

from datetime import datetime

from handraise.model.questions import Question
from handraise.presentation.names import display_name
from handraise.presentation.times import span
from handraise.presentation.translation import gettext


def orphan_text(question: Question, now: datetime) -> str:
    """That nobody waits for the answer any more, as far as is known; empty if somebody does, or it has ended."""
    if question.heard_at is None or not question.is_orphaned(now):
        return ""
    text = gettext("Nobody is waiting for this answer any more: {agent} was last heard from {span} ago.")
    return text.format(agent=display_name(question.asker), span=span(now - question.heard_at))


def orphan_mark(question: Question, now: datetime) -> str:
    """The same in a few words, for a list."""
    return gettext("nobody is waiting any more") if question.is_orphaned(now) else ""
