"""Full-text search over HTTP."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from handraise.model.errors import PermissionDenied
from handraise.model.search_words import MOST_QUERY
from handraise.server.api.question_routes import check_by, desk_of, record_of
from handraise.server.api.responses import After, Limit, reply
from handraise.server.auth.authenticator import (
    AgentCaller,
    Context,
    CurrentCallerOrReader,
    ReaderCaller,
)
from handraise.wire.records import QuestionPage

router = APIRouter(prefix="/v1", tags=["questions"])


@router.get("/search", response_model=QuestionPage)
async def search_questions(
    ctx: Context,
    caller: CurrentCallerOrReader,
    *,
    q: Annotated[
        str,
        Query(max_length=MOST_QUERY, description="the words; those in double quotes must follow each other"),
    ],
    conversation: Annotated[str | None, Query(max_length=200)] = None,
    asker: Annotated[str | None, Query(max_length=200)] = None,
    recipient: Annotated[
        str | None, Query(max_length=200, description="what this person may see; only yourself")
    ] = None,
    after: After = None,
    limit: Limit = 50,
) -> Response:
    """Search pending and settled questions by words, the newest first.

    An agent finds its own, a person those that they may see, an administrator all, and a reader those that are settled. All
    words must be there; the last one may be the beginning of a word. A page may be short or empty and still have a `next`.
    """
    whose = None
    if isinstance(caller, AgentCaller):
        if recipient is not None:
            raise PermissionDenied(caller.agent, "an agent has no inbox")
        if asker not in (None, caller.agent):
            return reply(QuestionPage(items=()))
        asker = caller.agent
    elif isinstance(caller, ReaderCaller):
        if recipient is not None:
            raise PermissionDenied(caller.name, "this key only reads settled questions: give no recipient")
    elif recipient is not None or not caller.is_admin:
        check_by(caller, recipient)
        whose = caller.person.responder
    found = await desk_of(ctx, caller).search(
        q, conversation=conversation, recipient=whose, asker=asker, after=after, limit=limit
    )
    # The search has left out what this caller may not see. That is checked here too, as for a question by its id.
    records = tuple(record_of(caller, each) for each in found.items if caller.may_see(each))
    return reply(QuestionPage(items=records, next=found.next))
