"""Standing answers over HTTP: keep an answer for its topic, list what is kept, and revoke it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from handraise.model.errors import NotFound
from handraise.model.json_values import text_problem
from handraise.model.standing_answers import StandingAnswer
from handraise.server.api.question_routes import IDEMPOTENT, desk_of, visible
from handraise.server.api.responses import After, Limit, QuestionId, check_texts, reply
from handraise.server.auth.authenticator import Context, CurrentPerson, PersonCaller
from handraise.server.context import ServerContext
from handraise.server.middleware.idempotency import IdempotentRoute
from handraise.wire.records import StandingAnswerPage, StandingAnswerRecord
from handraise.wire.requests import KeepAnswer

router = APIRouter(prefix="/v1", tags=["questions"], route_class=IdempotentRoute)
StandingId = Annotated[str, Path(max_length=200, description="the id of a standing answer")]


@router.post("/questions/{question_id}/keep", response_model=StandingAnswerRecord, openapi_extra=IDEMPOTENT)
async def keep_answer(
    ctx: Context, caller: CurrentPerson, question_id: QuestionId, body: KeepAnswer
) -> Response:
    """Keep your answer to a question for its topic: until then, new questions of that topic get it at once."""
    await visible(ctx, caller, question_id)
    kept = await desk_of(ctx, caller).keep_answer(
        question_id, until=body.until, by=caller.person.responder, spot_check=body.spot_check
    )
    return reply(StandingAnswerRecord.of(kept))


@router.get("/standing-answers", response_model=StandingAnswerPage)
async def list_standing_answers(
    ctx: Context, caller: CurrentPerson, *, after: After = None, limit: Limit = 50
) -> Response:
    """List the workspace's standing answers, also those that have ended. Only administrators see those of others."""
    check_texts({"query.after": after})
    page = await desk_of(ctx, caller).list_standing_answers(after=after, limit=limit)
    seen = [each for each in page if caller.is_admin or each.given_by == caller.person.id]
    return reply(StandingAnswerPage(items=tuple(map(StandingAnswerRecord.of, seen)), next=page.next))


@router.post(
    "/standing-answers/{standing_id}/revoke", response_model=StandingAnswerRecord, openapi_extra=IDEMPOTENT
)
async def revoke_standing_answer(ctx: Context, caller: CurrentPerson, standing_id: StandingId) -> Response:
    """End a standing answer now. Allowed to the person who gave it and to administrators."""
    found = await _standing_answer(ctx, caller, standing_id)
    ended = await desk_of(ctx, caller).revoke_standing_answer(found.id, by=caller.person.id)
    return reply(StandingAnswerRecord.of(ended))


async def _standing_answer(ctx: ServerContext, caller: PersonCaller, standing_id: str) -> StandingAnswer:
    """Find a standing answer that this person may end. They are ordered by id, and a prefix of an id is before it."""
    if not text_problem(standing_id):
        for each in await desk_of(ctx, caller).list_standing_answers(after=standing_id[:-1], limit=50):
            if each.id == standing_id and (caller.is_admin or each.given_by == caller.person.id):
                return each
    raise NotFound(f"There is no standing answer {standing_id!r} here.")
