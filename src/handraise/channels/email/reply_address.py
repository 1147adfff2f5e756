"""The address that a reply goes to: it says which question is meant, and only those who got the mail know it.

`reply+TOKEN@example.org`, where the token is a code over workspace, question and recipient, followed by the
question's id, how many messages of its thread the mail showed if there were any, and the workspace's name. Mail servers take up to 64 characters before the @ and may change the case of
letters. What does not fit there is in the Message-ID, which a reply names among its references.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

from handraise.channels.chat_references import seen_in
from handraise.model.json_values import canonical_json

_CODE_BYTES = 10
_ID_BYTES = 16
_LONGEST_LOCAL = 64
_LONGEST_PLACE = 600
_MOST = 20
_SEEN = 0
"""The byte before how many messages a mail showed: no workspace's name begins with it."""


@dataclass(frozen=True, slots=True)
class Token:
    """Which question a reply claims to be about, how much of its thread the mail showed, and the code that proves it."""

    workspace: str
    question_id: str
    seen: int
    code: bytes = field(repr=False)


class ReplyAddress(NamedTuple):
    """Where a reply goes. `place` must be in the Message-ID if it did not fit into the address."""

    address: str
    place: str | None = None


class ReplyAddresses:
    """Makes and reads the addresses of replies; the same question, recipient and thread have the same one every time.

    What was made with one of the keys of `before` is still read.
    """

    def __init__(self, mailbox: str, key: bytes, *before: bytes) -> None:
        self._local, _, self._domain = mailbox.rpartition("@")
        self._keys = (key, *before)
        token = rf"{re.escape(self._local)}\+([a-z2-7]{{16,58}})@{re.escape(self._domain)}(?![a-z0-9.-])"
        self._pattern = re.compile(rf"(?<![a-z0-9!#$%&'*+/=?^_`{{|}}~.-]){token}", re.IGNORECASE)

    def make(self, workspace: str, question_id: str, recipient: str, *, seen: int = 0) -> ReplyAddress | None:
        """The address for what this recipient replies to this question; None if no mail could carry it.

        `seen` is how many messages of its thread the mail shows.
        """
        code = _code(self._keys[0], workspace, question_id, recipient, seen)
        packed = _packed(workspace, question_id, seen)
        if packed is not None and len(self._local) + len(_text(code + packed)) < _LONGEST_LOCAL:
            return ReplyAddress(self._address(code + packed))
        place = _text(canonical_json([workspace, question_id, *([seen] if seen else [])]).encode())
        return ReplyAddress(self._address(code), place) if len(place) <= _LONGEST_PLACE else None

    def read(self, recipients: Iterable[str], references: Iterable[str]) -> Iterator[Token]:
        """What these headers of a reply claim to be about; none of it is proven yet."""
        found = [each for text in recipients for each in self._pattern.findall(text)][:_MOST]
        named = [each for text in references for each in _places_in(text)][:_MOST]
        for token in dict.fromkeys(each.lower() for each in found):
            data = _bytes(token)
            if data is None:
                continue
            code, rest = data[:_CODE_BYTES], data[_CODE_BYTES:]
            if not rest:
                yield from (Token(*each, code) for each in dict.fromkeys(named))
            elif (place := _unpacked(rest)) is not None:
                yield Token(*place, code)

    def recipient_of(self, token: Token, names: Iterable[str]) -> str | None:
        """As which of these recipients somebody got our mail with this token; None if none of them did."""
        for name, key in product(names, self._keys):
            code = _code(key, token.workspace, token.question_id, name, token.seen)
            if hmac.compare_digest(token.code, code):
                return name
        return None

    def _address(self, token: bytes) -> str:
        return f"{self._local}+{_text(token)}@{self._domain}"


def _code(key: bytes, workspace: str, question_id: str, recipient: str, seen: int) -> bytes:
    what = canonical_json(["e-mail reply", workspace, question_id, recipient, *([seen] if seen else [])])
    return hmac.new(key, what.encode(), hashlib.sha256).digest()[:_CODE_BYTES]


def _places_in(text: str) -> Iterator[tuple[str, str, int]]:
    for name in re.findall(rf"<[^<>@\s]{{1,100}}\.([a-z2-7]{{8,{_LONGEST_PLACE}}})@", text, re.IGNORECASE):
        data = _bytes(name)
        try:
            place = json.loads(data or b"null")
        except (ValueError, RecursionError):
            continue
        match place:
            case [str(workspace), str(question_id)]:
                yield workspace, question_id, 0
            case [str(workspace), str(question_id), int(seen)] if seen_in(seen):
                yield workspace, question_id, seen


def _packed(workspace: str, question_id: str, seen: int) -> bytes | None:
    """A place in few bytes, if the question's id is of the usual kind."""
    try:
        number = uuid.UUID(question_id)
    except ValueError:
        return None
    shown = bytes([_SEEN, seen]) if seen else b""
    return number.bytes + shown + workspace.encode() if str(number) == question_id and workspace else None


def _unpacked(data: bytes) -> tuple[str, str, int] | None:
    rest, seen = data[_ID_BYTES:], 0
    if rest[:1] == bytes([_SEEN]) and len(rest) > 1:
        if not (seen := rest[1]):
            return None
        rest = rest[2:]
    try:
        workspace = rest.decode()
    except UnicodeDecodeError:
        return None
    return (workspace, str(uuid.UUID(bytes=data[:_ID_BYTES])), seen) if workspace else None


def _text(data: bytes) -> str:
    return base64.b32encode(data).decode().rstrip("=").lower()


def _bytes(text: str) -> bytes | None:
    try:
        data = base64.b32decode(text.upper() + "=" * (-len(text) % 8))
    except binascii.Error:
        return None
    # Several texts can stand for the same bytes; only the one that we write is ours.
    return data if _text(data) == text.lower() else None
