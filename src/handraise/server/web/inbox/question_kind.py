"""What kind of question it is, in words."""

from __future__ import annotations

from handraise.model.forms import AnyForm, Approval
from handraise.presentation.form_text import kind_text
from handraise.presentation.markdown import one_line
from handraise.presentation.translation import gettext


def kind_in_words(form: AnyForm) -> str:
    """What a person is asked to do."""
    if not isinstance(form, Approval):
        return kind_text(form)
    return gettext("Approve {tool}").format(tool=one_line(form.action.tool, 60))
