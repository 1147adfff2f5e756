"""Which question a button or a form in a chat is about: the part that is the same for every service."""

from __future__ import annotations

import base64
import binascii
import uuid
from dataclasses import dataclass

from handraise.model.json_values import text_problem
from handraise.model.thread_messages import MOST_MESSAGES


@dataclass(frozen=True, slots=True)
class QuestionReference:
    """A question; each service adds what else it writes into what can be pressed."""

    workspace: str
    question_id: str

    @property
    def is_readable(self) -> bool:
        """Whether both names could be ours."""
        return not text_problem(self.workspace) and not text_problem(self.question_id)


def seen_in(number: object) -> int | None:
    """How many messages something that was pressed says that its message showed; None if it says nothing."""
    is_count = isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= MOST_MESSAGES
    return number if is_count and isinstance(number, int) else None


def short_id(question_id: str) -> bytes | None:
    """The usual kind of id in sixteen bytes, or None for any other."""
    try:
        known = uuid.UUID(question_id)
    except ValueError:
        return None
    return known.bytes if str(known) == question_id else None


def long_id(short: bytes) -> str:
    """The id that was written in sixteen bytes; raises `ValueError`."""
    return str(uuid.UUID(bytes=short))


def as_base64(data: bytes) -> str:
    """Bytes as letters that every service leaves unchanged."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def from_base64(text: str) -> bytes | None:
    """The bytes that `as_base64` wrote, or None: several texts can stand for the same bytes, and only one is ours."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if as_base64(data) == text else None
