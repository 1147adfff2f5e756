"""People sign in with an OIDC provider.

The provider sends the browser back with a GET, which changes nothing here. The page shows a button,
and its POST signs the person in.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request
from starlette.responses import RedirectResponse, Response

from handraise.model.identities import Person, Role
from handraise.model.people import ADDRESS_BY, OPERATOR, key_prefix
from handraise.presentation.error_text import error_text
from handraise.presentation.translation import gettext
from handraise.server.auth.authenticator import Context, check_same_origin, cookie_name, count_refusal
from handraise.server.auth.issuer import issue_session
from handraise.server.auth.login_redirect import HOME, own_page, return_path
from handraise.server.auth.oidc import (
    ATTEMPT_LASTS,
    BEGIN,
    CALLBACK,
    Identity,
    Provider,
    ProviderUnavailable,
    SignInRefused,
    SignInTooOld,
)
from handraise.server.context import ServerContext
from handraise.server.mail_addresses import sync_email_address
from handraise.server.web.pages import PageRoute, message, secret_page
from handraise.server.web.sign_in import provider_name, start_session
from handraise.wire.records import SessionRecord

_KEYS_AT_A_TIME = 500

pages = APIRouter(route_class=PageRoute, include_in_schema=False)


async def _provider_of(request: Request) -> Provider:
    provider: Provider = request.app.state.oidc
    return provider


ProviderDep = Annotated[Provider, Depends(_provider_of)]


@pages.get(BEGIN)
async def go_to_provider(
    request: Request, ctx: Context, provider: ProviderDep, *, again: bool = False
) -> Response:
    """Send the browser to the provider; with `again`, to sign in there also if it knows the person."""
    try:
        url, attempt = await provider.begin(return_path(request), again=again)
    except ProviderUnavailable:
        return _unavailable(ctx)
    response = RedirectResponse(url, 303)
    response.set_cookie(
        _cookie(ctx),
        attempt,
        max_age=ATTEMPT_LASTS,
        path="/",
        secure=ctx.settings.is_https,
        httponly=True,
        samesite="lax",
    )
    return response


@pages.get(CALLBACK)
async def show_callback(
    request: Request, ctx: Context, provider: ProviderDep, code: str = "", state: str = ""
) -> Response:
    """Where the provider sends the browser back to. It changes nothing: the button does."""
    if not code:
        return _not_signed_in(gettext("The provider did not sign you in."))
    try:
        provider.attempt(request.cookies.get(_cookie(ctx), ""), state)
    except SignInRefused as refusal:
        return _not_signed_in(error_text(str(refusal)))
    return secret_page("continue.html", provider=provider_name(ctx), code=code, state=state)


@pages.post(CALLBACK)
async def finish(
    request: Request,
    ctx: Context,
    provider: ProviderDep,
    code: Annotated[str, Form()] = "",
    state: Annotated[str, Form()] = "",
) -> Response:
    """Exchange the provider's code and let in the person whom it vouches for."""
    check_same_origin(request)
    try:
        attempt = provider.attempt(request.cookies.get(_cookie(ctx), ""), state)
        identity = await provider.identify(attempt, code)
        session = await _session_of(ctx, identity)
        response = await start_session(request, ctx, session, to=own_page(attempt.place) or HOME)
    except SignInTooOld:
        response = RedirectResponse(f"{BEGIN}?again=true", 303)
    except SignInRefused as refusal:
        count_refusal(request, "oidc")
        response = _not_signed_in(error_text(str(refusal)))
    except ProviderUnavailable:
        response = _unavailable(ctx)
    response.delete_cookie(
        _cookie(ctx), path="/", secure=ctx.settings.is_https, httponly=True, samesite="lax"
    )
    return response


async def _session_of(ctx: ServerContext, identity: Identity) -> SessionRecord:
    person = await _person_of(ctx, identity)
    if person and not await ctx.directory.bind_identity(person.workspace, person.id, identity.id):
        raise SignInRefused(
            gettext(
                "{email} belongs to another account of the provider here. If it is yours, ask an administrator to "
                "remove you and to add you again."
            ).format(email=identity.email)
        )
    if person is None:
        text = gettext("Nobody here goes by {email}. Ask an administrator to invite you.")
        raise SignInRefused(text.format(email=identity.email))
    if person.disabled_at is None:
        await ctx.directory.set_provided_rights(
            person.workspace, person.id, groups=identity.groups, is_admin=identity.is_admin, by=person.id
        )
    session = await issue_session(
        ctx,
        person.workspace,
        person=person.id,
        how="oidc",
        vouched_by=await _who_chose_address(ctx, person),
        provider_session=identity.provider_session,
        at_most=identity.lasts,
    )
    if session is None:
        raise SignInRefused(gettext("An administrator has disabled you here. Ask them if that is a mistake."))
    return session


async def _person_of(ctx: ServerContext, identity: Identity) -> Person | None:
    """The person who came with this identity before, else the one with this address, else a new one if they may join."""
    directory, workspace = ctx.directory, ctx.settings.oidc_workspace
    person = await directory.find_person_by_identity(workspace, identity.id)
    person = person or await directory.find_person_by_email(workspace, identity.email)
    if person is not None:
        return person
    name = identity.email.lower()
    if not (identity.is_admin or ctx.settings.may_join(workspace, name)):
        return None
    if await directory.find_person(workspace, name):
        return None  # somebody with another address has that name, and must not be overwritten
    person = await directory.put_person(
        workspace, name, name=identity.name, email=identity.email, role=Role.MEMBER, by=name
    )
    await sync_email_address(ctx, None, person, by=name)
    return person


async def _who_chose_address(ctx: ServerContext, person: Person) -> str | None:
    """Who vouches for the account because they chose the address by which it was found; None if they would not be a second person.

    What a program chooses was chosen by whoever made its key.
    """
    chosen_by = person.email_by
    if chosen_by is not None and key_prefix(chosen_by):
        chosen_by = await _who_made_key(ctx, person.workspace, chosen_by)
    if chosen_by is None or chosen_by == person.id or chosen_by.startswith(OPERATOR):
        return None
    return ADDRESS_BY + chosen_by


async def _who_made_key(ctx: ServerContext, workspace: str, program: str) -> str:
    """Who made the keys of a program: one who is not the operator if there is one."""
    makers: set[str] = set()
    after = None
    while page := await ctx.directory.keys(workspace, after=after, limit=_KEYS_AT_A_TIME):
        makers.update(key.created_by for key in page if key.agent == program)
        after = page[-1].id
    return min(makers, key=lambda maker: (maker.startswith(OPERATOR), maker), default=program)


def _cookie(ctx: ServerContext) -> str:
    return f"{cookie_name(ctx)}-oidc"


def _not_signed_in(text: str) -> Response:
    return message(gettext("You are not signed in"), text, status=403)


def _unavailable(ctx: ServerContext) -> Response:
    text = gettext("{provider} cannot be reached. Please try again in a minute.")
    return message(gettext("Not just now"), text.format(provider=provider_name(ctx)), status=503)
