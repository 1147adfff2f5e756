"""Connecting an account and setting hours in a real browser, on a phone and wide, in both themes."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal

import httpx2
import pytest
import pytest_asyncio
from playwright.async_api import Page, ViewportSize, expect

from handraise.model.identities import Role
from handraise.server import ServerContext
from tests.channels import slack_peer
from tests.channels.slack_peer import SlackPeer
from tests.server.inbox.chromium import *  # noqa: F403 -- its fixtures
from tests.server.inbox.chromium import NewWindow, complaints, fits, violations

ANN, MALLORY = "U0ANN", "U0MALLORY"
PHONE: ViewportSize = {"width": 390, "height": 800}
WIDE: ViewportSize = {"width": 1_280, "height": 900}


@pytest.fixture
def clock() -> None:
    return None


@pytest_asyncio.fixture(loop_scope="session")
async def slack() -> AsyncIterator[SlackPeer]:
    async with slack_peer.open_peer() as peer:
        peer.enrol(ANN, "ann@example.org", "Ann <b>Smith</b> of a department with a long name")
        peer.enrol(MALLORY, "mallory@example.org", "Mallory")
        yield peer


@pytest.fixture
def settings(slack: SlackPeer) -> dict[str, Any]:
    return {
        "secret": "s" * 32,
        "slack_bot_token": slack_peer.BOT_TOKEN,
        "slack_signing_secret": slack_peer.SECRET,
        "slack_api_url": slack.api_url,
    }


async def link_for(slack: SlackPeer, address: str, user: str, text: str) -> str:
    """Send a text to the bot, and get the path of the link that it answers with."""

    async def post(headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        async with httpx2.AsyncClient(base_url=address) as client:
            inbound = "/v1/channels/slack/inbound"
            answer = await client.post(inbound, headers=dict(headers), content=body)
            return answer.status_code, answer.content

    slack.post = post
    before = len(slack.messages)
    await slack.say(user, f"D{user}", text)
    async with asyncio.timeout(20):
        while len(slack.messages) == before:
            await asyncio.sleep(0.02)
    *_, told = slack.messages.values()
    found = re.search(r'https?://[^/"]+(/me/connect/[^"]+)', json.dumps(told.blocks))
    assert found is not None
    return found[1]


async def looks_well(tab: Page) -> None:
    for size in (PHONE, WIDE):
        await tab.set_viewport_size(size)
        assert await fits(tab), tab.url
    assert await violations(tab) == [], tab.url


@pytest.mark.parametrize(
    "theme",
    [
        pytest.param(
            "light",
            marks=pytest.mark.only_proof_of("a person connects their account on a page, and nobody else's"),
        ),
        pytest.param("dark", marks=pytest.mark.slow("the gate has the other theme")),
    ],
)
async def test_an_account_is_connected_with_the_code_and_the_link(
    person: NewWindow,
    ctx: ServerContext,
    slack: SlackPeer,
    address: str,
    workspace: str,
    theme: Literal["light", "dark"],
) -> None:
    options: dict[str, Any] = {"color_scheme": theme, "bypass_csp": True}
    async with person("ann", **options) as window, person("mallory", **options) as another:
        tab = await window.new_page()
        errors = complaints(tab)
        await tab.goto("/me")
        await expect(tab.locator("#reached")).to_contain_text("Only here, in the inbox.")
        await tab.get_by_role("button", name="Connect Slack").click()
        await looks_well(tab)
        code = await tab.locator(".send-code code").inner_text()
        path = await link_for(slack, address, ANN, code)
        # Somebody else who got hold of the link cannot use it.
        theirs = await another.new_page()
        refused = await theirs.goto(path)
        assert refused is not None
        assert refused.status == 403
        await tab.goto(path)
        await expect(tab.get_by_role("heading", level=1)).to_have_text("Is this your account?")
        await expect(tab.locator("dl.rows")).to_contain_text("Ann <b>Smith</b>")
        await looks_well(tab)
        await tab.get_by_role("button", name="Connect it", exact=True).click()
        await expect(tab.locator("#reached")).to_contain_text(ANN)
        await looks_well(tab)
        [known] = await ctx.outbox.addresses(workspace, ["ann"])
        assert (known.channel, known.id) == ("slack", ANN)
        again = await tab.goto(path)
        assert again is not None
        await tab.get_by_role("button", name="Connect it", exact=True).click()
        await expect(tab.get_by_role("heading", level=1)).to_have_text("This link does not connect anything")
        await tab.goto("/me")
        await tab.get_by_role("button", name=f"Remove {ANN} of Slack").click()
        await expect(tab.locator("#reached")).to_contain_text("Only here, in the inbox.")
        # Without web push there is no key for it, which is looked for on this page.
        assert [each for each in errors if "Failed to load resource" not in each] == []


@pytest.mark.slow("tests/server/test_connected_accounts.py sets hours over HTTP in the gate")
async def test_hours_are_set_with_the_keyboard_and_without_scripts(person: NewWindow) -> None:
    async with person("ann", java_script_enabled=False) as window:
        tab = await window.new_page()
        await tab.goto("/me")
        for day in ("Monday", "Friday"):
            await tab.get_by_label(day).press("Space")
        await tab.get_by_label("From", exact=True).fill("08:30")
        await tab.get_by_label("To", exact=True).fill("17:00")
        await tab.locator("#hours").get_by_role("button", name="Save").press("Enter")
        await expect(tab.get_by_label("Monday")).to_be_checked()
        await expect(tab.get_by_label("Tuesday")).not_to_be_checked()
        await expect(tab.get_by_label("From", exact=True)).to_have_value("08:30")
        await tab.get_by_role("button", name="At any time").press("Enter")
        await expect(tab.locator("#hours")).to_contain_text("you are notified at any time")


@pytest.mark.slow("tests/server/test_account_search.py goes through the page over HTTP in the gate")
async def test_people_are_found_on_the_page_of_addresses(
    person: NewWindow, ctx: ServerContext, workspace: str
) -> None:
    for name in ("ann", "bob"):
        email = f"{name}@example.org"
        await ctx.directory.put_person(workspace, name, name=name, email=email, role=Role.MEMBER)
    async with person("boss", role=Role.ADMIN, bypass_csp=True) as window:
        tab = await window.new_page()
        await tab.goto("/admin/addresses")
        await tab.get_by_role("button", name="Find people in Slack").click()
        await expect(tab.get_by_label("ann")).to_be_checked()
        await looks_well(tab)
        await tab.get_by_role("button", name="Save these addresses").click()
        await expect(tab.get_by_role("status")).to_have_text("Saved.")
        await expect(tab.get_by_role("cell", name=ANN, exact=True)).to_be_visible()
