"""People connect their own account at a chat service: two proofs, one from the account and one from the session.

A page shows a code to somebody who is signed in. They send it to the bot from their account, and the service says whose
account that is. The bot answers with a link, which only the session can use that got the code. So nobody connects an
account with a stolen code, and nobody is made to connect somebody else's account by a link that they were sent.

Nothing is stored: codes and links are signed. The page that takes a link sees to it that each is used once.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from handraise.model.json_values import Json, canonical_json, text_problem
from handraise.model.visible import visible_line

LASTS = 900
"""How long a code and its link work, in seconds."""
_TIME, _NONCE, _MAC = 5, 8, 16
_CODE = re.compile(r"(?:/start(?:@\w+)? |/connect |connect )?(hrc_[A-Za-z0-9_-]{39})", re.IGNORECASE)
_LONGEST_TOKEN = 3_000
_LONGEST_NAME = 40


@dataclass(frozen=True, slots=True)
class CodeHolder:
    """Who got a code: a person, in one session."""

    workspace: str
    person: str
    session: str


@dataclass(frozen=True, slots=True)
class ChatAccount:
    """An account at a chat service, as the service says whose it is. The `name` is what its owner calls it."""

    channel: str
    id: str
    to: Json = field(repr=False)
    name: str = ""


@runtime_checkable
class ConnectCommand(Protocol):
    """A channel whose bot hears no messages, so that codes need a command at the service."""

    async def register_connect(self) -> None:
        """Let people give the command there; raises `NotSent`."""
        ...


@dataclass(frozen=True, slots=True)
class BotAddress:
    """How people find a bot at its service: by its name there, or by a link."""

    name: str
    url: str


@runtime_checkable
class NamedBot(Protocol):
    """A channel that can say which bot it is."""

    async def bot_address(self) -> BotAddress:
        """Where people find the bot; raises `NotSent`."""
        ...


@dataclass(frozen=True, slots=True)
class AccountLink:
    """What a link says, if it is for this holder. `use` is the same for every link of one code."""

    account: ChatAccount
    use: str


def read_code(text: str) -> str | None:
    """The code in what somebody sent to a bot; None if that is no code."""
    found = _CODE.fullmatch(text.strip())
    return None if found is None else found[1]


class AccountLinks:
    """Makes and reads codes and links. What was made with one of the keys after the first is still read."""

    def __init__(self, keys: Sequence[bytes], base_url: str, *, now: Callable[[], float] = time.time) -> None:
        self._keys = tuple(keys)
        self._base_url = base_url
        self._now = now

    def make_code(self, holder: CodeHolder, channel: str) -> str:
        """A code for an account on this channel."""
        until = int(self._now() + LASTS).to_bytes(_TIME, "big")
        head = until + secrets.token_bytes(_NONCE)
        return f"hrc_{_text(head + self._code_mac(self._keys[0], head, holder, channel))}"

    def make_link(self, code: str, account: ChatAccount) -> str | None:
        """The link for whoever sent a code from this account; None if the code has ended.

        Whether the code is one of ours is seen when the link is used: only its holder can tell.
        """
        if self._ended(_bytes(code.removeprefix("hrc_"))):
            return None
        name = visible_line(account.name)[:_LONGEST_NAME]
        body = canonical_json([code, account.channel, account.id, account.to, name]).encode()
        token = f"{_text(body)}.{_text(_mac(self._keys[0], b'link', body))}"
        return f"{self._base_url}/me/connect/{token}"

    def read_link(self, token: str, holder: CodeHolder) -> AccountLink | None:
        """What a link says; None unless it is genuine, has not ended, and this holder got its code."""
        body, _, mac = token.partition(".")
        data, given = _bytes(body), _bytes(mac)
        if len(token) > _LONGEST_TOKEN or not any(
            hmac.compare_digest(_mac(key, b"link", data), given) for key in self._keys
        ):
            return None
        match json.loads(data):
            case [str(code), str(channel), str(id_), to, str(name)]:
                pass
            case _:
                return None
        head = _bytes(code.removeprefix("hrc_"))
        proof, head = head[_TIME + _NONCE :], head[: _TIME + _NONCE]
        is_theirs = any(
            hmac.compare_digest(self._code_mac(key, head, holder, channel), proof) for key in self._keys
        )
        if not is_theirs or self._ended(head) or text_problem(id_):
            return None
        return AccountLink(ChatAccount(channel, id_, to, name), use=head.hex())

    def _ended(self, head: bytes) -> bool:
        return len(head) < _TIME or int.from_bytes(head[:_TIME], "big") <= self._now()

    def _code_mac(self, key: bytes, head: bytes, holder: CodeHolder, channel: str) -> bytes:
        about = [head.hex(), holder.workspace, holder.person, holder.session, channel]
        return _mac(key, b"code", canonical_json(about).encode())[:_MAC]


def _mac(key: bytes, kind: bytes, data: bytes) -> bytes:
    return hmac.new(key, b"handraise connects an account: " + kind + b" " + data, hashlib.sha256).digest()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b""
