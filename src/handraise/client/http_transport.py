"""The connection to a server: requests that are safe to retry, and streams that continue where they broke off."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import ssl
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import cache
from typing import Any

import httpx2
import pydantic

from handraise.model.errors import DeskClosed, RequestConflict, StoreUnavailable, TooManyRequests
from handraise.model.problems import HandraiseError
from handraise.wire.problem_documents import MEDIA_TYPE, ProblemDocument, error_of
from handraise.wire.requests import GiveHeartbeat, PostQuestion

_log = logging.getLogger(__name__)

_PATIENCE = 30.0
_CONFLICT_PATIENCE = 90.0
"""If a server dies during a request, another server takes the request over after a minute at most."""

_OPENING_PATIENCE = 5.0
"""How long to try an address that has never answered: it is more often wrong than restarting."""

_PAUSE = 0.05
_PAUSE_AT_MOST = 2.0
HEARTBEAT = 15.0
"""How often a server sends something on a stream, in seconds, unless the stream's first message says otherwise."""
_SHORTEST_HEARTBEAT = 0.05
_SILENCE = 3
"""A stream that is silent for more than so many heartbeats is broken."""


@cache
def _trusted() -> ssl.SSLContext:
    """The system's trusted certificates, read once and not for every desk."""
    return httpx2.create_ssl_context()


class HttpTransport:
    """Sends requests to one or several servers on the same store: if one does not answer, the next is tried.

    Every POST has an idempotency key or the id of what it makes, or is safe, so that a retry does nothing twice.
    """

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = [address.rstrip("/") for address in addresses]
        self._at = 0
        self._closed = False
        self._http = httpx2.AsyncClient(
            timeout=httpx2.Timeout(30.0, connect=10.0, pool=None),
            limits=httpx2.Limits(max_connections=100, max_keepalive_connections=20),
            follow_redirects=False,
            verify=_trusted(),
        )

    async def close(self) -> None:
        """Close the connection; running requests end with `DeskClosed`."""
        self._closed = True
        await self._http.aclose()

    async def call(
        self,
        method: str,
        path: str,
        *,
        token: str,
        subject: str = "",
        workspace: str = "",
        actor: str = "",
        body: pydantic.BaseModel | None = None,
        query: Mapping[str, Any] | None = None,
        wait: float = 0.0,
        patience: float | None = None,
        opening: bool = False,
        content: bytes | None = None,
    ) -> bytes | None:
        """Return the server's response, or None if it is empty; raises the error that the server returns.

        `content` is a body that is no JSON. `wait` is for how long the server may wait before it answers, `patience` for how
        long to try again if it cannot be reached. The other arguments describe the request, for that error. The first
        request of a desk is `opening`: it is retried for a shorter time than others, and not at all if something other
        than a Handraise server answers.
        """
        headers = {"authorization": f"Bearer {token}"}
        if content is not None:
            headers["content-type"] = "application/octet-stream"
        # Posting the same id again is safe by itself, and an idempotency key would cost the server as much as
        # the post. So it is with a heartbeat.
        is_safe = isinstance(body, GiveHeartbeat) or (isinstance(body, PostQuestion) and bool(body.id))
        if method == "POST" and not is_safe:
            headers["idempotency-key"] = uuid.uuid4().hex
        if body is not None:
            headers["content-type"] = "application/json"
            content = body.model_dump_json().encode()
        began, pause, told = time.monotonic(), _PAUSE, False
        while True:
            address = self._address
            try:
                response = await self._send(
                    method,
                    address + path,
                    headers=headers,
                    content=content,
                    params=query,
                    timeout=httpx2.Timeout(20.0 + wait, connect=5.0, pool=None),
                )
                if response.status_code < 400:  # noqa: PLR2004 -- the first status of an error
                    return response.content or None
                error = refusal(response, address, subject=subject, workspace=workspace, actor=actor)
                if opening and response.status_code < 500 and not isinstance(error, TooManyRequests):  # noqa: PLR2004 -- a proxy's own errors may pass
                    raise error
            except httpx2.HTTPError as failure:
                if self._closed:
                    raise DeskClosed from None
                self._leave(address)
                error = unreachable(address, failure)
                error.__cause__ = failure
            if not isinstance(error, (StoreUnavailable, RequestConflict, TooManyRequests)):
                raise error
            most = _CONFLICT_PATIENCE if isinstance(error, RequestConflict) else _PATIENCE + wait
            if patience is not None:
                most = patience
            if opening:
                most = min(most, _OPENING_PATIENCE)
            rest = max(pause * random.uniform(0.5, 1.0), getattr(error, "retry_after", 0.0))  # noqa: S311 -- spreads retries
            if time.monotonic() + rest > began + most:
                raise error
            if not told and isinstance(error, StoreUnavailable):
                told = True
                _log.warning("%s Trying again for up to %.0f seconds.", error, most)
            await asyncio.sleep(rest)
            pause = min(pause * 2, _PAUSE_AT_MOST)

    async def stream(
        self, path: str, *, token: str, after: str | None, first_within: float | None = None
    ) -> AsyncGenerator[tuple[str, str], None]:
        """The messages of an event stream, as (event, data); after a break it continues where it was cut off.

        The first is always `ready`, again after each break. A heartbeat has no data. Raises the server's error if it refuses the
        stream, and `StoreUnavailable` if nothing came within `first_within` seconds of the first try.
        """
        place, pause, begun = after, _PAUSE, time.monotonic()
        heard, heartbeat = False, HEARTBEAT
        while True:
            headers = {"authorization": f"Bearer {token}"}
            query = {} if place is None else {"after": place or "0"}
            patience = _SILENCE * heartbeat if heard or first_within is None else first_within
            address, rest = self._address, 0.0
            try:
                async with AsyncExitStack() as stack:
                    async with asyncio.timeout(patience):
                        source = await stack.enter_async_context(
                            self._http.sse(
                                address + path,
                                headers=headers,
                                params=query,
                                timeout=httpx2.Timeout(None, connect=10.0),
                            )
                        )
                        if source.response.status_code >= 400:  # noqa: PLR2004 -- the first status of an error
                            await source.response.aread()
                            raise refusal(source.response, address)
                    messages = aiter(source)
                    while (message := await _next_message(messages, patience)) is not None:
                        heard, pause = True, _PAUSE
                        if message.id:
                            place = message.id
                        if message.event == "ready":
                            heartbeat = heartbeat_of(message.data)
                            patience = _SILENCE * heartbeat
                        yield message.event, message.data
            except (
                httpx2.HTTPError,
                StoreUnavailable,
                TooManyRequests,
                RuntimeError,
                TimeoutError,
            ) as failure:
                if self._closed:
                    raise DeskClosed from None
                if isinstance(failure, RuntimeError):  # only a closed client raises one
                    raise
                if not heard and first_within is not None and time.monotonic() - begun > first_within:
                    why = str(failure) or "nothing came in time"
                    raise StoreUnavailable(f"The server streams nothing: {why}") from failure
                _log.debug("an event stream broke off (%s); continuing where it was", failure)
                rest = getattr(failure, "retry_after", rest)
            if self._closed:
                raise DeskClosed
            self._leave(address)
            await asyncio.sleep(max(rest, pause * random.uniform(0.5, 1.0)))  # noqa: S311 -- spreads retries
            pause = min(pause * 2, _PAUSE_AT_MOST)

    async def lines(
        self, path: str, *, token: str, query: Mapping[str, Any]
    ) -> AsyncGenerator[list[bytes], None]:
        """The lines of a response, some at a time: it may be too large to be held.

        Raises the error that the server returns, and `StoreUnavailable` if the response was cut off. It is not tried again.
        """
        address, rest = self._address, b""
        try:
            async with self._http.stream(
                "GET",
                address + path,
                headers={"authorization": f"Bearer {token}"},
                params=query,
                timeout=httpx2.Timeout(60.0, connect=10.0, pool=None),
            ) as response:
                if response.status_code >= 400:  # noqa: PLR2004 -- the first status of an error
                    await response.aread()
                    raise refusal(response, address)
                async for part in response.aiter_bytes():
                    *lines, rest = (rest + part).split(b"\n")
                    if lines:
                        yield lines
        except httpx2.HTTPError as failure:
            raise unreachable(address, failure) from failure
        if rest:
            raise StoreUnavailable(f"The response of {address} was cut off.")

    @property
    def _address(self) -> str:
        return self._addresses[self._at]

    def _leave(self, address: str) -> None:
        """Switch to the next address; of all callers that found this one dead, only the first does."""
        if address == self._address:
            self._at = (self._at + 1) % len(self._addresses)

    async def _send(self, method: str, url: str, **options: Any) -> httpx2.Response:
        if self._closed:
            raise DeskClosed
        try:
            return await self._http.request(method, url, **options)
        except RuntimeError:
            # The client was closed between our check and its own.
            if self._closed:
                raise DeskClosed from None
            raise


def heartbeat_of(ready: str) -> float:
    """How often the server sends something, in seconds, as the first message of a stream says."""
    try:
        return max(float(json.loads(ready)["heartbeat"]), _SHORTEST_HEARTBEAT)
    except (ValueError, TypeError, KeyError):
        return HEARTBEAT  # of a server that does not say


async def _next_message(
    messages: AsyncIterator[httpx2.ServerSentEvent], patience: float
) -> httpx2.ServerSentEvent | None:
    """The next message of a stream, or None at its end; raises `TimeoutError` if none comes in time."""
    async with asyncio.timeout(patience):
        return await anext(messages, None)


def unreachable(address: str, failure: Exception) -> StoreUnavailable:
    """The error if no server answers."""
    why = str(failure) or type(failure).__name__
    return StoreUnavailable(f"The server at {address} cannot be reached ({why}). Is it running?")


def refusal(
    response: httpx2.Response, address: str, *, subject: str = "", workspace: str = "", actor: str = ""
) -> HandraiseError:
    """The error in a response."""
    if response.headers.get("content-type", "").startswith(MEDIA_TYPE):
        try:
            document = ProblemDocument.model_validate_json(response.content)
        except pydantic.ValidationError:
            pass
        else:
            return error_of(document, subject=subject, workspace=workspace, actor=actor)
    return StoreUnavailable(
        f"What answers at {address} is not a Handraise server, or something in between answers for it: it said "
        f"{response.status_code}. Check the address."
    )
