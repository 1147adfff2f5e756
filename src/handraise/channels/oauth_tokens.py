"""Access tokens of OAuth 2.0 for a server's own account: fetched when needed, and used again until shortly before their end.

Tokens and secrets are in no text, log or `repr`.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlencode

from handraise.channels.http_errors import wait_of
from handraise.model.errors import MissingExtra
from handraise.ports.channel import NotSent

try:
    import httpx2
except ImportError as error:
    raise MissingExtra("httpx2", "server") from error

_BEFORE_ITS_END = 300.0
_SHORTEST = 30.0
_ASSERTION_LASTS = 3_600
_BACKDATED = 60
_CODE = re.compile(r"[A-Za-z0-9_. -]{1,60}")
_MICROSOFT_CODE = re.compile(r"AADSTS[0-9]{1,8}")


class Grant(Protocol):
    """What an account shows to get a token."""

    def form(self) -> dict[str, str]:
        """The fields of the request for a token, without the scope."""
        ...

    def keep(self, told: Mapping[str, Any]) -> None:
        """Keep what an answer says for the next request."""
        ...


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """An application in its own name (RFC 6749, 4.4)."""

    client_id: str
    secret: str = field(repr=False)

    def form(self) -> dict[str, str]:
        """See `Grant`."""
        return {
            "grant_type": "client_credentials",
            "client_id": self.client_id,
            "client_secret": self.secret,
        }

    def keep(self, told: Mapping[str, Any]) -> None:
        """There is nothing to keep."""


@dataclass(slots=True)
class RefreshToken:
    """An application in the name of somebody who has agreed to it once (RFC 6749, 6)."""

    client_id: str
    secret: str | None = field(repr=False)
    token: str = field(repr=False)

    def form(self) -> dict[str, str]:
        """See `Grant`."""
        found = {
            "grant_type": "refresh_token",
            "client_id": self.client_id,
            "refresh_token": self.token,
        }
        return found if self.secret is None else {**found, "client_secret": self.secret}

    def keep(self, told: Mapping[str, Any]) -> None:
        """A new refresh token replaces the one before; some servers accept each only once."""
        if isinstance(new := told.get("refresh_token"), str) and new:
            self.token = new


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """An account of Google's with a key of its own, in the name of somebody (RFC 7523)."""

    email: str
    private_key: str = field(repr=False)
    token_url: str
    subject: str
    scope: str
    clock: Callable[[], float] = field(default=time.time, repr=False)

    def form(self) -> dict[str, str]:
        """See `Grant`."""
        try:
            from joserfc import jwt  # noqa: PLC0415 -- only for these accounts
            from joserfc.jwk import RSAKey  # noqa: PLC0415 -- as above
        except ImportError as error:
            raise MissingExtra("joserfc", "email") from error

        now = int(self.clock())
        claims = {
            "iss": self.email,
            "sub": self.subject,
            "scope": self.scope,
            "aud": self.token_url,
            "iat": now - _BACKDATED,
            "exp": now - _BACKDATED + _ASSERTION_LASTS,
        }
        key = RSAKey.import_key(self.private_key)
        signed = jwt.encode({"alg": "RS256"}, claims, key, algorithms=["RS256"])
        return {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": signed}

    def keep(self, told: Mapping[str, Any]) -> None:
        """There is nothing to keep."""


class AccessTokens:
    """The token of one account for one scope. Whoever needs it while it is fetched waits for the same answer."""

    def __init__(
        self,
        client: httpx2.AsyncClient,
        grant: Grant,
        *,
        token_url: str,
        scope: str | None,
        issuer: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._grant = grant
        self._token_url = token_url
        self._scope = scope
        self._issuer = issuer
        self._clock = clock
        self._token: str | None = None
        self._until = 0.0
        self._fetching: asyncio.Task[str] | None = None

    async def token(self) -> str:
        """A token that lasts for a while; raises `NotSent`."""
        if self._token is not None and self._clock() < self._until:
            return self._token
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._fetch(), name="handraise fetches a token")
            self._fetching.add_done_callback(self._fetched)
        # One of those who wait may be cancelled, and the others need the token.
        return await asyncio.shield(self._fetching)

    def refuse(self, token: str) -> None:
        """Stop using a token: a service does not accept it."""
        if token == self._token:
            self._token = None

    def _fetched(self, task: asyncio.Task[str]) -> None:
        self._fetching = None
        if not task.cancelled():
            task.exception()  # nobody may be waiting for it any more

    async def _fetch(self) -> str:
        told = await self._ask()
        match told:
            case {"access_token": str(token)} if token and token.isascii() and token.isprintable():
                pass
            case _:
                raise NotSent(f"{self._issuer} gives no token: it answered something else")
        self._grant.keep(told)
        lasts = _seconds(told.get("expires_in"))
        self._until = self._clock() + max(lasts - _BEFORE_ITS_END, min(lasts, _SHORTEST))
        self._token = token
        return token

    async def _ask(self) -> dict[str, Any]:
        form = self._grant.form() | ({"scope": self._scope} if self._scope else {})
        headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
        try:
            answer = await self._client.post(
                self._token_url, content=urlencode(form).encode(), headers=headers
            )
        except httpx2.HTTPError as error:
            # Without the error itself: it contains the request, and the request contains the secret.
            raise NotSent(f"{self._issuer} gives no token: {type(error).__name__}") from None
        try:
            told = answer.json()
        except ValueError:
            told = None
        match told:
            case dict() if answer.is_success:
                return told
            case {"error": str(code)} if _CODE.fullmatch(code):
                detail = _MICROSOFT_CODE.search(str(told.get("error_description")))
                why = code if detail is None else f"{code} ({detail[0]})"
            case _:
                why = f"it answered {answer.status_code}"
        raise NotSent(f"{self._issuer} gives no token: {why}", after=wait_of(answer))


def _seconds(lasts: object) -> float:
    """How long a token lasts; some servers write the number as a text."""
    if isinstance(lasts, str) and lasts.isascii() and lasts.isdecimal():
        return float(lasts[:9])
    return float(lasts) if isinstance(lasts, int | float) and lasts > 0 else _SHORTEST
