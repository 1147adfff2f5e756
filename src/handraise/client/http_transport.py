"""The line to a server: requests that may safely be made again, and streams that go on where they broke off."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
import time
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import cache
from typing import Any

import httpx2
import pydantic

from handraise.model.errors import DeskClosed, RequestConflict, StoreUnavailable, TooManyRequests
from handraise.model.problems import HandraiseError
from handraise.wire.problem_documents import MEDIA_TYPE, ProblemDocument, error_of
from handraise.wire.requests import PostQuestion

_log = logging.getLogger(__name__)

_PATIENCE = 30.0
_CONFLICT_PATIENCE = 90.0
"""What a server that died has begun is done again by another, after a minute at most."""

_OPENING_PATIENCE = 5.0
"""How long an address may be silent before anything was heard from it: it is more often wrong than restarting."""

_PAUSE = 0.05
_PAUSE_AT_MOST = 2.0
_SILENCE = 45.0
"""A stream that says nothing for longer is broken: a server gives a sign of life every 15 seconds."""


@cache
def _trusted() -> ssl.SSLContext:
    """Whose certificates are trusted: what the system says, read once and not for every desk."""
    return httpx2.create_ssl_context()


class HttpTransport:
    """Requests to one or several servers on the same store: where one does not answer, the next is asked.

    Every POST has an idempotency key or the id of what it makes, so that making it again does nothing twice.
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
        """Hang up; whatever is under way ends with `DeskClosed`."""
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
        opening: bool = False,
    ) -> bytes | None:
        """What the server says, None where it says nothing; raises the error that it answers with.

        The rest says what the request is about, for that error. The first request of a desk is `opening`: it is not
        made again for as long as others, and not at all where somebody else answers.
        """
        headers = {"authorization": f"Bearer {token}"}
        content = None
        # Posting an id again is safe by itself, and a key would cost the server as much as the post.
        if method == "POST" and not (isinstance(body, PostQuestion) and body.id):
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
            patience = _CONFLICT_PATIENCE if isinstance(error, RequestConflict) else _PATIENCE + wait
            if opening:
                patience = min(patience, _OPENING_PATIENCE)
            rest = max(pause * random.uniform(0.5, 1.0), getattr(error, "retry_after", 0.0))  # noqa: S311 -- spreads retries
            if time.monotonic() + rest > began + patience:
                raise error
            if not told and isinstance(error, StoreUnavailable):
                told = True
                _log.warning("%s Trying again for up to %.0f seconds.", error, patience)
            await asyncio.sleep(rest)
            pause = min(pause * 2, _PAUSE_AT_MOST)

    async def stream(
        self, path: str, *, token: str, after: str | None, first_within: float | None = None
    ) -> AsyncGenerator[tuple[str, str], None]:
        """The messages of an event stream, as (event, data); it comes back from where it was cut off.

        The first is always `ready`, again after each break. Raises what the server refuses it with, and
        `StoreUnavailable` where nothing came within `first_within` seconds of the first try.
        """
        place, pause, begun = after, _PAUSE, time.monotonic()
        heard = False
        while True:
            headers = {"authorization": f"Bearer {token}"}
            query = {} if place is None else {"after": place or "0"}
            patience = _SILENCE if heard or first_within is None else first_within
            address, rest = self._address, 0.0
            try:
                async with self._http.sse(
                    address + path,
                    headers=headers,
                    params=query,
                    timeout=httpx2.Timeout(patience, connect=10.0, pool=None),
                ) as source:
                    if source.response.status_code >= 400:  # noqa: PLR2004 -- the first status of an error
                        await source.response.aread()
                        raise refusal(source.response, address)
                    async for message in source:
                        heard, pause = True, _PAUSE
                        if message.id:
                            place = message.id
                        if message.data:
                            yield message.event, message.data
            except (httpx2.HTTPError, StoreUnavailable, TooManyRequests, RuntimeError) as failure:
                if self._closed:
                    raise DeskClosed from None
                if isinstance(failure, RuntimeError):  # only a closed client has a reason for one
                    raise
                if not heard and first_within is not None and time.monotonic() - begun > first_within:
                    raise StoreUnavailable(f"The server streams nothing: {failure}") from failure
                _log.debug("an event stream broke off (%s); it goes on where it was", failure)
                rest = getattr(failure, "retry_after", rest)
            if self._closed:
                raise DeskClosed
            self._leave(address)
            await asyncio.sleep(max(rest, pause * random.uniform(0.5, 1.0)))  # noqa: S311 -- spreads retries
            pause = min(pause * 2, _PAUSE_AT_MOST)

    @property
    def _address(self) -> str:
        return self._addresses[self._at]

    def _leave(self, address: str) -> None:
        """Go on with the next address; of all who found this one dead, the first does."""
        if address == self._address:
            self._at = (self._at + 1) % len(self._addresses)

    async def _send(self, method: str, url: str, **options: Any) -> httpx2.Response:
        if self._closed:
            raise DeskClosed
        try:
            return await self._http.request(method, url, **options)
        except RuntimeError:
            # The client was closed between our look and its own.
            if self._closed:
                raise DeskClosed from None
            raise


def unreachable(address: str, failure: Exception) -> StoreUnavailable:
    """The error where no server answers."""
    why = str(failure) or type(failure).__name__
    return StoreUnavailable(f"The server at {address} cannot be reached ({why}). Is it running?")


def refusal(
    response: httpx2.Response, address: str, *, subject: str = "", workspace: str = "", actor: str = ""
) -> HandraiseError:
    """The error that a response stands for."""
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
