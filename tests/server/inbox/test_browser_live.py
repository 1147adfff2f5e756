"""Pages that are open while something happens: they tell it, move nothing, and lose nothing that was typed."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from handraise import Approval, Confirm
from handraise.desk.local_desk import LocalDesk
from tests.server.inbox.chromium import *  # noqa: F403 -- fixtures come by name
from tests.server.inbox.chromium import listens


@pytest.mark.only_proof_of("no row of an open list moves under the pointer when something new comes")
async def test_new_questions_wait_behind_a_line_and_no_row_moves(
    tab: Page, desk: LocalDesk, errors: list[str]
) -> None:
    first = await desk.post("the first", form=Confirm())
    await listens(tab, "/")
    row = tab.locator(f'[data-row="{first.id}"]')
    before = await row.bounding_box()
    await desk.post("another", form=Approval.of("deploy"))
    await desk.post("one more")
    await expect(tab.locator("[data-live]")).to_contain_text("2 new questions.")
    await expect(tab).to_have_title("(3) Waiting · Handraise")
    assert await tab.locator("[data-row]").count() == 1
    await desk.answer(first.id, True, by="bob")
    await expect(row).to_contain_text("answered by bob")
    after = await row.bounding_box()
    assert before is not None
    assert after is not None
    assert (before["x"], before["y"]) == (after["x"], after["y"])
    await tab.get_by_role("link", name="Show").click()
    await expect(tab.locator("[data-row]")).to_have_count(2)
    assert errors == []


async def test_answered_elsewhere_says_so_and_keeps_what_was_typed(
    tab: Page, desk: LocalDesk, errors: list[str]
) -> None:
    question = await desk.post("Name it")
    await listens(tab, f"/questions/{question.id}")
    await tab.get_by_label("Your answer").fill("my long thought")
    await desk.answer(question.id, "first", by="bob")
    await expect(tab.locator("[data-live]")).to_contain_text("This was answered just now by bob")
    await expect(tab.get_by_label("Your answer")).to_have_value("my long thought")
    await expect(tab.get_by_role("button", name="Send the answer")).to_be_disabled()
    await tab.get_by_role("link", name="Show how it ended").click()
    await expect(tab.get_by_role("heading", name="Answered by bob")).to_be_visible()
    await expect(tab.locator("[data-live]")).to_contain_text("my long thought")
    assert errors == []


@pytest.mark.slow("takes seconds in Chromium, and no right depends on it")
async def test_a_draft_is_there_again_and_gone_once_sent(tab: Page, desk: LocalDesk) -> None:
    question = await desk.post("Name it", topic="names", recipients=["ann"])
    await tab.goto(f"/questions/{question.id}")
    await tab.locator("[name=keep_until]").evaluate("(day) => { day.value = day.max; }")
    await tab.get_by_label("Your answer").fill("half a th")
    await tab.goto("/")
    await tab.goto(f"/questions/{question.id}")
    await expect(tab.get_by_label("Your answer")).to_have_value("half a th")
    await expect(tab.locator("[name=keep_until]")).to_have_value("")  # in a fold, so nobody would see it
    await tab.get_by_role("button", name="Send the answer").click()
    await expect(tab.get_by_role("heading", name="Answered by you")).to_be_visible()
    await tab.wait_for_load_state()
    assert await tab.evaluate("Object.keys(localStorage).length") == 0


@pytest.mark.slow("test_browser_threads.py has in the gate how an open page announces something")
async def test_a_report_is_announced_on_the_page_of_what_was_answered(
    tab: Page, desk: LocalDesk, errors: list[str]
) -> None:
    question = await desk.post("Export?", form=Approval.of("export"))
    await desk.answer(question.id, "approve", by="ann")
    await listens(tab, f"/questions/{question.id}")
    await desk.consume_approval(question.id)
    await desk.report(question.id, ok=False, text="the disk is full")
    await expect(tab.locator("[data-live]")).to_contain_text("The agent has reported what came of this.")
    await tab.get_by_role("link", name="Show it").click()
    await expect(tab.get_by_role("heading", name="Failed", exact=True)).to_be_visible()
    await expect(tab.locator("[data-report]")).to_contain_text("the disk is full")
    assert errors == []
