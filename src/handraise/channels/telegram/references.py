"""Which question a button or a reply is about: what we wrote into the message, with a code that proves it was us.

Nothing is kept here, so that it works after a restart and in every process. A button takes 64 bytes: the question's id,
the workspace's name, and the code fit if that name is not long. Every message also has the whole place after its link:
a reply finds it there, and so does a button that has no room of its own.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from handraise.channels import chat_references
from handraise.channels.chat_references import as_base64, from_base64, long_id, seen_in, short_id
from handraise.model.forms import Approval
from handraise.model.json_values import canonical_json, text_problem
from handraise.model.questions import Draft

_LONGEST_DATA = 48
"""The bytes that go into a button: 64 letters."""
_CODE, _LONG_CODE, _ID = 8, 16, 16
_HEAD = 2 + _CODE
_ELSEWHERE = 0x80
"""Says that the place is after the link of the message."""
_BEHIND_LINK = re.compile(r"#t([A-Za-z0-9_-]{8,3000})\.([A-Za-z0-9_-]{22})(?=\s|$)")


@dataclass(frozen=True, slots=True)
class QuestionReference(chat_references.QuestionReference):
    """A question, and what is meant to be done: with a letter, a number, and for whom if that matters.

    The number is that of an option, or how many messages of an approval's thread the message showed. `code` is what came
    with it to prove that it was ours.
    """

    action: str = ""
    number: int = 0
    user: int = 0
    code: bytes = field(default=b"", repr=False)


class QuestionReferences:
    """Writes places into messages, and reads them; the key comes from the bot's token."""

    def __init__(self, bot_token: str) -> None:
        self._key = hashlib.sha256(b"handraise telegram " + bot_token.encode()).digest()

    def data(self, question: Draft, action: str, number: int = 0) -> str:
        """What a button carries: always the same for the same question and action."""
        reference = QuestionReference(question.workspace, question.id, action, number)
        code = self._code(reference, question)[:_CODE]
        short, name = short_id(question.id), question.workspace.encode()
        if short is not None and _HEAD + len(short) + len(name) <= _LONGEST_DATA:
            return as_base64(bytes([ord(action), number]) + code + short + name)
        return as_base64(bytes([ord(action) | _ELSEWHERE, number]) + code)

    def link(self, url: str, question: Draft, action: str = "", user: int = 0, number: int = 0) -> str:
        """The link with the place after it, where no server sees it."""
        reference = QuestionReference(question.workspace, question.id, action, number, user)
        place = [reference.workspace, reference.question_id, action, user]
        what = canonical_json([*place, number] if number else place)
        code = self._code(reference, question)[:_LONG_CODE]
        return f"{url}#t{as_base64(what.encode())}.{as_base64(code)}"

    def read_data(self, data: object, message: Mapping[str, Any]) -> QuestionReference | None:
        """The place in what a button carried, or None if it is not ours; nothing is proven yet."""
        raw = from_base64(data) if isinstance(data, str) else None
        if raw is None or len(raw) < _HEAD:
            return None
        action, number, code, rest = chr(raw[0] & ~_ELSEWHERE), raw[1], raw[2:_HEAD], raw[_HEAD:]
        link = self.read_link(message)
        linked = None if link is None else (link.workspace, link.question_id)
        where = (linked if not rest else None) if raw[0] & _ELSEWHERE else _unpack(rest)
        # Anybody's program can send what another button carried; then it is not for this message.
        if where is None or linked not in (None, where):
            return None
        return QuestionReference(*where, action, number, code=code)

    def read_link(self, message: Mapping[str, Any]) -> QuestionReference | None:
        """The place after the last link of a message of ours, or in its text; nothing is proven yet."""
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
                return _read_link_reference(from_base64(last[1]), from_base64(last[2]))
        return None

    def is_ours(self, found: QuestionReference, question: Draft) -> bool:
        """Whether we wrote this, about this very question and action."""
        code = self._code(found, question)[: max(len(found.code), _CODE)]
        return hmac.compare_digest(code, found.code)

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


def _read_link_reference(what: bytes | None, code: bytes | None) -> QuestionReference | None:
    try:
        read = json.loads(what or b"null")
    except (ValueError, RecursionError):
        return None
    match read:
        case [str(workspace), str(question_id), str(action), int(user), *rest] if code is not None:
            number = seen_in(rest[0]) if len(rest) == 1 else None
            if text_problem(workspace) or text_problem(question_id) or text_problem(action):
                return None
            if rest and not number:
                return None
            return QuestionReference(workspace, question_id, action, number or 0, user, code)
        case _:
            return None


def _unpack(data: bytes) -> tuple[str, str] | None:
    try:
        workspace = data[_ID:].decode()
        return workspace, long_id(data[:_ID])
    except ValueError:
        return None
