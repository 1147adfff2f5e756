"""In what language and on which clock a person reads: their own choice, then the browser's, then the server's."""

from __future__ import annotations

import httpx2
import pytest

from handraise.server import ServerContext
from handraise.server.page_locale import TIME_ZONE_COOKIE
from support.issuer import Issuer
from tests.server.conftest import ORIGIN, bearer
from tests.server.inbox.browser import open_page


async def _choose(client: httpx2.AsyncClient, **chosen: str) -> None:
    sent = await client.post("/me/preferences", data=chosen, headers=ORIGIN)
    assert sent.status_code == 303


async def _language(client: httpx2.AsyncClient, wish: str = "") -> str:
    page = await client.get("/me", headers={"accept-language": wish} if wish else {})
    assert page.status_code == 200
    return page.text.partition('<html lang="')[2][:2]


async def test_a_person_chooses_before_the_browser_and_the_browser_before_the_server(
    ann: httpx2.AsyncClient, ctx: ServerContext, workspace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await _language(ann) == "en"
    monkeypatch.setattr(ctx, "settings", ctx.settings.model_copy(update={"language": "de"}))
    assert await _language(ann) == "de"
    assert await _language(ann, "en") == "en"
    await _choose(ann, language="de", time_zone="Europe/Berlin")
    assert await _language(ann, "en") == "de"
    person = await ctx.directory.find_person(workspace, "ann")
    assert person is not None
    assert (person.language, person.time_zone) == ("de", "Europe/Berlin")
    page = await ann.get("/me")
    assert '<option value="de" lang="de" selected>' in page.text
    assert "<option selected>Europe/Berlin</option>" in page.text
    await _choose(ann, language="", time_zone="")
    assert await _language(ann, "en") == "en"


async def test_what_there_is_not_is_no_choice(
    ann: httpx2.AsyncClient, ctx: ServerContext, workspace: str
) -> None:
    for language, zone in (("xx", "Nowhere/Town"), ("../de", "../../etc/passwd"), ("DE", "Europe/\x00")):
        await _choose(ann, language=language, time_zone=zone)
        person = await ctx.directory.find_person(workspace, "ann")
        assert person is not None
        assert (person.language, person.time_zone) == (None, None)


async def test_instants_are_shown_on_the_clock_of_the_person_then_of_the_browser(
    ann: httpx2.AsyncClient,
) -> None:
    assert "UTC</time>. It lasts until" in (await open_page(ann, "/me")).html
    ann.cookies.set(TIME_ZONE_COOKIE, "Asia/Tokyo")
    assert "JST</time>. It lasts until" in (await open_page(ann, "/me")).html
    await _choose(ann, language="en", time_zone="Asia/Kolkata")
    assert "IST</time>. It lasts until" in (await open_page(ann, "/me")).html
    await _choose(ann, language="en", time_zone="")
    ann.cookies.set(TIME_ZONE_COOKIE, "../../etc/localtime")
    assert "UTC</time>. It lasts until" in (await open_page(ann, "/me")).html


async def test_only_people_choose_and_only_for_themselves(
    client: httpx2.AsyncClient, issuer: Issuer, workspace: str
) -> None:
    agent = bearer(await issuer.agent(workspace, "bot"))
    refused = await client.post("/me/preferences", data={"language": "de"}, headers=agent)
    assert refused.status_code == 403
    led = await client.post("/me/preferences", data={"language": "de"})
    assert (led.status_code, led.headers["location"]) == (303, "/sign-in")
