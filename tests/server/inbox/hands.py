"""Two ways to fill in a page: with the mouse, and with nothing but the keys of a keyboard."""

from __future__ import annotations

import re
from typing import Protocol

from playwright.async_api import Locator, Page, expect

MOST_STOPS = 80
"""More presses of Tab than any page has things to stop at."""


class Hand(Protocol):
    """Does on a page what a person is told to do. Things go by the words that stand on them."""

    async def open(self, text: str) -> None:
        """Follow the link, or unfold the part, with this text."""

    async def tick(self, label: str) -> None:
        """Choose the option with this label."""

    async def write(self, label: str, text: str) -> None:
        """Write into the field with this label, in place of what stands there."""

    async def date(self, label: str, day: str) -> None:
        """Set a day, as `2026-11-15`, perhaps with a time, as `2026-11-15T09:30`."""

    async def choose(self, label: str, option: str) -> None:
        """Choose an option of a list."""

    async def press(self, name: str) -> None:
        """Press the button with this name."""


class Mouse:
    """Clicks on things, and types only into what was clicked on."""

    def __init__(self, tab: Page) -> None:
        self._tab = tab

    async def open(self, text: str) -> None:
        await something(self._tab, text).click()

    async def tick(self, label: str) -> None:
        await box(self._tab, label).click()

    async def write(self, label: str, text: str) -> None:
        field = self._tab.get_by_label(label, exact=True)
        await field.click(click_count=3)
        await field.fill(text)

    async def date(self, label: str, day: str) -> None:
        await self.write(label, day)

    async def choose(self, label: str, option: str) -> None:
        await self._tab.get_by_label(label).select_option(label=option)

    async def press(self, name: str) -> None:
        await self._tab.get_by_role("button", name=name, exact=True).click()


class Keyboard:
    """Comes to everything with Tab, as somebody without a mouse has to."""

    def __init__(self, tab: Page) -> None:
        self._tab = tab

    async def open(self, text: str) -> None:
        await self.come_to(something(self._tab, text))
        await self._tab.keyboard.press("Enter")

    async def tick(self, label: str) -> None:
        wanted = box(self._tab, label)
        if await wanted.get_attribute("type") == "checkbox":
            await self.come_to(wanted)
            await self._tab.keyboard.press("Space")
        else:
            name = await wanted.get_attribute("name")
            await self.come_to(self._tab.locator(f'input[type=radio][name="{name}"]'))
            for _ in range(MOST_STOPS):
                if await is_focused(wanted):
                    break
                await self._tab.keyboard.press("ArrowDown")
            if not await wanted.is_checked():
                await self._tab.keyboard.press("Space")
        await expect(wanted).to_be_checked()

    async def write(self, label: str, text: str) -> None:
        await self.come_to(self._tab.get_by_label(label, exact=True))
        await self._tab.keyboard.press("ControlOrMeta+a")
        await self._tab.keyboard.type(text)

    async def date(self, label: str, day: str) -> None:
        await self.come_to(self._tab.get_by_label(label, exact=True))
        date, _, time = day.partition("T")
        year, month, number = date.split("-")
        await self._tab.keyboard.type(f"{month}{number}{year}")
        if time:
            await self._tab.keyboard.press("ArrowRight")
            await self._tab.keyboard.type(f"{time.replace(':', '')}AM")

    async def choose(self, label: str, option: str) -> None:
        await self.come_to(self._tab.get_by_label(label))
        await self._tab.keyboard.type(option)

    async def press(self, name: str) -> None:
        await self.come_to(self._tab.get_by_role("button", name=name, exact=True))
        await self._tab.keyboard.press("Enter")

    async def come_to(self, wanted: Locator) -> None:
        """Press Tab until the focus is on one of these."""
        await expect(wanted.first).to_be_visible()
        for _ in range(MOST_STOPS):
            if await is_focused(wanted):
                return
            await self._tab.keyboard.press("Tab")
        raise AssertionError(f"no number of Tabs leads to {wanted}")


def something(tab: Page, text: str) -> Locator:
    """A link, or the line that unfolds something."""
    return tab.get_by_role("link", name=text).or_(tab.locator("summary", has_text=text)).first


def box(tab: Page, label: str) -> Locator:
    """What is ticked for this option; a description may follow its label."""
    name = re.compile(rf"^{re.escape(label)}\b")
    return tab.get_by_role("radio", name=name).or_(tab.get_by_role("checkbox", name=name)).first


async def is_focused(wanted: Locator) -> bool:
    """Whether the focus is on one of these."""
    found: bool = await wanted.evaluate_all("(all) => all.includes(document.activeElement)")
    return found
