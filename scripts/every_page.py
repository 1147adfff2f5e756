"""A picture of every page at every width in both themes: `python -m scripts.pictures --every-page FOLDER [NAME …]`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from playwright.async_api import async_playwright

from support.office_pages import THEMES, WIDTHS, open_office


async def take_every_page(folder: Path, names: Sequence[str] = ()) -> None:
    """Take these pictures into a folder, or all of them."""
    folder.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 -- nobody waits for this loop
    async with open_office() as office, async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        )
        for theme in THEMES:
            for width in WIDTHS:
                window = await office.window(
                    browser, color_scheme=theme, viewport={"width": width, "height": 900}
                )
                page = await window.new_page()
                for name, (_, address) in office.pages().items():
                    if not names or name in names:
                        await page.goto(address)
                        await page.wait_for_timeout(300)  # what scripts draw
                        await page.screenshot(path=folder / f"{name}-{width}-{theme}.png", full_page=True)
                await window.close()
        await browser.close()
