"""What kind of question it is, in words, and whether it is urgent."""

from __future__ import annotations

from datetime import datetime, timedelta

from handraise.model.forms import AnyForm, Approval
from handraise.model.questions import Question
from handraise.presentation.form_text import kind_text
from handraise.presentation.markdown import one_line
from handraise.presentation.translation import gettext

SOON = timedelta(hours=1)
"""A question that expires within this time is urgent."""


def is_soon(question: Question, now: datetime) -> bool:
    """Whether it expires soon."""
    return question.expires_at is not None and question.expires_at - now <= SOON


def kind_in_words(form: AnyForm) -> str:
    """What a person is asked to do."""
    if not isinstance(form, Approval):
        return kind_text(form)
    return gettext("Approve {tool}").format(tool=one_line(form.action.tool, 60))
