"""A double click decides one question, however slow it is: the next one comes up below the same pointer."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from playwright.async_api import Page, expect

from handraise import Approval
from handraise.desk.local_desk import LocalDesk
from handraise.model.questions import Question
from handraise.testing import ManualClock
from tests.server.inbox.chromium import *  # noqa: F403 -- fixtures come by name
from tests.server.inbox.chromium import NewWindow, decides_again, listens, takes_input
from tests.tiers import drawn

SIZES = {"wide": (1_440, 900), "narrow": (390, 844)}
GAPS = (100, 250, 400, 600, 900)
CASES = [(size, gap) for size in SIZES for gap in GAPS]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime.now(UTC))


async def payments(desk: LocalDesk, number: int) -> list[Question]:
    form = Approval.of("payments.transfer", {"amount": 250, "due": "2026-12-01"}, risk="medium")
    return [await desk.post(f"payment {n}", form=form) for n in range(number)]


async def decided(desk: LocalDesk, asked: list[Question]) -> int:
    return [(await desk.get(each.id)).outcome is not None for each in asked].count(True)


async def middle_of_approve(tab: Page) -> tuple[float, float]:
    box = await tab.get_by_role("button", name="Approve", exact=True).bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


async def press_twice(tab: Page, x: float, y: float, gap: int) -> None:
    """Press twice at one place, as a hand does: nothing else moves between."""
    await tab.mouse.move(x, y)
    await tab.mouse.down()
    await tab.mouse.up()
    await asyncio.sleep(gap / 1_000)  # the time between two clicks is what is tested
    await tab.mouse.down()
    await tab.mouse.up()


@pytest.mark.only_proof_of("a double click decides one question, however slow it is")
@pytest.mark.parametrize(("size", "gap"), drawn(CASES, 3))
async def test_a_double_click_decides_one_question(
    person: NewWindow, desk: LocalDesk, size: str, gap: int
) -> None:
    asked = await payments(desk, 4)
    width, height = SIZES[size]
    async with person("ann", viewport={"width": width, "height": height}) as window:
        tab = await window.new_page()
        if size == "wide":
            await listens(tab, "/")
            await takes_input(tab)
        else:
            await listens(tab, "/")
            await tab.get_by_role("link", name="payment 0").click()
            await decides_again(tab)
        await press_twice(tab, *(await middle_of_approve(tab)), gap)
        await expect(tab.locator("main .prompt")).to_have_text("payment 1")
        # What the second click sent would be recorded before this.
        await tab.goto("/settled")
        await expect(tab.get_by_text("payment 0")).to_be_visible()
    assert await decided(desk, asked) == 1


async def test_a_click_somewhere_else_counts_at_once(person: NewWindow, desk: LocalDesk) -> None:
    asked = await payments(desk, 3)
    async with person("ann", viewport={"width": 1_440, "height": 900}) as window:
        tab = await window.new_page()
        await listens(tab, "/")
        await takes_input(tab)
        await tab.get_by_role("button", name="Approve", exact=True).click()
        await expect(tab.locator("[data-pane] .prompt")).to_have_text("payment 1")
        await takes_input(tab)
        await tab.get_by_role("button", name="Deny", exact=True).click()
        await expect(tab.locator("[data-pane] .prompt")).to_have_text("payment 2")
    assert await decided(desk, asked) == 2


async def test_the_same_place_counts_again_after_a_second(person: NewWindow, desk: LocalDesk) -> None:
    asked = await payments(desk, 3)
    async with person("ann", viewport={"width": 1_440, "height": 900}) as window:
        tab = await window.new_page()
        await listens(tab, "/")
        for number in range(2):
            await expect(tab.locator("[data-pane] .prompt")).to_have_text(f"payment {number}")
            await decides_again(tab)
            await tab.get_by_role("button", name="Approve", exact=True).click()
        await expect(tab.locator("[data-pane] .prompt")).to_have_text("payment 2")
    assert await decided(desk, asked) == 2


async def test_enter_that_is_held_down_or_comes_too_soon_decides_nothing(
    person: NewWindow, desk: LocalDesk
) -> None:
    asked = await payments(desk, 3)
    async with person("ann", viewport={"width": 1_440, "height": 900}) as window:
        tab = await window.new_page()
        approve = tab.get_by_role("button", name="Approve", exact=True)
        await listens(tab, "/")
        await decides_again(tab)
        await takes_input(tab)
        await tab.keyboard.press("y")
        await expect(approve).to_be_focused()
        await tab.keyboard.press("Enter")
        await expect(tab.locator("[data-pane] .prompt")).to_have_text("payment 1")
        await takes_input(tab)
        await tab.keyboard.press("y")
        await expect(approve).to_be_focused()
        await tab.keyboard.press("Enter")
        await decides_again(tab)
        await expect(tab.locator("[data-pane] .prompt")).to_have_text("payment 1")
        await tab.keyboard.press("Enter")
        await expect(tab.locator("[data-pane] .prompt")).to_have_text("payment 2")
    assert await decided(desk, asked) == 2
