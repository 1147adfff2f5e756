"""Signing in by a link and out again: once, by POST, from our own page, and with a cookie that is kept safe."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from handraise.model.identities import Role
from handraise.server import ServerContext
from handraise.server.auth.issuer import issue_link
from handraise.testing import ManualClock
from support.issuer import Issuer
from tests.server.conftest import ORIGIN, bearer, on_every_store

LINK = "/sign-in/link"
SCANNERS = ("Mozilla/5.0 (compatible; SafeLinks)", "Slackbot-LinkExpanding 1.0", "Barracuda Sentinel")


@pytest.fixture
async def token(ctx: ServerContext, workspace: str) -> str:
    """The token of a link for ann."""
    await ctx.directory.put_person(
        workspace, "ann", name="Ann <b>Lee</b>", email="ann@example.com", role=Role.MEMBER
    )
    return await new_link(ctx, workspace)


async def new_link(ctx: ServerContext, workspace: str) -> str:
    link = await issue_link(ctx, workspace, person="ann", purpose="invitation", vouched_by=None)
    assert link is not None
    return parse_qs(urlsplit(link.url).query)["token"][0]


def cookie_of(response: httpx2.Response) -> Any:
    cookies = SimpleCookie(response.headers.get("set-cookie", ""))
    return next(iter(cookies.values()), None)


class TestInvitation:
    async def test_is_made_by_an_administrator_and_lets_the_person_in(
        self, client: httpx2.AsyncClient, issuer: Issuer, workspace: str
    ) -> None:
        admin = bearer(await issuer.person(workspace, "boss"))
        await client.put("/v1/people/zoe", json={"name": "Zoe"}, headers=admin)
        made = await client.post("/v1/people/zoe/links", headers=admin)
        assert made.status_code == 201
        shown = await client.get(made.json()["url"])
        assert (shown.status_code, "Zoe" in shown.text) == (200, True)
        (field,) = re.findall(r'name="token" value="([^"]+)"', shown.text)
        entered = await client.post(LINK, data={"token": field}, headers=ORIGIN)
        assert (entered.status_code, entered.headers["location"]) == (303, "/")
        home = await client.get("/")
        assert (home.status_code, "Zoe" in home.text) == (200, True)
        assert (await client.get("/v1/me")).json()["person"] == "zoe"

    async def test_looking_at_it_changes_nothing_whoever_looks(
        self, client: httpx2.AsyncClient, token: str
    ) -> None:
        for agent in SCANNERS:
            for method in ("GET", "HEAD", "OPTIONS", "GET"):
                looked = await client.request(
                    method,
                    LINK,
                    params={"token": token},
                    headers={"user-agent": agent, "sec-purpose": "prefetch"},
                )
                assert "set-cookie" not in looked.headers
        entered = await client.post(LINK, data={"token": token}, headers=ORIGIN)
        assert entered.status_code == 303

    @on_every_store
    async def test_works_once_also_where_two_use_it_at_once(
        self, client: httpx2.AsyncClient, token: str
    ) -> None:
        tries = await asyncio.gather(
            *(client.post(LINK, data={"token": token}, headers=ORIGIN) for _ in range(5))
        )
        assert sorted(each.status_code for each in tries) == [303, 410, 410, 410, 410]

    async def test_that_was_used_has_ended_or_never_was_is_one_and_the_same_page(
        self, client: httpx2.AsyncClient, ctx: ServerContext, workspace: str, token: str, clock: ManualClock
    ) -> None:
        await client.post(LINK, data={"token": token}, headers=ORIGIN)
        ended = await new_link(ctx, workspace)
        clock.advance(timedelta(hours=ctx.settings.link_hours))
        pages = [
            await client.request(method, LINK, params=params, data=data, headers=ORIGIN)
            for dead in (token, ended, ended[:-1], "", token.replace("hrl_", "hrs_"))
            for method, params, data in (("GET", {"token": dead}, None), ("POST", None, {"token": dead}))
        ]
        assert {page.status_code for page in pages} == {410}
        assert len({page.content for page in pages}) == 1
        assert "set-cookie" not in pages[0].headers

    async def test_of_a_person_who_was_taken_out_is_dead(
        self, client: httpx2.AsyncClient, ctx: ServerContext, workspace: str, token: str
    ) -> None:
        await ctx.directory.remove_person(workspace, "ann")
        assert (await client.get(LINK, params={"token": token})).status_code == 410
        assert (await client.post(LINK, data={"token": token}, headers=ORIGIN)).status_code == 410

    async def test_names_are_shown_as_they_are(self, client: httpx2.AsyncClient, token: str) -> None:
        shown = await client.get(LINK, params={"token": token})
        assert "Ann &lt;b&gt;Lee&lt;/b&gt;" in shown.text

    async def test_its_secret_goes_into_no_other_request(
        self, client: httpx2.AsyncClient, token: str
    ) -> None:
        shown = await client.get(LINK, params={"token": token})
        assert shown.headers["referrer-policy"] == "strict-origin"
        assert shown.headers["cache-control"] == "no-store"
        assert re.findall(r'(?:src|href|action)="(?!/)', shown.text) == []

    @pytest.mark.parametrize(
        "headers",
        [
            {"origin": "https://evil.example"},
            {"origin": "null"},
            {"origin": "http://["},
            {"sec-fetch-site": "cross-site"},
            {"sec-fetch-site": "same-site", "origin": "http://127.0.0.1:8765"},
            {},
        ],
    )
    async def test_nobody_is_signed_in_by_another_site(
        self, client: httpx2.AsyncClient, token: str, headers: dict[str, str]
    ) -> None:
        refused = await client.post(LINK, data={"token": token}, headers=headers)
        assert refused.status_code == 403
        assert "set-cookie" not in refused.headers
        assert (await client.post(LINK, data={"token": token}, headers=ORIGIN)).status_code == 303


class TestCookie:
    async def test_is_kept_from_scripts_and_other_sites(self, client: httpx2.AsyncClient, token: str) -> None:
        cookie = cookie_of(await client.post(LINK, data={"token": token}, headers=ORIGIN))
        assert (cookie.key, cookie["path"], cookie["domain"]) == ("handraise", "/", "")
        assert (cookie["httponly"], cookie["samesite"], cookie["secure"]) == (True, "lax", "")
        assert cookie["max-age"] == str(30 * 24 * 3600)

    @pytest.mark.parametrize("settings", [{"public_url": "https://ask.example.com"}])
    async def test_over_https_insists_on_it(self, client: httpx2.AsyncClient, token: str) -> None:
        origin = {"origin": "https://ask.example.com"}
        entered = await client.post(LINK, data={"token": token}, headers=origin)
        cookie = cookie_of(entered)
        assert (cookie.key, cookie["secure"], cookie["path"]) == ("__Host-handraise", True, "/")
        assert (await client.get("/v1/me")).json()["person"] == "ann"

    async def test_is_a_new_one_each_time_and_the_old_one_opens_nothing(
        self, client: httpx2.AsyncClient, ctx: ServerContext, workspace: str, token: str
    ) -> None:
        first = cookie_of(await client.post(LINK, data={"token": token}, headers=ORIGIN)).value
        second = cookie_of(
            await client.post(LINK, data={"token": await new_link(ctx, workspace)}, headers=ORIGIN)
        ).value
        assert first != second
        assert (await client.get("/v1/me", headers=bearer(first))).status_code == 401
        assert (await client.get("/v1/me", headers=bearer(second))).status_code == 200

    async def test_that_somebody_else_planted_is_not_taken_over(
        self, client: httpx2.AsyncClient, token: str
    ) -> None:
        planted = "hrs_" + token.removeprefix("hrl_")
        client.cookies.set("handraise", planted, domain="127.0.0.1", path="/")
        entered = await client.post(LINK, data={"token": token}, headers=ORIGIN)
        assert cookie_of(entered).value != planted

    async def test_ends_with_the_session(
        self, client: httpx2.AsyncClient, token: str, clock: ManualClock, ctx: ServerContext
    ) -> None:
        await client.post(LINK, data={"token": token}, headers=ORIGIN)
        assert (await client.get("/")).status_code == 200
        clock.advance(timedelta(days=ctx.settings.session_days))
        led = await client.get("/")
        assert (led.status_code, led.headers["location"]) == (303, "/sign-in")


class TestSigningOut:
    @pytest.fixture
    async def session(self, client: httpx2.AsyncClient, token: str) -> str:
        entered = await client.post(LINK, data={"token": token}, headers=ORIGIN)
        return str(cookie_of(entered).value)

    @on_every_store
    async def test_ends_the_session_and_takes_the_cookie_away(
        self, client: httpx2.AsyncClient, session: str
    ) -> None:
        left = await client.post("/sign-out", headers=ORIGIN)
        assert (left.status_code, left.headers["location"]) == (303, "/sign-in")
        assert cookie_of(left)["max-age"] == "0"
        assert (await client.get("/v1/me", headers=bearer(session))).status_code == 401
        assert (await client.post("/sign-out", headers=ORIGIN)).status_code == 303

    async def test_another_site_cannot_do_it(self, client: httpx2.AsyncClient, session: str) -> None:
        refused = await client.post("/sign-out", headers={"origin": "https://evil.example"})
        assert refused.status_code == 403
        assert (await client.get("/v1/me", headers=bearer(session))).status_code == 200

    async def test_is_there_for_programs_too(self, client: httpx2.AsyncClient, session: str) -> None:
        client.cookies.clear()
        left = await client.delete("/v1/sessions/current", headers=bearer(session))
        assert (left.status_code, left.content) == (204, b"")
        assert (await client.get("/v1/me", headers=bearer(session))).status_code == 401


class TestSessionsForPrograms:
    @on_every_store
    async def test_a_link_is_exchanged_once(self, client: httpx2.AsyncClient, token: str) -> None:
        opened = await client.post("/v1/sessions", json={"link": token})
        assert opened.status_code == 201
        me = await client.get("/v1/me", headers=bearer(opened.json()["token"]))
        assert me.json()["person"] == "ann"
        again = await client.post("/v1/sessions", json={"link": token})
        assert (again.status_code, again.json()["code"]) == (401, "unauthenticated")

    async def test_no_key_and_no_session_is_a_link(
        self, client: httpx2.AsyncClient, issuer: Issuer, workspace: str
    ) -> None:
        for token in (await issuer.agent(workspace, "bot"), await issuer.person(workspace, "ann")):
            refused = await client.post("/v1/sessions", json={"link": token})
            assert refused.status_code == 401

    async def test_a_link_is_no_session(self, client: httpx2.AsyncClient, token: str) -> None:
        assert (await client.get("/v1/me", headers=bearer(token))).status_code == 401

    async def test_ones_own_are_listed_and_ended(
        self, client: httpx2.AsyncClient, issuer: Issuer, ctx: ServerContext, workspace: str
    ) -> None:
        headers = bearer(await issuer.person(workspace, "ann", role=Role.MEMBER))
        await issuer.person(workspace, "boss")
        lasts = timedelta(days=1)
        for name, person in (("phone", "ann"), ("theirs", "boss")):
            await ctx.directory.open_session(
                workspace, name, digest=name, person=person, how="sign-in", lasts=lasts
            )
        listed = (await client.get("/v1/sessions", headers=headers)).json()["sessions"]
        assert {(each["id"] == "phone", each["current"]) for each in listed} == {(True, False), (False, True)}
        assert {each["person"] for each in listed} == {"ann"}
        assert "digest" not in str(listed)
        assert "token" not in str(listed)
        for path, status in (("/v1/sessions?person=boss", 403), ("/v1/sessions?person=ann", 200)):
            assert (await client.get(path, headers=headers)).status_code == status
        for name, status in (("theirs", 404), ("nowhere", 404), ("%00", 404), ("phone", 204), ("phone", 404)):
            ended = await client.delete(f"/v1/sessions/{name}", headers=headers)
            assert ended.status_code == status, name
        left = (await client.get("/v1/sessions", headers=headers)).json()["sessions"]
        assert [each["current"] for each in left] == [True]

    async def test_anybodys_are_for_administrators_of_the_same_workspace(
        self, client: httpx2.AsyncClient, issuer: Issuer, workspace: str
    ) -> None:
        token = await issuer.person(workspace, "ann", role=Role.MEMBER)
        boss = bearer(await issuer.person(workspace, "boss"))
        stranger = bearer(await issuer.person(f"{workspace}-2", "boss"))
        of_ann = "/v1/sessions?person=ann"
        [session] = (await client.get(of_ann, headers=boss)).json()["sessions"]
        path = f"/v1/sessions/{session['id']}"
        assert (await client.get(of_ann, headers=stranger)).json()["sessions"] == []
        assert (await client.delete(path, headers=stranger)).status_code == 404
        assert (await client.get("/v1/me", headers=bearer(token))).status_code == 200
        assert (await client.delete(path, headers=boss)).status_code == 204
        assert (await client.get("/v1/me", headers=bearer(token))).status_code == 401
        events: list[Any] = []
        for _ in range(200):  # on PostgreSQL any older transaction of the cluster holds the end of a trail up
            events = (await client.get("/v1/workspace/events?limit=500", headers=boss)).json()["items"]
            if events and events[-1]["kind"] == "session.ended":
                break
            await asyncio.sleep(0.05)
        assert (events[-1]["kind"], events[-1]["by"]) == ("session.ended", "boss")

    async def test_an_agent_has_no_session_to_end(
        self, client: httpx2.AsyncClient, issuer: Issuer, workspace: str
    ) -> None:
        agent = bearer(await issuer.agent(workspace, "bot"))
        assert (await client.delete("/v1/sessions/current", headers=agent)).status_code == 403
        assert (await client.get("/v1/sessions", headers=agent)).status_code == 403
        assert (await client.delete("/v1/sessions/any", headers=agent)).status_code == 403
        assert (await client.get("/", headers=agent)).status_code == 403


async def test_who_is_not_signed_in_is_led_to_the_sign_in_page(client: httpx2.AsyncClient) -> None:
    led = await client.get("/", follow_redirects=True)
    assert (led.status_code, led.url.path, "Open the sign-in link" in led.text) == (200, "/sign-in", True)
    assert "Continue with" not in led.text


async def test_the_pages_have_what_they_need_from_here_and_no_script(
    client: httpx2.AsyncClient, token: str
) -> None:
    for path in ("/sign-in", f"{LINK}?token={token}", LINK):
        shown = await client.get(path)
        assert "<script" not in shown.text
        assert "style=" not in shown.text
        for used in re.findall(r'(?:src|href)="(/static/[^"]+)"', shown.text):
            assert (await client.get(used)).status_code == 200
