"""Who is away, and who answers for them: set by the person, or by an administrator for them."""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import APIRouter
from starlette.responses import Response

from handraise.model.away import Away, away_problems
from handraise.model.errors import InvalidRequest, NotFound, PermissionDenied
from handraise.model.evidence import check_may_administer
from handraise.model.identities import Person
from handraise.model.json_values import text_problem
from handraise.model.problems import Problem
from handraise.server.api.admin_routes import PersonId
from handraise.server.api.responses import reply
from handraise.server.auth.authenticator import Context, CurrentPerson, PersonCaller
from handraise.server.context import ServerContext
from handraise.wire.away_records import AwayRecord, PutAway

# No idempotency keys: a repeated request changes nothing, and a stored response could say that who is back is away.
router = APIRouter(prefix="/v1", tags=["administration"])

_FIRST, _LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)


@router.get("/people/{person_id}/away", response_model=AwayRecord)
async def get_away(ctx: Context, caller: CurrentPerson, person_id: PersonId) -> Response:
    """Get whether you are away; as an administrator, whether anybody is."""
    person = await _person(ctx, caller, person_id)
    return reply(AwayRecord.of(person.id, person.away))


@router.put("/people/{person_id}/away", response_model=AwayRecord)
async def put_away(ctx: Context, caller: CurrentPerson, person_id: PersonId, body: PutAway) -> Response:
    """Say that you are away, and who answers for you; as an administrator, that anybody is.

    New questions that name you are also asked of your deputy, unless the policy requires you.
    """
    person = await _changed_person(ctx, caller, person_id)
    starts = datetime.now(UTC) if body.starts is None else body.starts
    away = Away(starts=starts, until=body.until, deputy=body.deputy)
    changed = await go_away(ctx, person, away, by=caller.person.id)
    return reply(AwayRecord.of(changed.id, changed.away))


@router.delete("/people/{person_id}/away", response_model=AwayRecord)
async def end_away(ctx: Context, caller: CurrentPerson, person_id: PersonId) -> Response:
    """Say that you are back; as an administrator, that anybody is. A second time changes nothing."""
    person = await _changed_person(ctx, caller, person_id)
    changed = await come_back(ctx, person, by=caller.person.id)
    return reply(AwayRecord.of(changed.id, changed.away))


async def go_away(ctx: ServerContext, person: Person, away: Away, *, by: str) -> Person:
    """Store when a person is away; raise `InvalidRequest` if that makes no sense."""
    problems = [
        *away_problems(person.id, away, datetime.now(UTC)),
        *_calendar_problems(away),
        *await _deputy_problems(ctx, person, away.deputy),
    ]
    if problems:
        raise InvalidRequest([Problem(f"body.{each.path}", each.message) for each in problems])
    changed = await ctx.directory.set_away(person.workspace, person.id, away, by=by)
    if changed is None:
        raise NotFound("This person, or their deputy, was removed meanwhile.")
    return changed


def _calendar_problems(away: Away) -> list[Problem]:
    """What is wrong with instants that have no local time in some time zones."""
    return [
        Problem(path, f"is not between {_FIRST:%Y-%m-%d} and {_LAST:%Y-%m-%d}")
        for path, at in (("from", away.starts), ("until", away.until))
        if not _FIRST <= at <= _LAST
    ]


async def _deputy_problems(ctx: ServerContext, person: Person, deputy: str | None) -> list[Problem]:
    """Why a deputy cannot answer: there is no such person, or they are disabled."""
    if deputy is None or deputy == person.id:
        return []
    known = None if text_problem(deputy) else await ctx.directory.find_person(person.workspace, deputy)
    if known is None:
        return [Problem("deputy", f"there is nobody called {deputy!r} here")]
    if known.disabled_at is not None:
        return [Problem("deputy", f"{deputy!r} is disabled here, and cannot answer")]
    return []


async def come_back(ctx: ServerContext, person: Person, *, by: str) -> Person:
    """Store that a person is not away."""
    changed = await ctx.directory.set_away(person.workspace, person.id, None, by=by)
    if changed is None:
        raise NotFound("This person was removed meanwhile.")
    return changed


async def _changed_person(ctx: ServerContext, caller: PersonCaller, person_id: str) -> Person:
    """The same for a change; that of another person needs a session that is strong enough to administer."""
    person = await _person(ctx, caller, person_id)
    if person.id != caller.person.id:
        check_may_administer(caller.person.id, caller.session.evidence)
    return person


async def _person(ctx: ServerContext, caller: PersonCaller, person_id: str) -> Person:
    """The person whom a request names: the caller, or for an administrator anybody."""
    if not caller.is_admin and person_id != caller.person.id:
        raise PermissionDenied(caller.person.id, "only administrators see and change when others are away")
    known = not text_problem(person_id)
    person = await ctx.directory.find_person(caller.workspace, person_id) if known else None
    if person is None:
        raise NotFound("There is no such person here.")
    return person
