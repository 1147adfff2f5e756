"""How a workspace reaches its people: addresses, routing and deliveries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated

import pydantic
from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from handraise.channels.address_examples import not_an_address
from handraise.model.deliveries import Address
from handraise.model.errors import InvalidRequest, NotFound
from handraise.model.json_values import Json, canonical_json, json_problems, text_problem
from handraise.model.problems import Problem
from handraise.model.routing import Routing
from handraise.server.api.etags import ConditionalRoute, IfMatch, check_match, check_tag, tagged
from handraise.server.api.question_routes import visible
from handraise.server.api.responses import QuestionId, reply
from handraise.server.auth.authenticator import (
    AgentCaller,
    Context,
    CurrentCaller,
    CurrentConfigurer,
    PersonCaller,
)
from handraise.wire.delivery_records import (
    AddressList,
    AddressRecord,
    DeliveryList,
    DeliveryRecord,
    PutAddress,
)

router = APIRouter(prefix="/v1", tags=["reaching people"], route_class=ConditionalRoute)

_LARGEST = 8_192
_DEEPEST = 6

Recipient = Annotated[str, Path(max_length=206, description="a person, `group:ops`, or `*` for anyone")]
ChannelName = Annotated[str, Path(max_length=60, description="the channel, such as `email`")]
AddressId = Annotated[str, Path(max_length=300, description="names it among the recipient's on that channel")]


@router.get("/addresses", response_model=AddressList)
async def list_addresses(
    ctx: Context, admin: CurrentConfigurer, *, recipient: Annotated[str | None, Query(max_length=206)] = None
) -> Response:
    """List addresses: who can be reached through which channel."""
    wanted = None if recipient is None else [recipient]
    if recipient is not None and text_problem(recipient):
        wanted = []
    found = await ctx.outbox.addresses(admin.workspace, wanted)
    return reply(AddressList(addresses=tuple(map(AddressRecord.of, found))))


@router.get("/addresses/{recipient}/{channel}/{address_id}", response_model=AddressRecord)
async def get_address(
    ctx: Context,
    admin: CurrentConfigurer,
    recipient: Recipient,
    channel: ChannelName,
    address_id: AddressId,
) -> Response:
    """Get an address by its names. Its `ETag` also changes with what is not shown."""
    if not any(map(text_problem, (recipient, channel, address_id))):
        for each in await ctx.outbox.addresses(admin.workspace, [recipient]):
            if (each.channel, each.id) == (channel, address_id):
                return _tagged_address(each)
    raise NotFound("There is no such address here.")


@router.put("/addresses/{recipient}/{channel}/{address_id}", response_model=AddressRecord)
async def put_address(
    *,
    ctx: Context,
    admin: CurrentConfigurer,
    recipient: Recipient,
    channel: ChannelName,
    address_id: AddressId,
    body: PutAddress,
    if_match: IfMatch = None,
) -> Response:
    """Set where a recipient can be reached. On a channel where people answer, the id is their id there.

    With `If-Match`, only if the address has not changed.
    """
    for name in (recipient, channel, address_id):
        if why := text_problem(name):
            raise InvalidRequest([Problem("path", why)])
    problems = list(json_problems(body.to, "body.to", depth=_DEEPEST))
    if not problems and len(body.model_dump_json()) > _LARGEST:
        problems = [Problem("body.to", f"is larger than {_LARGEST} bytes")]
    known = ctx.channels.get(channel)
    if not problems and known is None:
        problems = [Problem("path.channel", f"this server has: {', '.join(sorted(ctx.channels)) or 'none'}")]
    if not problems and known is not None and known.rate_limit_key(body.to) is None:
        problems = [Problem("body.to", not_an_address(channel))]
    if problems:
        raise InvalidRequest(problems)
    address = Address(
        workspace=admin.workspace, recipient=recipient, channel=channel, id=address_id, to=body.to
    )
    await ctx.outbox.put_address(address, by=admin.by, check=_address_check(if_match))
    return _tagged_address(address)


@router.delete("/addresses/{recipient}/{channel}/{address_id}", status_code=204)
async def remove_address(
    *,
    ctx: Context,
    admin: CurrentConfigurer,
    recipient: Recipient,
    channel: ChannelName,
    address_id: AddressId,
    if_match: IfMatch = None,
) -> Response:
    """Remove an address; with `If-Match`, only if it has not changed."""
    named = not any(map(text_problem, (recipient, channel, address_id)))
    place = (admin.workspace, recipient, channel, address_id)
    if not (named and await ctx.outbox.remove_address(*place, by=admin.by, check=_address_check(if_match))):
        raise NotFound("There is no such address here.")
    return Response(status_code=204)


@router.get("/routing", response_model=Routing)
async def get_routing(ctx: Context, admin: CurrentConfigurer) -> Response:
    """Get the routing policy of the workspace."""
    return tagged(policy_text(await ctx.outbox.routing(admin.workspace)))


@router.put("/routing", response_model=Routing)
async def put_routing(
    ctx: Context, admin: CurrentConfigurer, body: Routing, *, if_match: IfMatch = None
) -> Response:
    """Replace the routing policy of the workspace; with `If-Match`, only if it has not changed."""
    stored = body.model_dump(mode="json", exclude_defaults=True)
    if problems := list(json_problems(stored, "body", depth=_DEEPEST)):
        raise InvalidRequest(problems)
    await ctx.outbox.put_routing(
        admin.workspace,
        stored,
        by=admin.by,
        check=lambda before: check_match(if_match, policy_text(before)),
    )
    return tagged(body.model_dump_json())


def policy_text(stored: Json) -> str:
    """A stored policy as responses show it."""
    try:
        policy = Routing.model_validate(stored or {})
    except pydantic.ValidationError:
        policy = Routing()
    return policy.model_dump_json()


def _tagged_address(address: Address) -> Response:
    return tagged(AddressRecord.of(address), hidden=canonical_json(address.to))


def _address_check(if_match: str | None) -> Callable[[Address | None], None] | None:
    """A check that an address is the one that the caller has read."""
    if if_match is None:
        return None

    def check(found: Address | None) -> None:
        check_tag(if_match, None if found is None else str(_tagged_address(found).headers["etag"]))

    return check


@router.get("/questions/{question_id}/deliveries", response_model=DeliveryList)
async def list_deliveries(ctx: Context, caller: CurrentCaller, question_id: QuestionId) -> Response:
    """List the messages about a question: to whom, and whether they arrived.

    An agent only sees whether anybody is unreached, and the callback of its own question. Only administrators see why
    a delivery failed.
    """
    question = await visible(ctx, caller, question_id)
    found = await ctx.outbox.deliveries(question.ref)
    if isinstance(caller, AgentCaller):
        found = [each for each in found if each.is_callback]
    if not isinstance(caller, PersonCaller) or not caller.is_admin:
        found = [replace(each, problem=None) for each in found]
    unreached = question.unreached_at is not None
    return reply(DeliveryList(unreached=unreached, deliveries=tuple(map(DeliveryRecord.of, found))))
