"""Web push: a signed-in person's browser subscribes to notifications and unsubscribes."""

from __future__ import annotations

from typing import cast

from fastapi import APIRouter
from starlette.responses import Response

from handraise.channels.push_subscriptions import NAME, PushChannel, subscription_id
from handraise.model.deliveries import Address
from handraise.model.errors import InvalidRequest, NotFound
from handraise.model.problems import Problem
from handraise.server.api.responses import reply
from handraise.server.auth.authenticator import Context, CurrentPerson
from handraise.server.context import ServerContext
from handraise.wire.delivery_records import PushKey, Subscription

router = APIRouter(prefix="/v1/push", tags=["reaching people"])

_MOST = 20
"""The maximal number of browsers of one person."""


@router.get("/key", response_model=PushKey)
async def get_push_key(ctx: Context, _: CurrentPerson) -> Response:
    """Get the key that a browser needs to subscribe; 404 if this server has no web push."""
    return reply(PushKey(key=_channel(ctx).public_key))


@router.post("/subscriptions", status_code=204)
async def subscribe(ctx: Context, caller: CurrentPerson, body: Subscription) -> Response:
    """Send notifications to this browser from now on."""
    to = body.model_dump()
    if not _channel(ctx).accepts(to):
        raise InvalidRequest([Problem("body", "is not a subscription that a browser has made")])
    who, mine = caller.person.id, subscription_id(to)
    known = [each for each in await ctx.outbox.addresses(caller.workspace, [who]) if each.channel == NAME]
    for each in known[: max(0, len(known) - _MOST + 1)]:
        if each.id != mine:
            await ctx.outbox.remove_address(caller.workspace, who, NAME, each.id, by=who)
    await ctx.outbox.put_address(
        Address(workspace=caller.workspace, recipient=who, channel=NAME, id=mine, to=to), by=who
    )
    return Response(status_code=204)


@router.delete("/subscriptions", status_code=204)
async def unsubscribe(ctx: Context, caller: CurrentPerson, body: Subscription) -> Response:
    """Send no more notifications to this browser. If it had none, nothing changes."""
    place = (caller.workspace, caller.person.id, NAME, subscription_id(body.model_dump()))
    await ctx.outbox.remove_address(*place, by=caller.person.id)
    return Response(status_code=204)


def _channel(ctx: ServerContext) -> PushChannel:
    found = ctx.channels.get(NAME)
    if found is None:
        raise NotFound("This server has no web push.")
    return cast("PushChannel", found)
