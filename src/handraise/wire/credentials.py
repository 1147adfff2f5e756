"""Credentials: secret texts that say who is calling, and what a desk at a server needs of them.

A token names its kind and its workspace, `hra_<workspace>_<secret>`, so that a server looks for it only in
that workspace. Only its digest is stored.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Protocol

from handraise.model.json_values import text_problem
from handraise.model.people import KEY_PREFIXES, Responder, key_prefix

_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")
_LONGEST_NAME = 4_000


class TokenKind(StrEnum):
    """Whose token it is. No kind is accepted in place of another."""

    AGENT = "hra"
    READER = "hrr"
    SCIM = "hrp"
    ADMIN = "hrm"
    SESSION = "hrs"
    LINK = "hrl"
    QUESTION = "hrq"


_KINDS: dict[str, TokenKind] = {kind.value: kind for kind in TokenKind}
_KEY_KINDS = dict(zip(KEY_PREFIXES, (TokenKind.READER, TokenKind.SCIM, TokenKind.ADMIN), strict=True))


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it was presented, without the secret itself."""

    kind: TokenKind
    workspace: str
    digest: str = field(repr=False)


def kind_of_key(name: str) -> TokenKind:
    """The kind of the token that belongs to a key, by the name in it."""
    return _KEY_KINDS.get(key_prefix(name), TokenKind.AGENT)


def make_token(kind: TokenKind, workspace: str, secret: bytes) -> str:
    """The text of a token around 32 random bytes."""
    name = base64.b32encode(workspace.encode()).decode().rstrip("=").lower()
    return f"{kind}_{name}_{base64.urlsafe_b64encode(secret).decode().rstrip('=')}"


def read_token(text: str) -> Token | None:
    """The kind and workspace of a token, or None if the text is not a token."""
    kind, _, rest = text.partition("_")
    name, _, secret = rest.partition("_")
    if kind not in _KINDS or len(name) > _LONGEST_NAME or not _SECRET.fullmatch(secret):
        return None
    workspace = _workspace_of(name)
    return None if workspace is None else Token(_KINDS[kind], workspace, digest_of(text))


@lru_cache(maxsize=1_000)
def _workspace_of(name: str) -> str | None:
    """The workspace that is written in a token, which is no secret; None if there can be no such workspace."""
    try:
        workspace = base64.b32decode(name.upper() + "=" * (-len(name) % 8)).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None
    # No store can keep such a name, so there is no such workspace.
    return None if not workspace or text_problem(workspace) else workspace


def digest_of(text: str) -> str:
    """The digest of a token, which is stored. 256 random bits need no slow hash."""
    return hashlib.sha256(text.encode()).hexdigest()


class Credentials(Protocol):
    """Chooses the token for each call of a desk: nobody answers with the key of an agent."""

    async def agent(self, workspace: str, asker: str) -> str:
        """The token with which this asker asks."""
        ...

    async def person(self, workspace: str, responder: Responder) -> str:
        """The token with which this person answers."""
        ...

    async def reader(self, workspace: str, asker: str) -> str:
        """The token with which a desk reads: pages, histories, feeds and grants."""
        ...
