"""The first administrator, set up in the browser with the secret that `handraise serve` prints."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import parse_qs, urlsplit

import pydantic
from fastapi import APIRouter, Form, Query, Request
from starlette.responses import Response

from handraise.model.errors import PermissionDenied
from handraise.model.identities import Link, Role
from handraise.model.json_values import text_problem
from handraise.model.people import Responder, responder_of
from handraise.presentation.error_text import error_text
from handraise.presentation.translation import gettext
from handraise.server.auth.authenticator import Context, check_same_origin, count_refusal
from handraise.server.auth.first_sign_in import awaits_setup
from handraise.server.auth.issuer import issue_session
from handraise.server.context import ServerContext
from handraise.server.mail_addresses import sync_email_address
from handraise.server.web.pages import PageRoute, message, secret_page
from handraise.server.web.sign_in import start_session
from handraise.wire.credentials import Token, TokenKind, read_token
from handraise.wire.requests import PutPerson

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

PATH = "/setup"

Text = Annotated[str, Form(max_length=2_000)]


@pages.get(PATH)
async def show_setup(ctx: Context, token: Annotated[str, Query(max_length=2_000)] = "") -> Response:
    """Show the form for the first administrator. It changes nothing, and without the secret it does nothing."""
    if not await awaits_setup(ctx):
        return _is_set_up()
    return _page({"token": token, "person": ctx.settings.admin}, {})


@pages.post(PATH)
async def set_up_here(
    request: Request,
    ctx: Context,
    *,
    token: Text = "",
    person: Text = "",
    name: Text = "",
    email: Text = "",
) -> Response:
    """Use the secret up, make its owner the first administrator, and sign them in."""
    check_same_origin(request)
    if not await awaits_setup(ctx):
        return _is_set_up()
    typed = {"token": token.strip(), "person": person.strip(), "name": name.strip(), "email": email.strip()}
    known, problems = _token(ctx, typed["token"]), {}
    link = None if known is None else await ctx.directory.find_link(known.workspace, known.digest)
    if known is None or link is None or link.person != ctx.settings.admin:
        count_refusal(request, "sign_in_link")
        problems["token"] = gettext(
            "That is not the link of the first administrator, or it was used or has expired. `handraise serve` prints it "
            "when it starts, or says how to make a new one."
        )
    body, wrong = _person(typed)
    problems |= wrong
    if problems or body is None or known is None:
        return _page(typed, problems)
    used = await ctx.directory.use_link(known.workspace, known.digest)
    if used is None:  # somebody else was quicker
        return _is_set_up()
    return await _begin(request, ctx, used, typed["person"], body)


async def _begin(request: Request, ctx: ServerContext, link: Link, person: str, body: PutPerson) -> Response:
    """Make the person who used the link the first administrator, under the name that they chose."""
    where, placeholder = link.workspace, link.person
    before = await ctx.directory.find_person(where, person)
    made = await ctx.directory.put_person(
        where, person, name=body.name, email=body.email, role=Role.ADMIN, by=person
    )
    if made is None:  # the e-mail address belongs to somebody else
        made = await ctx.directory.put_person(
            where, person, name=body.name, email=None, role=Role.ADMIN, by=person
        )
    await sync_email_address(ctx, before, made, by=person)
    if person != placeholder:
        await ctx.directory.remove_person(where, placeholder, by=person)
    session = await issue_session(ctx, where, person=person, how="setup", vouched_by=link.vouched_by)
    if session is None:
        return _is_set_up()
    ctx.is_set_up = True
    return await start_session(request, ctx, session, to="/admin")


def _token(ctx: ServerContext, text: str) -> Token | None:
    """The token of a link for this workspace, pasted by itself or as the whole link."""
    found = parse_qs(urlsplit(text).query).get("token", [text])[0] if "token=" in text else text
    token = read_token(found)
    if token is None or token.kind is not TokenKind.LINK or token.workspace != ctx.settings.workspace:
        return None
    return token


def _person(typed: dict[str, str]) -> tuple[PutPerson | None, dict[str, str]]:
    problems: dict[str, str] = {}
    person = typed["person"]
    if not person or text_problem(person) or "/" in person:
        problems["person"] = gettext("Write the name under which agents ask you, such as ann.")
    else:
        try:
            responder_of(Responder(person))
        except PermissionDenied as refusal:
            problems["person"] = error_text(refusal.reason)
    try:
        body = PutPerson(name=typed["name"] or person or "-", email=typed["email"] or None, role=Role.ADMIN)
    except pydantic.ValidationError:
        problems["email"] = gettext("That is not an e-mail address. It looks like ann@example.com.")
        return None, problems
    return body, problems


def _page(typed: dict[str, str], problems: dict[str, str]) -> Response:
    response = secret_page("admin/setup.html", typed={"name": "", "email": "", **typed}, problems=problems)
    response.status_code = 422 if problems else 200
    return response


def _is_set_up() -> Response:
    return message(
        gettext("This server is set up"),
        gettext("Its first administrator has signed in. Ask an administrator for a link."),
        status=410,
    )
