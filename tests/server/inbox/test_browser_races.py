"""Two people, two tabs, a clock: the first wins, and everybody else is told who it was and loses no word."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect

from handraise import Answered, Choice, Expired, Open
from handraise.desk.local_desk import LocalDesk
from tests.server.inbox.chromium import *  # noqa: F403 -- fixtures come by name
from tests.server.inbox.chromium import NewWindow, listens


async def hold_answers(*tabs: Page) -> None:
    """Hold what these tabs send until each of them has sent something, then let all of it go at once."""
    together = asyncio.Barrier(len(tabs))

    async def hold(route: Route) -> None:
        if route.request.method == "POST":
            await asyncio.wait_for(together.wait(), 30)
        await route.continue_()

    for tab in tabs:
        await tab.route("**/questions/*", hold)


@pytest.mark.only_proof_of("of two windows that send at the same moment one is told who was first")
@pytest.mark.parametrize(
    "names",
    [
        ("ann", "bob"),
        pytest.param(
            ("ann", "ann"), marks=pytest.mark.slow("differs from two people in one word on the page")
        ),
    ],
)
async def test_of_two_answers_at_the_same_moment_one_wins_and_the_other_is_told(
    person: NewWindow, desk: LocalDesk, names: tuple[str, str]
) -> None:
    async with person(names[0]) as first, person(names[1]) as second:
        tabs = [await first.new_page(), await second.new_page()]
        texts = ["what the first wrote", "what the second wrote"]
        question = await desk.post("Name it", form=Open())
        for tab, text in zip(tabs, texts, strict=True):
            await tab.goto(f"/questions/{question.id}")
            await tab.get_by_label("Your answer").fill(text)
        await hold_answers(*tabs)
        await asyncio.gather(*(tab.get_by_role("button", name="Send the answer").click() for tab in tabs))
        for tab in tabs:
            await expect(tab.get_by_role("region", name="through the inbox")).to_be_visible()
        outcome = (await desk.get(question.id)).outcome
        assert isinstance(outcome, Answered)
        winner = texts.index(outcome.value)
        assert outcome.by == names[winner]
        won, lost = tabs[winner], tabs[1 - winner]
        how = f"Answered by {'you' if names[0] == names[1] else names[winner]}"
        await expect(won.get_by_role("heading", name="Answered by you through the inbox")).to_be_visible()
        await expect(won.get_by_text(texts[1 - winner])).to_have_count(0)
        await expect(lost.get_by_role("heading", name=f"{how} through the inbox")).to_be_visible()
        await expect(lost.get_by_role("region", name="Answered by")).to_contain_text(outcome.value)
        late = lost.get_by_role("region", name="It ended before your answer arrived")
        await expect(late).to_contain_text(texts[1 - winner])


@pytest.mark.slow(
    "test_question_page.py and the contract have the same answer twice; the test before has two windows"
)
async def test_the_same_answer_twice_at_once_is_no_quarrel(person: NewWindow, desk: LocalDesk) -> None:
    async with person("ann") as window:
        tabs = [await window.new_page(), await window.new_page()]
        question = await desk.post("Which", form=Choice.of("Canary", "Rolling"))
        for tab in tabs:
            await tab.goto(f"/questions/{question.id}")
            await tab.get_by_role("radio", name="Rolling").check()
        await hold_answers(*tabs)
        await asyncio.gather(*(tab.get_by_role("button", name="Send the answer").click() for tab in tabs))
        for tab in tabs:
            await expect(tab.get_by_role("heading", name="Answered by you through the inbox")).to_be_visible()
            await expect(tab.get_by_text("It ended before your answer arrived")).to_have_count(0)


@pytest.mark.slow("test_browser_live.py has who types while another answers through the desk")
async def test_whoever_types_while_another_answers_goes_on_typing_and_keeps_it(
    person: NewWindow, desk: LocalDesk
) -> None:
    question = await desk.post("Name it", form=Open())
    async with person("ann") as of_ann, person("bob") as of_bob:
        ann, bob = await of_ann.new_page(), await of_bob.new_page()
        await listens(ann, f"/questions/{question.id}")
        field = ann.get_by_label("Your answer")
        await field.click()
        await ann.keyboard.type("half of a ")
        before = await field.bounding_box()
        await bob.goto(f"/questions/{question.id}")
        await bob.get_by_label("Your answer").fill("Bob's")
        await bob.get_by_role("button", name="Send the answer").click()
        await expect(ann.get_by_text("This was answered just now by bob")).to_be_visible()
        await ann.keyboard.type("thought")
        await expect(field).to_have_value("half of a thought")
        await expect(field).to_be_focused()
        assert before == await field.bounding_box(), "what one writes into has moved"
        await expect(ann.get_by_role("button", name="Send the answer")).to_be_disabled()
        await ann.get_by_role("link", name="Show how it ended").click()
        await expect(ann.get_by_role("region", name="Answered by bob")).to_contain_text("Bob's")
        await expect(ann.get_by_text("half of a thought")).to_be_visible()


@pytest.mark.slow("waits by the clock on the wall; how questions expire is in tests/contract")
class TestExpiring:
    """By the clock on the wall, and by the server's own sweep."""

    @pytest.fixture
    def clock(self) -> None:
        return None

    @pytest.fixture
    def settings(self) -> dict[str, Any]:
        return {"poll_interval": 0.2}

    async def test_whoever_types_is_told_and_keeps_what_was_typed(self, tab: Page, desk: LocalDesk) -> None:
        question = await desk.post("Name it", expires_in=6)
        await listens(tab, f"/questions/{question.id}")
        await tab.get_by_label("Your answer").press_sequentially("my thou")
        await expect(tab.get_by_text("Its time ran out just now")).to_be_visible(timeout=20_000)
        assert isinstance((await desk.get(question.id)).outcome, Expired)
        await tab.keyboard.type("ght")
        await expect(tab.get_by_label("Your answer")).to_have_value("my thought")
        await expect(tab.get_by_role("button", name="Send the answer")).to_be_disabled()
        await tab.get_by_role("link", name="Show how it ended").click()
        await expect(tab.get_by_role("heading", name="Expired without an answer")).to_be_visible()
        await expect(tab.get_by_text("my thought")).to_be_visible()

    async def test_without_scripts_the_answer_comes_too_late_and_is_shown_again(
        self, person: NewWindow, desk: LocalDesk
    ) -> None:
        question = await desk.post("Name it", expires_in=4)
        async with person("ann", java_script_enabled=False) as window:
            tab = await window.new_page()
            await tab.goto(f"/questions/{question.id}")
            await tab.get_by_label("Your answer").fill("my thought")
            await asyncio.wait_for(desk.wait(question.id), 20)
            await tab.get_by_role("button", name="Send the answer").click()
            await expect(tab.get_by_role("heading", name="Expired without an answer")).to_be_visible()
            late = tab.get_by_role("region", name="It ended before your answer arrived")
            await expect(late).to_contain_text("my thought")
