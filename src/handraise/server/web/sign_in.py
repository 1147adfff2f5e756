"""Sign-in by a link, and sign-out. A GET changes nothing: links are used by POST."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Form, Path, Query, Request
from starlette.responses import RedirectResponse, Response

from handraise.model.errors import NotFound, PermissionDenied, Unauthenticated
from handraise.model.identities import Session
from handraise.model.json_values import text_problem
from handraise.presentation.times import moment_text
from handraise.presentation.translation import gettext, gettext_noop
from handraise.server.api.responses import reply
from handraise.server.auth.authenticator import (
    Context,
    CurrentPerson,
    PersonCaller,
    check_same_origin,
    cookie_name,
    count_refusal,
)
from handraise.server.auth.first_sign_in import awaits_setup
from handraise.server.auth.issuer import issue_session
from handraise.server.auth.login_redirect import HOME, forget_return_path, return_path
from handraise.server.context import ServerContext
from handraise.server.web.pages import PageRoute, message, page, secret_page
from handraise.wire.credentials import Token, TokenKind, read_token
from handraise.wire.records import OpenSessionRecord, SessionList, SessionRecord
from handraise.wire.requests import OpenSession

# Not an IdempotentRoute: that stores responses, and a secret must not be stored.
router = APIRouter(prefix="/v1", tags=["sessions"])
pages = APIRouter(route_class=PageRoute, include_in_schema=False)

MOST_SESSIONS = 200
"""How many sessions of one person are listed."""

_DAY = 86_400
SessionId = Annotated[str, Path(max_length=200, description="the session's id, which is not its token")]
_GONE = gettext_noop("It was used already, has expired, or is incomplete. Ask for a new one.")


@router.post("/sessions", status_code=201, response_model=SessionRecord)
async def open_session(request: Request, ctx: Context, body: OpenSession) -> Response:
    """Exchange a sign-in link's token for a session, for clients that are not browsers. It works once."""
    session = await _open_session(ctx, body.link)
    if session is None:
        count_refusal(request, "sign_in_link")
        raise Unauthenticated("This link does not work. " + _GONE)
    return reply(session, status=201)


@router.delete("/sessions/current", status_code=204)
async def end_session(ctx: Context, caller: CurrentPerson) -> Response:
    """Sign out: the caller's session ends now."""
    await ctx.directory.end_session(caller.workspace, caller.session.id, by=caller.person.id)
    return _without_cookie(ctx, Response(status_code=204))


@router.get("/sessions", response_model=SessionList)
async def list_sessions(
    ctx: Context,
    caller: CurrentPerson,
    *,
    person: Annotated[str | None, Query(max_length=200, description="whose, for administrators")] = None,
) -> Response:
    """List your sessions; for administrators, anybody's."""
    if person not in (None, caller.person.id) and not caller.is_admin:
        raise PermissionDenied(caller.person.id, "these are the sessions of somebody else")
    found = await sessions_of(ctx, caller.workspace, person or caller.person.id)
    return reply(SessionList(sessions=tuple(_open(each, caller) for each in found)))


@router.delete("/sessions/{session_id}", status_code=204)
async def end_other_session(ctx: Context, caller: CurrentPerson, session_id: SessionId) -> Response:
    """End a session now: your own, or anybody's for administrators."""
    await end_one(ctx, caller, session_id)
    return Response(status_code=204)


async def sessions_of(ctx: ServerContext, workspace: str, person: str) -> Sequence[Session]:
    """The newest sessions of a person."""
    return (
        await ctx.directory.sessions(workspace, person, limit=MOST_SESSIONS)
        if not text_problem(person)
        else ()
    )


async def end_one(ctx: ServerContext, caller: PersonCaller, session_id: str) -> None:
    """End a session that this caller may end; raises `NotFound`."""
    own = caller.is_admin or any(
        each.id == session_id for each in await sessions_of(ctx, caller.workspace, caller.person.id)
    )
    if text_problem(session_id) or not (
        own and await ctx.directory.end_session(caller.workspace, session_id, by=caller.person.id)
    ):
        raise NotFound("There is no such session here.")


@pages.get("/sign-in")
async def show_sign_in(request: Request, ctx: Context) -> Response:
    """How to sign in."""
    return page(
        "sign_in.html",
        provider=provider_name(ctx),
        leads_on=return_path(request) != HOME,
        is_new=await awaits_setup(ctx),
    )


@pages.get("/sign-in/link")
async def show_link(request: Request, ctx: Context, token: str = "") -> Response:
    """Show whom a link is for. This changes nothing, so mail scanners may open it."""
    known = _link_token(token)
    link = None if known is None else await ctx.directory.find_link(known.workspace, known.digest)
    person = None if link is None else await ctx.directory.find_person(link.workspace, link.person)
    if link is None or person is None:
        return _gone(request)
    return secret_page(
        "link.html",
        link=link,
        until=moment_text(link.expires_at),
        person=person,
        token=token,
    )


@pages.post("/sign-in/link")
async def use_link(request: Request, ctx: Context, token: Annotated[str, Form()] = "") -> Response:
    """Use a link and sign its person in."""
    check_same_origin(request)
    session = await _open_session(ctx, token)
    if session is None:
        return _gone(request)
    return await start_session(request, ctx, session, to=return_path(request))


@pages.post("/sign-out")
async def sign_out(request: Request, ctx: Context) -> Response:
    """End the browser's session, if it has one."""
    check_same_origin(request)
    await _end_session(request, ctx)
    response = _without_cookie(ctx, RedirectResponse("/sign-in", 303))
    forget_return_path(request, response)
    return response


async def start_session(request: Request, ctx: ServerContext, session: SessionRecord, *, to: str) -> Response:
    """Give the browser a new session, end the old one, and redirect to a page of this server."""
    await _end_session(request, ctx)
    response = RedirectResponse(to, 303)
    forget_return_path(request, response)
    response.set_cookie(
        cookie_name(ctx),
        session.token,
        max_age=int(ctx.settings.session_days * _DAY),
        path="/",
        secure=ctx.settings.is_https,
        httponly=True,
        samesite="lax",
    )
    return response


def _open(session: Session, caller: PersonCaller) -> OpenSessionRecord:
    return OpenSessionRecord(
        id=session.id,
        person=session.person,
        how=session.how,
        created_at=session.created_at,
        expires_at=session.expires_at,
        vouched_by=session.vouched_by,
        current=session.id == caller.session.id,
    )


def provider_name(ctx: ServerContext) -> str | None:
    """The name of the OIDC provider for people, if there is one."""
    issuer = ctx.settings.oidc_issuer
    return None if issuer is None else urlsplit(issuer).hostname


async def _open_session(ctx: ServerContext, text: str) -> SessionRecord | None:
    """Use up a link's token and open its session."""
    token = _link_token(text)
    link = None if token is None else await ctx.directory.use_link(token.workspace, token.digest)
    if link is None:
        return None
    return await issue_session(
        ctx, link.workspace, person=link.person, how=link.purpose, vouched_by=link.vouched_by
    )


async def _end_session(request: Request, ctx: ServerContext) -> None:
    token = read_token(request.cookies.get(cookie_name(ctx), ""))
    if token is not None and token.kind is TokenKind.SESSION:
        found = await ctx.directory.find_session(token.workspace, token.digest)
        if found is not None:
            await ctx.directory.end_session(token.workspace, found[0].id, by=found[0].person)


def _without_cookie(ctx: ServerContext, response: Response) -> Response:
    response.delete_cookie(
        cookie_name(ctx), path="/", secure=ctx.settings.is_https, httponly=True, samesite="lax"
    )
    return response


def _link_token(text: str) -> Token | None:
    token = read_token(text)
    return token if token is not None and token.kind is TokenKind.LINK else None


def _gone(request: Request) -> Response:
    """The same page for a link that was used, has expired, or does not exist: 410."""
    count_refusal(request, "sign_in_link")
    return message(gettext("This link does not work any more"), gettext(_GONE), status=410)
