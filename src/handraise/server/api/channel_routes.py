"""Where channels are sent things over HTTP: each shows for itself that what it takes is genuine."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from handraise.server.auth.authenticator import Context, refuse
from handraise.server.context import ServerContext

router = APIRouter(prefix="/v1", include_in_schema=False)

_NOT_GENUINE = (400, 401, 403)


@router.post("/channels/{channel}/inbound")
async def receive(request: Request, ctx: Context, channel: str) -> Response:
    """Hand a request to its channel. Who sends what is not genuine is slowed down like any other intruder."""
    receiver = getattr(ctx.channels.get(channel), "receive", None)
    if receiver is None:
        return Response(status_code=404)
    said = await receiver(dict(request.headers), await request.body())
    if said.status in _NOT_GENUINE:
        refuse(request)
    return Response(said.body, status_code=said.status, media_type=said.content_type)


def inbound_address(ctx: ServerContext, channel: str) -> str:
    """The address to give to whoever sends a channel things."""
    return f"{ctx.settings.base_url}/v1/channels/{channel}/inbound"
