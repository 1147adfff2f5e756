"""ETags: if two people change the same thing, the second is refused and overwrites nothing.

The routers of everything that can be changed have `ConditionalRoute`: each of its responses to a GET has a strong ETag, and
`If-None-Match` is answered with 304. A route that replaces something takes `If-Match` and calls `check_match` in the transaction
that replaces it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, TypeVar

from fastapi import Header, Request
from starlette.responses import Response

from handraise.model.errors import PreconditionFailed
from handraise.server.middleware.idempotency import IdempotentRoute
from handraise.wire.records import Record

T = TypeVar("T")

_LENGTH = 32
_OK = 200
_NOT_MODIFIED = 304

IfMatch = Annotated[
    str | None,
    Header(max_length=1_000, description="the `ETag` of what you replace: 412 if that has changed"),
]


class ConditionalRoute(IdempotentRoute):
    """A route whose GETs have a strong ETag and honour `If-None-Match`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the route's handler."""
        handle = super().get_route_handler()

        async def conditional(request: Request) -> Response:
            response = await handle(request)
            if request.method != "GET" or response.status_code != _OK or response.media_type != _JSON:
                return response
            tag = response.headers.setdefault("etag", etag_of(bytes(response.body).decode()))
            if not _is_among(tag, request.headers.get("if-none-match"), weak=True):
                return response
            return Response(status_code=_NOT_MODIFIED, headers={"etag": tag})

        return conditional


_JSON = "application/json"


def etag_of(text: str) -> str:
    """The ETag of a response with this text."""
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]}"'


def check_match(wanted: str | None, text: str | None) -> None:
    """Raise `PreconditionFailed` unless this text matches the header; the text is None if there is nothing."""
    check_tag(wanted, None if text is None else etag_of(text))


def check_tag(wanted: str | None, tag: str | None) -> None:
    """Raise `PreconditionFailed` unless this ETag matches the header; it is None if there is nothing."""
    if wanted is not None and (tag is None or not _is_among(tag, wanted, weak=False)):
        raise PreconditionFailed(
            "Somebody has changed it since you read it. Nothing was replaced. Read it again, make your change there, "
            "and send it with the new ETag as If-Match."
        )


def unchanged(expected: T) -> Callable[[T], None]:
    """A check that something is as it was when its ETag was checked."""

    def check(found: T) -> None:
        if found != expected:
            check_tag("*", None)

    return check


def tagged(record: Record | str, *, hidden: str = "") -> Response:
    """A response with the ETag of a record and of what the record does not show."""
    text = record if isinstance(record, str) else record.model_dump_json()
    return Response(text, media_type=_JSON, headers={"etag": etag_of(text + hidden)})


def _is_among(tag: str, header: str | None, *, weak: bool) -> bool:
    """Whether a header names this ETag. A proxy that compresses a response makes its ETag weak, which is enough to read."""
    if header is None:
        return False
    named = [each.strip() for each in header.split(",")]
    if weak:
        named = [each.removeprefix("W/") for each in named]
    return tag in named or "*" in named
