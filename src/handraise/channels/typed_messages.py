"""Messages for the thread of an approval, typed where there are no buttons: they begin with a word that says so."""

from __future__ import annotations

import re

from handraise.model.forms import Approval
from handraise.model.questions import Draft
from handraise.model.thread_messages import MessageKind
from handraise.presentation.translation import gettext

_MESSAGE = re.compile(r"\s*(ask|frage|note|notiz)\s*:(.*)", re.IGNORECASE | re.DOTALL)
_KINDS: dict[str, MessageKind] = {
    "ask": "asked_back",
    "frage": "asked_back",
    "note": "noted",
    "notiz": "noted",
}
"""English and German words count for everybody, whatever their language is."""


def read_message(question: Draft, text: str) -> tuple[MessageKind, str] | None:
    """The message in a reply to an approval, and who it is for; None if it is none. For other questions, none is."""
    found = _MESSAGE.fullmatch(text) if isinstance(question.form, Approval) else None
    return None if found is None else (_KINDS[found[1].lower()], found[2].strip())


def how_to_write(question: Draft) -> str | None:
    """What a message must look like; None for questions that are answered with a text."""
    if not isinstance(question.form, Approval):
        return None
    note = gettext("To leave a note for colleagues, begin your reply with “note:”.")
    if question.replies is None:
        return note
    ask = gettext("To ask the agent something first, begin your reply with “ask:”.")
    return f"{ask} {note}"
