"""`Idempotency-Key`: a request that was made is answered again, not done again.

The key is the caller's own. The response to its first use is kept in the directory; while that one is under
way the same key is a conflict, and with another body it is refused.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from handraise.model.errors import HandraiseError, InvalidRequest, Problem, RequestConflict, StoreUnavailable
from handraise.server.auth.authenticator import caller_of, house_of
from handraise.server.middleware.error_handlers import problem_response

HEADER = "Idempotency-Key"
PARAMETER = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "description": "Makes it safe to send the request again: it is done once and answered the same.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200},
}

_PATIENCE = timedelta(seconds=10)
_LONGEST = 200
_log = logging.getLogger(__name__)
_NOT_KEPT = frozenset({401, 408, 413, 425, 429})


class IdempotentRoute(APIRoute):
    """A route whose POSTs honour `Idempotency-Key`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The route's handler, done once for each key."""
        handle = super().get_route_handler()

        async def once(request: Request) -> Response:
            key = request.headers.get(HEADER)
            if request.method != "POST" or key is None:
                return await handle(request)
            return await _once(request, key, handle)

        return once


async def _once(
    request: Request, key: str, handle: Callable[[Request], Coroutine[Any, Any, Response]]
) -> Response:
    if not 1 <= len(key) <= _LONGEST or not key.isprintable():
        raise InvalidRequest([Problem(HEADER, f"expected up to {_LONGEST} printable characters")])
    # Whoever sends it slowly is looked up when it is all there: a right may have ended meanwhile.
    body = await request.body()
    ctx, caller = house_of(request), await caller_of(request)
    asked = hashlib.sha256(f"{request.method} {request.url.path}?{request.url.query}\n".encode())
    asked.update(body)
    claim = await ctx.directory.claim(
        caller.workspace,
        caller.claimant,
        key,
        fingerprint=asked.hexdigest(),
        made=ctx.new_id(),
        patience=_PATIENCE,
    )
    match claim.state:
        case "busy":
            raise RequestConflict("A request with this idempotency key is under way; ask again shortly.")
        case "different":
            raise InvalidRequest([Problem(HEADER, "was used for a different request")])
        case "done":
            return Response(
                claim.body,
                status_code=claim.status or 200,
                media_type="application/json" if (claim.status or 200) < 400 else "application/problem+json",  # noqa: PLR2004 -- errors are problems
                headers={"idempotency-replayed": "true"},
            )
        case "new" | "again":
            request.state.made = claim.made
            request.state.again = claim.state == "again"
    response: Response | None = None
    try:
        try:
            response = await handle(request)
        except HandraiseError as error:
            response = problem_response(error)
    finally:
        place = (caller.workspace, caller.claimant, key)
        said = getattr(response, "body", None)
        try:
            if response is None or said is None or not _is_kept(response.status_code):
                # Nobody knows whether it took effect: whoever makes it again does so with what it may have made.
                await ctx.directory.release(*place, turn=claim.turn)
            else:
                await ctx.directory.finish(
                    *place, turn=claim.turn, status=response.status_code, body=bytes(said).decode()
                )
        except StoreUnavailable as error:
            # What was done is done, and its caller is told so; only a second try would not know of it.
            _log.warning("the response to a request could not be kept: %s", error)
    return response


def _is_kept(status: int) -> bool:
    """Whether a response is what came of the request, and not of the moment it came at."""
    return status < 500 and status not in _NOT_KEPT  # noqa: PLR2004 -- from there on it is the server's fault
