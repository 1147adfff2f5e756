"""Channels with their state and a test message, addresses, routing, and deliveries that failed."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import quote

import pydantic
from fastapi import APIRouter, Form, Query
from starlette.responses import RedirectResponse, Response

from handraise.model.deliveries import Delivery, DeliveryStatus
from handraise.model.errors import InvalidRequest, NotFound, PreconditionFailed
from handraise.model.forms import Confirm
from handraise.model.json_values import Json, text_problem
from handraise.model.people import ANYONE, GROUP
from handraise.model.questions import Ref
from handraise.model.routing import Routing
from handraise.model.visible import visible_line
from handraise.presentation.names import channel_name, recipient_name
from handraise.presentation.translation import gettext, gettext_noop
from handraise.server.account_search import searchable
from handraise.server.address_ids import address_id_of, shown_id
from handraise.server.api.address_routes import (
    policy_text,
    put_address,
    put_routing,
    remove_address,
)
from handraise.server.api.channel_routes import inbound_address
from handraise.server.api.etags import etag_of
from handraise.server.auth.authenticator import Context, CurrentAdmin, PersonCaller
from handraise.server.context import ServerContext
from handraise.server.web.admin.admin_views import admin_page, field_problems, to
from handraise.server.web.admin.channel_troubles import (
    failed_badge,
    failed_by_channel,
    retried_badge,
    retried_by_channel,
)
from handraise.server.web.admin.people_pages import Done
from handraise.server.web.inbox.page_texts import since, when
from handraise.server.web.pages import PageRoute
from handraise.wire.delivery_records import PutAddress

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

TESTER = "handraise-test"
"""Who asks the question of a test."""
_MOST_FAILED = 200
_MOST_RETRIED = 200
_TEST_LASTS = 3_600
_TRIED_WITHIN = 3.0
_LOOK_EVERY = 0.05
_SETTINGS = {
    "email": "HANDRAISE_EMAIL_SMTP_URL",
    "slack": "HANDRAISE_SLACK_BOT_TOKEN",
    "teams": "HANDRAISE_TEAMS_APP_ID",
    "discord": "HANDRAISE_DISCORD_BOT_TOKEN",
    "telegram": "HANDRAISE_TELEGRAM_BOT_TOKEN",
    "webpush": "HANDRAISE_PUSH_CONTACT",
    "ntfy": "HANDRAISE_NTFY_URL",
    "apprise": "HANDRAISE_APPRISE_SCHEMES",
    "webhook": "HANDRAISE_WEBHOOKS",
}
"""The setting that turns each channel on."""
_HINTS = {
    "email": gettext_noop("an address, such as ann@example.com"),
    "slack": gettext_noop("the id of a user (U…) or of a channel (C…)"),
    "teams": gettext_noop("the object id of a user, or for a group the id of a conversation"),
    "discord": gettext_noop("the id of a user, or for a group of a channel"),
    "telegram": gettext_noop("the number of a chat"),
    "ntfy": gettext_noop("a topic that nobody can guess"),
    "apprise": gettext_noop("the URL of a service"),
    "webhook": gettext_noop("an https URL, and the secret that signs the messages"),
}


_STANDINGS: dict[DeliveryStatus, str] = {
    DeliveryStatus.QUEUED: gettext_noop("on its way"),
    DeliveryStatus.SENT: gettext_noop("sent"),
    DeliveryStatus.UPDATED: gettext_noop("sent, and told how it ended"),
    DeliveryStatus.UNSENT: gettext_noop("not needed any more"),
    DeliveryStatus.FAILED: gettext_noop("failed"),
    DeliveryStatus.UNKNOWN: gettext_noop("arrived, perhaps"),
    DeliveryStatus.WAITING: gettext_noop("not sent yet"),
}

Text = Annotated[str, Form(max_length=4_000)]


@pages.get("/admin/channels")
async def show_channels(
    ctx: Context, admin: CurrentAdmin, test: Annotated[str, Query(max_length=200)] = "", done: Done = ""
) -> Response:
    """Show the channels of this server, and what came of the last test."""
    addresses, now = await ctx.outbox.addresses(admin.workspace), datetime.now(UTC)
    failed = await failed_by_channel(ctx, admin.workspace)
    retried = await retried_by_channel(ctx, admin.workspace)
    mine = {each.channel for each in addresses if each.recipient == admin.person.id}
    return admin_page(
        "channels",
        admin,
        "channels",
        done=done,
        channels=[
            {
                "name": channel_name(name),
                "failed": failed_badge(failed[name]) if name in failed else None,
                "retried": None
                if (trouble := retried.get(name)) is None
                else {
                    "badge": retried_badge(trouble),
                    "since": since(trouble.since, now),
                    "problem": visible_line(trouble.problem or ""),
                },
                "addresses": sum(each.channel == name for each in addresses),
                "reaches_me": name in mine,
                "inbound": inbound_address(ctx, name),
            }
            for name in sorted(ctx.channels)
        ],
        off=[
            (channel_name(name), setting) for name, setting in _SETTINGS.items() if name not in ctx.channels
        ],
        reaches_me=bool(mine & ctx.channels.keys()),
        my_addresses=f"/admin/addresses?recipient={quote(admin.person.id, safe='')}",
        test=await _test(ctx, admin, test) if test and not text_problem(test) else None,
    )


@pages.post("/admin/channels/test")
async def test_channels_here(ctx: Context, admin: CurrentAdmin) -> Response:
    """Ask the administrator something through every channel that reaches them."""
    text = gettext(
        "This is a test that {name} asked for on the page of channels. Answer it, and you know that answers come back too. "
        "Did it arrive?"
    )
    question = await ctx.desk.scoped(admin.workspace, asker=TESTER).post(
        text.format(name=visible_line(admin.person.name)),
        form=Confirm(),
        recipients=[admin.person.id],
        expires_in=_TEST_LASTS,
    )
    with suppress(TimeoutError):
        async with asyncio.timeout(_TRIED_WITHIN):
            await _tried(ctx, question.ref)
    return RedirectResponse(f"/admin/channels?test={quote(question.id, safe='')}#test", 303)


@pages.get("/admin/addresses")
async def show_addresses(
    ctx: Context,
    admin: CurrentAdmin,
    recipient: Annotated[str, Query(max_length=206)] = "",
    done: Done = "",
) -> Response:
    """Show all addresses, with the form to add one."""
    return await _addresses_page(ctx, admin, typed={"recipient": recipient}, done=done)


@pages.post("/admin/addresses")
async def put_address_here(
    ctx: Context,
    admin: CurrentAdmin,
    *,
    recipient: Text = "",
    channel: Text = "",
    destination: Text = "",
    secret: Text = "",
) -> Response:
    """Add or replace an address."""
    recipient, destination, secret = recipient.strip(), destination.strip(), secret.strip()
    typed = {"recipient": recipient, "channel": channel, "destination": destination}
    problems = await _recipient_problem(ctx, admin, recipient)
    if not destination:
        problems["destination"] = gettext("Write where they are reached.")
    if not problems:
        value = _destination(channel, recipient, destination, secret)
        try:
            await put_address(
                ctx=ctx,
                admin=admin,
                recipient=recipient,
                channel=channel,
                address_id=address_id_of(channel, value),
                body=PutAddress(to=value),
            )
        except InvalidRequest as error:
            found = field_problems(error)
            problems = {"channel": found["channel"]} if "channel" in found else {}
            if not problems:
                hint = gettext(_HINTS[channel]) if channel in _HINTS else ""
                problems["destination"] = gettext(
                    "That is no address of this channel. It takes {what}."
                ).format(what=hint or gettext("what its documentation says, as JSON"))
    if problems:
        return await _addresses_page(ctx, admin, typed=typed, problems=problems, status=422)
    return to("/admin/addresses", "saved")


@pages.post("/admin/addresses/remove")
async def remove_address_here(
    ctx: Context, admin: CurrentAdmin, *, recipient: Text = "", channel: Text = "", address: Text = ""
) -> Response:
    """Remove an address."""
    await remove_address(ctx=ctx, admin=admin, recipient=recipient, channel=channel, address_id=address)
    return to("/admin/addresses", "removed")


@pages.get("/admin/routing")
async def show_routing(ctx: Context, admin: CurrentAdmin, done: Done = "") -> Response:
    """Show the routing of the workspace as text that can be changed."""
    return await _routing_page(ctx, admin, done=done)


@pages.post("/admin/routing")
async def put_routing_here(
    ctx: Context,
    admin: CurrentAdmin,
    *,
    document: Annotated[str, Form(max_length=200_000)] = "",
    version: Annotated[str, Form(max_length=100)] = "",
) -> Response:
    """Replace the routing, if nobody has replaced it since the page was opened."""
    try:
        body = Routing.model_validate_json(document or "{}")
        await put_routing(ctx, admin, body, if_match=version or None)
    except pydantic.ValidationError as error:
        said = [
            f"{'.'.join(map(str, each['loc'])) or gettext('The text')}: {each['msg'].removeprefix('Value error, ')}"
            for each in error.errors()[:5]
        ]
        return await _routing_page(
            ctx, admin, text=document, problems={"document": visible_line(" · ".join(said))}, status=422
        )
    except InvalidRequest as error:
        return await _routing_page(
            ctx,
            admin,
            text=document,
            problems={"document": "; ".join(field_problems(error).values())},
            status=422,
        )
    except PreconditionFailed:
        said_late = gettext(
            "Somebody has changed the routing since you opened this page. Nothing was changed. Your text is below: "
            "save it again if it should replace theirs."
        )
        return await _routing_page(ctx, admin, text=document, problems={"": said_late}, status=409)
    return to("/admin/routing", "saved")


@pages.get("/admin/deliveries")
async def show_failed(ctx: Context, admin: CurrentAdmin, done: Done = "") -> Response:
    """Show the messages that did not arrive and are about a question that still waits."""
    found, now = await ctx.outbox.failed(admin.workspace, limit=_MOST_FAILED), datetime.now(UTC)
    retried = await ctx.outbox.retrying(admin.workspace, limit=_MOST_RETRIED)
    return admin_page(
        "deliveries",
        admin,
        "deliveries",
        done=done,
        deliveries=[_shown(ctx, each, now) for each in found],
        retried=[_shown(ctx, each, now) for each in retried],
        most=_MOST_FAILED,
        most_retried=_MOST_RETRIED,
    )


def _shown(ctx: ServerContext, delivery: Delivery, now: datetime) -> dict[str, Any]:
    return {
        "id": delivery.id,
        "question": f"/questions/{quote(delivery.question_id, safe='')}",
        "recipient": recipient_name(delivery.recipient),
        "channel": channel_name(delivery.channel),
        "problem": visible_line(delivery.problem or ""),
        "at": since(delivery.created_at, now),
        "next": None if delivery.due_at is None else when(delivery.due_at, now),
        "tries": delivery.tries,
        "may_have_arrived": delivery.status is DeliveryStatus.UNKNOWN,
        "is_on": delivery.channel in ctx.channels,
    }


@pages.post("/admin/deliveries/retry")
async def retry_here(ctx: Context, admin: CurrentAdmin, *, delivery: Text = "") -> Response:
    """Try one delivery again, or without its id all of them."""
    if delivery:
        if text_problem(delivery) or not await ctx.outbox.retry(
            admin.workspace, delivery, by=admin.person.id
        ):
            raise NotFound("There is no such failed delivery here.")
    else:
        for each in await ctx.outbox.failed(admin.workspace, limit=_MOST_FAILED):
            await ctx.outbox.retry(admin.workspace, each.id, by=admin.person.id)
    return to("/admin/deliveries", "retried")


async def _tried(ctx: ServerContext, question: Ref) -> None:
    """Wait until every message about a question was tried once, so that the page can say what came of it."""
    while True:
        found = await ctx.outbox.deliveries(question)
        if found and all(each.problem or each.status is not DeliveryStatus.QUEUED for each in found):
            return
        await asyncio.sleep(_LOOK_EVERY)


async def _test(ctx: ServerContext, admin: PersonCaller, question_id: str) -> dict[str, Any] | None:
    """What came of the test question of this administrator."""
    try:
        question = await ctx.desk.scoped(admin.workspace).get(question_id)
    except NotFound:
        return None
    if question.asker != TESTER or admin.person.id not in question.recipients:
        return None
    found = await ctx.outbox.deliveries(Ref(admin.workspace, question_id))
    return {
        "href": f"/questions/{quote(question_id, safe='')}",
        "again": f"/admin/channels?test={quote(question_id, safe='')}",  # with a fragment it would not load again
        "is_answered": question.outcome is not None,
        "lines": [
            {
                "channel": channel_name(each.channel),
                "standing": _standing(each),
                "level": _level(each),
                "problem": visible_line(each.problem or ""),
            }
            for each in found
        ],
    }


def _standing(delivery: Delivery) -> str:
    if not delivery.is_retried:
        return gettext(_STANDINGS[delivery.status])
    if delivery.status is DeliveryStatus.UNKNOWN:
        return gettext("arrived, perhaps; being tried again")
    return gettext("being tried again")


def _level(delivery: Delivery) -> str:
    match delivery.status:
        case DeliveryStatus.SENT | DeliveryStatus.UPDATED:
            return "approved"
        case DeliveryStatus.FAILED:
            return "denied"
        case _:
            return "loud" if delivery.problem else ""


def _destination(channel: str, recipient: str, text: str, secret: str) -> Json:
    """What an address holds, from what was typed. The channel says later whether it fits."""
    shared = recipient.startswith((GROUP, ANYONE))
    if text.startswith("{"):
        try:
            return json.loads(text)
        except ValueError:
            return None
    match channel:
        case "email":
            return {"address": text}
        case "slack":
            return {"channel" if text[:1] in ("C", "G") else "user": text}
        case "discord":
            return {"channel" if shared else "user": text}
        case "teams":
            return {"conversation" if shared else "user": text}
        case "telegram":
            return {"chat": int(text) if text.removeprefix("-").isdecimal() else text}
        case "ntfy":
            return {"topic": text}
        case "webhook":
            return {"url": text, "secret": secret} if secret else {"url": text}
        case _:
            return {"url": text}


async def _recipient_problem(ctx: ServerContext, admin: PersonCaller, recipient: str) -> dict[str, str]:
    """What is wrong with a recipient: it is a person, a group, or anybody."""
    known = recipient == ANYONE
    if not text_problem(recipient) and recipient.startswith(GROUP):
        known = recipient.removeprefix(GROUP) in await ctx.directory.groups(admin.workspace)
    elif not known and recipient and not text_problem(recipient):
        known = await ctx.directory.find_person(admin.workspace, recipient) is not None
    if known:
        return {}
    return {
        "recipient": gettext(
            "There is no such person or group. Write a name such as ann, a group such as group:ops, or * for questions to "
            "anybody."
        )
    }


async def _addresses_page(
    ctx: ServerContext, admin: PersonCaller, *, typed: dict[str, str], **values: Any
) -> Response:
    found = await ctx.outbox.addresses(admin.workspace)
    people = await ctx.directory.people(admin.workspace, after=None, limit=500)
    groups = await ctx.directory.groups(admin.workspace)
    offered = [name for name in sorted(ctx.channels) if name != "webpush"]
    return admin_page(
        "addresses",
        admin,
        "addresses",
        addresses=[
            {
                "recipient": each.recipient,
                "whose": recipient_name(each.recipient),
                "channel": each.channel,
                "through": channel_name(each.channel),
                "is_on": each.channel in ctx.channels,
                "id": each.id,
                "shown": shown_id(each),
            }
            for each in found
        ],
        recipients=[*(each.id for each in people), *(GROUP + each for each in groups), ANYONE],
        channels=[(name, channel_name(name)) for name in offered],
        hints=[(channel_name(name), gettext(_HINTS[name])) for name in offered if name in _HINTS],
        takes_secret="webhook" in offered,
        searchable=[(name, channel_name(name)) for name in searchable(ctx.settings)],
        typed=typed,
        **values,
    )


async def _routing_page(
    ctx: ServerContext, admin: PersonCaller, *, text: str | None = None, **values: Any
) -> Response:
    stored = policy_text(await ctx.outbox.routing(admin.workspace))
    body = json.loads(stored)
    kept = Routing.model_validate(body).model_dump(mode="json", exclude_defaults=True)
    return admin_page(
        "routing",
        admin,
        "routing",
        version=etag_of(stored),
        typed={"document": text if text is not None else json.dumps(kept, indent=2, ensure_ascii=False)},
        channels=", ".join(sorted(ctx.channels)),
        **values,
    )
