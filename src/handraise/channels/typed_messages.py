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


def how_to_write(question: Draft, *, several: bool) -> str:
    """What a reply must look like that does not answer; `read_message` and `read_deed` understand just that."""
    told = []
    if isinstance(question.form, Approval):
        if question.replies is not None:
            told.append(gettext("To ask the agent something first, begin your reply with “ask:”."))
        told.append(gettext("To leave a note for colleagues, begin your reply with “note:”."))
    if isinstance(question.form, Approval) and question.form.risk == "high":
        return " ".join(told)
    told.append(gettext("To have it changed and asked again, write “send back:” and what is to be changed."))
    if several:
        told.append(gettext("To leave it to the others, write “not for me”."))
    return " ".join(told)
