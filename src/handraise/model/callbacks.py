"""Callbacks: a program that holds no connection is told by HTTP that its question has ended."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from handraise.model.problems import Problem
from handraise.model.webhook_signatures import secret_bytes

_LONGEST_URL = 2_000
_LAST_PORT = 65_535
_PORTS = {"https": 443, "http": 80}
_URL = re.compile(
    r"""(https?)://                                      # the scheme, in small letters
    (?:([A-Za-z0-9.-]{1,253})|\[([0-9A-Fa-f:.]{2,45})\]) # a host in ASCII, without a user
    (?::([0-9]{1,5}))?                                   # the port
    (?:[/?][!"$-\[\]-~]*)?                               # visible ASCII without a fragment and a backslash
    """,
    re.VERBOSE | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Callback:
    """Where the asker is told that its question has ended, by a signed webhook.

    `secret` is `whsec_` and 24 to 64 random bytes in Base64. Only you and the server know it: no desk gives it back.
    """

    url: str = field(repr=False)
    secret: str = field(repr=False)


def callback_place(callback: Callback) -> str | None:
    """The host and port that are called, as in `agent.example:443`; None if the URL makes no sense."""
    found = _URL.fullmatch(callback.url) if len(callback.url) <= _LONGEST_URL else None
    if found is None:
        return None
    scheme, name, number, port = found.groups()
    at = int(port) if port else _PORTS[scheme]
    return f"{(name or number).lower()}:{at}" if 0 < at <= _LAST_PORT else None


def callback_problems(callback: object) -> Iterator[Problem]:
    """Why a callback cannot be used, whatever an operator allows. No problem shows the URL or the secret."""
    if not isinstance(callback, Callback):
        yield Problem("callback", f"expected a Callback, got {type(callback).__name__}")
        return
    if type(callback.url) is not str or callback_place(callback) is None:
        wanted = "expected https://, a host, and a path in ASCII, without a user, a fragment or spaces"
        yield Problem("callback.url", f"{wanted}; at most {_LONGEST_URL} characters")
    if type(callback.secret) is not str or secret_bytes(callback.secret) is None:
        yield Problem("callback.secret", "expected whsec_ and 24 to 64 random bytes in Base64")
