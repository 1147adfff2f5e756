"""Connecting an account of your own at a chat service, and removing one.

Two proofs are needed: the service says who sent the code to the bot, and only the session that got the code can use the
link that the bot answered with. Each code connects one account, once.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Annotated

from fastapi import APIRouter, Form, Path
from starlette.responses import RedirectResponse, Response

from handraise.channels.account_links import (
    LASTS,
    AccountLink,
    BotAddress,
    CodeHolder,
    ConnectCommand,
    NamedBot,
)
from handraise.model.errors import NotFound
from handraise.model.json_values import text_problem
from handraise.model.visible import visible_line
from handraise.ports.channel import Channel, NotSent
from handraise.presentation.names import channel_name
from handraise.presentation.translation import gettext
from handraise.server.account_search import set_account
from handraise.server.address_ids import shown_id
from handraise.server.auth.authenticator import Context, CurrentPerson, PersonCaller
from handraise.server.channel_setup import account_links
from handraise.server.context import ServerContext
from handraise.server.web.pages import PageRoute, live_page, message

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

_CONNECTED = ("slack", "teams", "telegram", "discord")
"""The channels whose bots take codes."""
_NAMED_WITHIN = 3.0
_PATIENCE = timedelta(seconds=10)
_ONCE = "connects an account"
_SEE_OTHER, _CONFLICT = 303, 409

Text = Annotated[str, Form(max_length=400)]
LinkToken = Annotated[str, Path(max_length=3_000)]


@dataclass(frozen=True, slots=True)
class ReachedAt:
    """Where somebody is reached. Everything in it may be shown as it is."""

    channel: str
    id: str
    through: str
    shown: str
    is_on: bool
    may_remove: bool


async def reached_at(ctx: ServerContext, caller: PersonCaller) -> list[ReachedAt]:
    """The addresses of this person. Those in browsers are not among them: each browser has its own switch."""
    found = await ctx.outbox.addresses(caller.workspace, [caller.person.id])
    return [
        ReachedAt(
            each.channel,
            each.id,
            channel_name(each.channel),
            shown_id(each),
            each.channel in ctx.channels,
            each.channel in _CONNECTED,
        )
        for each in found
        if each.channel != "webpush"
    ]


def connectable(ctx: ServerContext) -> list[tuple[str, str]]:
    """The channels on which people connect accounts of their own, with the names of the services."""
    if account_links(ctx.settings) is None:
        return []
    return [(name, channel_name(name)) for name in _CONNECTED if name in ctx.channels]


@pages.post("/me/connect")
async def begin_here(ctx: Context, caller: CurrentPerson, *, channel: Text = "") -> Response:
    """Show the code that you send to the bot."""
    links = account_links(ctx.settings)
    if links is None or channel not in dict(connectable(ctx)):
        raise NotFound("There is no such channel here.")
    service = ctx.channels[channel]
    if isinstance(service, ConnectCommand):
        try:
            await service.register_connect()
        except NotSent as error:
            return message(
                gettext("This does not work now"),
                visible_line(str(error)),
                status=503,
                lead=("/me#reached", gettext("Back to your settings")),
            )
    return live_page(
        "inbox/connect.html",
        person=caller.person,
        service=channel_name(channel),
        channel=channel,
        bot=await _bot_address(service),
        code=links.make_code(_holder(caller), channel),
        minutes=LASTS // 60,
    )


async def _bot_address(service: Channel) -> BotAddress | None:
    """Where people find the bot, if its service says so soon."""
    if not isinstance(service, NamedBot):
        return None
    try:
        async with asyncio.timeout(_NAMED_WITHIN):
            return await service.bot_address()
    except (NotSent, TimeoutError):
        return None


@pages.get("/me/connect/{token}")
async def ask_here(ctx: Context, caller: CurrentPerson, token: LinkToken) -> Response:
    """Ask whether the account that sent the code is yours."""
    link = _link(ctx, caller, token)
    if link is None:
        return _refused()
    return live_page(
        "inbox/connect_confirm.html",
        person=caller.person,
        service=channel_name(link.account.channel),
        name=visible_line(link.account.name),
        id=visible_line(link.account.id),
        action=f"/me/connect/{token}",
    )


@pages.post("/me/connect/{token}")
async def connect_here(ctx: Context, caller: CurrentPerson, token: LinkToken) -> Response:
    """Let yourself be reached at the account that sent the code, and answer from there."""
    link = _link(ctx, caller, token)
    if link is None or link.account.channel not in ctx.channels:
        return _refused()
    place = (caller.workspace, f"{_ONCE}:{caller.person.id}", link.use)
    fingerprint = sha256(token.encode()).hexdigest()
    claim = await ctx.directory.claim(*place, fingerprint=fingerprint, made=link.use, patience=_PATIENCE)
    if claim.state not in ("new", "again"):
        return _refused()
    is_set = await set_account(ctx, caller.person, link.account.channel, link.account, by=caller.person.id)
    await ctx.directory.finish(*place, turn=claim.turn, status=_SEE_OTHER if is_set else _CONFLICT, body="")
    if not is_set:
        return message(
            gettext("This account belongs to somebody else here"),
            gettext("Nothing was changed. If it is yours, an administrator can remove it from them."),
            status=_CONFLICT,
            lead=("/me#reached", gettext("Back to your settings")),
        )
    return RedirectResponse("/me#reached", _SEE_OTHER)


@pages.post("/me/addresses/remove")
async def remove_here(
    ctx: Context, caller: CurrentPerson, *, channel: Text = "", address: Text = ""
) -> Response:
    """Remove an account of yours: you are not reached there any more, and answers from there do not count."""
    named = channel in _CONNECTED and not text_problem(address)
    place = (caller.workspace, caller.person.id, channel, address)
    if not (named and await ctx.outbox.remove_address(*place, by=caller.person.id)):
        raise NotFound("There is no such address here.")
    return RedirectResponse("/me#reached", _SEE_OTHER)


def _holder(caller: PersonCaller) -> CodeHolder:
    return CodeHolder(caller.workspace, caller.person.id, caller.session.id)


def _link(ctx: ServerContext, caller: PersonCaller, token: str) -> AccountLink | None:
    links = account_links(ctx.settings)
    return None if links is None else links.read_link(token, _holder(caller))


def _refused() -> Response:
    return message(
        gettext("This link does not connect anything"),
        gettext(
            "It has ended, was used already, or belongs to another sign-in. Use the browser in which you began, or begin again."
        ),
        status=403,
        lead=("/me#reached", gettext("Back to your settings")),
    )
