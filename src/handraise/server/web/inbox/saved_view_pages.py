"""The views that a person saves: their links in the bar above the list, and the forms that save and delete them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Form
from starlette.responses import RedirectResponse, Response

from handraise.model.errors import NotFound
from handraise.model.json_values import text_problem
from handraise.model.saved_views import LONGEST_NAME, LONGEST_QUERY, MOST_SAVED, SavedView
from handraise.model.visible import visible_line
from handraise.presentation.translation import gettext
from handraise.server.auth.authenticator import Context, CurrentPerson, PersonCaller
from handraise.server.context import ServerContext
from handraise.server.web.inbox.search import View, view_at
from handraise.server.web.inbox.view_bar import known_filters
from handraise.server.web.pages import PageRoute, message

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

Name = Annotated[str, Form(max_length=400)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedLink:
    """A saved view in the bar. `shown` may be shown as it is."""

    name: str
    shown: str
    href: str
    is_current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedBar:
    """What the list shows of the saved views."""

    links: Sequence[SavedLink]
    query: str
    """What is saved if the person saves the view that is shown; empty if that is everything."""
    current: SavedLink | None
    longest_name: int = LONGEST_NAME


async def saved_bar(ctx: ServerContext, caller: PersonCaller, view: View) -> SavedBar:
    """The saved views of a person, and whether the list shows one of them."""
    here = _clean(view).address()
    links = [
        await _link(each, caller, here)
        for each in await ctx.directory.saved_views(caller.workspace, caller.person.id)
    ]
    return SavedBar(
        links=links,
        query=urlsplit(here).query,
        current=next((each for each in links if each.is_current), None),
    )


@pages.post("/views")
async def save_here(
    ctx: Context,
    caller: CurrentPerson,
    *,
    name: Name = "",
    query: Annotated[str, Form(max_length=2 * LONGEST_QUERY)] = "",
) -> Response:
    """Save the view of the list under a name, then show it."""
    name, address = " ".join(name.split()), await _address(query, caller)
    saved = await ctx.directory.saved_views(caller.workspace, caller.person.id)
    if (problem := _problem(name, urlsplit(address).query, saved)) is None:
        kept = await ctx.directory.save_view(
            caller.workspace,
            caller.person.id,
            name,
            query=urlsplit(address).query,
            at_most=MOST_SAVED,
        )
        if kept is not None:
            return RedirectResponse(address, 303)
        problem = gettext("Another window has changed your views. Try again.")
    lead = (address, gettext("Back to the list"))
    return message(gettext("The view is not saved"), problem, status=422, lead=lead)


@pages.post("/views/delete")
async def delete_here(ctx: Context, caller: CurrentPerson, *, name: Name = "") -> Response:
    """Delete a saved view. The list stays as it is."""
    saved = await ctx.directory.saved_views(caller.workspace, caller.person.id)
    view = next((each for each in saved if each.name == name), None)
    if view is None or not await ctx.directory.remove_view(caller.workspace, caller.person.id, name):
        raise NotFound("You have no such view.")
    return RedirectResponse(await _address(view.query, caller), 303)


def _problem(name: str, query: str, saved: Sequence[SavedView]) -> str | None:
    if not name or text_problem(name):
        return gettext("Write a name for the view.")
    if len(name) > LONGEST_NAME:
        return gettext("The name is too long: at most {count} characters.").format(count=LONGEST_NAME)
    if not query:
        return gettext("The list shows everything. Choose a view, a filter or an order first.")
    if len(query) > LONGEST_QUERY:
        return gettext("The search is too long to be saved.")
    if any(each.name == name for each in saved):
        return gettext("You have another view with this name. Delete that one first, or choose another name.")
    if len(saved) >= MOST_SAVED:
        return gettext("You have {count} views. Delete one of them first.").format(count=MOST_SAVED)
    return None


async def _link(saved: SavedView, caller: PersonCaller, here: str) -> SavedLink:
    href = await _address(saved.query, caller)
    return SavedLink(name=saved.name, shown=visible_line(saved.name), href=href, is_current=href == here)


async def _address(query: str, caller: PersonCaller) -> str:
    """The address of the list with what a query asks for. What is not known is ignored."""
    return _clean(await view_at(f"/?{query}", caller)).address()


def _clean(view: View) -> View:
    """A view from its first page, with the filters that exist."""
    return replace(view, extra=known_filters(view), after="", number=1)
