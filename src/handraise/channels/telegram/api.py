"""Telegram's Bot API: one call at a time, with Telegram's answer.

The bot's token is a part of every address. So it is added last: nothing that logs a request, or fails with one, ever
had it.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeGuard
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from handraise.channels.http_errors import Refused, exchange, refusal
from handraise.channels.payloads import as_json, object_in
from handraise.channels.sent_files import SentFile
from handraise.ports.channel import NotSent

TELEGRAM = "https://api.telegram.org"
TOKEN = re.compile(r"[0-9]{1,20}:[A-Za-z0-9_-]{20,100}")
"""What the token of a bot looks like: its id, and a secret."""
_WITHIN = 10.0
_CONNECT_WITHIN = 5.0
_NAME_WITHIN = 3.0
_NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
_FINAL = frozenset({400, 403})
"""Errors that Telegram would repeat, however often it is asked. A wrong token (401, 404) can be corrected."""


class BotApi:
    """Calls methods of the Bot API as a bot."""

    def __init__(self, client: httpx2.AsyncClient, token: str, url: str) -> None:
        self._client = client
        self._token = token
        self._url = url.rstrip("/")
        self.bot = int(token.partition(":")[0])
        """Our own user id."""
        self._name: str | None = None

    async def call(self, method: str, body: Mapping[str, Any], *, within: float = _WITHIN) -> Any:
        """Call a method, and return its result; raises `NotSent`."""
        request = self._client.post(
            f"{self._url}/{method}",
            content=as_json(body),
            headers={"content-type": "application/json"},
            timeout=httpx2.Timeout(within, connect=_CONNECT_WITHIN),
        )
        return await self._result(request, method)

    async def bot_name(self) -> str:
        """The name under which people find the bot, without its @; raises `NotSent`. It is asked for once."""
        if self._name is None:
            match await self.call("getMe", {}, within=_NAME_WITHIN):
                case {"username": str(name)} if _NAME.fullmatch(name):
                    self._name = name
                case _:
                    raise NotSent("Telegram did not say what the bot is called")
        return self._name

    async def send_file(
        self, kind: Literal["photo", "document"], chat: int, file: SentFile, *, reply_to: object
    ) -> None:
        """Send a file in reply to a message; raises `NotSent`. Telegram must not guess what a document is."""
        method = "sendPhoto" if kind == "photo" else "sendDocument"
        fields: dict[str, Any] = {"chat_id": str(chat)}
        if kind == "document":
            fields["disable_content_type_detection"] = "true"
        if is_number(reply_to):
            reply = {"message_id": reply_to, "allow_sending_without_reply": True}
            fields["reply_parameters"] = as_json(reply).decode()
        request = self._client.post(
            f"{self._url}/{method}",
            data=fields,
            files={kind: (file.name, file.data, file.media_type)},
            timeout=httpx2.Timeout(_WITHIN, connect=_CONNECT_WITHIN),
        )
        await self._result(request, method)

    async def _result(self, request: Awaitable[httpx2.Response], method: str) -> Any:
        answer, told = await exchange(request, "Telegram", method)
        if answer.is_success and told.get("ok") is True and "result" in told:
            return told["result"]
        why = str(told.get("description") or answer.status_code).replace(self._token, "…")
        wait = object_in(told, "parameters").get("retry_after")
        is_final = bool(told) and answer.status_code in _FINAL
        raise refusal(answer, "Telegram", method, why, is_final=is_final, told=told, wait=wait)

    async def send(self, chat: int, body: Mapping[str, Any], *, reply_to: object = None) -> int:
        """Send a message, in reply to another or not, and return its number; raises `NotSent`."""
        where: dict[str, Any] = {"chat_id": chat}
        if is_number(reply_to):
            where["reply_parameters"] = {"message_id": reply_to, "allow_sending_without_reply": True}
        match await self.call("sendMessage", {**where, **body}):
            case {"message_id": int(number)}:
                return number
            case _:
                raise NotSent("Telegram did not say where the message is", arrived_perhaps=True)

    async def edit(self, method: str, chat: int, message: object, body: Mapping[str, Any]) -> None:
        """Change something about a message, which may already be as it should be; raises `NotSent`."""
        try:
            await self.call(method, {"chat_id": chat, "message_id": message, **body})
        except Refused as refused:
            if "message is not modified" not in refused.why:
                raise


def is_number(value: object) -> TypeGuard[int]:
    """Whether this is a number as Telegram gives them to people, chats and messages."""
    return isinstance(value, int) and not isinstance(value, bool)


@asynccontextmanager
async def open_api(token: str, url: str, *, verify: ssl.SSLContext | None = None) -> AsyncIterator[BotApi]:
    """The Bot API for as long as this context lasts; raises `ValueError` if that is no token."""
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
        """Close the transport below this one."""
        await self._wire.aclose()


def _proxy(url: str) -> str | None:
    """The proxy that the environment names for this address; your own transport is not given it."""
    where = urlsplit(url)
    if proxy_bypass(where.hostname or ""):
        return None
    found = getproxies()
    return found.get(where.scheme) or found.get("all")
