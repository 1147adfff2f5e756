"""The pages of an agent, a tool, a person and a conversation in a browser: for everybody, on a phone, with the keyboard."""

from __future__ import annotations

from typing import Literal

import pytest
from playwright.async_api import Page, expect

from handraise import Approval, Confirm
from handraise.desk.local_desk import LocalDesk
from handraise.model.identities import Role
from tests.server.inbox.chromium import *  # noqa: F403 -- fixtures come by name
from tests.server.inbox.chromium import NewWindow, violations
from tests.tiers import NIGHTLY

THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark") if NIGHTLY else ("dark",)
"""In the gate, test_browser_access.py looks at the light ones."""
PATHS = ("/conversation?name=c", "/agent?name=deploy-bot", "/tool?name=deploy", "/person")
LONG = "x" * 190
DEPLOY = Approval.of("deploy", {"region": LONG, "share": 5}, scopes=["once", "always"])


@pytest.mark.only_proof_of(
    "the four pages fit on a phone, in both themes, and the keyboard leads through them"
)
async def test_the_pages_are_for_everybody_on_a_phone_in_both_themes_and_with_the_keyboard(
    person: NewWindow, desk: LocalDesk
) -> None:
    await _much(desk)
    async with person("ann", role=Role.ADMIN, viewport={"width": 390, "height": 800}) as window:
        tab = await window.new_page()
        for path in PATHS:
            await tab.goto(path)
            assert await tab.evaluate("document.documentElement.scrollWidth") == 390, path
            for theme in THEMES:
                await tab.emulate_media(color_scheme=theme, reduced_motion="reduce")
                assert await violations(tab) == [], (path, theme)
        await _with_the_keyboard(tab)


async def _with_the_keyboard(tab: Page) -> None:
    """From what waits in a conversation to its agent, and from there to the tool."""
    await tab.goto("/conversation?name=c")
    await tab.get_by_role("link", name="Jump to what waits").focus()
    await tab.keyboard.press("Enter")
    await expect(tab.locator(".moment:target")).to_contain_text("Is it ready?")
    await tab.locator(".moment:target .agent-name").focus()
    await tab.keyboard.press("Enter")
    await expect(tab.get_by_role("heading", level=1)).to_have_text("deploy-bot")
    await tab.get_by_role("region", name="Tools that it wants to use").get_by_role("link").focus()
    await tab.keyboard.press("Enter")
    await expect(tab.get_by_role("heading", level=1)).to_have_text("deploy")


@pytest.mark.slow("takes seconds in Chromium, and no right depends on it")
async def test_a_name_in_a_row_can_be_clicked_although_the_row_is_a_link(
    tab: Page, desk: LocalDesk, address: str
) -> None:
    await _much(desk)
    await tab.goto("/settled")
    await tab.get_by_role("link", name="deploy-bot").first.click()
    await expect(tab).to_have_url(f"{address}/agent?name=deploy-bot")
    await tab.go_back()
    await tab.get_by_role("link", name="Approve deploy").first.click()
    await expect(tab).to_have_url(f"{address}/tool?name=deploy")
    await tab.get_by_role("link", name="Deploy now?").first.click()
    await tab.get_by_role("link", name="The tool").click()
    await expect(tab.get_by_role("heading", level=1)).to_have_text("deploy")


async def _much(desk: LocalDesk) -> None:
    talked = await desk.post(
        f"Which region? {LONG}", conversation="c", recipients=["ann", "bob"], replies="program"
    )
    await desk.ask_back(talked.id, LONG, by="ann")
    await desk.reply(talked.id, "For customer 12")
    await desk.hand_over(talked.id, ["bob"], by="ann", reason=LONG)
    await desk.send_back(talked.id, by="bob", reason="Name one")
    done = await desk.post(
        "Deploy now?", form=DEPLOY, conversation="c", recipients=["ann"], replaces=talked.id
    )
    await desk.answer(done.id, {"decision": "approve", "scope": "always"}, by="ann")
    await desk.consume_approval(done.id)
    await desk.report(done.id, ok=False, text=f"Not ready: {LONG}")
    await desk.post("Is it ready?", form=Confirm(), conversation="c", recipients=["ann"], heartbeat=600)
