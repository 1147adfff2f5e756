"""Groups and administrators that the OIDC provider names, who is who, and how long its word counts."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pydantic
import pytest

from handraise.model.identities import Role
from handraise.server import ServerContext, ServerSettings
from handraise.server.process import first_administrator
from tests.server.oidc.provider import WORKSPACE, Browser, Provider, assert_refused, changed

pytestmark = [
    pytest.mark.filterwarnings("ignore:get_jwt_config"),
    pytest.mark.filterwarnings("ignore:authlib.jose module is deprecated"),
]

CLAIMED = {
    "oidc_groups_claim": "groups",
    "oidc_groups": {"Finance": "finance", "0f6c-ops": "ops"},
    "oidc_admin_groups": ["Desk admins"],
}


@pytest.fixture
def settings(settings: dict[str, Any]) -> dict[str, Any]:
    return settings | CLAIMED | {"admin_emails": ["Boss@elsewhere.example"]}


async def rights(ctx: ServerContext, person: str) -> tuple[Role, set[str]]:
    found = await ctx.directory.find_person(WORKSPACE, person)
    assert found is not None
    return found.role, set(found.groups)


@pytest.fixture
async def joe(browser: Browser) -> str:
    """The subject of somebody whose domain may join."""
    await browser.account("sub-joe", email="joe@example.com", email_verified=True, name="Joe")
    return "sub-joe"


class TestGroups:
    async def test_follow_the_provider_at_every_sign_in_and_those_made_by_hand_stay(
        self, browser: Browser, provider: Provider, ctx: ServerContext, joe: str
    ) -> None:
        provider.forge = changed(groups=["Finance", "not mapped", "ops"])
        assert (await browser.sign_in(joe)).status_code == 303
        assert await rights(ctx, "joe@example.com") == (Role.MEMBER, {"finance"})
        await ctx.directory.put_group(WORKSPACE, "by hand", ["joe@example.com"])
        provider.forge = changed(groups=["0f6c-ops"])
        await browser.sign_in(joe)
        assert await rights(ctx, "joe@example.com") == (Role.MEMBER, {"ops", "by hand"})
        provider.forge = None
        await browser.sign_in(joe)
        assert await rights(ctx, "joe@example.com") == (Role.MEMBER, {"by hand"})

    async def test_may_make_an_administrator_who_is_none_when_they_have_left_them(
        self, browser: Browser, provider: Provider, ctx: ServerContext, joe: str
    ) -> None:
        provider.forge = changed(groups="Desk admins")
        await browser.sign_in(joe)
        assert await rights(ctx, "joe@example.com") == (Role.ADMIN, set())
        provider.forge = changed(groups=[])
        await browser.sign_in(joe)
        assert await rights(ctx, "joe@example.com") == (Role.MEMBER, set())

    @pytest.mark.parametrize(
        "claims",
        [
            {"_claim_names": {"groups": "src1"}, "_claim_sources": {"src1": {"endpoint": "https://graph"}}},
            {"hasgroups": True},
        ],
    )
    async def test_that_the_provider_left_out_because_there_are_too_many_are_not_taken_for_none(
        self, browser: Browser, provider: Provider, ctx: ServerContext, joe: str, claims: dict[str, Any]
    ) -> None:
        provider.forge = changed(groups=["Finance"])
        await browser.sign_in(joe)
        provider.forge = changed(**claims)
        refused = await browser.sign_in(joe)
        assert_refused(refused)
        assert "too many groups" in refused.text
        assert await rights(ctx, "joe@example.com") == (Role.MEMBER, {"finance"})

    @pytest.mark.parametrize("groups", [{"Finance": True}, [7], 7, [["Finance"]]])
    async def test_that_cannot_be_read_let_nobody_in(
        self, browser: Browser, provider: Provider, joe: str, groups: Any
    ) -> None:
        provider.forge = changed(groups=groups)
        assert_refused(await browser.sign_in(joe))


class TestAdministrators:
    async def test_come_in_by_their_verified_address_and_there_is_no_first_link(
        self, browser: Browser, ctx: ServerContext
    ) -> None:
        assert await first_administrator(ctx) is None
        assert await ctx.directory.people(WORKSPACE, after=None, limit=9) == []
        assert "first administrator" not in (await browser.http.get("/sign-in")).text
        await browser.account("eve", email="boss@elsewhere.example", email_verified=False)
        assert_refused(await browser.sign_in("eve"))
        await browser.account("sub-boss", email="boss@elsewhere.example", email_verified=True)
        assert (await browser.sign_in("sub-boss")).status_code == 303
        assert await rights(ctx, "boss@elsewhere.example") == (Role.ADMIN, set())

    async def test_are_the_account_that_came_first_and_not_the_address(
        self, browser: Browser, other: Browser, ctx: ServerContext
    ) -> None:
        await browser.account("sub-boss", email="boss@elsewhere.example", email_verified=True)
        await browser.sign_in("sub-boss")
        await other.account("sub-new", email="boss@elsewhere.example", email_verified=True)
        assert_refused(await other.sign_in("sub-new"))
        await browser.account("sub-boss", email="retired@nowhere.example", email_verified=True)
        assert (await browser.sign_in("sub-boss")).status_code == 303
        assert await browser.me() == "boss@elsewhere.example"
        assert await rights(ctx, "boss@elsewhere.example") == (Role.MEMBER, set())


async def test_who_is_disabled_does_not_come_in_and_has_no_new_rights(
    browser: Browser, provider: Provider, ctx: ServerContext, joe: str
) -> None:
    await browser.sign_in(joe)
    await ctx.directory.disable_person(WORKSPACE, "joe@example.com")
    assert await browser.me() is None
    provider.forge = changed(groups=["Finance"])
    refused = await browser.sign_in(joe)
    assert_refused(refused)
    assert "disabled" in refused.text
    assert await rights(ctx, "joe@example.com") == (Role.MEMBER, set())


class TestMaximumAge:
    @pytest.fixture
    def settings(self, settings: dict[str, Any]) -> dict[str, Any]:
        return settings | {"oidc_max_age_hours": 8.0}

    async def test_is_asked_of_the_provider_and_ends_the_session(
        self, browser: Browser, provider: Provider, ctx: ServerContext, joe: str
    ) -> None:
        begun = await browser.http.get("/sign-in/oidc")
        asked = parse_qs(urlsplit(begun.headers["location"]).query)
        assert (asked["max_age"], "prompt" in asked) == (["28800"], False)
        provider.forge = changed(auth_time=int(time.time()) - 7 * 3_600)
        assert (await browser.sign_in(joe)).status_code == 303
        (session,) = await ctx.directory.sessions(WORKSPACE, "joe@example.com", limit=9)
        lasts = session.expires_at - session.created_at
        assert timedelta(minutes=50) < lasts <= timedelta(hours=1)

    async def test_that_is_over_sends_the_person_to_sign_in_at_the_provider_again(
        self, browser: Browser, provider: Provider, joe: str
    ) -> None:
        provider.forge = changed(auth_time=int(time.time()) - 9 * 3_600)
        sent = await browser.sign_in(joe)
        assert (sent.status_code, sent.headers["location"]) == (303, "/sign-in/oidc?again=true")
        assert await browser.me() is None
        begun = await browser.http.get(sent.headers["location"])
        assert parse_qs(urlsplit(begun.headers["location"]).query)["prompt"] == ["login"]

    @pytest.mark.parametrize("auth_time", [None, "now", True, 4_000_000_000])
    async def test_is_not_kept_on_a_word_that_the_provider_does_not_give(
        self, browser: Browser, provider: Provider, joe: str, auth_time: Any
    ) -> None:
        provider.forge = changed(auth_time=auth_time)
        await browser.sign_in(joe)
        assert await browser.me() is None

    async def test_a_provider_that_does_not_ask_again_when_told_to_is_refused(
        self, browser: Browser, provider: Provider, joe: str
    ) -> None:
        provider.forge = changed(
            auth_time=int(time.time()) - 3_600
        )  # within the maximum, but before this attempt
        begun = await browser.http.get("/sign-in/oidc", params={"again": "true"})
        agreed = await browser.http.post(begun.headers["location"], data={"sub": joe})
        refused = await browser.press(await browser.http.get(agreed.headers["location"]))
        assert_refused(refused)
        assert "did not ask you" in refused.text


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"oidc_groups_claim": None}, "oidc_groups"),
        ({"oidc_groups": {"Finance": " "}}, "oidc_groups"),
        ({"oidc_groups": {"Finance": "x" * 201}}, "oidc_groups"),
        ({"admin_emails": ["boss"]}, "admin_emails"),
        ({"oidc_issuer": None, "oidc_client_id": None}, "admin_emails"),
    ],
)
def test_settings_that_would_do_nothing_are_refused(
    settings: dict[str, Any], changes: dict[str, Any], name: str
) -> None:
    with pytest.raises(pydantic.ValidationError, match=name):
        ServerSettings(url="memory:", **settings | changes)


async def test_nothing_about_groups_is_asked_without_the_setting(browser: Browser) -> None:
    begun: httpx2.Response = await browser.http.get("/sign-in/oidc")
    asked = parse_qs(urlsplit(begun.headers["location"]).query)
    assert (asked["scope"], "max_age" in asked, "prompt" in asked) == (["openid email profile"], False, False)
