"""The page about oneself: for people only, about nobody else, and with names shown as they are."""

from __future__ import annotations

import httpx2

from handraise.model.identities import Role
from handraise.server import House
from tests.server.conftest import bearer
from tests.server.inbox.browser import open_page
from tests.serving import Issuer


async def test_says_as_whom_one_answers(ann: httpx2.AsyncClient) -> None:
    words = (await open_page(ann, "/me")).words
    for part in ("Agents ask you as ann", "Groups ops", "You signed in on", "or until you sign out"):
        assert part in words
    assert "administer" not in words


async def test_says_who_administers(boss: httpx2.AsyncClient) -> None:
    words = (await open_page(boss, "/me")).words
    assert "which you administer" in words
    assert "Groups none" in words


async def test_shows_names_as_they_are(ann: httpx2.AsyncClient, house: House, workspace: str) -> None:
    await house.directory.put_person(
        workspace, "ann", name="<b>Ann</b>\u202e", email="a<i>@example.com", role=Role.MEMBER
    )
    await house.directory.put_group(workspace, "<script>\u200b", ["ann"])
    shown = await ann.get("/me")
    assert "<b>Ann" not in shown.text
    assert "<i>@" not in shown.text
    assert "&lt;script&gt;‹U+200B›" in shown.text
    assert "\u202e" not in shown.text


async def test_is_for_people_who_are_signed_in(
    client: httpx2.AsyncClient, issuer: Issuer, workspace: str
) -> None:
    led = await client.get("/me")
    assert (led.status_code, led.headers["location"]) == (303, "/sign-in")
    agent = bearer(await issuer.agent(workspace, "bot"))
    assert (await client.get("/me", headers=agent)).status_code == 403
