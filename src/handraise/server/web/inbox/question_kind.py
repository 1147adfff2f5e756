"""What kind of question it is, in words, and whether it is urgent."""

from __future__ import annotations

from datetime import datetime, timedelta

from handraise.model.forms import AnyForm, Approval, Choice, Confirm
from handraise.model.questions import Question
from handraise.presentation.form_text import kind_text
from handraise.presentation.markdown import one_line
from handraise.presentation.translation import gettext

SOON = timedelta(hours=1)
"""A question that expires within this time is urgent."""

FEW = 4
"""How many options a person can choose from with one press."""


def is_soon(question: Question, now: datetime) -> bool:
    """Whether it expires soon."""
    return question.expires_at is not None and question.expires_at - now <= SOON


def kind_in_words(form: AnyForm) -> str:
    """What a person is asked to do."""
    if not isinstance(form, Approval):
        return kind_text(form)
    return gettext("Approve {tool}").format(tool=one_line(form.action.tool, 60))


def takes_one_press(form: AnyForm) -> bool:
    """Whether one press is enough to answer it. High and medium risk must be confirmed."""
    match form:
        case Confirm():
            return True
        case Choice():
            return len(form.options) <= FEW and not form.allow_other
        case Approval():
            return form.risk == "low"
        case _:
            return False
