"""Single keys: one moves through the list and answers without a mouse, and can turn them off."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from handraise import Approval, Choice, MultiChoice
from handraise.desk.local_desk import LocalDesk
from tests.server.inbox.chromium import *  # noqa: F403 -- fixtures come by name
from tests.server.inbox.chromium import outcome_of


@pytest.mark.slow("takes seconds in Chromium, and no right depends on it")
async def test_from_the_list_to_a_choice_and_back(tab: Page, desk: LocalDesk, errors: list[str]) -> None:
    await desk.post("first")
    question = await desk.post("second", form=Choice.of("Canary", "Rolling", "Blue"))
    await tab.goto("/")
    for key in ("j", "j", "j", "k", "j", "Enter"):
        await tab.keyboard.press(key)
    await tab.wait_for_url(f"**/questions/{question.id}?from=%2F")
    await tab.keyboard.press("u")
    await expect(tab.get_by_role("heading", name="Waiting for you", exact=True)).to_be_visible()
    await expect(tab.get_by_role("link", name="second")).to_be_focused()
    await tab.keyboard.press("Enter")
    await tab.wait_for_url(f"**/questions/{question.id}?from=%2F")
    await tab.keyboard.press("2")
    await tab.keyboard.press("Enter")
    await expect(tab.locator("[data-done]")).to_contain_text("Answered Rolling")
    assert await outcome_of(desk, question.id) == "Rolling"
    assert errors == []


@pytest.mark.slow("test_from_the_list_to_a_choice_and_back answers with the same keys")
async def test_several_options(tab: Page, desk: LocalDesk) -> None:
    question = await desk.post("which", form=MultiChoice.of("a", "b", "c", at_least=1))
    await tab.goto(f"/questions/{question.id}")
    for key in ("1", "2", "3", "2", "Enter"):
        await tab.keyboard.press(key)
    await expect(tab.get_by_role("heading", name="Answered by you")).to_be_visible()
    assert await outcome_of(desk, question.id) == ["a", "c"]


async def test_denying_is_as_easy_as_approving(tab: Page, desk: LocalDesk) -> None:
    question = await desk.post("may I", form=Approval.of("deploy", {"to": "prod"}))
    await tab.goto(f"/questions/{question.id}")
    sizes = [await tab.get_by_role("button", name=name).bounding_box() for name in ("Approve", "Deny")]
    assert sizes[0] is not None
    assert sizes[1] is not None
    assert (sizes[0]["width"], sizes[0]["height"]) == (sizes[1]["width"], sizes[1]["height"])
    await tab.keyboard.press("n")
    assert (await desk.get(question.id)).outcome is None
    await tab.keyboard.press("Enter")
    await expect(tab.get_by_role("heading", name="Denied by you")).to_be_visible()
    assert (await outcome_of(desk, question.id))["decision"] == "deny"


async def test_no_single_key_decides_anything(tab: Page, desk: LocalDesk) -> None:
    asked = [
        await desk.post("may I", form=Approval.of("deploy", {"to": "prod"})),
        await desk.post("which", form=Choice.of("a", "b")),
    ]
    for question in asked:
        await tab.goto(f"/questions/{question.id}")
        for key in "abcdefghilmnopqrstvwxyz123456789?":
            await tab.keyboard.press(key)
        await tab.keyboard.press("Escape")
        assert (await desk.get(question.id)).outcome is None


@pytest.mark.slow("takes seconds in Chromium, and no right depends on it")
async def test_keys_are_explained_and_can_be_turned_off(tab: Page, desk: LocalDesk) -> None:
    await desk.post("first")
    await tab.goto("/")
    await tab.keyboard.press("?")
    await expect(tab.get_by_role("dialog")).to_be_visible()
    await tab.get_by_label("Turn single keys off in this browser").check()
    await tab.keyboard.press("Escape")
    await expect(tab.get_by_role("dialog")).to_be_hidden()
    await tab.keyboard.press("j")
    assert await tab.evaluate("document.activeElement.closest('.row')") is None


@pytest.mark.slow("test_browser_kinds.py types answers; no key would be lost there either")
async def test_letters_that_are_typed_are_letters(tab: Page, desk: LocalDesk) -> None:
    question = await desk.post("write")
    await tab.goto(f"/questions/{question.id}")
    await tab.get_by_label("Your answer").press_sequentially("junk y/n? 1")
    await expect(tab.get_by_label("Your answer")).to_have_value("junk y/n? 1")


@pytest.mark.slow("only looks: the page must not scroll under its header")
async def test_moving_through_a_long_list_scrolls_the_list_and_not_the_page(
    tab: Page, desk: LocalDesk
) -> None:
    await tab.set_viewport_size({"width": 1440, "height": 900})
    for number in range(30):
        await desk.post(f"question {number}", form=Approval.of("refund", {"order": number}))
    await tab.goto("/")
    for _ in range(20):
        await tab.keyboard.press("j")
    assert await tab.evaluate("document.scrollingElement.scrollTop") == 0
