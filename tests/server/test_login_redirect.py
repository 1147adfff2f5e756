"""Whoever is led to sign in comes back to the page they were going to, and nobody is led anywhere else."""

from __future__ import annotations

from urllib.parse import parse_qs, quote, urlsplit

import httpx2
import pytest
from fastapi.routing import APIRoute

from handraise.model.identities import Role
from handraise.server import ServerContext
from handraise.server.auth.issuer import issue_link
from handraise.server.auth.login_redirect import own_page
from handraise.server.web.inbox import (
    account_page,
    agent_page,
    aside_page,
    conversation_page,
    insights_page,
    person_page,
    policy_page,
    question_page,
    queue_page,
    search_page,
    settled_page,
    standing_answers_page,
    stops_page,
    together_page,
    tool_page,
)
from support.issuer import Issuer
from tests.server.conftest import ORIGIN

PLACE = "handraise-place"

HOSTILE = [
    "",
    "//evil.example",
    "///evil.example",
    "////evil.example/questions/x",
    "/\\evil.example",
    "\\\\evil.example",
    "/\\/evil.example",
    "/\t/evil.example",
    "/\n/evil.example",
    "/%09/evil.example",
    "/%5Cevil.example",
    "/%5cevil.example",
    "/%2F/evil.example",
    "/%2f%2fevil.example",
    "https://evil.example",
    "https:evil.example",
    "https:/evil.example",
    "HTTPS://evil.example/questions/x",
    "http://127.0.0.1:8765.evil.example/",
    "javascript:alert(1)",
    "data:text/html,x",
    "questions/x",
    "evil.example",
    "@evil.example",
    "/@evil.example",
    "/questions/x@evil.example:80",
    "/questions/x\r\nset-cookie: a=b",
    "/questions/x\nlocation: https://evil.example",
    "/questions/x%0d%0aset-cookie:a=b",
    "/questions/x%0D%0Aset-cookie%3Aa=b",
    "/questions/x%00",
    "/questions/x\x00",
    "/questions/x\u2028",
    "/questions/x\u202e",
    "/questions/ü",
    "/questions/",
    "/questions",
    "/questions/../sign-out",
    "/questions/..",
    "/questions/.",
    "/questions/%2e%2e",
    "/questions/%2E%2E%2Fsign-out",
    "/questions/x/..",
    "/questions/x/answer",
    "/questions//evil.example",
    "/questions/x#<script>",
    "/questions/x?next=https://evil.example",
    '/questions/x"onclick=1',
    "/questions/x;jsessionid=1",
    "/questions/x y",
    "/questions/" + "x" * 1_000,
    "/v1/me",
    "/v1/events",
    "/v1/questions/x",
    "/sign-in",
    "/sign-in/oidc",
    "/sign-in/link?token=hrl_x",
    "/sign-out",
    "/static/mark.svg",
    "/nowhere",
    "/me/evil",
    "/mean",
    "/?next=//evil.example",
    " /questions/x",
    "/questions/x ",
    "/questions/x\n",
]


@pytest.fixture
def store() -> str:
    """Where one is led to does not depend on the store."""
    return "memory:"


@pytest.fixture
async def token(ctx: ServerContext, workspace: str) -> str:
    """The token of a link for ann."""
    await ctx.directory.put_person(workspace, "ann", name="Ann", email=None, role=Role.MEMBER)
    link = await issue_link(ctx, workspace, person="ann", purpose="sign-in", vouched_by=None)
    assert link is not None
    return parse_qs(urlsplit(link.url).query)["token"][0]


async def sign_in(client: httpx2.AsyncClient, token: str) -> str:
    entered = await client.post("/sign-in/link", data={"token": token}, headers=ORIGIN)
    assert entered.status_code == 303
    return str(entered.headers["location"])


@pytest.mark.parametrize(
    "path", ["/questions/01890a5d-ac96-774b-bcce-b302099a8057", "/questions/a%20b", "/?agent=x&all=1", "/me"]
)
async def test_a_link_leads_back_to_where_one_was_going(
    client: httpx2.AsyncClient, token: str, path: str
) -> None:
    led = await client.get(path)
    assert (led.status_code, led.headers["location"]) == (303, "/sign-in")
    assert "the page that you were going to" in (await client.get("/sign-in")).text
    shown = await client.get("/sign-in/link", params={"token": token})
    assert "questions" not in shown.text
    assert await sign_in(client, token) == path
    assert PLACE not in client.cookies


async def test_only_who_has_been_here_before_is_welcomed_back(
    client: httpx2.AsyncClient, ctx: ServerContext, workspace: str
) -> None:
    await ctx.directory.put_person(workspace, "new", name="New", email=None, role=Role.MEMBER)
    for welcome in ("Welcome", "Welcome back"):
        link = await issue_link(ctx, workspace, person="new", purpose="sign-in", vouched_by=None)
        assert link is not None
        token = parse_qs(urlsplit(link.url).query)["token"][0]
        shown = await client.get("/sign-in/link", params={"token": token})
        assert f"<h1>{welcome}</h1>" in shown.text
        await sign_in(client, token)


async def test_every_page_for_who_is_signed_in_is_led_back_to(
    client: httpx2.AsyncClient,
) -> None:
    modules = (
        account_page,
        agent_page,
        aside_page,
        conversation_page,
        insights_page,
        person_page,
        policy_page,
        question_page,
        queue_page,
        search_page,
        settled_page,
        standing_answers_page,
        stops_page,
        together_page,
        tool_page,
    )
    routes = [route for each in modules for route in each.pages.routes]
    paths = {route.path for route in routes if isinstance(route, APIRoute) and "GET" in (route.methods or ())}
    assert paths >= {"/", "/questions/{question_id}", "/me"}
    for path in paths - {"/"}:
        await client.get(path.format(question_id="q1"))
        assert client.cookies[PLACE] == quote(path.format(question_id="q1"), safe=""), path


async def test_the_last_page_counts_and_home_is_where_one_goes_without_any(
    client: httpx2.AsyncClient, token: str
) -> None:
    await client.get("/questions/first")
    await client.get("/")
    assert PLACE not in client.cookies
    assert "going to" not in (await client.get("/sign-in")).text
    assert await sign_in(client, token) == "/"


async def test_a_page_that_looks_for_news_is_not_a_person_on_their_way(
    client: httpx2.AsyncClient, token: str
) -> None:
    await client.get("/questions/mine", headers={"sec-fetch-mode": "navigate"})
    await client.get("/", headers={"sec-fetch-mode": "cors"})
    await client.get("/questions/other", headers={"sec-fetch-mode": "cors"})
    assert await sign_in(client, token) == "/questions/mine"


async def test_an_answer_that_comes_too_late_leads_back_to_its_question(
    client: httpx2.AsyncClient, token: str
) -> None:
    sent = await client.post("/questions/q1", data={"v": "x"}, headers=ORIGIN)
    assert (sent.status_code, sent.headers["location"]) == (303, "/sign-in")
    assert await sign_in(client, token) == "/questions/q1"


async def test_a_form_whose_address_has_no_page_is_not_led_back_to(
    client: httpx2.AsyncClient, token: str
) -> None:
    await client.get("/admin/people/bob")
    sent = await client.post("/admin/people/bob/remove", headers=ORIGIN)
    assert (sent.status_code, sent.headers["location"]) == (303, "/sign-in")
    assert await sign_in(client, token) == "/admin/people/bob"


async def test_who_signs_out_leaves_no_trace_for_the_next(
    client: httpx2.AsyncClient, token: str, issuer: Issuer, workspace: str
) -> None:
    await client.get("/questions/q1")
    client.cookies.set("handraise", await issuer.person(workspace, "bob"), domain="127.0.0.1", path="/")
    await client.post("/sign-out", headers=ORIGIN)
    assert await sign_in(client, token) == "/"


@pytest.mark.parametrize("text", HOSTILE)
async def test_nobody_is_led_anywhere_else(client: httpx2.AsyncClient, token: str, text: str) -> None:
    assert own_page(text) is None
    for planted in (quote(text, safe=""), quote(quote(text, safe=""), safe="")):
        client.cookies.clear()
        client.cookies.set(PLACE, planted, domain="127.0.0.1", path="/")
        assert "going to" not in (await client.get("/sign-in")).text
    assert await sign_in(client, token) == "/"


async def test_a_cookie_that_is_no_good_text_is_no_place(client: httpx2.AsyncClient, token: str) -> None:
    for planted in ("%FF%FE", "%", '"', "%C3"):
        client.cookies.set(PLACE, planted, domain="127.0.0.1", path="/")
        assert (await client.get("/sign-in")).status_code == 200
    assert await sign_in(client, token) == "/"


async def test_the_cookie_is_kept_from_scripts_and_other_sites(client: httpx2.AsyncClient) -> None:
    led = await client.get("/questions/q1")
    assert set(led.headers["set-cookie"].split("; ")) == {
        "handraise-place=%2Fquestions%2Fq1",
        "HttpOnly",
        "Max-Age=172800",
        "Path=/",
        "SameSite=lax",
    }


@pytest.mark.parametrize("settings", [{"public_url": "https://ask.example.com"}])
async def test_over_https_it_insists_on_it(client: httpx2.AsyncClient) -> None:
    led = await client.get("/questions/q1")
    assert led.headers["set-cookie"].startswith("__Host-handraise-place=")
    assert "; Secure" in led.headers["set-cookie"]
