"""Keys of agents and readers: create one, shown once; revoke one; when each was last used."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import quote

import pydantic
from fastapi import APIRouter, Form
from starlette.responses import Response

from handraise.model.errors import InvalidRequest
from handraise.model.identities import AgentKey
from handraise.model.json_values import text_problem
from handraise.model.people import ADMIN_PROGRAM, READER, SCIM, key_prefix
from handraise.model.visible import visible_line
from handraise.presentation.names import person_name
from handraise.presentation.translation import gettext, gettext_noop
from handraise.server.api.admin_routes import KeyId, make_key, revoke_key
from handraise.server.auth.authenticator import Context, CurrentAdmin, PersonCaller
from handraise.server.context import ServerContext
from handraise.server.web.admin.admin_views import (
    admin_page,
    confirm_page,
    field_problems,
    invalid_fields,
    to,
)
from handraise.server.web.admin.people_pages import PER_PAGE, After, Done, Sure
from handraise.server.web.inbox.page_texts import since
from handraise.server.web.pages import PageRoute
from handraise.wire.requests import CreateKey

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

PATH = "/admin/keys"
_MEANT = {"agent": gettext_noop("Write the agent's name: up to 200 characters that can be read.")}


@pages.get(PATH)
async def show_keys(ctx: Context, admin: CurrentAdmin, after: After = None, done: Done = "") -> Response:
    """Show all keys, with the form to create one."""
    return await _page(ctx, admin, after=after, done=done)


@pages.post(PATH)
async def create_key_here(
    ctx: Context,
    admin: CurrentAdmin,
    *,
    agent: Annotated[str, Form(max_length=400)] = "",
    kind: Annotated[str, Form(max_length=20)] = "agent",
) -> Response:
    """Create a key and show it, once."""
    agent = agent.strip()
    typed = {"agent": agent, "kind": kind}
    if not agent.isprintable() or text_problem(agent):
        problems = {"agent": gettext(_MEANT["agent"])}
        return await _page(ctx, admin, problems=problems, typed=typed, status=422)
    try:
        body = CreateKey(
            agent=agent, reads=kind == "reader", scim=kind == "scim", administers=kind == "admin"
        )
        made = await make_key(ctx, admin, body)
    except pydantic.ValidationError as error:
        return await _page(ctx, admin, problems=invalid_fields(error, _MEANT), typed=typed, status=422)
    except InvalidRequest as error:
        return await _page(ctx, admin, problems=field_problems(error), typed=typed, status=422)
    name = visible_line(agent)
    return admin_page(
        "secret",
        admin,
        "keys",
        title=gettext("A key for {name}").format(name=name),
        heading=gettext("Copy it now"),
        text=gettext("It is shown only once. If you lose it, revoke it and create another one."),
        secret=made.key,
        notes=[_note(ctx, kind)],
        back=PATH,
    )


@pages.post(PATH + "/{key_id}/revoke")
async def revoke_key_here(
    ctx: Context, admin: CurrentAdmin, key_id: KeyId, *, sure: Sure = False
) -> Response:
    """Ask whether it is meant, then revoke a key."""
    if not sure:
        return confirm_page(
            admin,
            "keys",
            title=gettext("Revoke this key?"),
            text=gettext(
                "Requests with it are refused from now on. Questions that were asked with it stay as they are. A key "
                "that is revoked cannot be used again."
            ),
            action=f"{PATH}/{quote(key_id, safe='')}/revoke",
            button=gettext("Revoke"),
            back=PATH,
        )
    await revoke_key(ctx, admin, key_id)
    return to(PATH, "revoked")


def _note(ctx: ServerContext, kind: str) -> str:
    """Where the new key goes."""
    if kind == "scim":
        return gettext(
            "Give it to your identity provider as the secret token, with the address {address}"
        ).format(address=f"{ctx.settings.base_url}/scim/v2")
    return gettext("Give it to the program as HANDRAISE_KEY, and set HANDRAISE_URL={address}").format(
        address=ctx.settings.base_url
    )


async def _page(
    ctx: ServerContext, admin: PersonCaller, *, after: str | None = None, **values: Any
) -> Response:
    known = None if after is None or text_problem(after) else after
    found = await ctx.directory.keys(admin.workspace, after=known, limit=PER_PAGE + 1)
    now, shown = datetime.now(UTC), found[:PER_PAGE]
    return admin_page(
        "keys",
        admin,
        "keys",
        keys=[_row(each, now) for each in shown],
        next=f"{PATH}?after={quote(shown[-1].id, safe='')}" if len(found) > PER_PAGE else None,
        is_first=known is None,
        **values,
    )


def _row(key: AgentKey, now: datetime) -> dict[str, Any]:
    return {
        "action": f"{PATH}/{quote(key.id, safe='')}/revoke",
        "agent": visible_line(key.agent.removeprefix(key_prefix(key.agent))),
        "reads": key.agent.startswith(READER),
        "scim": key.agent.startswith(SCIM),
        "administers": key.agent.startswith(ADMIN_PROGRAM),
        "id": visible_line(key.id),
        "by": person_name(key.created_by),
        "created": since(key.created_at, now),
        "used": None if key.last_used_at is None else since(key.last_used_at, now),
        "revoked": None if key.revoked_at is None else since(key.revoked_at, now),
    }
