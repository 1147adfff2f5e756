"""`Idempotency-Key`: a repeated request gets the first response and is not done again.

Keys belong to the caller. The first response is stored in the directory. While the first request is in progress, the
same key is a conflict. With another body it is refused.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from functools import partial
from typing import Any

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from handraise.model.errors import InvalidRequest, RequestConflict, StoreUnavailable
from handraise.model.problems import HandraiseError, Problem
from handraise.server.auth.authenticator import caller_of, context_of
from handraise.server.middleware.error_handlers import problem_response

HEADER = "Idempotency-Key"
PARAMETER = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "description": "Makes it safe to send the request again: it is done once and gets the same response.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200},
}

_CLAIM_TIMEOUT = timedelta(seconds=10)
_MAX_KEY_LENGTH = 200
_log = logging.getLogger(__name__)
_NOT_KEPT = frozenset({401, 408, 413, 423, 425, 429})


class IdempotentRoute(APIRoute):
    """A route whose POSTs honour `Idempotency-Key`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the route's handler, so that it runs once for each key."""
        return partial(handle_once, handle=super().get_route_handler())


async def handle_once(request: Request, handle: Callable[[Request], Awaitable[Response]]) -> Response:
    """The response of `handle`, which runs once for each key if this is a POST with `Idempotency-Key`."""
    key = request.headers.get(HEADER)
    if request.method != "POST" or key is None:
        return await handle(request)
    return await _handle_with_key(request, key, handle)


async def _handle_with_key(
    request: Request, key: str, handle: Callable[[Request], Awaitable[Response]]
) -> Response:
    if not 1 <= len(key) <= _MAX_KEY_LENGTH or not key.isprintable():
        raise InvalidRequest([Problem(HEADER, f"expected up to {_MAX_KEY_LENGTH} printable characters")])
    # Authenticate after the whole body has come: the credential may have ended meanwhile.
    body = await request.body()
    ctx, caller = context_of(request), await caller_of(request)
    asked = hashlib.sha256(f"{request.method} {request.url.path}?{request.url.query}\n".encode())
    asked.update(body)
    claim = await ctx.directory.claim(
        caller.workspace,
        caller.claimant,
        key,
        fingerprint=asked.hexdigest(),
        made=ctx.new_id(),
        patience=_CLAIM_TIMEOUT,
    )
    match claim.state:
        case "busy":
            raise RequestConflict("A request with this idempotency key is in progress; try again shortly.")
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
            is_kept = getattr(request.state, "is_kept", True)
            if response is None or said is None or not (is_kept and is_replayable(response.status_code)):
                # It may have taken effect: a retry runs with the same id.
                await ctx.directory.release(*place, turn=claim.turn)
            else:
                await ctx.directory.finish(
                    *place, turn=claim.turn, status=response.status_code, body=bytes(said).decode()
                )
        except StoreUnavailable as error:
            # The request is done, and its caller gets the response; only a retry would not find it.
            _log.warning(
                "the response to a request could not be kept: %s", error, extra={"event": "response_not_kept"}
            )
    return response


def is_replayable(status: int) -> bool:
    """Whether a response depends on the request and not on the moment."""
    return status < 500 and status not in _NOT_KEPT  # noqa: PLR2004 -- a server error
