"""The provider ends sessions by a logout token, and nobody else does."""

from __future__ import annotations

import asyncio
import secrets
import time
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from handraise.model.identities import Role
from handraise.server import ServerContext, create_app
from tests.server.oidc.provider import (
    CLIENT,
    WORKSPACE,
    Browser,
    Forge,
    Provider,
    assert_refused,
    changed,
    signed,
    signed_by_another,
    signed_by_nobody,
    signed_with_what_is_public,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:get_jwt_config"),
    pytest.mark.filterwarnings("ignore:authlib.jose module is deprecated"),
]

PATH = "/sign-in/oidc/backchannel-logout"
_DAY = timedelta(days=1)
EVENT = "http://schemas.openid.net/event/backchannel-logout"


def claims_of(provider: Provider, **changes: Any) -> dict[str, Any]:
    """The claims of a valid logout token with these changes; None takes one away."""
    whole = {
        "iss": provider.issuer,
        "aud": CLIENT,
        "iat": int(time.time()),
        "exp": int(time.time()) + 120,
        "jti": secrets.token_urlsafe(8),
        "events": {EVENT: {}},
        "sub": "sub-ann",
    } | changes
    return {name: value for name, value in whole.items() if value is not None}


async def send(browser: Browser, token: str) -> httpx2.Response:
    """The provider sends a logout token, without any cookie or origin of ours."""
    async with httpx2.AsyncClient(base_url=browser.address, timeout=30) as http:
        return await http.post(PATH, data={"logout_token": token})


@pytest.fixture
async def signed_in(browser: Browser, provider: Provider, ann: str) -> Browser:
    """Ann's browser, signed in with the session `s-1` of the provider."""
    provider.forge = changed(sid="s-1")
    assert (await browser.sign_in(ann)).status_code == 303
    provider.forge = None
    assert await browser.me() == "ann"
    return browser


@pytest.mark.parametrize(
    "named",
    [{}, {"sid": "s-1"}, {"sub": None, "sid": "s-1"}, {"aud": [CLIENT, "another"]}, {"exp": None}],
)
async def test_a_logout_at_the_provider_ends_the_session_here(
    signed_in: Browser, provider: Provider, named: dict[str, Any]
) -> None:
    done = await send(signed_in, signed(claims_of(provider, **named), provider.key))
    assert (done.status_code, done.headers["cache-control"]) == (200, "no-store")
    assert await signed_in.me() is None


@pytest.mark.parametrize("named", [{"sub": "sub-bob"}, {"sub": None, "sid": "s-2"}, {"sid": "s-2"}])
async def test_nobody_elses_session_ends(
    signed_in: Browser, provider: Provider, named: dict[str, Any]
) -> None:
    done = await send(signed_in, signed(claims_of(provider, **named), provider.key))
    assert done.status_code == 200
    assert await signed_in.me() == "ann"


async def test_a_session_that_began_with_a_link_does_not_end(
    signed_in: Browser, provider: Provider, ctx: ServerContext
) -> None:
    await ctx.directory.open_session(
        WORKSPACE, "by-link", digest="d" * 64, person="ann", how="sign-in", lasts=_DAY
    )
    await send(signed_in, signed(claims_of(provider), provider.key))
    left = await ctx.directory.sessions(WORKSPACE, "ann", limit=9)
    assert [each.id for each in left] == ["by-link"]


NOT_FOR_US: list[tuple[dict[str, Any], str]] = [
    ({"iss": "https://another.example"}, "iss"),
    ({"iss": None}, "iss"),
    ({"aud": "another client"}, "aud"),
    ({"aud": ["another client"]}, "aud"),
    ({"aud": None}, "aud"),
    ({"iat": None}, "iat"),
    ({"iat": 1_700_000_000}, "iat"),
    ({"iat": 4_000_000_000}, "iat"),
    ({"iat": True}, "iat"),
    ({"exp": 1_700_000_000}, "exp"),
    ({"jti": None}, "jti"),
    ({"jti": ""}, "jti"),
    ({"jti": 7}, "jti"),
    ({"events": None}, "events"),
    ({"events": {}}, "events"),
    ({"events": {EVENT: True}}, "events"),
    ({"events": [EVENT]}, "events"),
    ({"nonce": "n"}, "nonce"),
    ({"sub": None}, "sub"),
    ({"sub": ""}, "sub"),
    ({"sub": 7}, "sub"),
    ({"sid": 7}, "sid"),
]
"""What is changed in a valid token, and what the refusal names."""


async def test_a_token_that_is_not_a_logout_token_for_us_just_now_is_refused(
    signed_in: Browser, provider: Provider
) -> None:
    for changes, why in NOT_FOR_US:
        refused = await send(signed_in, signed(claims_of(provider, **changes), provider.key))
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_request")
        assert why in refused.json()["error_description"]
        assert await signed_in.me() == "ann"


FORGED: list[Forge] = [
    signed_by_another,
    signed_by_nobody,
    signed_with_what_is_public,
    lambda claims, key: signed(claims, key)[:-3] + "AAA",
    lambda claims, key: "",  # noqa: ARG005 -- like the others
]


async def test_a_token_that_the_provider_did_not_sign_is_refused(
    signed_in: Browser, provider: Provider
) -> None:
    for forge in FORGED:
        for _ in range(2):  # also when the keys are known
            refused = await send(signed_in, forge(claims_of(provider), provider.key))
            assert refused.status_code == 400, forge
    assert await signed_in.me() == "ann"


async def test_a_token_works_once_on_all_servers(
    signed_in: Browser, provider: Provider, ctx: ServerContext, ann: str
) -> None:
    token = signed(claims_of(provider), provider.key)
    app = create_app(ctx)
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url=ctx.settings.base_url) as another:
        responses = await asyncio.gather(
            send(signed_in, token), *(another.post(PATH, data={"logout_token": token}) for _ in range(5))
        )
        assert sorted(each.status_code for each in responses) == [200, 400, 400, 400, 400, 400]
        await signed_in.sign_in(ann)
        again = await another.post(PATH, data={"logout_token": token})
    assert (again.status_code, await signed_in.me()) == (400, "ann")
    assert "used before" in again.json()["error_description"]


async def test_an_open_event_stream_ends_at_once(
    signed_in: Browser, provider: Provider, app: FastAPI, ctx: ServerContext
) -> None:
    del app
    assert ctx.settings.heartbeat > 10  # the interval at which it would be noticed anyway
    async with asyncio.timeout(8), signed_in.http.stream("GET", "/v1/events") as events:
        assert events.status_code == 200
        done = await send(signed_in, signed(claims_of(provider), provider.key))
        assert done.status_code == 200
        async for _ in events.aiter_bytes():
            pass


async def test_it_is_in_the_audit_trail(signed_in: Browser, provider: Provider, ctx: ServerContext) -> None:
    await send(signed_in, signed(claims_of(provider), provider.key))
    async with asyncio.timeout(20):
        while True:
            events = await ctx.store.workspace_events(WORKSPACE, after=None, limit=50)
            if events and events[-1].kind == "session.ended":
                break
            await asyncio.sleep(0.01)
    assert (events[-1].by, events[-1].details["person"]) == ("OIDC provider", "ann")


async def test_an_id_token_ends_nothing(signed_in: Browser, provider: Provider) -> None:
    """Anybody who has seen an ID token could send it."""
    kept: list[str] = []

    def keep(claims: dict[str, Any], key: dict[str, Any]) -> str:
        kept.append(signed(claims, key))
        return kept[-1]

    provider.forge = keep
    await signed_in.sign_in("sub-ann")
    assert (await send(signed_in, kept[0])).status_code == 400
    assert await signed_in.me() == "ann"


async def test_a_person_who_was_removed_is_nobody_to_end(
    signed_in: Browser, provider: Provider, ctx: ServerContext
) -> None:
    await ctx.directory.put_person(WORKSPACE, "root", name="Root", email=None, role=Role.ADMIN)
    await ctx.directory.remove_person(WORKSPACE, "ann")
    done = await send(signed_in, signed(claims_of(provider), provider.key))
    assert done.status_code == 200
    assert_refused(await signed_in.sign_in("sub-ann"))
