"""An open page: its times stay true, it leads back to one's row, keeps what is sent offline, and breaks no words in tables."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.async_api import BrowserContext, Page, expect

from handraise import Confirm, Open
from handraise.desk.local_desk import LocalDesk
from handraise.presentation.times import span
from handraise.presentation.translation import Locale, find_time_zone, languages, use_locale
from handraise.testing import ManualClock
from tests.server.inbox.chromium import *  # noqa: F403 -- its fixtures
from tests.server.inbox.chromium import NewWindow, listens


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime.now(UTC))


@pytest.mark.slow("takes seconds in Chromium, and no right depends on it")
async def test_times_tick_and_say_when_the_time_is_up(tab: Page, desk: LocalDesk) -> None:
    question = await desk.post("Soon?", form=Confirm(), expires_in=300, recipients=["ann"])
    await tab.clock.install()
    await tab.goto("/")
    row = tab.locator("[data-row]")
    await expect(row).to_contain_text("expires in 4 minutes")
    await expect(row).to_contain_text("waited less than a minute")
    await tab.clock.fast_forward(190_000)
    await expect(row).to_contain_text("expires in 1 minute")
    await expect(row).to_contain_text("waited 3 minutes")
    await tab.clock.fast_forward(120_000)
    await expect(row).to_contain_text("its time is up")
    await tab.goto(f"/questions/{question.id}")
    await expect(tab.locator(".facts")).to_contain_text("asked just now")
    await tab.clock.fast_forward(3_700_000)
    await expect(tab.locator(".facts")).to_contain_text("asked 1 hour 1 minute ago")


@pytest.mark.parametrize("language", languages())
@pytest.mark.slow("test_language.py has the words; the test before has times that tick")
async def test_times_are_in_the_words_of_the_server(person: NewWindow, language: str) -> None:
    lengths = [
        0,
        59,
        60,
        119,
        120,
        179,
        180,
        3_599,
        3_600,
        3_660,
        7_260,
        10_800,
        86_399,
        86_400,
        90_000,
        266_400,
    ]
    script = (
        "async (all) => { const { span } = await import('/static/inbox/times.js'); return all.map(span); }"
    )
    async with person("ann", locale=language) as window:
        tab = await window.new_page()
        await tab.goto("/")
        said = await tab.evaluate(script, lengths)
    with use_locale(Locale(language)):
        assert said == [span(timedelta(seconds=each)) for each in lengths]


@pytest.mark.slow("takes seconds in Chromium, and no right depends on it")
async def test_instants_are_on_the_clock_of_the_browser(person: NewWindow, desk: LocalDesk) -> None:
    question = await desk.post("Soon?", form=Confirm(), recipients=["ann"])
    asked = question.asked_at.astimezone(find_time_zone("Asia/Tokyo"))
    async with person("ann", timezone_id="Asia/Tokyo") as window:
        tab = await window.new_page()
        for _ in range(2):  # the script changes the first page, and the server knows at the second
            await tab.goto(f"/questions/{question.id}")
            time = tab.locator(".facts time").first
            full = re.compile(f"^{asked.day} {asked:%B %Y, %H:%M} (JST|GMT\\+9)$")
            await expect(time).to_have_attribute("title", full)
        assert ("time_zone", "Asia/Tokyo") in [
            (each["name"], each["value"]) for each in await window.cookies()
        ]
        await tab.goto("/me")
        await expect(tab.locator("time[data-full]").first).to_contain_text("JST")


@pytest.mark.slow("test_back_links.py has where back leads; this has where the focus is")
async def test_back_leads_to_the_row_or_to_the_one_that_came_after_it(tab: Page, desk: LocalDesk) -> None:
    asked = [await desk.post(f"Number {n}?", form=Confirm(), recipients=["ann"]) for n in range(4)]
    await tab.goto("/?q=number")
    await tab.locator(".row-text a").nth(1).click()
    await tab.locator("[data-back]").click()
    await expect(tab.locator(f'[data-row="{asked[1].id}"] .row-text a')).to_be_focused()
    await tab.locator(".row-text a").nth(1).click()
    await tab.get_by_role("button", name="Yes").click()
    await expect(tab.locator("[data-done]")).to_contain_text("Answered Yes")
    await tab.locator("[data-back]").click()
    await expect(tab.get_by_role("searchbox")).to_have_value("number")
    await expect(tab.locator(f'[data-row="{asked[2].id}"] .row-text a')).to_be_focused()


@pytest.mark.slow("goes the way of an answer that could not be sent, which nightly has for every kind")
async def test_what_is_sent_while_offline_stays_on_the_page(
    tab: Page, window: BrowserContext, desk: LocalDesk
) -> None:
    question = await desk.post("Why?", form=Open(), recipients=["ann"])
    await listens(tab, f"/questions/{question.id}")
    await tab.get_by_label("Your answer").fill("because")
    await window.set_offline(True)
    await tab.get_by_role("button", name="Send the answer").click()
    kept = tab.get_by_role("region", name="Answers given offline")
    await expect(kept).to_contain_text("Kept. It will be sent when you are back online.")
    await expect(tab.get_by_label("Your answer")).to_have_value("because")
    await window.set_offline(False)
    await expect(tab.locator(".outcome")).to_contain_text("because")


@pytest.mark.slow("one rule of the style sheet")
async def test_words_in_a_table_are_not_broken_on_a_phone(tab: Page, desk: LocalDesk) -> None:
    hosts = [{"name": "configuration", "owner": "infrastructure", "since": "yesterday"}] * 2
    long = [{"name": "x" * 300, "owner": "a", "since": "b"}] * 2
    for context, most_lines in ((hosts, 1), (long, 30)):
        question = await desk.post("Scale?", form=Confirm(), context={"hosts": context}, recipients=["ann"])
        await tab.set_viewport_size({"width": 320, "height": 640})
        await tab.goto(f"/questions/{question.id}")
        lines = "(cell) => { const range = document.createRange(); range.selectNodeContents(cell); return range.getClientRects().length; }"
        assert await tab.locator(".grid td .text").first.evaluate(lines) <= most_lines
        assert await tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert await tab.locator(".grid td").first.evaluate("(cell) => cell.offsetWidth <= 320")
