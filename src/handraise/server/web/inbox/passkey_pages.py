"""Add and remove your passkeys, and what a browser needs to sign with one. The account page lists them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Form, Path
from starlette.responses import JSONResponse, RedirectResponse, Response

from handraise.model.errors import PermissionDenied
from handraise.model.json_values import text_problem
from handraise.model.passkey_signatures import Passkey, PasskeyRefused
from handraise.model.people import OPERATOR, link_maker
from handraise.model.visible import visible_line
from handraise.presentation.error_text import error_text
from handraise.presentation.translation import gettext
from handraise.server.auth.authenticator import Context, CurrentPerson, PersonCaller
from handraise.server.context import ServerContext
from handraise.server.passkeys.passkey_use import PasskeyUse, read_signature
from handraise.server.web.inbox.page_texts import When, since
from handraise.server.web.pages import PageRoute, message

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

FRESH = timedelta(minutes=15)
"""How new a session must be to add the first passkey: a stolen one is usually older."""
_BACK = "/me#passkeys"

PasskeyId = Annotated[str, Path(max_length=2_000)]
Name = Annotated[str, Form(max_length=80)]
Signature = Annotated[str, Form(max_length=16_384)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PasskeyView:
    """A passkey as its owner sees it. Everything in it may be shown as it is."""

    id: str
    name: str
    added: When
    used: When | None
    maker: str | None
    is_usable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PasskeySection:
    """What the account page shows about passkeys."""

    is_possible: bool
    """Whether this server can use passkeys."""
    passkeys: Sequence[PasskeyView]
    may_add: bool
    """Whether this session may add one."""


async def passkey_section(ctx: ServerContext, caller: PersonCaller) -> PasskeySection:
    """What the account page shows about the passkeys of a person."""
    found = await ctx.directory.passkeys(caller.workspace, caller.person.id)
    usable = [] if ctx.passkeys is None else await ctx.passkeys.usable(caller.person)
    now = datetime.now(UTC)
    return PasskeySection(
        is_possible=ctx.passkeys is not None,
        passkeys=[_view(each, now, is_usable=each in usable) for each in found],
        may_add=bool(usable) or _is_fresh(caller),
    )


@pages.post("/me/passkeys/new")
async def begin_passkey(ctx: Context, caller: CurrentPerson) -> Response:
    """Say what a browser needs to make a passkey."""
    passkeys = await _check_may_add(ctx, caller)
    return JSONResponse(await passkeys.ask_new(caller.person))


@pages.post("/me/passkeys")
async def add_passkey(
    ctx: Context,
    caller: CurrentPerson,
    *,
    name: Name = "",
    created: Signature = "",
    confirmed: Signature = "",
) -> Response:
    """Keep the passkey that a browser made."""
    passkeys = await _check_may_add(ctx, caller)
    nonce, credential = read_signature(created)
    name = name.strip()
    try:
        added = await passkeys.add(
            caller.person,
            name=name if name and not text_problem(name) else gettext("Passkey"),
            nonce=nonce,
            created=credential,
            confirmed=read_signature(confirmed)[1],
            vouched_by=caller.session.vouched_by,
        )
    except PasskeyRefused as refused:
        return _refused(refused)
    return _refused(PasskeyRefused("it is registered already")) if added is None else _back()


@pages.post("/me/passkeys/{passkey_id}/signature")
async def begin_removal(ctx: Context, caller: CurrentPerson, passkey_id: PasskeyId) -> Response:
    """Say what a browser needs to confirm the removal of a passkey."""
    return JSONResponse(await _available(ctx, caller).ask_removal(caller.person, passkey_id))


@pages.post("/me/passkeys/{passkey_id}/remove")
async def remove_passkey(
    ctx: Context, caller: CurrentPerson, passkey_id: PasskeyId, *, confirmed: Signature = ""
) -> Response:
    """Remove one of your passkeys. You confirm it with one of them, so that nobody else can with your session."""
    nonce, credential = read_signature(confirmed)
    try:
        await _available(ctx, caller).remove(caller.person, passkey_id, nonce=nonce, confirmed=credential)
    except PasskeyRefused as refused:
        return _refused(refused)
    return _back()


def _available(ctx: ServerContext, caller: PersonCaller) -> PasskeyUse:
    if ctx.passkeys is None:
        raise PermissionDenied(caller.person.id, "this server cannot use passkeys")
    return ctx.passkeys


async def _check_may_add(ctx: ServerContext, caller: PersonCaller) -> PasskeyUse:
    """Refuse to add a first passkey in an old session, which somebody may have stolen."""
    passkeys = _available(ctx, caller)
    if not _is_fresh(caller) and not await passkeys.usable(caller.person):
        raise PermissionDenied(caller.person.id, "sign in again to add your first passkey")
    return passkeys


def _is_fresh(caller: PersonCaller) -> bool:
    return datetime.now(UTC) - caller.session.created_at < FRESH


def _view(passkey: Passkey, now: datetime, *, is_usable: bool) -> PasskeyView:
    maker = link_maker(passkey.vouched_by)
    return PasskeyView(
        id=quote(passkey.id, safe=""),
        name=visible_line(passkey.name),
        added=since(passkey.created_at, now),
        used=None if passkey.last_used_at is None else since(passkey.last_used_at, now),
        maker=None if maker is None or maker.startswith(OPERATOR) else visible_line(maker),
        is_usable=is_usable,
    )


def _refused(refused: PasskeyRefused) -> Response:
    return message(
        gettext("The passkey was not accepted"),
        error_text(str(refused)),
        status=403,
        lead=(_BACK, gettext("Back to your passkeys")),
    )


def _back() -> Response:
    return RedirectResponse(_BACK, 303)
