"""Which question a button, a menu or a form is about: what we wrote into it when we sent it.

Discord leaves a hundred characters for it, so ids and digests are shortened.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from handraise.channels import chat_references
from handraise.channels.chat_references import as_base64, from_base64, long_id, seen_in, short_id
from handraise.channels.discord.markup import length_of
from handraise.model.forms import Approval
from handraise.model.json_values import text_problem
from handraise.model.questions import Draft

_LONGEST = 100
_PARTS = 4
_NOTHING = "-"
_DOT = "."
_COUNT = re.compile(r"[1-9][0-9]{0,2}")
_SHORT_ID = 22
"""The length of the usual kind of id in its short form."""


@dataclass(frozen=True, slots=True)
class QuestionReference(chat_references.QuestionReference):
    """A question, what is to be done about it (`verb`), and which action that is about (`tag`).

    `seen` is how many messages of its thread the message showed.
    """

    verb: str
    tag: str | None = None
    seen: int = 0

    @property
    def text(self) -> str:
        """The place as it is written into something that can be pressed."""
        short = short_id(self.question_id)
        named = self.question_id if short is None else as_base64(short)
        tag = f"{self.tag or _NOTHING}{f'{_DOT}{self.seen}' if self.seen else ''}"
        return f"{self.verb} {named} {tag} {self.workspace}"


def build_reference(question: Draft, verb: str, seen: int = 0) -> QuestionReference:
    """Where something is done about a question; for an approval, about just this action and this conversation."""
    if not isinstance(question.form, Approval):
        return QuestionReference(question.workspace, question.id, verb)
    return QuestionReference(question.workspace, question.id, verb, tag_of(question.form), seen)


def tag_of(form: Approval) -> str:
    """An action's digest in its short form: 128 bits of it."""
    return as_base64(bytes.fromhex(form.digest)[:16])


def has_room(question: Draft, seen: int = 0) -> bool:
    """Whether the place of this question fits into what can be pressed, and can be read again."""
    place = build_reference(question, "?option-99", seen)
    return length_of(place.text) <= _LONGEST and parse_reference(place.text) == place


def parse_reference(text: object) -> QuestionReference | None:
    """The place in what Discord sent back, or None if it is not ours."""
    parts = text.split(" ", _PARTS - 1) if isinstance(text, str) else []
    if len(parts) != _PARTS or any(not part or text_problem(part) for part in parts):
        return None
    verb, short, tag, workspace = parts
    data = from_base64(short) if len(short) == _SHORT_ID else None
    question_id = short if data is None else long_id(data)
    tag, dot, count = tag.partition(_DOT)
    seen = seen_in(int(count)) if _COUNT.fullmatch(count) else None
    if not tag or (dot and seen is None):
        return None
    return QuestionReference(workspace, question_id, verb, None if tag == _NOTHING else tag, seen or 0)
