"""What is stopped, and the form to stop and resume. For administrators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Form
from starlette.responses import RedirectResponse, Response

from handraise.model.pending_views import PendingFilters
from handraise.model.people import KEY_PREFIXES
from handraise.model.stops import Stop
from handraise.model.unknown_recipients import nearest
from handraise.model.visible import visible
from handraise.presentation.names import display_name
from handraise.presentation.stop_text import stop_title, stopped_by
from handraise.presentation.translation import gettext, ngettext
from handraise.server.api.question_routes import desk_of
from handraise.server.api.stop_routes import StopId, begin, end
from handraise.server.auth.authenticator import Context, CurrentAdmin, CurrentStopper, PersonCaller
from handraise.server.context import ServerContext
from handraise.server.web.inbox.name_links import agent_href, tool_href
from handraise.server.web.inbox.page_texts import When, since
from handraise.server.web.pages import PageRoute, live_page, message
from handraise.wire.stop_records import PutStop

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

_MOST_KEYS = 1_000
_MOST_COUNTED = 300

Name = Annotated[str, Form(max_length=200)]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopView:
    """A stop as pages show it. Everything in it may be shown as it is."""

    id: str
    title: str
    by: str
    why: str
    at: When
    links: tuple[tuple[str, str], ...]
    """The pages of the agent and the tool that it covers, with their names."""


def stop_view(stop: Stop, me: str, now: datetime) -> StopView:
    """A stop as pages show it."""
    return StopView(
        id=quote(stop.id, safe=""),
        title=stop_title(stop),
        by=stopped_by(stop, viewer=me),
        why=visible(stop.why),
        at=since(stop.at, now),
        links=tuple(_links(stop)),
    )


def stop_views(stops: Iterable[Stop], me: str) -> list[StopView]:
    """Several stops as pages show them."""
    now = datetime.now(UTC)
    return [stop_view(each, me, now) for each in stops]


@pages.get("/stops")
async def show_stops(ctx: Context, admin: CurrentAdmin) -> Response:
    """Show what is stopped, with the form to stop something."""
    stops = await ctx.policies.stops(admin.workspace)
    return live_page(
        "inbox/stops.html",
        person=admin.person,
        stops=stop_views(stops, admin.person.id),
        agents=await _agents(ctx, admin),
    )


@pages.post("/stops")
async def stop_here(
    ctx: Context,
    admin: CurrentStopper,
    *,
    agent: Name = "",
    tool: Name = "",
    everything: Annotated[bool, Form()] = False,
    why: Annotated[str, Form(max_length=2_000)] = "",
    sure: Annotated[bool, Form()] = False,
) -> Response:
    """Ask whether it is meant, then stop it."""
    agent, tool, why = agent.strip(), tool.strip(), why.replace("\r\n", "\n").strip()
    if not (agent or tool or everything) or (everything and (agent or tool)):
        return message(
            gettext("Say what to stop"),
            gettext("Nothing was stopped: name an agent or a tool, or choose the whole workspace."),
            status=422,
            lead=("/stops", gettext("Back to the stops")),
        )
    if not why:
        return message(
            gettext("Say why"),
            gettext("Nothing was stopped: agents and people read the reason."),
            status=422,
            lead=("/stops", gettext("Back to the stops")),
        )
    if sure:
        await begin(ctx, admin, PutStop(agent=agent or None, tool=tool or None, why=why))
        return RedirectResponse("/stops", 303)
    planned = Stop(
        workspace=admin.workspace,
        id="",
        agent=agent or None,
        tool=tool or None,
        why=why,
        at=datetime.now(UTC),
        by=admin.person.id,
    )
    return live_page(
        "inbox/stop_confirm.html",
        person=admin.person,
        stop=stop_view(planned, admin.person.id, planned.at),
        begins=True,
        action="/stops",
        effect=await _effect(ctx, admin, planned),
        kept={"agent": agent, "tool": tool, "everything": "true" if everything else "", "why": why},
    )


@pages.post("/stops/{stop_id}/end")
async def resume_here(
    ctx: Context, admin: CurrentAdmin, stop_id: StopId, *, sure: Annotated[bool, Form()] = False
) -> Response:
    """Ask whether it is meant, then end a stop."""
    if sure:
        await end(ctx, admin, stop_id)
        return RedirectResponse("/stops", 303)
    found = [each for each in await ctx.policies.stops(admin.workspace) if each.id == stop_id]
    if not found:
        return RedirectResponse("/stops", 303)
    (stop,) = stop_views(found, admin.person.id)
    return live_page(
        "inbox/stop_confirm.html",
        person=admin.person,
        stop=stop,
        begins=False,
        action=f"/stops/{stop.id}/end",
        effect=(),
        kept={},
    )


async def _agents(ctx: ServerContext, admin: PersonCaller) -> list[str]:
    """The agents that have a key here, for the list below the field."""
    keys = await ctx.directory.keys(admin.workspace, after=None, limit=_MOST_KEYS)
    return sorted({each.agent for each in keys if not each.agent.startswith(KEY_PREFIXES)})


async def _effect(ctx: ServerContext, admin: PersonCaller, stop: Stop) -> list[str]:
    """What a stop would come to, and that nobody has the agent's name if that is so."""
    waiting = await desk_of(ctx, admin).by_urgency(
        asker=stop.agent, filters=PendingFilters(tool=stop.tool), limit=_MOST_COUNTED
    )
    number = len(waiting.places)
    counted = ngettext("It stops {count} pending question.", "It stops {count} pending questions.", number)
    said = [counted.format(count=f"{number}+" if waiting.after else number)]
    known = await _agents(ctx, admin)
    if stop.agent is not None and stop.agent not in known and not number:
        near = nearest(stop.agent, known)
        said.append(
            gettext("No agent here is called {agent}. Did you mean {near}?").format(
                agent=visible(stop.agent), near=visible(near[0])
            )
            if near
            else gettext("No agent here is called {agent}.").format(agent=visible(stop.agent))
        )
    return said


def _links(stop: Stop) -> Iterator[tuple[str, str]]:
    if stop.agent is not None:
        yield agent_href(stop.agent), display_name(stop.agent)
    if stop.tool is not None:
        yield tool_href(stop.tool), display_name(stop.tool)
