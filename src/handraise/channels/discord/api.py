"""Discord's REST API: one call at a time, with Discord's answer."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx2

from handraise.channels.discord.components import Component
from handraise.channels.discord.markup import escaped, length_of
from handraise.channels.discord.messages import LONGEST, Rendered
from handraise.channels.http_errors import Refused, exchange, refusal, wait_of
from handraise.channels.payloads import as_json
from handraise.channels.sent_files import SentFile
from handraise.ports.channel import NotSent

SUPPRESS_EMBEDS, EPHEMERAL = 1 << 2, 1 << 6
_PASSING = frozenset(
    {20016, 20022, 20028, 20029, 30046, 40002, 40003, 40004, 40006, 40062, 40333, 110000, 110001, 130000}
)
"""Refusals that are temporary; Discord would repeat any other."""
_UNKNOWN_CHANNEL = 10003
_UNAUTHORIZED, _TOO_MANY = 401, 429
_A_WHILE = 300
"""Too many calls with an invalid token lead to a ban."""
_MOST_ROOMS = 10_000
_TIMEOUT = httpx2.Timeout(10.0, connect=5.0)
_AGENT = "DiscordBot (https://github.com/handraise/handraise, 1)"


CONNECT: Mapping[str, Any] = {
    "type": 1,
    "name": "connect",
    "description": "Connect this account with Handraise",
    "options": [
        {"type": 3, "name": "code", "description": "The code on your page in Handraise", "required": True}
    ],
}
"""The command with which people connect their accounts."""


class DiscordApi:
    """Calls the API as a bot.

    Without a client of httpx2: that one logs the address of every call, and the addresses that answer what somebody
    did contain a secret.
    """

    def __init__(self, transport: httpx2.AsyncBaseTransport, token: str, url: str) -> None:
        self._transport = transport
        self._token = token
        self._url = url.rstrip("/")
        self._rooms: dict[str, str] = {}
        self._has_connect = False
        self._quiet_until = 0.0

    async def direct_message_room(self, user: str) -> str:
        """The conversation with one person. Discord creates it if there is none; we ask once."""
        if user not in self._rooms:
            made = await self.call("POST", "/users/@me/channels", {"recipient_id": user})
            while len(self._rooms) >= _MOST_ROOMS:
                del self._rooms[next(iter(self._rooms))]
            self._rooms[user] = id_in(made)
        return self._rooms[user]

    async def post(self, room: str, body: Mapping[str, Any], files: Sequence[SentFile] = ()) -> str:
        """Send a message, perhaps with files, and return its id."""
        try:
            return id_in(await self.call("POST", f"/channels/{room}/messages", body, files=files))
        except Refused as refused:
            if refused.code == _UNKNOWN_CHANNEL:
                self._rooms = {user: known for user, known in self._rooms.items() if known != room}
            raise

    async def edit(self, room: str, message: str, body: Mapping[str, Any]) -> None:
        """Change a message of ours."""
        await self.call("PATCH", f"/channels/{room}/messages/{message}", body)

    async def register_connect(self) -> None:
        """Register the command with which people connect their accounts. The same one twice is one command."""
        if self._has_connect:
            return
        application = id_in(await self.call("GET", "/applications/@me", {}))
        await self.call("POST", f"/applications/{application}/commands", CONNECT)
        self._has_connect = True

    async def follow_up(self, application: str, token: str, body: Mapping[str, Any]) -> None:
        """Send the answer that was promised after somebody did something."""
        where = f"/webhooks/{quote(application, safe='')}/{quote(token, safe='')}/messages/@original"
        await self.call("PATCH", where, body, named="/webhooks/…/messages/@original", bare=True)

    async def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any],
        *,
        named: str | None = None,
        bare: bool = False,
        files: Sequence[SentFile] = (),
    ) -> dict[str, Any]:
        """Call the API; raises `NotSent`. A `bare` call is authorised by its address alone."""
        if not bare and (quiet := self._quiet_until - time.monotonic()) > 0:
            raise NotSent("Discord asked the whole bot to wait", after=timedelta(seconds=quiet))
        what = f"{method} {named or path}"
        headers = {"user-agent": _AGENT}
        if not bare:
            headers["authorization"] = f"Bot {self._token}"
        request = httpx2.Request(
            method,
            f"{self._url}{path}",
            headers=headers if files else headers | {"content-type": "application/json"},
            content=None if files else as_json(body),
            files=_parts(body, files) if files else None,
            extensions={"timeout": _TIMEOUT.as_dict()},
        )
        answer, told = await exchange(self._send(request), "Discord", what)
        if answer.is_success:
            return told
        code, wait = told.get("code"), told.get("retry_after")
        code = code if isinstance(code, int) and code else None
        if answer.status_code == _TOO_MANY and (
            told.get("global") is True or "x-ratelimit-global" in answer.headers
        ):
            after = wait_of(answer, wait) or timedelta()
            self._quiet_until = time.monotonic() + after.total_seconds()
        if answer.status_code == _UNAUTHORIZED:
            wait = _A_WHILE
        why = str(told.get("message") or answer.status_code) + (f" ({code})" if code else "")
        is_final = code is not None and code not in _PASSING
        raise refusal(answer, "Discord", what, why, is_final=is_final, code=code, wait=wait)

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._transport.handle_async_request(request)
        try:
            await answer.aread()
        finally:
            await answer.aclose()
        return answer


def _parts(body: Mapping[str, Any], files: Sequence[SentFile]) -> list[tuple[str, Any]]:
    """A message with files, as the parts of a form."""
    said = ("payload_json", (None, as_json(body), "application/json"))
    return [
        said,
        *((f"files[{at}]", (each.name, each.data, each.media_type)) for at, each in enumerate(files)),
    ]


def message_of(rendered: Rendered) -> dict[str, Any]:
    """A message as Discord takes it: it notifies nobody, and no address in it becomes a picture."""
    return {
        "content": rendered.content,
        "components": list(rendered.rows),
        "allowed_mentions": {"parse": []},
        "flags": SUPPRESS_EMBEDS,
    }


def text_message(text: str, rows: list[Component] | None = None) -> dict[str, Any]:
    """A text for one person, as it is."""
    shown = escaped(text)
    while length_of(shown) > LONGEST:
        text = text[: -max(1, (length_of(shown) - LONGEST) // 4)]
        shown = f"{escaped(text)}…"
    return message_of(Rendered(shown, rows or []))


def id_in(found: Mapping[str, Any]) -> str:
    """The id of what Discord created."""
    made = found.get("id")
    if not is_id(made):
        raise NotSent("Discord did not say what it made", arrived_perhaps=True)
    return str(made)


def is_id(text: object) -> bool:
    """Whether this is one of Discord's ids."""
    return isinstance(text, str) and 15 <= len(text) <= 20 and text.isascii() and text.isdigit()  # noqa: PLR2004 -- 64 bits since 2015
