"""Heartbeats over HTTP: an agent says that it still waits."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from handraise.server.api.question_routes import desk_of
from handraise.server.api.responses import reply
from handraise.server.auth.authenticator import Context, CurrentAgent
from handraise.wire.records import HeartbeatsRecord
from handraise.wire.requests import GiveHeartbeat

# No idempotency keys: a repeated request changes nothing, and to store each one would cost more than what it does.
router = APIRouter(prefix="/v1", tags=["questions"])


@router.post("/heartbeats", response_model=HeartbeatsRecord)
async def give_heartbeat(ctx: Context, agent: CurrentAgent, body: GiveHeartbeat) -> Response:
    """Say that you still wait for the answers to your own questions that have a `heartbeat`. Others stay as they are."""
    return reply(HeartbeatsRecord(heartbeats=await desk_of(ctx, agent).beat(body.ids)))
