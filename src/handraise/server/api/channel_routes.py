"""Inbound requests of channels. Each verifies its own requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from fastapi import APIRouter, Request
from starlette.responses import Response

from handraise.ports.channel import Response as ChannelResponse
from handraise.server.auth.authenticator import Context, count_refusal
from handraise.server.context import ServerContext

router = APIRouter(prefix="/v1", include_in_schema=False)

_NOT_GENUINE = (400, 401, 403)
_Receive: TypeAlias = Callable[[Mapping[str, str], bytes], Awaitable[ChannelResponse]]


@router.post("/channels/{channel}/inbound")
async def receive(request: Request, ctx: Context, channel: str) -> Response:
    """Pass a request to its channel. Requests that are not genuine count against the rate limit."""
    return await _pass_on(request, getattr(ctx.channels.get(channel), "receive", None))


async def _pass_on(request: Request, receive: _Receive | None) -> Response:
    if receive is None:
        return Response(status_code=404)
    response = await receive(dict(request.headers), await request.body())
    if response.status in _NOT_GENUINE:
        count_refusal(request, "channel")
    return Response(response.body, status_code=response.status, media_type=response.content_type)


def inbound_address(ctx: ServerContext, channel: str) -> str | None:
    """The URL for a channel's inbound requests; None if it takes none, or none without a secret that is not set."""
    found = ctx.channels.get(channel)
    if not hasattr(found, "receive") or not getattr(found, "takes_requests", True):
        return None
    return f"{ctx.settings.base_url}/v1/channels/{channel}/inbound"
