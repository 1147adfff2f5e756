"""Every page that a person can open, with the office of the demo behind it."""

from __future__ import annotations

from typing import Literal

import pytest
from playwright.async_api import Browser

from support.office_pages import WIDTHS, open_office
from tests.server.inbox.chromium import *  # noqa: F403 -- its fixtures
from tests.server.inbox.chromium import fits, violations

CAN_BE_SENT = "form => !form.elements.length || [...form.elements].some((each) => each.type === 'submit')"
"""The form around a settled question has nothing to send."""


async def test_every_route_of_a_page_is_looked_at() -> None:
    async with open_office() as office:
        assert office.routes() == {route for route, _ in office.pages().values()} - {""}


@pytest.mark.timeout(900)
@pytest.mark.slow("test_browser_access.py and test_browser_admin.py run axe on each kind of page in the gate")
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_every_page_passes_axe_and_never_scrolls_sideways(
    chromium: Browser, theme: Literal["light", "dark"]
) -> None:
    async with open_office() as office:
        for width in WIDTHS:
            window = await office.window(
                chromium, color_scheme=theme, bypass_csp=True, viewport={"width": width, "height": 900}
            )
            tab = await window.new_page()
            for name, (_, address) in office.pages().items():
                await tab.goto(address)
                assert await violations(tab) == [], (name, width, theme)
                assert await fits(tab), (name, width, theme)
            await window.close()


@pytest.mark.timeout(900)
@pytest.mark.slow("each page has tests of its own without scripts; this is all of them")
async def test_every_page_can_be_read_without_scripts(chromium: Browser) -> None:
    async with open_office() as office:
        window = await office.window(chromium, java_script_enabled=False)
        tab = await window.new_page()
        for name, (route, address) in office.pages().items():
            answer = await tab.goto(address)
            assert answer is not None
            assert answer.status == (200 if route else 404), name
            assert await tab.locator("h1").count() == 1, name
            for form in await tab.locator("form").all():
                assert await form.evaluate(CAN_BE_SENT), name
        await window.close()
