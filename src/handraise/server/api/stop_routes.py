"""Stopping agents and tools, and resuming them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from handraise.model.errors import InvalidRequest, NotFound
from handraise.model.json_values import text_problem
from handraise.model.problems import Problem
from handraise.model.stops import Stop
from handraise.server.api.responses import reply
from handraise.server.auth.authenticator import Context, CurrentAdmin, CurrentStopper, PersonCaller
from handraise.server.context import ServerContext
from handraise.wire.stop_records import PutStop, StopList, StopRecord

# No idempotency keys: a repeated stop is the same stop, and a stored response could say that what was resumed is stopped.
router = APIRouter(prefix="/v1", tags=["administration"])

StopId = Annotated[str, Path(max_length=200, description="the stop's id")]


@router.get("/stops", response_model=StopList)
async def list_stops(ctx: Context, admin: CurrentAdmin) -> Response:
    """List what is stopped in the workspace."""
    found = await ctx.policies.stops(admin.workspace)
    return reply(StopList(stops=tuple(map(StopRecord.of, found))))


@router.post("/stops", status_code=201, response_model=StopRecord)
async def begin_stop(ctx: Context, admin: CurrentStopper, body: PutStop) -> Response:
    """Stop an agent, a tool, a tool of an agent, or the whole workspace.

    Once this returns, nothing that it covers is posted, approved or consumed. If exactly this is stopped already, the
    stop that exists is returned.
    """
    return reply(StopRecord.of(await begin(ctx, admin, body)), status=201)


@router.delete("/stops/{stop_id}", response_model=StopRecord)
async def end_stop(ctx: Context, admin: CurrentAdmin, stop_id: StopId) -> Response:
    """End a stop. Everything that waited can be approved again."""
    return reply(StopRecord.of(await end(ctx, admin, stop_id)))


async def begin(ctx: ServerContext, admin: PersonCaller, stop: PutStop) -> Stop:
    """Stop what a request names, in the name of an administrator."""
    texts = {"agent": stop.agent, "tool": stop.tool, "why": stop.why}
    problems = [
        Problem(f"body.{name}", why)
        for name, text in texts.items()
        if text is not None and (why := text_problem(text))
    ]
    if problems:
        raise InvalidRequest(problems)
    return await ctx.policies.stop(
        admin.workspace, agent=stop.agent, tool=stop.tool, why=stop.why, by=admin.person.id
    )


async def end(ctx: ServerContext, admin: PersonCaller, stop_id: str) -> Stop:
    """End a stop, in the name of an administrator."""
    ended = None
    if not text_problem(stop_id):
        ended = await ctx.policies.resume(admin.workspace, stop_id, by=admin.person.id)
    if ended is None:
        raise NotFound("There is no such stop here.")
    return ended
