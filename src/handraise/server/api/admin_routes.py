"""Administration: keys, people, groups, links and grants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from handraise.desk import people_rights
from handraise.model.errors import GrantNotFound, InvalidRequest, NotFound, PermissionDenied
from handraise.model.grants import Grant
from handraise.model.identities import AgentKey, Person
from handraise.model.json_values import text_problem
from handraise.model.people import Responder, responder_of
from handraise.model.problems import Problem
from handraise.server.api.etags import ConditionalRoute, IfMatch, check_match, tagged
from handraise.server.api.question_routes import IDEMPOTENT, desk_of
from handraise.server.api.responses import After, Limit, check_texts, reply
from handraise.server.auth.authenticator import (
    AdminTokenCaller,
    AgentCaller,
    Configurer,
    Context,
    CurrentAdmin,
    CurrentAnyCaller,
    CurrentConfigurer,
    CurrentPerson,
    PersonCaller,
    ReaderCaller,
)
from handraise.server.auth.issuer import (
    issue_admin_token,
    issue_key,
    issue_link,
    issue_reader_key,
    issue_scim_key,
)
from handraise.server.context import ServerContext
from handraise.server.mail_addresses import sync_email_address
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

router = APIRouter(prefix="/v1", tags=["administration"], route_class=ConditionalRoute)

# These responses have a secret, and `IdempotentRoute` would store it.
secret_router = APIRouter(prefix="/v1", tags=["administration"])

_PAGE = 500

GrantId = Annotated[str, Path(max_length=200, description="the grant's id")]
KeyId = Annotated[str, Path(max_length=200, description="the key's id, which is not the key")]
PersonId = Annotated[str, Path(max_length=200, description="the person's name as a recipient")]
GroupName = Annotated[str, Path(max_length=200, description="the group's name, without `group:`")]


@router.get("/me", response_model=CallerRecord)
async def get_me(caller: CurrentAnyCaller) -> Response:
    """Get who you are here."""
    if isinstance(caller, AdminTokenCaller):
        return reply(CallerRecord(workspace=caller.workspace, admin_token=caller.token_name))
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
    """Make a key: for an agent, or with `reads`, `scim` or `administers` for a program that does only that.

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
    ctx: Context, admin: CurrentConfigurer, *, after: After = None, limit: Limit = 50
) -> Response:
    """List the people of the workspace."""
    check_texts({"query.after": after})
    people = await ctx.directory.people(admin.workspace, after=after, limit=limit)
    return reply(PersonPage(items=tuple(map(PersonRecord.of, people)), next=_next(people, limit)))


@router.get("/people/{person_id}", response_model=PersonRecord)
async def get_person(ctx: Context, admin: CurrentConfigurer, person_id: PersonId) -> Response:
    """Get a person, with their groups."""
    return tagged(person_text(await find_person(ctx, admin, person_id)))


@router.put("/people/{person_id}", response_model=PersonRecord)
async def put_person(
    *,
    ctx: Context,
    admin: CurrentConfigurer,
    person_id: PersonId,
    body: PutPerson,
    if_match: IfMatch = None,
) -> Response:
    """Add or change a person. The last administrator keeps the role. With `If-Match`, only if the person has not changed."""
    _check_name(person_id)
    check_texts({"body.name": body.name, "body.email": body.email})
    before, person = await people_rights.put_person_safely(
        ctx.directory,
        admin.workspace,
        person_id,
        name=body.name,
        email=body.email,
        role=body.role,
        by=admin.by,
        check=lambda found: check_match(if_match, None if found is None else person_text(found)),
    )
    if person is None:
        raise InvalidRequest([Problem("body.email", "belongs to somebody else")])
    await sync_email_address(ctx, before, person, by=admin.by)
    return tagged(person_text(person))


@router.delete("/people/{person_id}", status_code=204)
async def remove_person(
    ctx: Context, admin: CurrentConfigurer, person_id: PersonId, *, if_match: IfMatch = None
) -> Response:
    """Remove a person, with their sessions and links. The last administrator cannot be removed."""
    person = await find_person(ctx, admin, person_id)
    await people_rights.remove_person_safely(
        ctx,
        person,
        by=admin.by,
        check=lambda found: check_match(if_match, None if found is None else person_text(found)),
    )
    return Response(status_code=204)


@router.post("/people/{person_id}/disable", response_model=PersonRecord, openapi_extra=IDEMPOTENT)
async def disable_person(ctx: Context, admin: CurrentConfigurer, person_id: PersonId) -> Response:
    """Disable a person at once, with their sessions, links, votes and grants. The last administrator cannot be disabled."""
    person = await find_person(ctx, admin, person_id)
    disabled = await people_rights.disable_person_safely(ctx, person, by=admin.by)
    if disabled is None:
        raise _no_such_person()
    return reply(PersonRecord.of(disabled))


@router.post("/people/{person_id}/enable", response_model=PersonRecord, openapi_extra=IDEMPOTENT)
async def enable_person(ctx: Context, admin: CurrentConfigurer, person_id: PersonId) -> Response:
    """Enable a person who was disabled: they can sign in again, with the groups and the role that they have."""
    await find_person(ctx, admin, person_id)
    enabled = await ctx.directory.enable_person(admin.workspace, person_id, by=admin.by)
    if enabled is None:
        raise _no_such_person()
    return reply(PersonRecord.of(enabled))


@secret_router.post("/people/{person_id}/links", status_code=201, response_model=LinkRecord)
async def create_link(ctx: Context, admin: CurrentAdmin, person_id: PersonId) -> Response:
    """Make a link with which a person signs in once. Only this response has it.

    The session that starts with it records who made the link, and so does every answer in that session. That is too
    little evidence for an action of high risk.
    """
    return reply(await make_link(ctx, admin, person_id), status=201)


@router.get("/groups", response_model=GroupList)
async def list_groups(ctx: Context, admin: CurrentConfigurer) -> Response:
    """List every group and its people."""
    groups = await ctx.directory.groups(admin.workspace)
    records = (GroupRecord(name=name, people=tuple(people)) for name, people in groups.items())
    return reply(GroupList(groups=tuple(records)))


@router.get("/groups/{name}", response_model=GroupRecord)
async def get_group(ctx: Context, admin: CurrentConfigurer, name: GroupName) -> Response:
    """Get a group and its people."""
    people = (await ctx.directory.groups(admin.workspace)).get(name)
    if people is None:
        raise NotFound("There is no such group here.")
    return tagged(group_text(name, people))


@router.put("/groups/{name}", response_model=GroupRecord)
async def put_group(
    ctx: Context, admin: CurrentConfigurer, name: GroupName, body: PutGroup, *, if_match: IfMatch = None
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
        by=admin.by,
        check=lambda before: check_match(if_match, group_text(name, before) if before else None),
    )
    return tagged(group_text(name, people))


async def make_key(ctx: ServerContext, admin: PersonCaller, body: CreateKey) -> NewKeyRecord:
    """Make a key for an agent or another program; raises `InvalidRequest` if nobody can have that name."""
    program = issue_scim_key if body.scim else issue_admin_token if body.administers else issue_key
    issue = issue_reader_key if body.reads else program
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


def person_text(person: Person) -> str:
    """A person as responses show them; the tag of their version is made from it."""
    return PersonRecord.of(person).model_dump_json()


def group_text(name: str, people: Sequence[str]) -> str:
    """A group as responses show it; the tag of its version is made from it."""
    return GroupRecord(name=name, people=tuple(people)).model_dump_json()


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


async def find_person(ctx: ServerContext, admin: Configurer, person_id: str) -> Person:
    """The person of this name; raises `NotFound`."""
    known = not text_problem(person_id)
    person = await ctx.directory.find_person(admin.workspace, person_id) if known else None
    if person is None:
        raise _no_such_person()
    return person


def _no_such_person() -> NotFound:
    return NotFound("There is no such person here.")


def _check_name(person_id: str) -> None:
    """Refuse a name that could be mistaken for something else; see `responder_of`."""
    try:
        responder_of(Responder(person_id))
    except PermissionDenied as refusal:
        raise InvalidRequest([Problem("path.person_id", refusal.reason)]) from None
