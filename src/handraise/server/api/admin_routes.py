"""Administration: keys, people, groups, links and grants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from handraise.desk.everybody import everybody
from handraise.model.errors import GrantNotFound, InvalidRequest, NotFound, PermissionDenied
from handraise.model.grants import Grant
from handraise.model.identities import AgentKey, Person, Role
from handraise.model.json_values import text_problem
from handraise.model.people import Responder, responder_of
from handraise.model.problems import Problem
from handraise.server.api.etags import IfMatch, check_match, etag_of
from handraise.server.api.question_routes import IDEMPOTENT, desk_of
from handraise.server.api.responses import After, Limit, check_texts, reply
from handraise.server.auth.authenticator import (
    AgentCaller,
    Context,
    CurrentAdmin,
    CurrentCallerOrReader,
    CurrentPerson,
    PersonCaller,
    ReaderCaller,
)
from handraise.server.auth.issuer import issue_key, issue_link, issue_reader_key
from handraise.server.context import ServerContext
from handraise.server.mail_addresses import sync_email_address
from handraise.server.middleware.idempotency import IdempotentRoute
from handraise.wire.records import (
    CallerRecord,
    GrantPage,
    GrantRecord,
    GroupList,
    GroupRecord,
    KeyPage,
    KeyRecord,
    LinkRecord,
    NewKeyRecord,
    PersonPage,
    PersonRecord,
    WorkspaceEventPage,
    WorkspaceEventRecord,
)
from handraise.wire.requests import CreateKey, PutGroup, PutPerson

router = APIRouter(prefix="/v1", tags=["administration"], route_class=IdempotentRoute)

# These responses have a secret, and `IdempotentRoute` would store it.
secret_router = APIRouter(prefix="/v1", tags=["administration"])

_PAGE = 500

GrantId = Annotated[str, Path(max_length=200, description="the grant's id")]
KeyId = Annotated[str, Path(max_length=200, description="the key's id, which is not the key")]
PersonId = Annotated[str, Path(max_length=200, description="the person's name as a recipient")]
GroupName = Annotated[str, Path(max_length=200, description="the group's name, without `group:`")]


@router.get("/me", response_model=CallerRecord)
async def get_me(caller: CurrentCallerOrReader) -> Response:
    """Get who you are here."""
    if isinstance(caller, ReaderCaller):
        return reply(CallerRecord(workspace=caller.workspace, reader=caller.reader))
    if isinstance(caller, AgentCaller):
        return reply(CallerRecord(workspace=caller.workspace, agent=caller.agent))
    return reply(CallerRecord(workspace=caller.workspace, person=caller.person.id, role=caller.person.role))


@router.get("/grants", response_model=GrantPage)
async def list_grants(
    ctx: Context, admin: CurrentAdmin, *, after: After = None, limit: Limit = 50
) -> Response:
    """List the workspace's grants, also those that have ended."""
    check_texts({"query.after": after})
    grants = await desk_of(ctx, admin).list_grants(after=after, limit=limit)
    return reply(GrantPage(items=tuple(map(GrantRecord.of, grants)), next=grants.next))


@router.post(
    "/grants/{grant_id}/revoke",
    response_model=GrantRecord,
    openapi_extra=IDEMPOTENT,
)
async def revoke_grant(ctx: Context, caller: CurrentPerson, grant_id: GrantId) -> Response:
    """End a grant now. Allowed to the person who gave it and to administrators. A second time changes nothing."""
    if not caller.is_admin and (await _grant(ctx, caller, grant_id)).granted_by != caller.person.id:
        raise GrantNotFound(grant_id, caller.workspace)
    return reply(GrantRecord.of(await desk_of(ctx, caller).revoke_grant(grant_id, by=caller.person.id)))


@router.get("/keys", response_model=KeyPage)
async def list_keys(ctx: Context, admin: CurrentAdmin, *, after: After = None, limit: Limit = 50) -> Response:
    """List the workspace's keys, also revoked ones."""
    check_texts({"query.after": after})
    keys = await ctx.directory.keys(admin.workspace, after=after, limit=limit)
    return reply(KeyPage(items=tuple(map(KeyRecord.of, keys)), next=_next(keys, limit)))


@secret_router.post("/keys", status_code=201, response_model=NewKeyRecord)
async def create_key(ctx: Context, admin: CurrentAdmin, body: CreateKey) -> Response:
    """Make a key for an agent, or with `reads` for a program that only reads settled questions.

    Only this response has the key itself.
    """
    return reply(await make_key(ctx, admin, body), status=201)


@router.post("/keys/{key_id}/revoke", response_model=KeyRecord, openapi_extra=IDEMPOTENT)
async def revoke_key(ctx: Context, admin: CurrentAdmin, key_id: KeyId) -> Response:
    """End a key now. A second time changes nothing."""
    known = not text_problem(key_id)
    key = await ctx.directory.revoke_key(admin.workspace, key_id, by=admin.person.id) if known else None
    if key is None:
        raise NotFound("There is no such key here.")
    return reply(KeyRecord.of(key))


@router.get("/people", response_model=PersonPage)
async def list_people(
    ctx: Context, admin: CurrentAdmin, *, after: After = None, limit: Limit = 50
) -> Response:
    """List the people of the workspace."""
    check_texts({"query.after": after})
    people = await ctx.directory.people(admin.workspace, after=after, limit=limit)
    return reply(PersonPage(items=tuple(map(PersonRecord.of, people)), next=_next(people, limit)))


@router.get("/people/{person_id}", response_model=PersonRecord)
async def get_person(ctx: Context, admin: CurrentAdmin, person_id: PersonId) -> Response:
    """Get a person, with their groups."""
    return reply(PersonRecord.of(await find_person(ctx, admin, person_id)))


@router.put("/people/{person_id}", response_model=PersonRecord)
async def put_person(ctx: Context, admin: CurrentAdmin, person_id: PersonId, body: PutPerson) -> Response:
    """Add or change a person. The last administrator keeps the role."""
    _check_name(person_id)
    check_texts({"body.name": body.name, "body.email": body.email})
    before = await ctx.directory.find_person(admin.workspace, person_id)
    stepping_down = before if before and before.role is Role.ADMIN and body.role is not Role.ADMIN else None
    if stepping_down:
        await _check_others_administer(ctx, admin, stepping_down)
    person = await ctx.directory.put_person(
        admin.workspace,
        person_id,
        name=body.name,
        email=body.email,
        role=body.role,
        by=admin.person.id,
    )
    if person is None:
        raise InvalidRequest([Problem("body.email", "belongs to somebody else")])
    if stepping_down:
        await _undo_if_nobody_administers(ctx, admin, stepping_down)
    await sync_email_address(ctx, before, person, by=admin.person.id)
    return reply(PersonRecord.of(person))


@router.delete("/people/{person_id}", status_code=204)
async def remove_person(ctx: Context, admin: CurrentAdmin, person_id: PersonId) -> Response:
    """Remove a person, with their sessions and links. The last administrator cannot be removed."""
    person = await find_person(ctx, admin, person_id)
    if person.role is Role.ADMIN:
        await _check_others_administer(ctx, admin, person)
        await _put(ctx, replace(person, role=Role.MEMBER), by=admin.person.id)
        await _undo_if_nobody_administers(ctx, admin, person)
    await ctx.directory.remove_person(admin.workspace, person_id, by=admin.person.id)
    for address in await ctx.outbox.addresses(admin.workspace, [person_id]):
        # A later person with this name is somebody else.
        await ctx.outbox.remove_address(
            admin.workspace, person_id, address.channel, address.id, by=admin.person.id
        )
    return Response(status_code=204)


@secret_router.post("/people/{person_id}/links", status_code=201, response_model=LinkRecord)
async def create_link(ctx: Context, admin: CurrentAdmin, person_id: PersonId) -> Response:
    """Make a link with which a person signs in once. Only this response has it.

    The session that starts with it records who made the link, and so does every answer in that session. That is too
    little evidence for an action of high risk.
    """
    return reply(await make_link(ctx, admin, person_id), status=201)


@router.get("/groups", response_model=GroupList)
async def list_groups(ctx: Context, admin: CurrentAdmin) -> Response:
    """List every group and its people."""
    groups = await ctx.directory.groups(admin.workspace)
    records = (GroupRecord(name=name, people=tuple(people)) for name, people in groups.items())
    return reply(GroupList(groups=tuple(records)))


@router.get("/groups/{name}", response_model=GroupRecord)
async def get_group(ctx: Context, admin: CurrentAdmin, name: GroupName) -> Response:
    """Get a group and its people."""
    people = (await ctx.directory.groups(admin.workspace)).get(name)
    if people is None:
        raise NotFound("There is no such group here.")
    return _tagged(name, people)


@router.put("/groups/{name}", response_model=GroupRecord)
async def put_group(
    ctx: Context, admin: CurrentAdmin, name: GroupName, body: PutGroup, *, if_match: IfMatch = None
) -> Response:
    """Replace the people of a group. A name that nobody has is refused, and nothing changes.

    With `If-Match`, only if the group has not changed.
    """
    check_texts({"path.name": name, **{f"body.people.{n}": each for n, each in enumerate(body.people)}})
    unknown = [
        Problem(f"body.people.{n}", f"there is nobody called {each!r} here")
        for n, each in enumerate(body.people)
        if await ctx.directory.find_person(admin.workspace, each) is None
    ]
    if unknown:
        raise InvalidRequest(unknown)
    people = await ctx.directory.put_group(
        admin.workspace,
        name,
        body.people,
        by=admin.person.id,
        check=lambda before: check_match(if_match, group_text(name, before) if before else None),
    )
    return _tagged(name, people)


async def make_key(ctx: ServerContext, admin: PersonCaller, body: CreateKey) -> NewKeyRecord:
    """Make a key for an agent or a reader; raises `InvalidRequest` if nobody can have that name."""
    issue = issue_reader_key if body.reads else issue_key
    try:
        return await issue(ctx, admin.workspace, body.agent, by=admin.person.id)
    except ValueError as error:
        raise InvalidRequest([Problem("body.agent", str(error))]) from None


async def make_link(ctx: ServerContext, admin: PersonCaller, person_id: str) -> LinkRecord:
    """Make a sign-in link for a person; raises `NotFound`."""
    person = await find_person(ctx, admin, person_id)
    # A link for yourself has the evidence of your own session.
    maker = admin.session.vouched_by if person.id == admin.person.id else admin.person.id
    link = await issue_link(
        ctx, admin.workspace, person=person.id, purpose="invitation", vouched_by=maker, by=admin.person.id
    )
    if link is None:
        raise _no_such_person()
    return link


def group_text(name: str, people: Sequence[str]) -> str:
    """A group as responses show it; the tag of its version is made from it."""
    return GroupRecord(name=name, people=tuple(people)).model_dump_json()


def _tagged(name: str, people: Sequence[str]) -> Response:
    text = group_text(name, people)
    return Response(text, media_type="application/json", headers={"etag": etag_of(text)})


@router.get("/workspace/events", response_model=WorkspaceEventPage)
async def list_workspace_events(
    ctx: Context, admin: CurrentAdmin, *, after: After = None, limit: Limit = 50
) -> Response:
    """List what changed in the workspace, and who changed it: people, groups, keys, addresses, routing, links, sessions.

    All of these events are in the audit trail.
    """
    try:
        found = await ctx.store.workspace_events(admin.workspace, after=after, limit=limit)
    except ValueError:
        raise InvalidRequest([Problem("query.after", "is not a cursor of these events")]) from None
    records = tuple(map(WorkspaceEventRecord.of, found))
    return reply(WorkspaceEventPage(items=records, next=found[-1].cursor if found else after))


def _next(page: Sequence[AgentKey] | Sequence[Person], limit: int) -> str | None:
    """The `after` of the next page, if there may be one."""
    return page[-1].id if len(page) == limit else None


async def _grant(ctx: ServerContext, caller: PersonCaller, grant_id: str) -> Grant:
    """Find a grant. Grants are ordered by id, and a prefix of an id is before it."""
    if not text_problem(grant_id):
        found = await desk_of(ctx, caller).list_grants(after=grant_id[:-1], limit=_PAGE)
        for grant in found:
            if grant.id == grant_id:
                return grant
    raise GrantNotFound(grant_id, caller.workspace)


async def find_person(ctx: ServerContext, admin: PersonCaller, person_id: str) -> Person:
    """The person of this name; raises `NotFound`."""
    known = not text_problem(person_id)
    person = await ctx.directory.find_person(admin.workspace, person_id) if known else None
    if person is None:
        raise _no_such_person()
    return person


def _no_such_person() -> NotFound:
    return NotFound("There is no such person here.")


async def _check_others_administer(ctx: ServerContext, admin: PersonCaller, person: Person) -> None:
    """Raise `PermissionDenied` if this is the last administrator."""
    if not await _somebody_administers(ctx, admin.workspace, besides=person.id):
        raise PermissionDenied(admin.person.id, "the workspace would have no administrator left")


async def _undo_if_nobody_administers(ctx: ServerContext, admin: PersonCaller, before: Person) -> None:
    """Check again afterwards: two administrators may have removed each other at once."""
    if not await _somebody_administers(ctx, admin.workspace, besides=None):
        await _put(ctx, before, by=admin.person.id)
        raise PermissionDenied(admin.person.id, "the workspace would have no administrator left")


async def _somebody_administers(ctx: ServerContext, workspace: str, *, besides: str | None) -> bool:
    async for person in everybody(ctx.directory, workspace):
        if person.role is Role.ADMIN and person.id != besides:
            return True
    return False


async def _put(ctx: ServerContext, person: Person, *, by: str) -> None:
    await ctx.directory.put_person(
        person.workspace, person.id, name=person.name, email=person.email, role=person.role, by=by
    )


def _check_name(person_id: str) -> None:
    """Refuse a name that could be mistaken for something else; see `responder_of`."""
    try:
        responder_of(Responder(person_id))
    except PermissionDenied as refusal:
        raise InvalidRequest([Problem("path.person_id", refusal.reason)]) from None
