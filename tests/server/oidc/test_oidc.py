"""Signing in with a real OIDC provider on loopback, and everything that must not come in that way."""

from __future__ import annotations

import base64
import hashlib
import socket
import sys
import time
from dataclasses import asdict
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import httpx2
import pydantic
import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

import handraise.server.auth
import handraise.server.web
from handraise.model.errors import MissingExtra
from handraise.model.identities import Role
from handraise.server import ServerContext, ServerSettings, create_app
from handraise.server.auth import oidc as module
from handraise.server.auth.oidc import Attempt
from tests.server.oidc.provider import (
    CALLBACK,
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
    unsigned_part,
)
from tests.tiers import drawn

# The provider uses what Authlib would rather see gone; our own code does not.
pytestmark = [
    pytest.mark.filterwarnings("ignore:get_jwt_config"),
    pytest.mark.filterwarnings("ignore:authlib.jose module is deprecated"),
]


class TestWhoIsKnown:
    async def test_signs_in_by_their_address(self, browser: Browser, ann: str, ctx: ServerContext) -> None:
        assert "Continue with localhost" in (await browser.http.get("/sign-in")).text
        entered = await browser.sign_in(ann)
        assert (entered.status_code, entered.headers["location"]) == (303, "/")
        assert await browser.me() == "ann"
        assert [person.id for person in await ctx.directory.people(WORKSPACE, after=None, limit=9)] == ["ann"]

    async def test_comes_back_to_the_page_they_were_going_to(self, browser: Browser, ann: str) -> None:
        assert (await browser.http.get("/questions/a-question-of-theirs")).headers["location"] == "/sign-in"
        back = await browser.authorize(ann)
        assert "a-question-of-theirs" not in back
        # What was begun leads to where it was begun for, whatever the browser is told meanwhile.
        browser.http.cookies.set("handraise-place", "%2Fquestions%2Fanother", domain="127.0.0.1", path="/")
        entered = await browser.press(await browser.http.get(back))
        assert (entered.status_code, entered.headers["location"]) == (303, "/questions/a-question-of-theirs")
        assert "handraise-place" not in browser.http.cookies
        assert (await browser.sign_in(ann)).headers["location"] == "/"

    @pytest.mark.parametrize(
        "place", ["//evil.example", "https://evil.example", "/v1/me", "/%5Cevil", "/sign-in"]
    )
    async def test_is_led_nowhere_else(self, browser: Browser, ann: str, place: str) -> None:
        browser.http.cookies.set("handraise-place", quote(place, safe=""), domain="127.0.0.1", path="/")
        assert (await browser.sign_in(ann)).headers["location"] == "/"

    async def test_looking_at_where_the_provider_leads_changes_nothing(
        self, browser: Browser, provider: Provider, ann: str
    ) -> None:
        back = await browser.authorize(ann)
        pages = [await browser.http.request(method, back) for method in ("GET", "HEAD", "OPTIONS", "GET")]
        assert provider.asked == []
        assert not any("set-cookie" in page.headers for page in pages)
        assert await browser.me() is None
        assert (await browser.press(pages[-1])).status_code == 303

    async def test_the_exchange_is_bound_to_the_beginning(
        self, browser: Browser, provider: Provider, ann: str
    ) -> None:
        begun = await browser.http.get("/sign-in/oidc")
        asked = parse_qs(urlsplit(begun.headers["location"]).query)
        assert (asked["response_type"], asked["client_id"]) == (["code"], [CLIENT])
        assert (asked["code_challenge_method"], asked["scope"]) == (["S256"], ["openid email profile"])
        assert asked["redirect_uri"] == [browser.address + CALLBACK]
        assert len(asked["state"][0]) == len(asked["nonce"][0]) == 43
        cookie = begun.headers["set-cookie"]
        assert cookie.startswith("handraise-oidc=")
        assert {"HttpOnly", "Max-Age=600", "Path=/", "SameSite=lax"} <= set(cookie.split("; "))
        agreed = await browser.http.post(begun.headers["location"], data={"sub": ann})
        await browser.press(await browser.http.get(agreed.headers["location"]))
        (exchanged,) = provider.asked
        verifier = hashlib.sha256(exchanged["code_verifier"].encode()).digest()
        assert asked["code_challenge"] == [base64.urlsafe_b64encode(verifier).decode().rstrip("=")]

    async def test_is_found_also_where_the_address_is_not_in_the_token(
        self, browser: Browser, provider: Provider, ann: str
    ) -> None:
        provider.forge = lambda claims, key: signed(
            {name: claims[name] for name in claims if not name.startswith("email")}, key
        )
        assert (await browser.sign_in(ann)).status_code == 303
        assert await browser.me() == "ann"


class TestWhoIsNotKnown:
    async def test_gets_nothing(self, browser: Browser, ctx: ServerContext) -> None:
        await browser.account("eve", email="eve@elsewhere.example", email_verified=True)
        refused = await browser.sign_in("eve")
        assert_refused(refused)
        assert "Ask an administrator to invite you" in refused.text
        assert await ctx.directory.people(WORKSPACE, after=None, limit=9) == []

    async def test_joins_as_a_member_where_the_domain_may(self, browser: Browser, ctx: ServerContext) -> None:
        await browser.account("zoe", email="Zoe@example.COM", email_verified=True, name="Zoe Zett")
        assert (await browser.sign_in("zoe")).status_code == 303
        assert await browser.me() == "zoe@example.com"
        person = await ctx.directory.find_person(WORKSPACE, "zoe@example.com")
        assert person is not None
        assert (person.name, person.email, person.role) == ("Zoe Zett", "Zoe@example.COM", Role.MEMBER)

    @pytest.mark.parametrize(
        "email", ["eve@sub.example.com", "eve@notexample.com", "eve@example.com@evil.example"]
    )
    async def test_does_not_join_from_a_domain_that_only_looks_like_it(
        self, browser: Browser, email: str
    ) -> None:
        await browser.account("eve", email=email, email_verified=True)
        assert_refused(await browser.sign_in("eve"))

    async def test_does_not_become_somebody_who_has_the_name_already(
        self, browser: Browser, ctx: ServerContext
    ) -> None:
        name = "boss@example.com"
        await ctx.directory.put_person(WORKSPACE, name, name="Boss", email=None, role=Role.ADMIN)
        await browser.account("eve", email=name, email_verified=True)
        assert_refused(await browser.sign_in("eve"))
        person = await ctx.directory.find_person(WORKSPACE, name)
        assert person is not None
        assert (person.name, person.role) == ("Boss", Role.ADMIN)

    @pytest.mark.parametrize("verified", [False, "false", None, 0])
    async def test_is_not_believed_an_address_that_was_not_verified(
        self, browser: Browser, ann: str, verified: Any
    ) -> None:
        await browser.account(ann, email="ann@elsewhere.example", email_verified=verified)
        refused = await browser.sign_in(ann)
        assert_refused(refused)
        assert "not verified" in refused.text

    async def test_is_not_believed_an_address_of_which_the_provider_says_nothing(
        self, browser: Browser, ann: str, ctx: ServerContext, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await browser.account(ann, email="ann@elsewhere.example")
        refused = await browser.sign_in(ann)
        assert_refused(refused)
        assert "does not say whether your e-mail address is verified" in refused.text
        monkeypatch.setitem(ctx.settings.__dict__, "oidc_assume_verified", True)
        assert (await browser.sign_in(ann)).status_code == 303
        assert await browser.me() == "ann"

    async def test_is_nobody_who_came_in_with_another_account_before(
        self, browser: Browser, other: Browser, ann: str
    ) -> None:
        assert (await browser.sign_in(ann)).status_code == 303
        await other.account("sub-eve", email="ann@elsewhere.example", email_verified=True)
        refused = await other.sign_in("sub-eve")
        assert_refused(refused)
        assert "belongs to another account" in refused.text
        assert (await browser.sign_in(ann)).status_code == 303

    @pytest.mark.parametrize("email", [None, "", "ann", 7, ["ann@elsewhere.example"], "a\x00@example.com"])
    async def test_needs_an_address(self, browser: Browser, email: Any) -> None:
        await browser.account("eve", email=email)
        assert_refused(await browser.sign_in("eve"))


class TestAnAnswerThatIsNotTheirs:
    async def test_with_another_state(self, browser: Browser, provider: Provider, ann: str) -> None:
        back = await browser.authorize(ann)
        fields = {name: values[0] for name, values in parse_qs(urlsplit(back).query).items()}
        for state in ("", "x", fields["state"] + "x", "ä"):
            assert_refused(await browser.http.get(CALLBACK, params=fields | {"state": state}))
        assert_refused(await browser.finish(fields | {"state": "x"}))
        assert provider.asked == []

    async def test_in_a_browser_that_never_asked(
        self, browser: Browser, other: Browser, provider: Provider, ann: str
    ) -> None:
        back = await other.authorize(ann)
        assert_refused(await browser.http.get(back))
        fields = {name: values[0] for name, values in parse_qs(urlsplit(back).query).items()}
        assert_refused(await browser.finish(fields))
        assert provider.asked == []
        assert await browser.me() is None

    async def test_in_a_browser_that_asked_for_itself(
        self, browser: Browser, other: Browser, provider: Provider, ann: str
    ) -> None:
        await browser.authorize(ann)
        back = await other.authorize("eve")
        assert_refused(await browser.http.get(back))
        assert provider.asked == []

    async def test_with_a_cookie_that_somebody_made_up(
        self, browser: Browser, provider: Provider, ann: str
    ) -> None:
        back = await browser.authorize(ann)
        claims = {"state": "s", "nonce": "n", "verifier": "v", "exp": int(time.time()) + 60}
        cookies = (
            "nonsense",
            jwt.encode({"alg": "HS256"}, claims, OctKey.import_key("a" * 32)),
            unsigned_part({"alg": "none"}) + "." + unsigned_part(claims) + ".",
        )
        for cookie in cookies:
            browser.http.cookies.clear()
            browser.http.cookies.set("handraise-oidc", cookie, domain="127.0.0.1", path="/")
            assert_refused(
                await browser.finish({"code": parse_qs(urlsplit(back).query)["code"][0], "state": "s"})
            )
        assert provider.asked == []

    async def test_after_too_long(
        self, browser: Browser, provider: Provider, ann: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "ATTEMPT_LASTS", -1)
        begun = await browser.http.get("/sign-in/oidc")
        cookie = begun.headers["set-cookie"].partition(";")[0].partition("=")[2]
        agreed = await browser.http.post(begun.headers["location"], data={"sub": ann})
        browser.http.cookies.set("handraise-oidc", cookie, domain="127.0.0.1", path="/")
        assert_refused(await browser.http.get(agreed.headers["location"]))
        assert provider.asked == []

    async def test_begun_before_the_secret_was_replaced_is_finished(self, settings: dict[str, Any]) -> None:
        before = module.Provider(ServerSettings(url="memory:", **settings))
        begun = Attempt("the state", "the nonce", "the verifier")
        cookie = jwt.encode(
            {"alg": "HS256"},
            {**asdict(begun), "exp": int(time.time()) + 60},
            before._keys[0],  # noqa: SLF001 -- what a cookie is signed with
        )
        new = settings | {"secret": "another secret of forty characters or so"}
        both = module.Provider(ServerSettings(url="memory:", **new, secret_fallbacks=[settings["secret"]]))
        assert both.attempt(cookie, "the state") == begun
        with pytest.raises(module.SignInRefused):
            module.Provider(ServerSettings(url="memory:", **new)).attempt(cookie, "the state")

    async def test_from_another_site(self, browser: Browser, provider: Provider, ann: str) -> None:
        back = await browser.authorize(ann)
        fields = {name: values[0] for name, values in parse_qs(urlsplit(back).query).items()}
        for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}, {}):
            assert_refused(await browser.http.post(CALLBACK, data=fields, headers=headers))
        assert provider.asked == []
        assert (await browser.finish(fields)).status_code == 303

    async def test_a_second_time(self, browser: Browser, ann: str) -> None:
        back = await browser.authorize(ann)
        fields = {name: values[0] for name, values in parse_qs(urlsplit(back).query).items()}
        attempt = browser.http.cookies["handraise-oidc"]
        assert (await browser.finish(fields)).status_code == 303
        assert "handraise-oidc" not in browser.http.cookies
        assert_refused(await browser.finish(fields))
        browser.http.cookies.set("handraise-oidc", attempt, domain="127.0.0.1", path="/")
        assert_refused(await browser.finish(fields))

    async def test_that_says_no(self, browser: Browser) -> None:
        begun = await browser.http.get("/sign-in/oidc")
        denied = await browser.http.post(begun.headers["location"], data={"action": "deny"})
        refused = await browser.http.get(denied.headers["location"])
        assert_refused(refused)
        assert "did not sign you in" in refused.text


FORGERIES = [
    changed(iss="https://another.example"),
    changed(iss=None),
    changed(aud="another client"),
    changed(aud=["another client"], azp=CLIENT),
    changed(aud=[CLIENT, "another client"], azp="another client"),
    changed(aud=None),
    changed(azp="another client"),
    changed(nonce="of another attempt"),
    changed(nonce=None),
    changed(exp=1_700_000_000),
    changed(exp=None),
    changed(at_hash="of another token"),
    signed_by_another,
    signed_by_nobody,
    signed_with_what_is_public,
    lambda claims, key: "nonsense",  # noqa: ARG005 -- like the others
    lambda claims, key: signed(claims, key)[:-3] + "AAA",
]


@pytest.mark.parametrize("forge", drawn(FORGERIES, 5))
async def test_an_id_token_that_is_not_the_providers_for_us_just_now_is_not_accepted(
    browser: Browser, provider: Provider, ann: str, forge: Forge
) -> None:
    provider.forge = forge
    refused = await browser.sign_in(ann)
    assert_refused(refused)
    assert len(provider.asked) == 1
    assert await browser.me() is None


@pytest.mark.parametrize("path", ["", "/elsewhere"])
async def test_a_provider_that_is_not_there_is_said_so(
    settings: dict[str, Any], ctx: ServerContext, path: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        gone = f"http://127.0.0.1:{closed.getsockname()[1]}"
    issuer = settings["oidc_issuer"] + path if path else gone
    ctx.settings = ctx.settings.model_copy(update={"oidc_issuer": issuer})
    transport = httpx2.ASGITransport(app=create_app(ctx))
    async with httpx2.AsyncClient(transport=transport, base_url=ctx.settings.base_url) as client:
        assert_refused(await client.get("/sign-in/oidc"), status=503)


@pytest.mark.parametrize(
    "changes",
    [
        {"secret": None},
        {"secret": "too short"},
        {"oidc_client_id": None},
        {"oidc_issuer": "http://accounts.example.com"},
    ],
)
async def test_a_server_whose_settings_are_not_safe_does_not_start(
    settings: dict[str, Any], changes: dict[str, Any]
) -> None:
    with pytest.raises(pydantic.ValidationError, match=r"OIDC|https"):
        ServerSettings(url="memory:", **settings | changes)


async def test_without_authlib_the_extra_is_named(
    ctx: ServerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package, name in ((handraise.server.auth, "oidc"), (handraise.server.web, "sign_in_oidc")):
        monkeypatch.delitem(sys.modules, f"{package.__name__}.{name}", raising=False)
        monkeypatch.delattr(package, name, raising=False)
    monkeypatch.setitem(sys.modules, "authlib.integrations.base_client", None)
    with pytest.raises(MissingExtra, match=r"handraise\[oidc\]"):
        create_app(ctx)


@pytest.mark.parametrize("settings", [{}])
async def test_without_a_provider_there_is_no_such_page(client: httpx2.AsyncClient) -> None:
    assert (await client.get("/sign-in/oidc")).status_code == 404
    assert (await client.post(CALLBACK)).status_code == 404
