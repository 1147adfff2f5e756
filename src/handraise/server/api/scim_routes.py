"""The SCIM 2.0 routes. Only a key that was made for SCIM gets in, and only to its own workspace."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import pydantic
from fastapi import APIRouter, Depends, Request
from fastapi.routing import APIRoute
from scim2_models import (
    BaseModel,
    Context,
    Error,
    InvalidFilterException,
    InvalidSyntaxException,
    ListResponse,
    Meta,
    NotFoundException,
    PatchOp,
    Resource,
    ResourceType,
    Schema,
    SCIMException,
    SearchRequest,
)
from scim2_models.path.expressions import Comparison
from starlette.exceptions import HTTPException
from starlette.responses import Response

from handraise.model.errors import Unauthenticated
from handraise.model.people import SCIM
from handraise.model.problems import HandraiseError
from handraise.server.auth.authenticator import context_of, count_refusal
from handraise.server.context import ServerContext
from handraise.server.middleware.error_handlers import unexpected_response
from handraise.server.scim.scim_groups import ScimGroups
from handraise.server.scim.scim_resources import BASE, CONFIG, MOST_RESULTS, POLICY, SERVICE, Group, User
from handraise.server.scim.scim_users import ScimUsers
from handraise.wire.credentials import TokenKind, kind_of_key, read_token
from handraise.wire.problem_documents import problem_of

MEDIA_TYPE = "application/scim+json"
_UNEXPECTED = 500
_LONGEST_FILTER = 2_000
_PARAMETERS = ("filter", "startIndex", "count", "attributes", "excludedAttributes")


@dataclass(frozen=True, slots=True)
class ScimCaller:
    """A program of the identity provider, by its key."""

    workspace: str
    program: str
    key_id: str

    @property
    def name(self) -> str:
        """Who this is, in the audit trail and in logs."""
        return SCIM + self.program


class ScimRoute(APIRoute):
    """Checks the key first, and answers every error in the words of SCIM."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler with the check before it and the errors after it."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                request.state.caller = await _authenticate(request)
                return await handler(request)
            except Exception as error:  # noqa: BLE001 -- a provider understands no other form
                return _error(error)

        return handle


router = APIRouter(prefix=BASE, route_class=ScimRoute, include_in_schema=False)


async def _authenticate(request: Request) -> ScimCaller:
    """Who has the SCIM key of this request; raises `Unauthenticated`. A cookie is not looked at."""
    ctx = context_of(request)
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    token = read_token(text.strip()) if scheme.lower() == "bearer" else None
    key = None
    if token is not None and token.kind is TokenKind.SCIM:
        key = await ctx.directory.find_key(token.workspace, token.digest)
    if key is None or kind_of_key(key.agent) is not TokenKind.SCIM:
        if scheme:
            count_refusal(request, "key")
        raise Unauthenticated("A SCIM key is needed: Authorization: Bearer …")
    request.app.state.rate_limits.count_request(key.workspace, key.id)
    request.app.state.last_used.note(key.workspace, key.id)
    return ScimCaller(key.workspace, key.agent.removeprefix(SCIM), key.id)


async def _users(request: Request) -> ScimUsers:
    caller: ScimCaller = request.state.caller
    return ScimUsers(context_of(request), caller.workspace, caller.name)


async def _groups(request: Request) -> ScimGroups:
    caller: ScimCaller = request.state.caller
    return ScimGroups(context_of(request), caller.workspace, caller.name)


Users = Annotated[ScimUsers, Depends(_users)]
Groups = Annotated[ScimGroups, Depends(_groups)]


@router.get("/ServiceProviderConfig")
async def get_config(request: Request) -> Response:
    """What this server can do."""
    config = CONFIG.model_copy(deep=True)
    config.meta = _meta(request, "ServiceProviderConfig", "ServiceProviderConfig")
    return _response(config, Context.RESOURCE_QUERY_RESPONSE)


@router.get("/ResourceTypes")
async def list_resource_types(request: Request) -> Response:
    """The kinds of resources."""
    return _listed([_described(request, each) for each in SERVICE.resource_types], ListResponse[ResourceType])


@router.get("/ResourceTypes/{name}")
async def get_resource_type(request: Request, name: str) -> Response:
    """One kind of resource."""
    return _response(
        _one(name, [_described(request, each) for each in SERVICE.resource_types]),
        Context.RESOURCE_QUERY_RESPONSE,
    )


@router.get("/Schemas")
async def list_schemas(request: Request) -> Response:
    """The attributes of each kind."""
    return _listed([_described(request, each) for each in SERVICE.schemas], ListResponse[Schema])


@router.get("/Schemas/{name}")
async def get_schema(request: Request, name: str) -> Response:
    """The attributes of one kind."""
    return _response(
        _one(name, [_described(request, each) for each in SERVICE.schemas]), Context.RESOURCE_QUERY_RESPONSE
    )


@router.get("/Users")
async def list_users(request: Request, users: Users) -> Response:
    """Find people."""
    return await _found_users(users, _search(request, User))


@router.post("/Users/.search")
async def search_users(request: Request, users: Users) -> Response:
    """Find people, with a filter that is in no log of addresses."""
    return await _found_users(users, await _read_search(request, User))


@router.post("/Users")
async def create_user(request: Request, users: Users) -> Response:
    """Add a person."""
    wanted = await _read(request, User, Context.RESOURCE_CREATION_REQUEST)
    return _made(request, await users.create(wanted))


@router.get("/Users/{user_id:path}")
async def get_user(request: Request, users: Users, user_id: str) -> Response:
    """Get a person."""
    return _shown(request, await users.find(user_id), Context.RESOURCE_QUERY_RESPONSE)


@router.put("/Users/{user_id:path}")
async def replace_user(request: Request, users: Users, user_id: str) -> Response:
    """Replace a person."""
    before = await users.find(user_id)
    wanted = await _read(request, User, Context.RESOURCE_REPLACEMENT_REQUEST)
    wanted.replace(before)
    return _shown(request, await users.change(user_id, wanted), Context.RESOURCE_REPLACEMENT_RESPONSE)


@router.patch("/Users/{user_id:path}")
async def patch_user(request: Request, users: Users, user_id: str) -> Response:
    """Change some attributes of a person."""
    wanted = await users.find(user_id)
    operations = await _read(request, PatchOp[User], Context.RESOURCE_PATCH_REQUEST)
    operations.patch(wanted, scim_policy=POLICY)
    return _shown(request, await users.change(user_id, wanted), Context.RESOURCE_PATCH_RESPONSE)


@router.delete("/Users/{user_id:path}")
async def remove_user(users: Users, user_id: str) -> Response:
    """Remove a person."""
    await users.remove(user_id)
    return Response(status_code=204)


@router.get("/Groups")
async def list_groups(request: Request, groups: Groups) -> Response:
    """Find groups."""
    return await _found_groups(groups, _search(request, Group))


@router.post("/Groups/.search")
async def search_groups(request: Request, groups: Groups) -> Response:
    """Find groups, with a filter that is in no log of addresses."""
    return await _found_groups(groups, await _read_search(request, Group))


@router.post("/Groups")
async def create_group(request: Request, groups: Groups) -> Response:
    """Add a group."""
    wanted = await _read(request, Group, Context.RESOURCE_CREATION_REQUEST)
    return _made(request, await groups.create(wanted))


@router.get("/Groups/{group_id:path}")
async def get_group(request: Request, groups: Groups, group_id: str) -> Response:
    """Get a group."""
    return _shown(request, await groups.find(group_id), Context.RESOURCE_QUERY_RESPONSE)


@router.put("/Groups/{group_id:path}")
async def replace_group(request: Request, groups: Groups, group_id: str) -> Response:
    """Replace a group."""
    wanted = await _read(request, Group, Context.RESOURCE_REPLACEMENT_REQUEST)

    def replaced(before: Group) -> Group:
        copy: Group = wanted.model_copy(deep=True)
        copy.replace(before)
        return copy

    return _shown(request, await groups.change(group_id, replaced), Context.RESOURCE_REPLACEMENT_RESPONSE)


@router.patch("/Groups/{group_id:path}")
async def patch_group(request: Request, groups: Groups, group_id: str) -> Response:
    """Add people to a group, or remove some."""
    operations = await _read(request, PatchOp[Group], Context.RESOURCE_PATCH_REQUEST)

    def patched(before: Group) -> Group:
        operations.patch(before, scim_policy=POLICY)
        return before

    return _shown(request, await groups.change(group_id, patched), Context.RESOURCE_PATCH_RESPONSE)


@router.delete("/Groups/{group_id:path}")
async def remove_group(groups: Groups, group_id: str) -> Response:
    """Remove a group."""
    await groups.remove(group_id)
    return Response(status_code=204)


@router.post("/.search")
async def search_all(request: Request, users: Users, groups: Groups) -> Response:
    """Find people and groups."""
    search = await _read_search(request, User | Group)
    found: list[User | Group] = [each async for each in users.all()]
    found += [each async for each in groups.all()]
    return _page(search, found, ListResponse[User | Group])


@router.api_route("/{path:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
async def refuse(path: str) -> Response:
    """Say that there is no such thing, or that this cannot be done with it."""
    known = path.partition("/")[0] in ("ServiceProviderConfig", "ResourceTypes", "Schemas", "Users", "Groups")
    raise HTTPException(
        405 if known else 404, "This cannot be done here." if known else "There is no such thing."
    )


async def _read(request: Request, model: Any, context: Context) -> Any:
    """The body of a request; raises `InvalidSyntaxException`."""
    return model.model_validate(await _read_object(request), scim_ctx=context, scim_policy=POLICY)


async def _read_object(request: Request) -> dict[str, Any]:
    try:
        payload = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise InvalidSyntaxException(detail="The body is not JSON.") from None
    if not isinstance(payload, dict):
        raise InvalidSyntaxException(detail="The body is not a JSON object.")
    return payload


def _search(request: Request, model: Any) -> Any:
    """What a list is asked for; raises if the filter is not one."""
    asked = {name: request.query_params[name] for name in _PARAMETERS if name in request.query_params}
    return _checked_search(asked, model)


async def _read_search(request: Request, model: Any) -> Any:
    """The same in the body of a request."""
    return _checked_search(await _read_object(request), model)


def _checked_search(asked: dict[str, Any], model: Any) -> Any:
    if len(str(asked.get("filter", ""))) > _LONGEST_FILTER:
        raise InvalidFilterException(detail=f"A filter has at most {_LONGEST_FILTER} characters.")
    try:
        return SearchRequest[model].model_validate(asked, scim_policy=POLICY)
    except RecursionError:
        raise InvalidFilterException(detail="The filter is nested too deeply.") from None


async def _found_users(users: ScimUsers, search: Any) -> Response:
    name = _sought(search, "username")
    found = [each async for each in users.all()] if name is None else await users.with_name(name)
    return _page(search, found, ListResponse[User])


async def _found_groups(groups: ScimGroups, search: Any) -> Response:
    return _page(search, [each async for each in groups.all()], ListResponse[Group])


def _sought(search: Any, attribute: str) -> str | None:
    """The value that a filter compares one attribute with, if that is all it does."""
    tree = None if search.filter is None else search.filter.ast
    if not isinstance(tree, Comparison) or str(tree.op).lower() != "eq" or not isinstance(tree.value, str):
        return None
    return tree.value if str(tree.attr_path).lower().rpartition(":")[2] == attribute else None


def _page(search: Any, found: Sequence[User | Group], kind: Any) -> Response:
    """The part of a list that was asked for."""
    try:
        fitting = [each for each in found if search.filter is None or search.filter.match(each)]
    except RecursionError:
        raise InvalidFilterException(detail="The filter is nested too deeply.") from None
    first = search.start_index_0 or 0
    count = MOST_RESULTS if search.count is None else min(search.count, MOST_RESULTS)
    shown = fitting[first : first + count]
    listed = kind(
        total_results=len(fitting), start_index=first + 1, items_per_page=len(shown), resources=shown
    )
    return _response(listed, Context.RESOURCE_QUERY_RESPONSE, search=search)


def _listed(found: list[Any], kind: Any) -> Response:
    listed = kind(total_results=len(found), start_index=1, items_per_page=len(found), resources=found)
    return _response(listed, Context.RESOURCE_QUERY_RESPONSE)


def _described(request: Request, described: Any) -> Any:
    copy = described.model_copy(deep=True)
    kind = type(described).__name__
    copy.meta = _meta(request, kind, f"{kind}s/{copy.id}")
    return copy


def _one(name: str, found: list[Any]) -> Any:
    for each in found:
        if str(each.id).lower() == name.lower():
            return each
    raise NotFoundException(detail="There is no such thing here.")


def _meta(request: Request, kind: str, path: str) -> Any:
    ctx: ServerContext = context_of(request)
    return Meta(resource_type=kind, location=f"{ctx.settings.base_url}{BASE}/{path}")


def _made(request: Request, resource: Resource[Any]) -> Response:
    response = _shown(request, resource, Context.RESOURCE_CREATION_RESPONSE)
    response.status_code = 201
    if resource.meta is not None:
        response.headers["location"] = str(resource.meta.location)
    return response


def _shown(request: Request, resource: Resource[Any], context: Context) -> Response:
    """A resource with the attributes that were asked for."""
    return _response(resource, context, search=_search(request, type(resource)))


def _response(model: BaseModel, context: Context, *, status: int = 200, search: Any = None) -> Response:
    text = model.model_dump_json(scim_ctx=context, scim_policy=POLICY, response_parameters=search)
    return Response(text, status, media_type=MEDIA_TYPE)


def _error(error: Exception) -> Response:
    """Any error as SCIM has errors."""
    headers: dict[str, str] = {}
    match error:
        case SCIMException():
            found = error.to_error()
        case pydantic.ValidationError():
            found = Error.from_validation_error(error.errors()[0])
        case HandraiseError():
            document = problem_of(error)
            found = Error(status=document.status, detail=document.detail)
            if document.status == 401:  # noqa: PLR2004 -- RFC 9110 demands the header
                headers["www-authenticate"] = "Bearer"
            if document.retry_after is not None:
                headers["retry-after"] = str(max(1, round(document.retry_after)))
        case HTTPException():
            found = Error(status=error.status_code, detail=str(error.detail))
        case _:
            unexpected_response(error)
            found = Error(
                status=_UNEXPECTED, detail="Something went wrong; the server's log has the details."
            )
    response = _response(found, Context.DEFAULT, status=int(found.status or _UNEXPECTED))
    response.headers.update(headers)
    return response
