"""Grants of the workspace, and the limits of this server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query
from starlette.responses import Response

from handraise.model.json_values import text_problem
from handraise.model.people import KEY_PREFIXES
from handraise.model.visible import visible_line
from handraise.model.workspace_quotas import ALL_AGENTS, WorkspaceQuotas
from handraise.presentation.names import display_name, person_name
from handraise.presentation.translation import gettext, grouped
from handraise.server.api.admin_routes import GrantId, revoke_grant
from handraise.server.api.question_routes import desk_of
from handraise.server.auth.authenticator import Context, CurrentAdmin
from handraise.server.context import ServerContext
from handraise.server.web.admin.admin_views import admin_page, to
from handraise.server.web.admin.people_pages import PER_PAGE, After, Done
from handraise.server.web.inbox.name_links import agent_href, tool_href
from handraise.server.web.inbox.page_texts import since, when
from handraise.server.web.pages import PageRoute

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

PATH = "/admin/grants"
_KILO = 1_000
_LIMITS = "/admin/limits"
_MOST_KEYS = 500
_AGENTS_PER_PAGE = 50
"""Each takes a count of its own."""


@pages.get(PATH)
async def show_grants(
    ctx: Context,
    admin: CurrentAdmin,
    after: After = None,
    *,
    ended: Annotated[bool, Query()] = False,
    done: Done = "",
) -> Response:
    """Show the grants that hold, or all of them."""
    known = None if after is None or text_problem(after) else after
    found = await desk_of(ctx, admin).list_grants(after=known, limit=PER_PAGE)
    now = datetime.now(UTC)
    more = "&ended=true" if ended else ""
    return admin_page(
        "grants",
        admin,
        "grants",
        done=done,
        grants=[
            {
                "action": f"{PATH}/{quote(each.id, safe='')}/revoke",
                "question": f"/questions/{quote(each.question_id, safe='')}",
                "asker": visible_line(each.asker),
                "asker_href": agent_href(each.asker),
                "tool": visible_line(each.tool),
                "tool_href": tool_href(each.tool),
                "conversation": None if each.conversation is None else visible_line(each.conversation),
                "by": person_name(each.granted_by),
                "ends": when(each.expires_at, now),
                "is_over": each.expires_at <= now,
                "revoked": None if each.revoked_at is None else since(each.revoked_at, now),
                "revoked_by": person_name(each.revoked_by) if each.revoked_by else None,
            }
            for each in found
            if ended or (each.revoked_at is None and each.expires_at > now)
        ],
        ended=ended,
        is_first=known is None,
        next=None if found.next is None else f"{PATH}?after={quote(found.next, safe='')}{more}",
    )


@pages.post(PATH + "/{grant_id}/revoke")
async def revoke_grant_here(ctx: Context, admin: CurrentAdmin, grant_id: GrantId) -> Response:
    """End a grant now: the agent must ask again."""
    await revoke_grant(ctx, admin, grant_id)
    return to(PATH, "revoked")


@pages.get(_LIMITS)
async def show_limits(ctx: Context, admin: CurrentAdmin, after: After = None) -> Response:
    """Show the quotas and sizes of this server, and the settings that change them."""
    settings = ctx.settings
    stats = await ctx.store.queue_stats(admin.workspace)
    quotas = await ctx.policies.quotas(admin.workspace)
    agents, are_all = await _agents(ctx, admin.workspace, quotas)
    rest = agents if after is None else [each for each in agents if each > after]
    shown = rest[:_AGENTS_PER_PAGE]
    forever, days = gettext("for ever"), gettext("{count} days")
    keep = settings.keep_settled_days
    return admin_page(
        "limits",
        admin,
        "limits",
        pending=max(stats.pending.values(), default=0),
        quotas=[
            {
                "agent": display_name(agent),
                "pending": await ctx.store.count_pending(admin.workspace, agent),
                **_quota(ctx, quotas, agent),
            }
            for agent in shown
        ],
        is_first=after is None,
        next=f"{_LIMITS}?after={quote(shown[-1], safe='')}" if len(rest) > len(shown) else None,
        most_keys=None if are_all else _MOST_KEYS,
        other=_quota(ctx, quotas, ALL_AGENTS),
        rows=[
            (
                gettext("Pending questions of an agent"),
                grouped(settings.pending_quota) if settings.pending_quota else gettext("no limit"),
                "HANDRAISE_PENDING_QUOTA",
            ),
            (gettext("Requests with one key or session"), settings.rate_limit, "HANDRAISE_RATE_LIMIT"),
            (gettext("Failed sign-ins from one address"), settings.sign_in_limit, "HANDRAISE_SIGN_IN_LIMIT"),
            (
                gettext("Size of a request"),
                gettext("{count} kB").format(count=grouped(settings.body_limit // _KILO)),
                "HANDRAISE_BODY_LIMIT",
            ),
            (
                gettext("A session lasts"),
                days.format(count=f"{settings.session_days:g}"),
                "HANDRAISE_SESSION_DAYS",
            ),
            (
                gettext("A sign-in link lasts"),
                gettext("{count} hours").format(count=f"{settings.link_hours:g}"),
                "HANDRAISE_LINK_HOURS",
            ),
            (
                gettext("Settled questions are kept"),
                forever if keep is None else days.format(count=f"{keep:g}"),
                "HANDRAISE_KEEP_SETTLED_DAYS",
            ),
            (
                gettext("Recipients that nobody has added"),
                gettext("refused") if settings.check_recipients else gettext("accepted"),
                "HANDRAISE_CHECK_RECIPIENTS",
            ),
            (gettext("Address of this server"), settings.base_url, "HANDRAISE_PUBLIC_URL"),
        ],
    )


async def _agents(ctx: ServerContext, workspace: str, quotas: WorkspaceQuotas) -> tuple[list[str], bool]:
    """The agents that have a key or a quota of their own, in order, and whether all keys were read."""
    keys = await ctx.directory.keys(workspace, after=None, limit=_MOST_KEYS)
    asking = {
        each.agent
        for each in keys
        if each.revoked_at is None and not each.agent.startswith(tuple(KEY_PREFIXES))
    }
    return sorted({*quotas.agents, *asking}), len(keys) < _MOST_KEYS


def _quota(ctx: ServerContext, quotas: WorkspaceQuotas, agent: str) -> dict[str, str]:
    """The quota of an agent that is in force, and what sets it."""
    most = quotas.of(agent, ctx.settings.pending_quota or None)
    if agent in quotas.agents:
        source = "quotas: agents"
    else:
        source = "HANDRAISE_PENDING_QUOTA" if quotas.pending is None else "quotas: pending"
    return {"most": gettext("no limit") if most is None else grouped(most), "source": source}
