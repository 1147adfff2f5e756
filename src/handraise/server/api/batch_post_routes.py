"""Several questions in one request. Each is asked by itself, by the same rules as if it had come by itself."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from starlette.responses import Response

from handraise.desk.ids import numbered_id
from handraise.model.problems import HandraiseError
from handraise.server.api.question_routes import IDEMPOTENT, post_as, record_of
from handraise.server.api.responses import reply
from handraise.server.auth.authenticator import Context, CurrentAgent, count_request
from handraise.server.middleware.idempotency import IdempotentRoute, is_replayable
from handraise.wire.bulk_records import PostResultRecord, PostResults
from handraise.wire.problem_documents import problem_of
from handraise.wire.requests import PostQuestion, PostQuestions

router = APIRouter(prefix="/v1", tags=["questions"], route_class=IdempotentRoute)

_AT_ONCE = 32


@router.post("/questions:batch", response_model=PostResults, openapi_extra=IDEMPOTENT)
async def post_questions(
    request: Request, ctx: Context, agent: CurrentAgent, body: PostQuestions
) -> Response:
    """Ask up to 100 questions. Each result has the status and body that its question would have had alone.

    Each counts as a request in the rate limit. With an idempotency key, a request that is sent again asks nothing twice.
    """
    made = getattr(request.state, "made", None) or ctx.new_id()
    turn = asyncio.Semaphore(_AT_ONCE)

    async def post(number: int, item: PostQuestion) -> PostResultRecord:
        async with turn:
            try:
                if number:  # the first was counted with the request
                    count_request(request, agent)
                question = await post_as(request, ctx, agent, item, made=numbered_id(made, number))
            except HandraiseError as error:
                problem = problem_of(error)
                return PostResultRecord(status=problem.status, problem=problem)
        return PostResultRecord(status=201, question=record_of(agent, question))

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(post(*numbered)) for numbered in enumerate(body.questions)]
    results = tuple(task.result() for task in tasks)
    # A retry must try again what failed for the moment. What was asked before is found by its id.
    request.state.is_kept = all(is_replayable(each.status) for each in results)
    return reply(PostResults(results=results))
