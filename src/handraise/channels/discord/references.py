"""Which question a button, a menu or a form is about: what we wrote into it when we sent it.

Discord leaves a hundred characters for it, so ids and digests are written in short.
"""

from __future__ import annotations

import base64
import re
import uuid
from dataclasses import dataclass

from handraise.channels.discord.markup import length_of
from handraise.model.forms import Approval
from handraise.model.json_values import text_problem
from handraise.model.questions import Draft

_LONGEST = 100
_PARTS = 4
_NOTHING = "-"
_SHORT_ID = re.compile(r"[A-Za-z0-9_-]{22}", re.ASCII)


@dataclass(frozen=True, slots=True)
class QuestionReference:
    """A question, what is to be done about it (`verb`), and which action that is about (`tag`)."""

    workspace: str
    question_id: str
    verb: str
    tag: str | None = None

    @property
    def text(self) -> str:
        """The place as it is written into something that can be pressed."""
        return f"{self.verb} {_short(self.question_id)} {self.tag or _NOTHING} {self.workspace}"


def build_reference(question: Draft, verb: str) -> QuestionReference:
    """Where something is done about a question; for an approval, about just this action."""
    tag = tag_of(question.form) if isinstance(question.form, Approval) else None
    return QuestionReference(question.workspace, question.id, verb, tag)


def tag_of(form: Approval) -> str:
    """An action's digest in short: 128 bits of it."""
    return _base64(bytes.fromhex(form.digest)[:16])


def has_room(question: Draft) -> bool:
    """Whether what can be pressed has room for where this question is, and can be read again."""
    place = build_reference(question, "?option-99")
    return length_of(place.text) <= _LONGEST and parse_reference(place.text) == place


def parse_reference(text: object) -> QuestionReference | None:
    """The place in what Discord sent back, or None where it is none of ours."""
    parts = text.split(" ", _PARTS - 1) if isinstance(text, str) else []
    if len(parts) != _PARTS or any(not part or text_problem(part) for part in parts):
        return None
    verb, short, tag, workspace = parts
    return QuestionReference(workspace, _long(short), verb, None if tag == _NOTHING else tag)


def _short(question_id: str) -> str:
    try:
        known = uuid.UUID(question_id)
    except ValueError:
        return question_id
    return _base64(known.bytes) if str(known) == question_id else question_id


def _long(short: str) -> str:
    if not _SHORT_ID.fullmatch(short):
        return short
    return str(uuid.UUID(bytes=base64.urlsafe_b64decode(short + "==")))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
