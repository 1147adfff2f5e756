"""The views that a person saves for their own list."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import httpx2
import pytest

from handraise import Approval
from handraise.desk.local_desk import LocalDesk
from handraise.model.identities import Role
from handraise.model.saved_views import MOST_SAVED
from handraise.server import ServerContext
from support.issuer import Issuer
from tests.server.conftest import ORIGIN, bearer
from tests.server.inbox.browser import FORM, Page, Sheet, open_page, send
from tests.server.inbox.test_queue import asked

HOSTILE = "<b>\u202ePay</b>"


@pytest.fixture
async def bob(
    client_from: Callable[[str], httpx2.AsyncClient], issuer: Issuer, workspace: str
) -> AsyncIterator[httpx2.AsyncClient]:
    """The browser of another member."""
    async with client_from("192.0.2.8") as client:
        client.cookies.set("handraise", await issuer.person(workspace, "bob", role=Role.MEMBER))
        yield client


def form(page: Page, action: str) -> Sheet:
    [found] = [each for each in page.sheets if each.action == action]
    return found


def links(page: Page) -> dict[str | None, bool]:
    """The addresses of the saved views, and whether each is the one that is shown."""
    return {each["href"]: "aria-current" in each for _, each in page.tags if "data-saved" in each}


async def save(client: httpx2.AsyncClient, name: str, query: str) -> httpx2.Response:
    return await client.post("/views", data={"name": name, "query": query}, headers=ORIGIN)


async def test_a_view_is_saved_shown_and_deleted(ann: httpx2.AsyncClient, desk: LocalDesk) -> None:
    pay = await desk.post("Pay?", form=Approval.of("pay", {}, risk="high"), recipients=["ann"])
    await desk.post("Plain?", recipients=["ann"])
    everything = await open_page(ann, "/?sort=urgency&page=1")
    assert not [each for each in everything.sheets if each.action.startswith("/views")], (
        "there is nothing to save"
    )
    sheet = form(await open_page(ann, "/?view=approvals&risk=high&sort=newest&q=pay&page=2&kind=x"), "/views")
    sheet.fill("name", f"  {HOSTILE}\t pays ")
    saved = await send(ann, sheet)
    address = "/?view=approvals&risk=high&sort=newest&q=pay"
    assert (saved.status_code, saved.headers["location"]) == (303, address)
    shown = await open_page(ann, address)
    assert asked(shown) == [pay.id]
    assert links(shown) == {address: True}
    assert shown.html.count('aria-current="page"') == everything.html.count('aria-current="page"')
    assert "<b>‹U+202E›Pay</b> pays" in shown.words
    assert "<b>" not in shown.html
    assert links(await open_page(ann, "/?view=approvals")) == {address: False}
    gone = await send(ann, form(shown, "/views/delete"))
    assert (gone.status_code, gone.headers["location"]) == (303, address)
    assert links(await open_page(ann, address)) == {}
    assert (await send(ann, form(shown, "/views/delete"))).status_code == 404


async def test_views_are_of_one_person_and_no_other_site_saves_one(
    ann: httpx2.AsyncClient,
    bob: httpx2.AsyncClient,
    client_from: Callable[[str], httpx2.AsyncClient],
    issuer: Issuer,
    workspace: str,
) -> None:
    assert (await save(ann, "mine", "view=mine")).status_code == 303
    assert (await save(bob, "mine", "view=urgent")).status_code == 303
    assert links(await open_page(bob, "/?risk=low")) == {"/?view=urgent": False}
    assert (await save(ann, "other", "view=urgent")).status_code == 303
    theirs = await bob.post("/views/delete", data={"name": "other"}, headers=ORIGIN)
    assert theirs.status_code == 404
    assert len(links(await open_page(ann, "/"))) == 2
    elsewhere = FORM | {"sec-fetch-site": "cross-site"}
    agent = ORIGIN | bearer(await issuer.agent(workspace, "bot"))
    next_door = await issuer.person(f"{workspace} next door", "ann", role=Role.ADMIN)
    for path, body in (("/views", "name=x&query=view%3Dmine"), ("/views/delete", "name=mine")):
        assert (await ann.post(path, content=body, headers=elsewhere)).status_code == 403
        async with client_from("192.0.2.9") as client:
            assert (await client.post(path, content=body, headers=FORM | agent)).status_code == 403
            out = await client.post(path, content=body, headers=FORM | ORIGIN)
            assert (out.status_code, out.headers["location"]) == (303, "/sign-in")
    async with client_from("192.0.2.9") as client:
        client.cookies.set("handraise", next_door)
        assert links(await open_page(client, "/")) == {}
        assert (await client.post("/views/delete", data={"name": "mine"}, headers=ORIGIN)).status_code == 404
    assert len(links(await open_page(ann, "/"))) == 2


async def test_what_cannot_be_saved_is_told(ann: httpx2.AsyncClient) -> None:
    async def refused(name: str, query: str) -> str:
        answer = await save(ann, name, query)
        assert answer.status_code == 422
        return Page(answer.text).words

    assert "Write a name" in await refused(" \t", "view=mine")
    assert "Write a name" in await refused("a\x00", "view=mine")
    assert "at most 60 characters" in await refused("ü" * 61, "view=mine")
    assert "The list shows everything" in await refused("a", "view=nothing&sort=urgency&x=1&page=7&all=1")
    long = "&".join(f"{each}={'%C3%BC' * 199}" for each in ("agent", "tool", "q"))
    assert "too long to be saved" in await refused("a", long)
    for number in range(MOST_SAVED):
        assert (await save(ann, f"{number}{'ü' * 58}", f"tool={number}")).status_code == 303
    assert "another view with this name" in await refused(f"0{'ü' * 58}", "view=mine")
    assert "You have 20 views" in await refused("one more", "view=mine")


async def test_what_is_stored_is_checked_again(
    ann: httpx2.AsyncClient, ctx: ServerContext, workspace: str
) -> None:
    for name, query in (
        ("old", "view=gone&risk=high&all=1&sort=up&new=1"),
        ("broken", "%00%ff&&=#?view=mine"),
    ):
        await ctx.directory.save_view(workspace, "ann", name, query=query, at_most=9)
    assert links(await open_page(ann, "/")) == {"/?risk=high": False, "/": True}
