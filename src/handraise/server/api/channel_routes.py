"""Inbound requests of channels. Each channel verifies its own requests."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from handraise.server.auth.authenticator import Context, count_refusal
from handraise.server.context import ServerContext

router = APIRouter(prefix="/v1", include_in_schema=False)

_NOT_GENUINE = (400, 401, 403)


@router.post("/channels/{channel}/inbound")
async def receive(request: Request, ctx: Context, channel: str) -> Response:
    """Pass a request to its channel. Requests that are not genuine count against the rate limit."""
    receiver = getattr(ctx.channels.get(channel), "receive", None)
    if receiver is None:
        return Response(status_code=404)
    response = await receiver(dict(request.headers), await request.body())
    if response.status in _NOT_GENUINE:
        count_refusal(request)
    return Response(response.body, status_code=response.status, media_type=response.content_type)


def inbound_address(ctx: ServerContext, channel: str) -> str:
    """The URL for a channel's inbound requests."""
    return f"{ctx.settings.base_url}/v1/channels/{channel}/inbound"
