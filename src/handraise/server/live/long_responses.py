"""Responses that last: event streams and long polls.

A route and the middleware around it take several kilobytes while a request is under way. A response that lasts is
therefore only begun in its route. The rest is done outside of all this, when the route has returned.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from starlette.types import ASGIApp, Receive, Scope, Send

from handraise.server.middleware.connection_limits import DISCONNECTED

_log = logging.getLogger(__name__)

_KEY = "handraise.long_responses"


class LongResponse(Protocol):
    """The rest of a response that lasts."""

    async def run(self, send: Send, gone: asyncio.Future[None]) -> None:
        """Send the rest. `gone` is done when the client has disconnected."""
        ...


def continue_outside(scope: Scope, response: LongResponse) -> None:
    """Run the rest of a response when its route has returned."""
    scope[_KEY].append(response)


class LongResponseMiddleware:
    """Runs the rest of long responses."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        begun: list[LongResponse] = []
        scope[_KEY] = begun
        disconnected = scope.pop(DISCONNECTED, None)
        await self._app(scope, receive, send)
        if begun:
            for key in [each for each in scope if each.startswith("fastapi")]:
                del scope[key]  # what the route needed: three kilobytes
            # Another server than ours can only be asked by a task, which takes two kilobytes.
            gone = (
                disconnected()
                if disconnected is not None
                else asyncio.create_task(_receive_disconnect(receive))
            )
            try:
                await begun.pop().run(send, gone)
            except Exception as error:
                # The application's own error handler is inside of this.
                _log.error(
                    "a long response failed unexpectedly", exc_info=error, extra={"event": "request_failed"}
                )
                raise
            finally:
                gone.cancel()
                await asyncio.wait((gone,))


async def _receive_disconnect(receive: Receive) -> None:
    """Wait until the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass
