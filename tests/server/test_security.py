"""What stands before every route: headers, the size of a body, how often one may come, and other sites."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from handraise.model.identities import Role
from handraise.server import ServerContext
from support.issuer import Issuer
from tests.server.conftest import ORIGIN, bearer

Headers = dict[str, str]


@pytest.fixture
def store() -> str:
    """What is guarded here does not depend on the store."""
    return "memory:"


@pytest.fixture
async def agent(issuer: Issuer, workspace: str) -> Headers:
    return bearer(await issuer.agent(workspace, "bot"))


@pytest.fixture
async def person(issuer: Issuer, workspace: str) -> str:
    return await issuer.person(workspace, "ann")


class TestHeaders:
    @pytest.mark.parametrize(
        ("method", "path"),
        [
            ("GET", "/"),
            ("GET", "/sign-in"),
            ("GET", "/sign-in/link"),
            ("POST", "/sign-in/link"),
            ("GET", "/v1/me"),
            ("GET", "/openapi.json"),
            ("GET", "/healthz"),
            ("GET", "/nowhere"),
            ("PATCH", "/sign-in"),
            ("GET", "/fails"),
        ],
    )
    async def test_are_on_every_response(
        self, client: httpx2.AsyncClient, app: FastAPI, method: str, path: str
    ) -> None:
        app.add_api_route("/fails", _fail)
        headers = (await client.request(method, path)).headers
        policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
        assert policy == {
            "default-src": "'none'",
            "style-src": "'self'",
            "img-src": "'self'",
            "form-action": "'self'",
            "frame-ancestors": "'none'",
            "base-uri": "'none'",
        }
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cross-origin-opener-policy"] == "same-origin"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "geolocation=()" in headers["permissions-policy"]
        assert headers["cache-control"] == "no-store"
        assert "strict-transport-security" not in headers
        assert "access-control-allow-origin" not in headers

    async def test_let_a_browser_keep_only_what_is_the_same_for_everybody(
        self, client: httpx2.AsyncClient
    ) -> None:
        assert (await client.get("/static/style.css")).headers["cache-control"] == "no-cache"

    @pytest.mark.parametrize("settings", [{"public_url": "https://ask.example.com"}])
    async def test_over_https_ask_for_it_next_time(self, client: httpx2.AsyncClient) -> None:
        found = (await client.get("/sign-in")).headers["strict-transport-security"]
        assert found.startswith("max-age=31536000")


async def _fail() -> None:
    raise RuntimeError("planted")


@pytest.mark.parametrize("settings", [{"body_limit": 2_000}])
class TestBodyLimit:
    async def test_a_body_up_to_it_is_read(self, client: httpx2.AsyncClient, agent: Headers) -> None:
        body = b'{"prompt": "' + b"a" * (2_000 - 14) + b'"}'
        assert len(body) == 2_000
        posted = await client.post("/v1/questions", content=body, headers=agent | _JSON)
        assert posted.status_code == 201

    async def test_a_larger_one_is_refused(self, client: httpx2.AsyncClient, agent: Headers) -> None:
        refused = await client.post("/v1/questions", content=b"a" * 2_001, headers=agent | _JSON)
        _assert_too_large(refused)

    async def test_one_that_says_it_is_larger_is_not_read(
        self, client: httpx2.AsyncClient, agent: Headers
    ) -> None:
        read = 0

        async def long() -> AsyncIterator[bytes]:
            nonlocal read
            for _ in range(10_000):
                read += 1
                yield b"a"

        headers = agent | _JSON | {"content-length": "2001"}
        _assert_too_large(await client.post("/v1/questions", content=long(), headers=headers))
        assert read == 0

    async def test_one_in_chunks_is_counted(self, client: httpx2.AsyncClient, agent: Headers) -> None:
        read = 0

        async def long() -> AsyncIterator[bytes]:
            nonlocal read
            for _ in range(10_000):
                read += 1
                yield b"a" * 100

        _assert_too_large(await client.post("/v1/questions", content=long(), headers=agent | _JSON))
        assert read < 30

    async def test_counts_with_an_idempotency_key_and_for_forms_too(
        self, client: httpx2.AsyncClient, agent: Headers
    ) -> None:
        headers = agent | _JSON | {"idempotency-key": "k"}
        _assert_too_large(await client.post("/v1/questions", content=b"a" * 2_001, headers=headers))
        _assert_too_large(await client.post("/sign-in/link", data={"token": "a" * 2_001}, headers=ORIGIN))


_JSON = {"content-type": "application/json"}


def _assert_too_large(response: httpx2.Response) -> None:
    assert response.status_code == 413
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["detail"] == "The body is larger than 2000 bytes."


class TestRates:
    @pytest.mark.parametrize("settings", [{"rate_limit": "3/hour"}])
    async def test_a_key_or_session_may_come_so_often(
        self, client: httpx2.AsyncClient, issuer: Issuer, workspace: str, agent: Headers, person: str
    ) -> None:
        for headers in (agent, bearer(person)):
            seen = [await client.get("/v1/me", headers=headers) for _ in range(4)]
            assert [each.status_code for each in seen] == [200, 200, 200, 429]
            _assert_too_many(seen[-1], within=3_600)
        other = bearer(await issuer.agent(workspace, "other"))
        assert (await client.get("/v1/me", headers=other)).status_code == 200

    @pytest.mark.parametrize("settings", [{"daily_bytes": 5_000}])
    async def test_an_agent_may_send_so_many_bytes_in_a_day(
        self, client: httpx2.AsyncClient, issuer: Issuer, workspace: str, agent: Headers
    ) -> None:
        async def ask(headers: Headers) -> httpx2.Response:
            return await client.post("/v1/questions", json={"prompt": "?" * 2_000}, headers=headers)

        seen = [await ask(agent) for _ in range(4)]
        assert [each.status_code for each in seen] == [201, 201, 201, 429]
        _assert_too_many(seen[-1], within=86_400)
        assert "5000 bytes in a day" in seen[-1].json()["detail"]
        assert (await client.get("/v1/me", headers=agent)).status_code == 200
        assert (await ask(bearer(await issuer.agent(workspace, "other")))).status_code == 201

    @pytest.mark.parametrize("settings", [{"rate_limit": "3/hour"}])
    async def test_counts_what_is_answered_from_an_idempotency_key(
        self, client: httpx2.AsyncClient, agent: Headers
    ) -> None:
        headers = agent | {"idempotency-key": "k"}
        seen = [await client.post("/v1/questions", json={"prompt": "Go?"}, headers=headers) for _ in range(4)]
        assert [each.status_code for each in seen] == [201, 201, 201, 429]

    @pytest.mark.parametrize("settings", [{"sign_in_limit": "3/hour"}])
    @pytest.mark.parametrize(
        "attempt",
        [
            {"method": "GET", "url": "/v1/me", "headers": bearer("nonsense")},
            {"method": "GET", "url": "/v1/me", "headers": {"authorization": "Basic YTpi"}},
            {"method": "GET", "url": "/v1/me", "headers": {"cookie": "handraise=nonsense"}},
            {
                "method": "POST",
                "url": "/v1/questions",
                "json": {"prompt": "Go?"},
                "headers": bearer("nonsense") | {"idempotency-key": "k"},
            },
            {"method": "POST", "url": "/v1/sessions", "json": {"link": "nonsense"}},
            {"method": "GET", "url": "/sign-in/link?token=nonsense"},
            {"method": "POST", "url": "/sign-in/link", "data": {"token": "nonsense"}, "headers": ORIGIN},
        ],
    )
    async def test_an_address_may_come_in_vain_so_often(
        self,
        client: httpx2.AsyncClient,
        client_from: Callable[[str], httpx2.AsyncClient],
        agent: Headers,
        attempt: dict[str, Any],
    ) -> None:
        seen = [await client.request(**attempt) for _ in range(4)]
        assert {each.status_code for each in seen[:3]} in ({401}, {410})
        assert (seen[3].status_code, 0 < int(seen[3].headers["retry-after"]) <= 3_600) == (429, True)
        async with client_from("192.0.2.77") as elsewhere:
            assert (await elsewhere.request(**attempt)).status_code in {401, 410}
        assert (await client.get("/v1/me", headers=agent)).status_code == 200

    @pytest.mark.parametrize("settings", [{"sign_in_limit": "3/hour"}])
    async def test_whoever_has_one_address_of_ipv6_has_a_network_of_them(
        self, client_from: Callable[[str], httpx2.AsyncClient]
    ) -> None:
        found = []
        for host in ("2001:db8::1", "2001:db8::2", "2001:db8::3:4", "2001:db8::5", "2001:db8:0:1::1"):
            async with client_from(host) as client:
                found.append((await client.get("/v1/me", headers=bearer("nonsense"))).status_code)
        assert found == [401, 401, 401, 429, 401]

    @pytest.mark.parametrize("settings", [{"sign_in_limit": "1/hour"}])
    async def test_who_brings_nothing_is_not_counted(self, client: httpx2.AsyncClient) -> None:
        for _ in range(3):
            assert (await client.get("/v1/me")).status_code == 401
            assert (await client.get("/")).status_code == 303


def _assert_too_many(response: httpx2.Response, *, within: int) -> None:
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["code"] == "too_many_requests"
    assert 0 < int(response.headers["retry-after"]) <= within


KEY = {"agent": "bot"}


class TestOtherSites:
    """A cookie goes where a browser is sent; what it does there must come from our own pages."""

    @pytest.fixture
    def cookie(self, person: str) -> Headers:
        return {"cookie": f"handraise={person}"}

    @pytest.mark.parametrize(
        "headers",
        [
            {"sec-fetch-site": "cross-site"},
            {"sec-fetch-site": "same-site"},
            {"sec-fetch-site": "cross-site", "origin": "http://127.0.0.1:8765"},
            {"origin": "https://evil.example"},
            {"origin": "http://sub.127.0.0.1:8765"},
            {"origin": "null"},
            {"origin": "http://["},
            {"referer": "http://127.0.0.1:8765/"},
            {},
        ],
    )
    async def test_cannot_act_with_a_cookie(
        self,
        client: httpx2.AsyncClient,
        cookie: Headers,
        headers: Headers,
        ctx: ServerContext,
        workspace: str,
    ) -> None:
        refused = await client.post("/v1/keys", json=KEY, headers=cookie | headers)
        assert (refused.status_code, refused.json()["code"]) == (403, "permission_denied")
        assert await ctx.directory.keys(workspace, after=None, limit=10) == []

    @pytest.mark.parametrize(
        "headers", [{"sec-fetch-site": "same-origin"}, {"sec-fetch-site": "none"}, ORIGIN]
    )
    async def test_our_own_pages_can(
        self, client: httpx2.AsyncClient, cookie: Headers, headers: Headers
    ) -> None:
        made = await client.post("/v1/keys", json=KEY, headers=cookie | headers)
        assert made.status_code == 201

    @pytest.mark.parametrize("method", ["PUT", "DELETE"])
    async def test_no_method_that_changes_something_is_left_open(
        self, client: httpx2.AsyncClient, cookie: Headers, method: str
    ) -> None:
        body = {"name": "Eve"} if method == "PUT" else None
        refused = await client.request(method, "/v1/people/eve", json=body, headers=cookie)
        assert refused.status_code == 403

    async def test_looking_needs_nothing_more(self, client: httpx2.AsyncClient, cookie: Headers) -> None:
        headers = cookie | {"sec-fetch-site": "cross-site"}
        assert (await client.get("/v1/me", headers=headers)).status_code == 200

    async def test_a_bearer_token_is_never_sent_by_a_browser_of_its_own(
        self, client: httpx2.AsyncClient, person: str
    ) -> None:
        headers = bearer(person) | {"origin": "https://elsewhere.example"}
        assert (await client.post("/v1/keys", json=KEY, headers=headers)).status_code == 201

    async def test_a_header_that_is_no_good_does_not_fall_back_on_the_cookie(
        self, client: httpx2.AsyncClient, cookie: Headers
    ) -> None:
        assert (await client.get("/v1/me", headers=cookie | bearer("nonsense"))).status_code == 401

    async def test_a_cookie_has_the_rights_of_its_person_and_no_more(
        self, client: httpx2.AsyncClient, issuer: Issuer, workspace: str
    ) -> None:
        member = await issuer.person(workspace, "bob", role=Role.MEMBER)
        headers = {"cookie": f"handraise={member}"} | ORIGIN
        assert (await client.post("/v1/keys", json=KEY, headers=headers)).status_code == 403
