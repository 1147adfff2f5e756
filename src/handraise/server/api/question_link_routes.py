"""Links to one question over HTTP: people make and end them."""

from __future__ import annotations

from datetime import timedelta

from fastapi import APIRouter
from starlette.responses import Response

from handraise.model.errors import NotFound, PermissionDenied
from handraise.model.evidence import check_may_administer
from handraise.model.identities import Person
from handraise.server.api.question_routes import visible
from handraise.server.api.responses import QuestionId, reply
from handraise.server.auth.authenticator import Context, CurrentPerson, PersonCaller
from handraise.server.auth.issuer import issue_question_link
from handraise.server.context import ServerContext
from handraise.wire.records import QuestionLinkRecord
from handraise.wire.requests import CreateQuestionLink

# Not an IdempotentRoute: that stores responses, and a secret must not be stored.
router = APIRouter(prefix="/v1", tags=["questions"])


@router.post("/questions/{question_id}/links", status_code=201, response_model=QuestionLinkRecord)
async def create_question_link(
    ctx: Context, caller: CurrentPerson, question_id: QuestionId, body: CreateQuestionLink
) -> Response:
    """Make a link with which a person answers this one question. Only this response has it.

    People make links for themselves, administrators for anybody who may answer.
    """
    question = await visible(ctx, caller, question_id)
    person = await _link_person(ctx, caller, body.person)
    link = await issue_question_link(
        ctx,
        question,
        person,
        channel=body.channel,
        by=caller.person.id,
        lasts=timedelta(seconds=body.expires_in),
    )
    if link is None:
        raise _no_such_person()
    return reply(link, status=201)


@router.delete("/questions/{question_id}/links", status_code=204)
async def end_question_links(ctx: Context, caller: CurrentPerson, question_id: QuestionId) -> Response:
    """End the links to a question now: your own, or all of them if you are an administrator."""
    question = await visible(ctx, caller, question_id)
    whose = None if caller.is_admin else caller.person.id
    await ctx.directory.end_question_links(caller.workspace, question.id, person=whose)
    return Response(status_code=204)


async def _link_person(ctx: ServerContext, caller: PersonCaller, name: str | None) -> Person:
    """The person that a link is for; raises `PermissionDenied` if this caller may not make it."""
    if name in (None, caller.person.id):
        return caller.person
    if not caller.is_admin:
        raise PermissionDenied(caller.person.id, "only administrators make links for others")
    check_may_administer(caller.person.id, caller.session.evidence)
    person = await ctx.directory.find_person(caller.workspace, name or "")
    if person is None:
        raise _no_such_person()
    return person


def _no_such_person() -> NotFound:
    return NotFound("There is no such person here.")
