"""Discord's REST API: one call at a time, with what Discord says of it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx2

from handraise.channels.discord.components import Component
from handraise.channels.discord.markup import escaped, length_of
from handraise.channels.discord.messages import LONGEST, Rendered
from handraise.model.visible import visible_line
from handraise.ports.channel import NotSent

SUPPRESS_EMBEDS, EPHEMERAL = 1 << 2, 1 << 6
_PASSING = frozenset(
    {20016, 20022, 20028, 20029, 30046, 40002, 40003, 40004, 40006, 40062, 40333, 110000, 110001, 130000}
)
"""What Discord says for now only; anything else that it refuses, it would refuse again."""
_UNKNOWN_CHANNEL = 10003
_UNAUTHORIZED, _TIMED_OUT, _TOO_MANY, _TROUBLE = 401, 408, 429, 500
_A_WHILE = timedelta(minutes=5)
_LONGEST_WAIT = 3_600.0
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,6})?", re.ASCII)
_MOST_ROOMS = 10_000
_TIMEOUT = httpx2.Timeout(10.0, connect=5.0)
_AGENT = "DiscordBot (https://github.com/handraise/handraise, 1)"


class Refused(NotSent):
    """Discord did not do what it was asked; `code` is its number for why, where it has one."""

    def __init__(
        self, problem: str, *, code: int | None, again: bool, after: timedelta | None = None
    ) -> None:
        super().__init__(problem, again=again, after=after)
        self.code = code


class DiscordApi:
    """Calls the API in the name of a bot.

    Without a client of httpx2: that one logs the address of every call, and those that answer what somebody did have
    a secret in them.
    """

    def __init__(self, transport: httpx2.AsyncBaseTransport, token: str, url: str) -> None:
        self._transport = transport
        self._token = token
        self._url = url.rstrip("/")
        self._rooms: dict[str, str] = {}
        self._quiet_until = 0.0

    async def direct_message_room(self, user: str) -> str:
        """The conversation with one person. Discord makes one where there is none; we ask once."""
        if user not in self._rooms:
            made = await self.call("POST", "/users/@me/channels", {"recipient_id": user})
            while len(self._rooms) >= _MOST_ROOMS:
                del self._rooms[next(iter(self._rooms))]
            self._rooms[user] = id_in(made)
        return self._rooms[user]

    async def post(self, room: str, body: Mapping[str, Any]) -> str:
        """Send a message, and give back its id."""
        try:
            return id_in(await self.call("POST", f"/channels/{room}/messages", body))
        except Refused as refused:
            if refused.code == _UNKNOWN_CHANNEL:
                self._rooms = {user: known for user, known in self._rooms.items() if known != room}
            raise

    async def edit(self, room: str, message: str, body: Mapping[str, Any]) -> None:
        """Change a message of ours."""
        await self.call("PATCH", f"/channels/{room}/messages/{message}", body)

    async def follow_up(self, application: str, token: str, body: Mapping[str, Any]) -> None:
        """Fill in what was promised in answer to what somebody did."""
        where = f"/webhooks/{quote(application, safe='')}/{quote(token, safe='')}/messages/@original"
        await self.call("PATCH", where, body, named="/webhooks/…/messages/@original", bare=True)

    async def call(
        self, method: str, path: str, body: Mapping[str, Any], *, named: str | None = None, bare: bool = False
    ) -> dict[str, Any]:
        """Call the API; raises `NotSent`. What is `bare` shows who we are by its address alone."""
        if not bare and (quiet := self._quiet_until - time.monotonic()) > 0:
            raise NotSent("Discord asked the whole bot to wait", after=timedelta(seconds=quiet))
        what = f"{method} {named or path}"
        headers = {"content-type": "application/json", "user-agent": _AGENT}
        if not bare:
            headers["authorization"] = f"Bot {self._token}"
        request = httpx2.Request(
            method,
            f"{self._url}{path}",
            headers=headers,
            content=as_json(body),
            extensions={"timeout": _TIMEOUT.as_dict()},
        )
        try:
            answer = await self._transport.handle_async_request(request)
            try:
                content = await answer.aread()
            finally:
                await answer.aclose()
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise NotSent(f"Discord cannot be reached: {type(error).__name__}") from None
        except httpx2.HTTPError as error:
            # Without the error itself: it has the request in it, and that the token.
            raise NotSent(f"no answer from Discord: {type(error).__name__}", arrived_perhaps=True) from None
        return self._read(what, answer, content)

    def _read(self, what: str, answer: httpx2.Response, content: bytes) -> dict[str, Any]:
        status, told = answer.status_code, _object(content)
        if status >= _TROUBLE:
            raise NotSent(f"Discord answered {status} to {what}", arrived_perhaps=True)
        if answer.is_success:
            if told is None:
                raise NotSent(
                    f"Discord answered {what} with something that is not its own", arrived_perhaps=True
                )
            return told
        code = told.get("code") if told else None
        code = code if isinstance(code, int) and code else None
        if status == _TOO_MANY:
            after = _wait(answer, told or {})
            everything = (told or {}).get("global") is True or "x-ratelimit-global" in answer.headers
            if everything and after is not None:
                self._quiet_until = time.monotonic() + after.total_seconds()
            whole = " from the whole bot" if everything else ""
            raise Refused(f"too many requests{whole} for {what}", code=code, again=True, after=after)
        again = code is None or code in _PASSING or status in (_UNAUTHORIZED, _TIMED_OUT)
        why = visible_line(str(told.get("message")))[:80] if told else "nothing of its own"
        problem = f"Discord says {status}, {why}" + (f" ({code})" if code else "") + f", to {what}"
        # Too many calls with a token that is none are answered with a ban.
        raise Refused(problem, code=code, again=again, after=_A_WHILE if status == _UNAUTHORIZED else None)


def message_of(rendered: Rendered) -> dict[str, Any]:
    """A message as Discord takes it: nobody is called by it, and no address in it becomes a picture."""
    return {
        "content": rendered.content,
        "components": list(rendered.rows),
        "allowed_mentions": {"parse": []},
        "flags": SUPPRESS_EMBEDS,
    }


def text_message(text: str, rows: list[Component] | None = None) -> dict[str, Any]:
    """Something said to one person, as it is."""
    shown = escaped(text)
    while length_of(shown) > LONGEST:
        text = text[: -max(1, (length_of(shown) - LONGEST) // 4)]
        shown = f"{escaped(text)}…"
    return message_of(Rendered(shown, rows or []))


def id_in(found: Mapping[str, Any]) -> str:
    """The id of what Discord made."""
    made = found.get("id")
    if not is_id(made):
        raise NotSent("Discord did not say what it made", arrived_perhaps=True)
    return str(made)


def is_id(text: object) -> bool:
    """Whether this is an id of Discord's."""
    return isinstance(text, str) and 15 <= len(text) <= 20 and text.isascii() and text.isdigit()  # noqa: PLR2004 -- 64 bits since 2015


def as_json(value: Any) -> bytes:
    """The JSON that is sent: the same for the same value."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def _object(content: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _wait(answer: httpx2.Response, told: Mapping[str, Any]) -> timedelta | None:
    """How long Discord asks to wait: in seconds and parts of them in the body, in whole ones in the header."""
    seconds = told.get("retry_after")
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not seconds >= 0:
        header = answer.headers.get("retry-after", "")
        seconds = float(header) if _SECONDS.fullmatch(header) else None
    return None if seconds is None else timedelta(seconds=min(float(seconds), _LONGEST_WAIT))
