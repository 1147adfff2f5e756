"""Telegram's Bot API: one call at a time, with what Telegram says of it.

The bot's token is a part of every address. So it is put there last of all: whatever logs a request, or fails with
one, never had it.
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from handraise.model.visible import visible_line
from handraise.ports.channel import NotSent

TELEGRAM = "https://api.telegram.org"
TOKEN = re.compile(r"[0-9]{1,20}:[A-Za-z0-9_-]{20,100}")
"""What the token of a bot looks like: its id, and a secret."""
_WITHIN = 10.0
_CONNECT_WITHIN = 5.0
_LONGEST_WAIT = 3_600
_LONGEST_REASON = 120
_TOO_MANY = 429
_TROUBLE = 500
_FINAL = frozenset({400, 403})
"""What Telegram would say again, however often it is asked. A wrong token (401, 404) can be put right."""


class Refused(NotSent):
    """Telegram did not do what it was asked; `code` and `why` are its words for that."""

    def __init__(self, method: str, code: int, why: str, parameters: Mapping[str, Any]) -> None:
        wait, chat = parameters.get("retry_after"), parameters.get("migrate_to_chat_id")
        after = timedelta(seconds=min(max(wait, 0), _LONGEST_WAIT)) if isinstance(wait, int) else None
        super().__init__(f"Telegram says “{why}” to {method}", again=code not in _FINAL, after=after)
        self.code = code
        self.why = why
        self.moved_to = chat if isinstance(chat, int) and not isinstance(chat, bool) else None
        """Where the group has gone that was written to."""


class BotApi:
    """Calls methods of the Bot API in the name of a bot."""

    def __init__(self, client: httpx2.AsyncClient, token: str, url: str) -> None:
        self._client = client
        self._token = token
        self._url = url.rstrip("/")
        self.bot = int(token.partition(":")[0])
        """Our own user id."""

    async def call(self, method: str, body: Mapping[str, Any], *, within: float = _WITHIN) -> Any:
        """Call a method, and give back its result; raises `NotSent`."""
        try:
            answer = await self._client.post(
                f"{self._url}/{method}",
                content=as_json(body),
                headers={"content-type": "application/json"},
                timeout=httpx2.Timeout(within, connect=_CONNECT_WITHIN),
            )
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise NotSent(f"Telegram cannot be reached: {type(error).__name__}") from None
        except httpx2.HTTPError as error:
            raise NotSent(f"no answer from Telegram: {type(error).__name__}", arrived_perhaps=True) from None
        try:
            told = answer.json()
        except ValueError:
            told = None
        match told:
            case {"ok": True, "result": result} if answer.is_success:
                return result
            case {"ok": False} if answer.status_code < _TROUBLE:
                raise Refused(method, answer.status_code, self._why(told), _parameters(told))
        if answer.status_code == _TOO_MANY:
            raise Refused(method, _TOO_MANY, "Too Many Requests", {})
        problem = f"Telegram answered {answer.status_code} to {method}, and nothing that is its own"
        raise NotSent(problem, arrived_perhaps=True)

    def _why(self, told: Mapping[str, Any]) -> str:
        why = str(told.get("description")).replace(self._token, "…")
        return visible_line(why)[:_LONGEST_REASON]


@asynccontextmanager
async def open_api(token: str, url: str, *, verify: ssl.SSLContext | None = None) -> AsyncIterator[BotApi]:
    """The Bot API for as long as this context lasts; raises `ValueError` where that is no token."""
    if not TOKEN.fullmatch(token):
        raise ValueError("That is no token of a bot: it should be its id, a colon, and a secret.")
    wire = httpx2.AsyncHTTPTransport(verify=verify or True, proxy=_proxy(url))
    async with httpx2.AsyncClient(transport=_WithToken(wire, token), follow_redirects=False) as client:
        yield BotApi(client, token, url)


class _WithToken(httpx2.AsyncBaseTransport):
    """Puts the token into the address of a request that is about to go out."""

    def __init__(self, wire: httpx2.AsyncBaseTransport, token: str) -> None:
        self._wire = wire
        self._token = token.encode()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request for `…/method` to `…/bot<token>/method`."""
        before, _, method = request.url.raw_path.rpartition(b"/")
        real = httpx2.Request(
            request.method,
            request.url.copy_with(raw_path=b"%s/bot%s/%s" % (before, self._token, method)),
            headers=request.headers,
            stream=request.stream,
            extensions=request.extensions,
        )
        return await self._wire.handle_async_request(real)

    async def aclose(self) -> None:
        """Close what there is below."""
        await self._wire.aclose()


def as_json(value: Any) -> bytes:
    """The JSON that is sent: the same for the same value."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def _parameters(told: Mapping[str, Any]) -> Mapping[str, Any]:
    found = told.get("parameters")
    return found if isinstance(found, dict) else {}


def _proxy(url: str) -> str | None:
    """The proxy that the environment names for this address; a transport of one's own is not given it."""
    where = urlsplit(url)
    if proxy_bypass(where.hostname or ""):
        return None
    found = getproxies()
    return found.get(where.scheme) or found.get("all")
