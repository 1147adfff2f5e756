"""An administrator sets up a workspace in the browser, from nothing to the first answer in Slack, without a terminal."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from handraise import Answered, Confirm, open_desk
from handraise.server import ServerSettings, create_app, open_server
from handraise.server.auth.issuer import issue_link
from handraise.server.process import first_administrator
from support.http_server import listening
from tests.channels.slack_peer import BOT_TOKEN, SECRET, TEAM, open_peer
from tests.channels.slack_server import PEOPLE, Team
from tests.server.inbox.chromium import PATIENCE
from tests.server.inbox.own_chromium import *  # noqa: F403 -- fixtures come by name

pytestmark = [
    pytest.mark.proof,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.slow("takes 20 s; every form of it has a test of its own in the gate"),
    pytest.mark.timeout(300),
]

WITHIN = 60.0


@pytest_asyncio.fixture(loop_scope="session")
async def place(tmp_path: Path) -> AsyncIterator[tuple[Team, str]]:
    """Slack, a server without any person, and the address at which it listens."""
    door = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{door.getsockname()[1]}"
    async with open_peer() as peer:
        peer.people.update(dict.fromkeys(PEOPLE.values(), TEAM))
        settings = ServerSettings(
            url=f"sqlite:///{tmp_path / 'new.db'}",
            public_url=address,
            poll_interval=0.2,
            slack_bot_token=BOT_TOKEN,
            slack_signing_secret=SECRET,
            slack_api_url=peer.api_url,
        )
        async with (
            open_server(settings) as ctx,
            listening(create_app(ctx), door),
            httpx2.AsyncClient(base_url=address) as client,
        ):
            team = Team(peer, ctx, client)
            peer.post = team.post
            yield team, address


async def test_a_workspace_is_set_up_from_nothing_to_the_first_answer_in_slack(
    place: tuple[Team, str], chromium: Browser
) -> None:
    team, address = place
    name = await first_administrator(team.ctx)
    assert name is not None
    printed = await issue_link(
        team.ctx, "default", person=name, purpose="invitation", vouched_by="command line"
    )
    assert printed is not None
    window = await chromium.new_context(base_url=address)
    window.set_default_timeout(PATIENCE)
    tab = await window.new_page()
    await becomes_the_administrator(tab, printed.url)
    key = await creates_a_key(tab)
    await says_where_people_are_reached(tab)
    await sends_a_test_and_answers_it_in_slack(tab, team)
    async with open_desk(address, credentials=key) as desk:
        question = await desk.post("Deploy release 4.2?", form=Confirm(), recipients=["ann"])
        message = await team.sent(question)
        await team.press(PEOPLE["ann"], message, "yes")
        outcome = await desk.wait(question.id, timeout=WITHIN)
    assert isinstance(outcome, Answered)
    assert (outcome.value, outcome.by, outcome.channel) == (True, "ann", "slack")
    await reads_the_trail(tab)
    await window.close()


async def becomes_the_administrator(tab: Page, link: str) -> None:
    await tab.goto("/")
    await tab.get_by_role("link", name="Set it up").click()
    await tab.get_by_label("The link, or the code in it").fill(link)
    await tab.get_by_label("Agents ask you as").fill("ann")
    await tab.get_by_role("button", name="Begin").click()
    await expect(tab.get_by_role("heading", level=1)).to_have_text("Administration")


async def creates_a_key(tab: Page) -> str:
    await tab.get_by_role("link", name="Create a key for your first agent").click()
    await tab.get_by_label("Name of the agent").fill("deploy-bot")
    await tab.get_by_role("button", name="Create the key").click()
    key = await tab.locator(".secret").inner_text()
    await tab.get_by_role("link", name="I have copied it").click()
    await expect(tab.get_by_role("cell", name="deploy-bot", exact=True)).to_be_visible()
    return key.strip()


async def says_where_people_are_reached(tab: Page) -> None:
    await tab.get_by_role("link", name="Addresses").click()
    await tab.get_by_role("combobox", name="Who", exact=True).fill("ann")
    await tab.get_by_role("combobox", name="Channel", exact=True).select_option("slack")
    await tab.get_by_role("textbox", name="Address", exact=True).fill(PEOPLE["ann"])
    await tab.get_by_role("button", name="Save the address").click()
    await expect(tab.get_by_role("status").first).to_have_text("Saved.")


async def sends_a_test_and_answers_it_in_slack(tab: Page, team: Team) -> None:
    await tab.get_by_role("link", name="Channels", exact=True).click()
    await tab.get_by_role("button", name="Send me a test").click()
    await expect(tab.get_by_role("heading", name="Your test")).to_be_visible()
    message = await team.find(lambda each: "This is a test" in each.shown)
    await team.press(PEOPLE["ann"], message, "yes")
    await team.ended(message)
    await tab.get_by_role("link", name="Look again").click()
    await expect(tab.locator("#test .badge.answered")).to_have_text("answered")


async def reads_the_trail(tab: Page) -> None:
    await tab.get_by_role("link", name="Audit trail").click()
    for what in ("Key created", "Address added", "Person removed"):
        await expect(tab.get_by_role("cell", name=what, exact=True).first).to_be_visible()
    await tab.get_by_role("button", name="Verify now").click()
    await expect(tab.locator("#verdict")).to_contain_text("Nothing was changed, removed or added")
