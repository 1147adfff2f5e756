"""Several answers in one request. Each is decided by itself, by the same rules as if it had come by itself."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from handraise.desk.answer_each import answer_each
from handraise.model.bulk_answers import check_bulk
from handraise.model.questions import Question
from handraise.server.api.question_routes import (
    IDEMPOTENT,
    answer_as,
    decline_as,
    provenance_of,
    visible,
)
from handraise.server.api.responses import reply
from handraise.server.auth.authenticator import Context, CurrentPerson
from handraise.server.middleware.idempotency import IdempotentRoute, is_replayable
from handraise.wire.bulk_records import AnswerResultRecord, AnswerResults
from handraise.wire.requests import AnswerAll, AnswerItem, DeclineItem

router = APIRouter(prefix="/v1", tags=["questions"], route_class=IdempotentRoute)


@router.post("/answers", response_model=AnswerResults, openapi_extra=IDEMPOTENT)
async def answer_all(request: Request, ctx: Context, caller: CurrentPerson, body: AnswerAll) -> Response:
    """Answer up to 100 questions in your own name. Each result has the status and body that its answer would have had alone.

    Actions of high risk are refused with `not_in_bulk`: answer them one at a time.
    """

    async def answer(item: AnswerItem | DeclineItem) -> Question:
        provenance = provenance_of(caller, item)
        question = await visible(ctx, caller, item.question_id)
        check_bulk(question)
        if isinstance(item, AnswerItem):
            return await answer_as(request, ctx, caller, question, value=item.value, provenance=provenance)
        return await decline_as(request, ctx, caller, question, reason=item.reason, provenance=provenance)

    results = tuple(map(AnswerResultRecord.of, await answer_each(body.answers, answer)))
    # A retry must try again what failed for the moment. What was done before is recognised then.
    request.state.is_kept = all(is_replayable(each.status) for each in results)
    return reply(AnswerResults(results=results))
