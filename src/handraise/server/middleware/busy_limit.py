"""Refuses requests while the server has too much to do.

If a server dies, all of its clients come to the others at once. Without a limit, all of them would be served at the same
time, each so slowly that its client gives up and comes again, and none would ever be done. A refusal is cheap, and says
when to come again. A request does not count while it waits for its body, and streams and long polls only until they begin
to wait: then their route has returned.
"""

from __future__ import annotations

import random

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from handraise.model.errors import TooManyRequests
from handraise.server.middleware.error_handlers import problem_response

_RETRY_AFTER = (5.0, 30.0)
"""The bounds of a random number of seconds: those who are refused together must not come again together."""
_ALWAYS = frozenset({"/healthz", "/readyz", "/metrics"})


class BusyLimit:
    """Counts the requests of this process that are being served, and refuses more than `limit` of them."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit
        self._busy: set[object] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve or refuse one request."""
        if scope["type"] != "http" or scope["path"] in _ALWAYS:
            await self._app(scope, receive, send)
            return
        if len(self._busy) >= self._limit:
            refused = TooManyRequests(random.uniform(*_RETRY_AFTER), "This server has too much to do")  # noqa: S311 -- spreads retries
            await problem_response(refused)(scope, receive, send)
            return
        slot = object()
        self._busy.add(slot)

        has_responded = False

        # A client that is slow to send its body must not keep others out.
        async def receive_while_not_busy() -> Message:
            self._busy.discard(slot)
            message = await receive()
            if not has_responded:
                self._busy.add(slot)
            return message

        async def send_and_release(message: Message) -> None:
            nonlocal has_responded
            has_responded = True
            self._busy.discard(slot)
            await send(message)

        try:
            await self._app(scope, receive_while_not_busy, send_and_release)
        finally:
            self._busy.discard(slot)
