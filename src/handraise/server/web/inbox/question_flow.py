"""The way through a list of waiting questions: where a question is in it, and which one comes next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from urllib.parse import quote, urlencode, urlsplit

from handraise.presentation.translation import gettext, grouped
from handraise.server.api.question_routes import desk_of
from handraise.server.auth.authenticator import PersonCaller
from handraise.server.context import ServerContext
from handraise.server.web.inbox.queue_page import rows_of
from handraise.server.web.inbox.search import ON_A_PAGE, View, view_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a question is in the list: "3 of 57", and the addresses of its neighbours."""

    text: str | None
    """None if the list was not read from its beginning."""
    previous: str | None
    next: str | None


async def place_of(
    ctx: ServerContext, caller: PersonCaller, waiting: str | None, question_id: str
) -> Place | None:
    """Where a question is in the list that the person came from. A search is not done again for this."""
    if waiting is None or (view := await view_at(waiting, caller)).is_search:
        return None
    _, found, agents_turn = await rows_of(desk_of(ctx, caller), caller, view)
    rows = [ids for ids in found.items if ids[0] not in agents_turn]
    at = next((index for index, ids in enumerate(rows) if question_id in ids), None)
    if at is None:
        return None
    count = f"{grouped(len(rows))}{'+' if found.after else ''}"
    text = gettext("{place} of {count}").format(place=grouped(at + 1), count=count)
    return Place(
        text=None if view.after else text,
        previous=_address(view, at - 1, rows[at - 1][0]) if at else None,
        next=_address(view, at + 1, rows[at + 1][0]) if at + 1 < len(rows) else None,
    )


async def page_after(ctx: ServerContext, caller: PersonCaller, waiting: str, question_id: str) -> str:
    """The page that follows when this question is done: the next question of the list, or the list if there is none.

    Ask before it is done: later it has no place in the list any more.
    """
    view, done = await view_at(waiting, caller), urlencode({"done": question_id})
    desk = desk_of(ctx, caller)
    _, found, agents_turn = await rows_of(desk, caller, view)
    rows = [ids for ids in found.items if ids[0] not in agents_turn]
    at = next((index for index, ids in enumerate(rows) if question_id in ids), None)
    if at is not None:
        equal = rows[at][rows[at].index(question_id) + 1 :]
        if equal:
            return f"{_address(view, at, equal[0])}&{done}"
        if at + 1 < len(rows):
            return f"{_address(view, at + 1, rows[at + 1][0])}&{done}"
        if found.after:
            further = replace(view, after=found.after, number=1)
            _, later, agents_turn = await rows_of(desk, caller, further)
            following = next((ids for ids in later.items if ids[0] not in agents_turn), None)
            if following:
                return f"{_address(further, 0, following[0])}&{done}"
    return f"{waiting}{'&' if '?' in waiting else '?'}{done}"


def list_after(waiting: str, question_id: str, following: str) -> str:
    """The list again, at the row of the question that follows."""
    done = urlencode({"done": question_id})
    parts = urlsplit(following)
    row = f"#q-{parts.path.split('/')[2]}" if parts.path.startswith("/questions/") else ""
    return f"{waiting}{'&' if '?' in waiting else '?'}{done}{row}"


def _address(view: View, at: int, question_id: str) -> str:
    """The address of a question, with the page of the list that has its row."""
    here = view.address(after=view.after, number=at // ON_A_PAGE + 1)
    return f"/questions/{quote(question_id, safe='')}?{urlencode({'from': here})}"
