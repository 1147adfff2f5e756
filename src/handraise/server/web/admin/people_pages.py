"""People of a workspace: add, invite, change and remove them; their sessions and passkeys."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import quote

import pydantic
from fastapi import APIRouter, Form, Query
from starlette.responses import Response

from handraise.desk.departures import MOST_QUESTIONS, Departure, departure_of
from handraise.model.errors import InvalidRequest, NotFound, PermissionDenied, PreconditionFailed
from handraise.model.identities import Person, Role
from handraise.model.json_values import text_problem
from handraise.model.people import link_maker
from handraise.model.visible import visible_line
from handraise.presentation.error_text import error_text
from handraise.presentation.names import listed, person_name, recipient_name
from handraise.presentation.translation import gettext, gettext_noop, ngettext
from handraise.server.api.admin_routes import (
    PersonId,
    disable_person,
    enable_person,
    find_person,
    make_link,
    person_text,
    put_person,
    remove_person,
)
from handraise.server.api.etags import etag_of
from handraise.server.auth.authenticator import Context, CurrentAdmin, PersonCaller
from handraise.server.context import ServerContext
from handraise.server.web.admin.admin_views import (
    admin_page,
    confirm_page,
    field_problems,
    invalid_fields,
    to,
)
from handraise.server.web.inbox.name_links import person_href
from handraise.server.web.inbox.page_texts import since, when
from handraise.server.web.inbox.passkey_pages import PasskeyId
from handraise.server.web.pages import PageRoute
from handraise.server.web.sign_in import SessionId, end_one, sessions_of
from handraise.wire.requests import PutPerson

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

PATH = "/admin/people"
PER_PAGE = 100
_MEANT = {
    "name": gettext_noop("Write a name of up to 200 characters."),
    "email": gettext_noop("That is not an e-mail address. It looks like ann@example.com."),
}
SIGN_IN_METHODS = {
    "invitation": gettext_noop("an invitation"),
    "sign-in": gettext_noop("a sign-in link"),
    "oidc": gettext_noop("your organisation"),
    "setup": gettext_noop("setting up this server"),
}

After = Annotated[str | None, Query(max_length=200)]
Done = Annotated[str, Query(max_length=20)]
Text = Annotated[str, Form(max_length=400)]
Sure = Annotated[bool, Form()]
Version = Annotated[str, Form(max_length=100)]
"""The ETag of what a form was opened with."""
CHANGED_SINCE = gettext_noop(
    "Somebody has changed this since you opened this page. Nothing was changed. Look at it again, and save it again if you "
    "still mean it."
)


@pages.get(PATH)
async def show_people(ctx: Context, admin: CurrentAdmin, after: After = None, done: Done = "") -> Response:
    """Show everybody, with the form to add somebody."""
    return await _people_page(ctx, admin, after=after, done=done)


@pages.post(PATH)
async def add_person_here(
    ctx: Context,
    admin: CurrentAdmin,
    *,
    person: Text = "",
    name: Text = "",
    email: Text = "",
    role: Annotated[str, Form(max_length=20)] = Role.MEMBER.value,
) -> Response:
    """Add somebody. A name that somebody has already is refused: this form changes nobody."""
    person, name, email = person.strip(), name.strip(), email.strip()
    typed = {"person": person, "name": name, "email": email, "role": role}
    problems: dict[str, str] = {}
    if not person:
        problems["person"] = gettext("Write the name under which agents ask them, such as ann.")
    elif not text_problem(person) and await ctx.directory.find_person(admin.workspace, person) is not None:
        problems["person"] = gettext(
            "There is somebody with this name already. Choose another one, or open them below."
        )
    problems = problems or await _put(ctx, admin, person, typed | {"name": name or person})
    if problems:
        if "person_id" in problems:
            problems["person"] = problems.pop("person_id")
        return await _people_page(ctx, admin, problems=problems, typed=typed, status=422)
    return to(href_of(person), "added")


@pages.get(PATH + "/{person_id}")
async def show_person(ctx: Context, admin: CurrentAdmin, person_id: PersonId, done: Done = "") -> Response:
    """Show one person, with everything that can be changed about them."""
    return await _person_page(ctx, admin, await find_person(ctx, admin, person_id), done=done)


@pages.post(PATH + "/{person_id}")
async def change_person_here(
    ctx: Context,
    admin: CurrentAdmin,
    person_id: PersonId,
    *,
    name: Text = "",
    email: Text = "",
    role: Annotated[str, Form(max_length=20)] = Role.MEMBER.value,
    version: Version = "",
) -> Response:
    """Change the name, the e-mail address or the role of a person, if nobody has since the page was opened."""
    found = await find_person(ctx, admin, person_id)
    name, email = name.strip(), email.strip()
    typed = {"name": name, "email": email, "role": role}
    if problems := await _put(ctx, admin, person_id, typed, version or None):
        status = 409 if "" in problems else 422
        return await _person_page(ctx, admin, found, problems=problems, typed=typed, status=status)
    return to(href_of(person_id), "saved")


@pages.post(PATH + "/{person_id}/link")
async def invite_here(ctx: Context, admin: CurrentAdmin, person_id: PersonId) -> Response:
    """Make a sign-in link for a person and show it, once."""
    link = await make_link(ctx, admin, person_id)
    name = visible_line(person_id)
    return admin_page(
        "secret",
        admin,
        "people",
        title=gettext("A sign-in link for {name}").format(name=name),
        heading=gettext("Send it to them and to nobody else"),
        text=gettext("With this link {name} signs in. It works once. It is shown only now.").format(
            name=name
        ),
        secret=link.url,
        notes=[
            gettext("It ends {when}.").format(when=when(link.expires_at, datetime.now(UTC)).full),
            gettext(
                "The session that begins with it records that you made the link. It is too little evidence to "
                "approve an action of high risk."
            ),
        ],
        back=href_of(person_id),
    )


@pages.post(PATH + "/{person_id}/sessions/end")
async def end_all_here(ctx: Context, admin: CurrentAdmin, person_id: PersonId) -> Response:
    """End all sessions of a person, except the one that makes this request."""
    await find_person(ctx, admin, person_id)
    while found := [
        each.id for each in await sessions_of(ctx, admin.workspace, person_id) if each.id != admin.session.id
    ]:
        for each in found:
            await ctx.directory.end_session(admin.workspace, each, by=admin.person.id)
    return to(href_of(person_id), "ended", "sessions")


@pages.post(PATH + "/{person_id}/sessions/{session_id}/end")
async def end_session_here(
    ctx: Context, admin: CurrentAdmin, person_id: PersonId, session_id: SessionId
) -> Response:
    """End one session of a person."""
    await find_person(ctx, admin, person_id)
    if session_id not in {each.id for each in await sessions_of(ctx, admin.workspace, person_id)}:
        raise NotFound("There is no such session here.")
    await end_one(ctx, admin, session_id)
    return to(href_of(person_id), "ended", "sessions")


@pages.post(PATH + "/{person_id}/passkeys/{passkey_id}/remove")
async def remove_passkey_here(
    ctx: Context, admin: CurrentAdmin, person_id: PersonId, passkey_id: PasskeyId, *, sure: Sure = False
) -> Response:
    """Ask whether it is meant, then remove a passkey, such as one that its owner has lost."""
    found = await find_person(ctx, admin, person_id)
    if not sure:
        return confirm_page(
            admin,
            "people",
            title=gettext("Remove this passkey?"),
            text=gettext(
                "{name} cannot sign with it any more. What it signed before stays valid. They can add another one."
            ).format(name=visible_line(found.name)),
            action=f"{href_of(person_id)}/passkeys/{quote(passkey_id, safe='')}/remove",
            button=gettext("Remove"),
            back=href_of(person_id),
        )
    if text_problem(passkey_id) or not await ctx.directory.remove_passkey(
        admin.workspace, passkey_id, person=person_id, by=admin.person.id
    ):
        raise NotFound("There is no such passkey here.")
    return to(href_of(person_id), "removed", "passkeys")


@pages.post(PATH + "/{person_id}/disable")
async def disable_person_here(
    ctx: Context, admin: CurrentAdmin, person_id: PersonId, *, sure: Sure = False
) -> Response:
    """Ask whether it is meant, then disable a person."""
    found = await find_person(ctx, admin, person_id)
    if not sure:
        return confirm_page(
            admin,
            "people",
            title=gettext("Disable {name}?").format(name=visible_line(found.name)),
            text=gettext(
                "They are signed out at once. Their links and grants end, and their votes on open questions do not count. "
                "They cannot sign in or answer until you enable them again. Grants stay revoked."
            ),
            action=f"{href_of(person_id)}/disable",
            button=gettext("Disable"),
            back=href_of(person_id),
            left=_left(await departure_of(ctx, found)),
        )
    try:
        await disable_person(ctx, admin, person_id)
    except PermissionDenied as refusal:
        return await _person_page(ctx, admin, found, problems={"": error_text(str(refusal))}, status=403)
    return to(PATH if person_id == admin.person.id else href_of(person_id), "saved")


@pages.post(PATH + "/{person_id}/enable")
async def enable_person_here(ctx: Context, admin: CurrentAdmin, person_id: PersonId) -> Response:
    """Enable a person who was disabled."""
    await enable_person(ctx, admin, person_id)
    return to(href_of(person_id), "saved")


@pages.post(PATH + "/{person_id}/remove")
async def remove_person_here(
    ctx: Context, admin: CurrentAdmin, person_id: PersonId, *, sure: Sure = False
) -> Response:
    """Ask whether it is meant, then remove a person."""
    found = await find_person(ctx, admin, person_id)
    if not sure:
        return confirm_page(
            admin,
            "people",
            title=gettext("Remove {name}?").format(name=visible_line(found.name)),
            text=gettext(
                "They are signed out at once, and leave their groups and addresses. Their answers stay, and so do "
                "questions that name them."
            ),
            action=f"{href_of(person_id)}/remove",
            button=gettext("Remove"),
            back=href_of(person_id),
            left=_left(await departure_of(ctx, found)),
        )
    try:
        await remove_person(ctx, admin, person_id)
    except PermissionDenied as refusal:
        return await _person_page(ctx, admin, found, problems={"": error_text(str(refusal))}, status=403)
    return to(PATH, "removed")


def _left(found: Departure) -> list[str]:
    """What needs somebody else without a person, in sentences."""
    sentences = []
    if number := len(found.questions):
        questions = ngettext(
            "{count} question that nobody else can answer",
            "{count} questions that nobody else can answer",
            number,
        )
        count = gettext("{count} or more").format(count=number) if number >= MOST_QUESTIONS else number
        sentences.append(questions.format(count=count))
    sentences += [
        gettext("the rule {name}, which nobody could fulfil any more").format(name=visible_line(each.rule))
        for each in found.rules
    ]
    if found.deputy_of:
        people = listed([recipient_name(each) for each in found.deputy_of])
        sentences.append(gettext("answering while these are away: {names}").format(names=people))
    return sentences


def href_of(person_id: str) -> str:
    """The path of a person's page."""
    return f"{PATH}/{quote(person_id, safe='')}"


async def _put(
    ctx: ServerContext,
    admin: PersonCaller,
    person_id: str,
    typed: dict[str, str],
    version: str | None = None,
) -> dict[str, str]:
    """Store a person as the API does; return what is wrong, by field."""
    try:
        body = PutPerson(name=typed["name"], email=typed["email"] or None, role=Role(typed["role"]))
        await put_person(ctx=ctx, admin=admin, person_id=person_id, body=body, if_match=version)
    except pydantic.ValidationError as error:
        return invalid_fields(error, _MEANT)
    except InvalidRequest as error:
        return field_problems(error)
    except PreconditionFailed:
        return {"": gettext(CHANGED_SINCE)}
    except PermissionDenied as refusal:
        return {"role": error_text(str(refusal))}
    except ValueError:
        return {"role": gettext("Choose one of the two roles.")}
    return {}


async def _people_page(
    ctx: ServerContext, admin: PersonCaller, *, after: str | None = None, status: int = 200, **values: Any
) -> Response:
    known = None if after is None or text_problem(after) else after
    found = await ctx.directory.people(admin.workspace, after=known, limit=PER_PAGE + 1)
    now, shown = datetime.now(UTC), found[:PER_PAGE]
    return admin_page(
        "people",
        admin,
        "people",
        status=status,
        people=[_row(each, admin, now) for each in shown],
        next=f"{PATH}?after={quote(shown[-1].id, safe='')}" if len(found) > PER_PAGE else None,
        is_first=known is None,
        **values,
    )


def _row(person: Person, admin: PersonCaller, now: datetime) -> dict[str, Any]:
    away = person.away
    return {
        "href": href_of(person.id),
        "history": person_href(person.id),
        "id": visible_line(person.id),
        "name": visible_line(person.name),
        "email": visible_line(person.email or ""),
        "is_admin": person.role is Role.ADMIN,
        "disabled": None if person.disabled_at is None else since(person.disabled_at, now),
        "is_me": person.id == admin.person.id,
        "groups": sorted(map(visible_line, person.groups)),
        "signed_in": None if person.signed_in_at is None else since(person.signed_in_at, now),
        "is_away": away is not None and away.starts <= now < away.until,
    }


async def _person_page(
    ctx: ServerContext,
    admin: PersonCaller,
    found: Person,
    *,
    typed: dict[str, Any] | None = None,
    **values: Any,
) -> Response:
    now, where = datetime.now(UTC), admin.workspace
    base = href_of(found.id)
    return admin_page(
        "person",
        admin,
        "people",
        found=_row(found, admin, now),
        version=etag_of(person_text(found)),
        typed=typed or {"name": found.name, "email": found.email or "", "role": found.role.value},
        sessions=[
            {
                "action": f"{base}/sessions/{quote(each.id, safe='')}/end",
                "way": gettext(SIGN_IN_METHODS.get(each.how, "")) or visible_line(each.how),
                "maker": person_name(maker) if (maker := link_maker(each.vouched_by)) else None,
                "began": since(each.created_at, now),
                "ends": when(each.expires_at, now),
                "is_this": each.id == admin.session.id,
            }
            for each in await sessions_of(ctx, where, found.id)
        ],
        passkeys=[
            {
                "action": f"{base}/passkeys/{quote(each.id, safe='')}/remove",
                "name": visible_line(each.name),
                "domain": visible_line(each.domain),
                "added": since(each.created_at, now),
                "used": None if each.last_used_at is None else since(each.last_used_at, now),
                "maker": person_name(maker) if (maker := link_maker(each.vouched_by)) else None,
            }
            for each in await ctx.directory.passkeys(where, found.id)
        ],
        addresses=[
            (visible_line(each.channel), visible_line(each.id))
            for each in await ctx.outbox.addresses(where, [found.id])
        ],
        add_address=f"/admin/addresses?recipient={quote(found.id, safe='')}",
        **values,
    )
