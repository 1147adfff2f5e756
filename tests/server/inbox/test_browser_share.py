"""Send back and share in a real browser: how many clicks it takes, and what others see at once."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from handraise import Approval, Confirm
from handraise.desk.local_desk import LocalDesk
from tests.server.inbox.chromium import *  # noqa: F403 -- fixtures come by name
from tests.server.inbox.chromium import NewWindow, listens

REFUND = Approval.of("refund", {"amount": 300})


@pytest.mark.slow("takes seconds in Chromium, and no right depends on it")
async def test_a_question_is_sent_back_after_a_moment_and_asked_again(
    tab: Page, errors: list[str], desk: LocalDesk
) -> None:
    question = await desk.post("Refund?", form=REFUND, undo_for=60)
    await listens(tab, f"/questions/{question.id}")
    await tab.keyboard.press("b")
    await expect(tab.get_by_label("What should change?")).to_be_focused()
    await tab.get_by_role("button", name="Send back").click()
    assert (await desk.get(question.id)).outcome is None, "the browser asks for a reason"
    await tab.get_by_label("What should change?").fill("Only 30.")
    await tab.get_by_role("button", name="Send back").click()
    await expect(tab.get_by_role("group", name="Sending in 60 s: Send back")).to_be_visible()
    await tab.keyboard.press("Escape")
    await expect(tab.get_by_label("What should change?")).to_have_value("Only 30.")
    await tab.get_by_role("button", name="Send back").click()
    async with tab.expect_response("**/v1/events"):
        await tab.get_by_role("button", name="Send now").press("Enter")
    await expect(tab.get_by_role("heading", name="Sent back by you")).to_be_visible()
    await desk.post("Refund a part?", form=Approval.of("refund", {"amount": 30}), replaces=question.id)
    await expect(tab.locator("[data-live]")).to_contain_text("The agent has asked again.")
    await tab.get_by_role("link", name="Show it").click()
    await tab.get_by_role("link", name="Refund a part?").click()
    await expect(
        tab.get_by_role("heading", name="This replaces a question that you sent back")
    ).to_be_visible()
    await expect(tab.get_by_role("row", name="Argument amount 300 is now 30")).to_be_visible()
    assert errors == []


@pytest.mark.only_proof_of("pages of several people change at once when one of them works on a question")
async def test_others_see_at_once_who_is_on_it_and_that_it_was_sent_back(
    person: NewWindow, desk: LocalDesk
) -> None:
    question = await desk.post("Refund?", form=REFUND, recipients=["ann", "bob"])
    other = await desk.post("For bob first", form=Confirm(), recipients=["bob"])
    async with person("ann") as window:
        queue, page = await window.new_page(), await window.new_page()
        await listens(page, f"/questions/{question.id}")
        await page.bring_to_front()
        await listens(queue, "/")
        row = queue.locator(f"[data-row='{question.id}']")
        await desk.take(question.id, by="bob")
        await expect(row).to_contain_text("bob is on this")
        await page.bring_to_front()
        await expect(page.locator("[data-live]")).to_contain_text("bob is on this now.")
        await desk.release(question.id, by="bob")
        await expect(row).to_contain_text("released")
        await desk.set_aside(question.id, by="bob")
        await desk.bring_in(other.id, ["ann"], by="bob")
        await queue.get_by_role("link", name="Show", exact=True).click()
        await expect(queue.get_by_text("For bob first")).to_be_visible()
        await desk.send_back(question.id, by="bob", reason="smaller")
        await expect(row).to_contain_text("sent back by bob")
        await page.bring_to_front()
        await expect(page.locator("[data-live]")).to_contain_text("This was sent back")


@pytest.mark.slow("counts clicks; test_share.py has the same verbs without a browser")
async def test_few_clicks_are_enough(
    tab: Page, errors: list[str], desk: LocalDesk, person: NewWindow
) -> None:
    question = await desk.post("Refund?", form=REFUND, recipients=["ann", "cid"])
    async with person("bob"):
        await tab.goto(f"/questions/{question.id}")
        await tab.get_by_role("button", name="Take").click()
        await expect(tab.get_by_text("You are on this until")).to_be_visible()
        await tab.get_by_role("button", name="Release").click()
        await expect(tab.get_by_role("button", name="Take")).to_be_visible()

        await tab.get_by_text("Snooze", exact=True).first.click()
        await tab.get_by_role("button", name="1 hour").click()
        await expect(tab.get_by_text("You snoozed this until")).to_be_visible()
        await tab.get_by_role("button", name="Put back").click()

        await tab.get_by_role("button", name="Not for me").click()
        await expect(tab.get_by_text("You set this aside")).to_be_visible()
        await tab.get_by_role("button", name="Put back").click()

        await tab.get_by_text("Bring in or hand over").click()
        await tab.get_by_label("Who (a person").fill("bob")
        await tab.get_by_role("button", name="Hand over").click()
        await expect(tab.get_by_text("You handed this over to bob")).to_be_visible()
    assert (await desk.get(question.id)).added == ("bob",)
    kinds = [event.kind for event in await desk.history(question.id)]
    assert kinds == [
        "asked",
        *("taken", "released"),
        *("set_aside", "put_back"),
        *("set_aside", "put_back"),
        "handed_over",
    ]
    assert errors == []
