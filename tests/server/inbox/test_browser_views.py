"""Views, filters and search in a browser: from a filter to a view with a name, through its questions, and back."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from handraise import Approval
from handraise.desk.local_desk import LocalDesk
from tests.server.inbox.chromium import *  # noqa: F403 -- fixtures come by name
from tests.server.inbox.chromium import NewWindow

DEPLOY = Approval.of("deploy", {"release": "4.2"})


@pytest.mark.only_proof_of("a saved view stays while you go through its questions in a browser")
async def test_a_filter_is_saved_as_a_view_that_stays_while_you_go_through_it(
    person: NewWindow, desk: LocalDesk
) -> None:
    for number in range(2):
        await desk.post(f"May I deploy number {number}?", form=DEPLOY)
        await desk.post(f"What is number {number}?")
    done = await desk.post("Which colour?")
    await desk.answer(done.id, "A very particular blue", by="bo")
    async with person("ann", viewport={"width": 1280, "height": 900}) as window:
        tab = await window.new_page()
        await tab.goto("/")
        await expect(tab.locator("[data-row]")).to_have_count(4)
        await tab.get_by_text("Filters", exact=True).click()
        await tab.get_by_label("Tool").select_option("deploy")
        await tab.get_by_role("button", name="Show", exact=True).click()
        await expect(tab.locator("[data-row]")).to_have_count(2)
        await tab.get_by_text("Save this view").click()
        await tab.get_by_label("Name of the view").fill("Deployments")
        await tab.get_by_role("button", name="Save", exact=True).click()
        view = tab.get_by_role("navigation", name="Views").get_by_role("link", name="Deployments")
        await expect(view).to_have_attribute("aria-current", "page")
        await tab.keyboard.press("j")
        await expect(tab.locator("[data-pane] h1")).to_contain_text("asks for your approval")
        await expect(tab.locator("[data-row]")).to_have_count(2)
        await tab.goto("/search?q=particular")
        await expect(tab.get_by_role("main")).to_contain_text("Which colour?")
        await tab.goto("/")
        await view.click()
        await tab.get_by_role("button", name="Delete the view Deployments").click()
        await expect(view).to_have_count(0)
