"""Which question a button or a reply is about: what we wrote into the message, with a code that shows it was us.

Nothing is kept here, so that it works after a restart and in every process. A button takes 64 bytes: the question's id,
the workspace's name, and the code fit where that name is not long. Every message has the whole place behind its link,
too: there a reply finds it, and a button that has no room of its own.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from handraise.model.forms import Approval
from handraise.model.json_values import canonical_json, text_problem
from handraise.model.questions import Draft

_LONGEST_DATA = 48
"""The bytes that go into a button: 64 letters."""
_CODE, _LONG_CODE, _ID = 8, 16, 16
_HEAD = 2 + _CODE
_ELSEWHERE = 0x80
"""Says that the place is behind the link of the message."""
_BEHIND_LINK = re.compile(r"#t([A-Za-z0-9_-]{8,3000})\.([A-Za-z0-9_-]{22})(?=\s|$)")


@dataclass(frozen=True, slots=True)
class QuestionReference:
    """A question, and what is meant to be done: with a letter, a number, and for whom where that matters."""

    workspace: str
    question_id: str
    action: str = ""
    number: int = 0
    user: int = 0


@dataclass(frozen=True, slots=True)
class UnverifiedReference:
    """A place that somebody says was ours, and the code that shows it."""

    reference: QuestionReference
    code: bytes = field(repr=False)


class QuestionReferences:
    """Writes places into messages, and reads them; the key comes from the bot's token."""

    def __init__(self, bot_token: str) -> None:
        self._key = hashlib.sha256(b"handraise telegram " + bot_token.encode()).digest()

    def data(self, question: Draft, action: str, number: int = 0) -> str:
        """What a button carries. The same question and deed have the same every time."""
        reference = QuestionReference(question.workspace, question.id, action, number)
        code = self._code(reference, question)[:_CODE]
        packed = _pack(reference)
        if packed is not None and _HEAD + len(packed) <= _LONGEST_DATA:
            return _text(bytes([ord(action), number]) + code + packed)
        return _text(bytes([ord(action) | _ELSEWHERE, number]) + code)

    def link(self, url: str, question: Draft, action: str = "", user: int = 0) -> str:
        """The link with the place behind it, where no server sees it."""
        reference = QuestionReference(question.workspace, question.id, action, user=user)
        what = canonical_json([reference.workspace, reference.question_id, action, user])
        return f"{url}#t{_text(what.encode())}.{_text(self._code(reference, question)[:_LONG_CODE])}"

    def read_data(self, data: object, message: Mapping[str, Any]) -> UnverifiedReference | None:
        """The place in what a button carried, or None where it is none of ours; nothing is shown yet."""
        raw = _bytes(data) if isinstance(data, str) else None
        if raw is None or len(raw) < _HEAD:
            return None
        action, number, code, rest = chr(raw[0] & ~_ELSEWHERE), raw[1], raw[2:_HEAD], raw[_HEAD:]
        linked = self.read_link(message)
        if raw[0] & _ELSEWHERE:
            where = (
                None if rest or linked is None else (linked.reference.workspace, linked.reference.question_id)
            )
        else:
            where = _unpack(rest)
        if where is None:
            return None
        found = UnverifiedReference(QuestionReference(*where, action, number), code)
        # Anybody's program can send what another button carried; it is not for this message then.
        if linked is not None and (linked.reference.workspace, linked.reference.question_id) != where:
            return None
        return found

    def read_link(self, message: Mapping[str, Any]) -> UnverifiedReference | None:
        """The place behind the last link of a message of ours, or in its text; nothing is shown yet."""
        entities = message.get("entities")
        links = [
            each["url"]
            for each in (entities if isinstance(entities, list) else [])
            if isinstance(each, dict) and each.get("type") == "text_link" and isinstance(each.get("url"), str)
        ]
        text = message.get("text")
        texts = links[-1:] or ([text] if isinstance(text, str) else [])
        for each in texts:
            *_, last = [None, *_BEHIND_LINK.finditer(each)]
            if last is not None:
                return _read_link_reference(_bytes(last[1]), _bytes(last[2]))
        return None

    def is_ours(self, found: UnverifiedReference, question: Draft) -> bool:
        """Whether we wrote this, about this very question and action."""
        return hmac.compare_digest(self._code(found.reference, question)[: len(found.code)], found.code)

    def _code(self, reference: QuestionReference, question: Draft) -> bytes:
        about = question.form.digest if isinstance(question.form, Approval) else ""
        what = [
            reference.workspace,
            reference.question_id,
            reference.action,
            reference.number,
            reference.user,
            about,
        ]
        return hmac.new(self._key, canonical_json(what).encode(), hashlib.sha256).digest()


def _read_link_reference(what: bytes | None, code: bytes | None) -> UnverifiedReference | None:
    try:
        read = json.loads(what or b"null")
    except (ValueError, RecursionError):
        return None
    match read:
        case [str(workspace), str(question_id), str(action), int(user)] if code is not None:
            if text_problem(workspace) or text_problem(question_id) or text_problem(action):
                return None
            return UnverifiedReference(QuestionReference(workspace, question_id, action, user=user), code)
        case _:
            return None


def _pack(reference: QuestionReference) -> bytes | None:
    """A place in few bytes, where the question's id is the usual one."""
    try:
        number = uuid.UUID(reference.question_id)
    except ValueError:
        return None
    return number.bytes + reference.workspace.encode() if str(number) == reference.question_id else None


def _unpack(data: bytes) -> tuple[str, str] | None:
    try:
        workspace = data[_ID:].decode()
        return workspace, str(uuid.UUID(bytes=data[:_ID]))
    except ValueError:
        return None


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes | None:
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    # Several texts can stand for the same bytes; only the one that we write is one of ours.
    return data if _text(data) == text else None
