"""The list and the question beside each other in a real browser: move, answer, undo, and answer from the list."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from typing import Literal

import pytest
from playwright.async_api import Page, Route, ViewportSize, expect

from handraise import Approval, Choice, Confirm
from handraise.desk.local_desk import LocalDesk
from handraise.server import ServerContext
from handraise.testing import ManualClock
from tests.server.inbox.chromium import *  # noqa: F403 -- fixtures come by name
from tests.server.inbox.chromium import NewWindow, listens, outcome_of, takes_input, violations
from tests.server.inbox.scene import views_of

WIDE: ViewportSize = {"width": 1_440, "height": 900}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime.now(UTC))


async def press(tab: Page, key: str) -> None:
    """Press a key as somebody does who has read the question."""
    await takes_input(tab)
    await tab.keyboard.press(key)


@pytest.mark.only_proof_of(
    "on a wide screen the question is beside its list, with its own address, and Back works"
)
async def test_the_question_is_beside_the_list_and_back_works(person: NewWindow, desk: LocalDesk) -> None:
    asked = [await desk.post(f"number {n}", form=Confirm()) for n in range(4)]
    async with person("ann", viewport=WIDE, bypass_csp=True) as window:
        tab = await window.new_page()
        loads: list[str] = []
        await listens(tab, "/")
        tab.on("request", lambda one: loads.append(one.url) if one.is_navigation_request() else None)
        await expect(tab.locator("[data-pane] .prompt")).to_have_text("number 0")
        heights = await tab.locator(".row").evaluate_all(
            "(all) => all.map((each) => each.getBoundingClientRect().height)"
        )
        assert all(50 <= each <= 62 for each in heights)
        for _ in range(2):
            await tab.keyboard.press("j")
        await expect(tab.locator("[data-pane] .prompt")).to_have_text("number 2")
        await expect(tab).to_have_url(re.compile(f"/questions/{asked[2].id}"))
        await expect(tab).to_have_title(re.compile("number 2"))
        await tab.locator(f'[data-row="{asked[3].id}"] .row-text a').click()
        await expect(tab).to_have_url(re.compile(f"/questions/{asked[3].id}"))
        await tab.go_back()
        await expect(tab.locator("[data-pane] .prompt")).to_have_text("number 2")
        await tab.go_back()
        await expect(tab.locator("[data-pane] .prompt")).to_have_text("number 0")
        await expect(tab).to_have_url(re.compile("/$"))
        assert loads == []
        assert await violations(tab) == []
        await tab.go_forward()
        await expect(tab).to_have_url(re.compile(f"/questions/{asked[2].id}"))
        await tab.reload()
        await expect(tab.locator("[data-pane] .prompt")).to_have_text("number 2")
        await expect(tab.locator("[data-row]")).to_have_count(4)


@pytest.mark.slow("a click on the row that is open already; the gate has the list and the pane")
async def test_a_click_on_the_row_that_is_shown_keeps_what_was_filled_in(
    person: NewWindow, desk: LocalDesk
) -> None:
    asked = await desk.post("Which one?", form=Choice.of("Canary", "Rolling"))
    async with person("ann", viewport=WIDE) as window:
        tab = await window.new_page()
        await listens(tab, "/")
        await takes_input(tab)
        await tab.get_by_label("Rolling").check()
        await tab.locator(f'[data-row="{asked.id}"] .row-text a').click()
        await expect(tab).to_have_url(re.compile(f"/questions/{asked.id}"))
        await expect(tab).to_have_title(re.compile("Which one"))
        await tab.get_by_role("button", name="Send the answer").click()
        await expect(tab.get_by_role("group", name="Your last answer")).to_contain_text("Rolling")
        assert await outcome_of(desk, asked.id) == "Rolling"


@pytest.mark.only_proof_of("one key answers what is harmless, can be undone, and leads to the next question")
async def test_one_key_answers_and_leads_to_the_next(person: NewWindow, desk: LocalDesk) -> None:
    risky = await desk.post("risky", form=Approval.of("drop", {"table": "t"}, risk="high"))
    low = await desk.post("low", form=Approval.of("refund", {"order": 1}, risk="low"))
    choice = await desk.post("choice", form=Choice.of("Canary", "Rolling"))
    yes = await desk.post("yes", form=Confirm())
    async with person("ann", viewport=WIDE) as window:
        tab = await window.new_page()
        prompt, toast = tab.locator("[data-pane] .prompt"), tab.get_by_role("group", name="Your last answer")
        await listens(tab, "/")
        await expect(prompt).to_have_text("risky")
        await press(tab, "y")
        await expect(tab.get_by_role("button", name="Approve")).to_be_focused()
        assert (await desk.get(risky.id)).outcome is None
        await tab.keyboard.press("j")
        await expect(prompt).to_have_text("low")
        await press(tab, "y")
        await expect(prompt).to_have_text("choice")
        await expect(toast).to_contain_text("Answering Approve")
        await expect(toast).to_contain_text("2 of 4")
        assert (await desk.get(low.id)).outcome is None
        await press(tab, "z")
        await expect(prompt).to_have_text("low")
        assert (await desk.get(low.id)).outcome is None
        await press(tab, "n")
        await expect(prompt).to_have_text("choice")
        await press(tab, "2")
        await expect(prompt).to_have_text("yes")
        await press(tab, "y")
        await expect(prompt).to_have_text("risky")
        await takes_input(tab)
        await tab.get_by_role("button", name="Deny").click()
        await expect(toast).to_contain_text("Denied")
        assert (await outcome_of(desk, low.id))["decision"] == "deny"
        assert await outcome_of(desk, choice.id) == "Rolling"
        assert await outcome_of(desk, yes.id) is True
        assert (await outcome_of(desk, risky.id))["decision"] == "deny"


@pytest.mark.only_proof_of(
    "answers that are refused after the next question is shown are told, and nothing is lost"
)
async def test_an_answer_that_comes_too_late_is_told(person: NewWindow, desk: LocalDesk) -> None:
    first = await desk.post("first", form=Confirm())
    await desk.post("second", form=Confirm())
    async with person("ann", viewport=WIDE) as window:
        tab = await window.new_page()
        await listens(tab, "/")
        await expect(tab.locator("[data-pane] .prompt")).to_have_text("first")
        await press(tab, "y")
        await expect(tab.locator("[data-pane] .prompt")).to_have_text("second")
        await desk.answer(first.id, "no", by="bob")
        toast = tab.get_by_role("group", name="Your last answer")
        await expect(toast).to_contain_text("Somebody was faster. Yours was not sent.")
        assert await outcome_of(desk, first.id) is False


@pytest.mark.only_proof_of(
    "neither a key nor a second click decides a question that its person has not seen, or has left"
)
async def test_what_was_meant_for_another_question_decides_nothing(
    person: NewWindow, desk: LocalDesk
) -> None:
    asked = [await desk.post(f"number {n}", form=Confirm(), undo_for=60) for n in range(3)]
    async with person("ann", viewport=WIDE) as window:
        tab = await window.new_page()
        prompt, toast = tab.locator("[data-pane] .prompt"), tab.get_by_role("group", name="Your last answer")
        loading, shown = asyncio.Event(), asyncio.Event()

        async def slowly(route: Route) -> None:
            loading.set()
            await shown.wait()
            await route.continue_()

        await tab.route(f"**/questions/{asked[1].id}*", slowly)
        await listens(tab, "/")
        await expect(prompt).to_have_text("number 0")
        await asyncio.wait_for(loading.wait(), 20)
        await tab.keyboard.press("j")
        await press(tab, "y")  # the pane still shows the question before
        await tab.locator("[data-pane] [data-no]").click()
        await expect(toast).to_be_hidden()
        shown.set()
        await expect(prompt).to_have_text("number 1")
        await takes_input(tab)
        await tab.locator("[data-pane] [data-yes]").dblclick()
        await expect(prompt).to_have_text("number 2")
        await takes_input(tab)
        await expect(prompt).to_have_text("number 2")
        await expect(toast).to_contain_text("Answering Yes")
        await expect(toast.get_by_role("link")).to_have_count(0)  # it would have sent the answer
        await tab.locator("[data-pane] [data-no]").click()
        await expect(tab.locator("[data-row].settled")).to_have_count(1)
    assert await outcome_of(desk, asked[1].id) is True
    assert (await desk.get(asked[0].id)).outcome is None


async def test_a_second_answer_takes_the_place_of_the_one_that_is_held_back(
    person: NewWindow, desk: LocalDesk
) -> None:
    first, _ = [await desk.post(f"number {n}", form=Confirm()) for n in range(2)]
    async with person("ann", viewport=WIDE) as window:
        tab = await window.new_page()
        prompt, toast = tab.locator("[data-pane] .prompt"), tab.get_by_role("group", name="Your last answer")
        await listens(tab, "/")
        await expect(prompt).to_have_text("number 0")
        await press(tab, "y")
        await expect(prompt).to_have_text("number 1")
        await tab.keyboard.press("k")
        await expect(prompt).to_have_text("number 0")
        await press(tab, "n")
        await expect(toast).to_contain_text("Answering No")
        await tab.goto("/settled")  # what is held back is sent when the page is left
        async with asyncio.timeout(20):
            while (await desk.get(first.id)).outcome is None:
                await asyncio.sleep(0.05)
    assert await outcome_of(desk, first.id) is False


@pytest.mark.only_proof_of("the refusal of an answer is told after the one that is held back meanwhile")
async def test_a_refusal_waits_until_no_other_answer_is_held_back(person: NewWindow, desk: LocalDesk) -> None:
    first, second, _ = [await desk.post(f"number {n}", form=Confirm()) for n in range(3)]
    async with person("ann", viewport=WIDE) as window:
        tab = await window.new_page()
        prompt, toast = tab.locator("[data-pane] .prompt"), tab.get_by_role("group", name="Your last answer")

        async def refuse(route: Route) -> None:
            if route.request.method == "POST":
                await route.fulfill(status=409, body="<p>no</p>", content_type="text/html")
            else:
                await route.continue_()

        await tab.route(f"**/questions/{first.id}*", refuse)
        await listens(tab, "/")
        await expect(prompt).to_have_text("number 0")
        await press(tab, "y")
        await expect(prompt).to_have_text("number 1")
        await takes_input(tab)
        async with tab.expect_response(lambda one: one.request.method == "POST"):
            await tab.keyboard.press("y")
        await expect(tab.locator("[data-whisper]")).to_contain_text("Your answer was not recorded.")
        await expect(toast).to_contain_text("Answering Yes")
        await tab.keyboard.press("z")
        await expect(toast).to_contain_text("Your answer was not recorded.")
        await toast.get_by_role("link", name="View").click()
        await expect(prompt).to_have_text("number 0")
        await press(tab, "y")
        await expect(prompt).to_have_text("number 1")
        await takes_input(tab)
        await tab.locator("[data-pane] [data-yes]").click()  # it is sent at once, after the other one
        await expect(prompt).to_have_text("number 2")
        await expect(toast).to_contain_text("Your answer was not recorded.")
    assert await outcome_of(desk, second.id) is True


@pytest.mark.only_proof_of(
    "a row answers without being opened, and ticked rows are answered together, without scripts"
)
async def test_answers_from_the_list_without_scripts(person: NewWindow, desk: LocalDesk) -> None:
    refunds = [
        await desk.post(f"Refund {n}?", form=Approval.of("refund", {"order": n}, risk="low"))
        for n in range(3)
    ]
    await desk.post("Drop?", form=Approval.of("drop", {"table": "t"}, risk="high"))
    async with person("ann", java_script_enabled=False, viewport={"width": 390, "height": 800}) as window:
        tab = await window.new_page()
        await tab.goto("/")
        await expect(tab.get_by_role("button", name="Approve")).to_have_count(3)
        await tab.locator(f'[data-row="{refunds[0].id}"]').get_by_role("button", name="Approve").click()
        await expect(tab.locator("[data-done]")).to_contain_text("Approved")
        for each in refunds[1:]:
            await tab.locator(f'[data-row="{each.id}"]').get_by_role("checkbox").check()
        await tab.get_by_role("button", name="Answer the ticked ones together").click()
        await expect(tab.locator(".together-list .action")).to_have_count(2)
        assert await tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        await tab.get_by_role("button", name="Deny").click()
        await expect(tab.locator("[data-recorded] .badge")).to_have_text(["Denied", "Denied"])
    assert [(await outcome_of(desk, each.id))["decision"] for each in refunds] == ["approve", "deny", "deny"]


@pytest.mark.slow("test_the_question_is_beside_the_list_and_back_works runs axe in the gate")
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_every_width_passes_axe_and_never_scrolls_sideways(
    person: NewWindow,
    ctx: ServerContext,
    desk: LocalDesk,
    clock: ManualClock,
    theme: Literal["light", "dark"],
) -> None:
    async with person("ann", color_scheme=theme, bypass_csp=True) as window:
        await views_of(ctx, desk, clock)  # it makes links for ann, who is there now
        low = await desk.post("low", form=Approval.of("refund", {"order": 1}, risk="low"))
        tab = await window.new_page()
        for width in (390, 820, 1_440):
            await tab.set_viewport_size({"width": width, "height": 900})
            for path in ("/", f"/together?like={low.id}", f"/questions/{low.id}?from=%2F"):
                await tab.goto(path)
                assert await violations(tab) == [], (path, width)
                assert await tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), (path, width)
        await tab.goto("/")
        await expect(tab.locator("[data-pane] [data-question]")).to_be_visible()
        for row in range(await tab.locator("[data-row]").count()):
            await tab.keyboard.press("j")
            await expect(tab.locator(".row.open")).to_have_count(1)
            if row % 3 == 0:
                assert await violations(tab) == []


@pytest.mark.slow("takes seconds in Chromium, and no right depends on it")
@pytest.mark.parametrize("size", [WIDE, {"width": 1_920, "height": 1_080}, {"width": 390, "height": 844}])
async def test_the_buttons_that_decide_are_at_the_lower_edge_of_the_screen(
    person: NewWindow, desk: LocalDesk, size: ViewportSize
) -> None:
    form = Approval.of("pay", {f"line {n}": n for n in range(60)}, risk="high")
    question = await desk.post("Pay all of it?", form=form)
    async with person("ann", viewport=size) as window:
        tab = await window.new_page()
        await listens(tab, "/" if size["width"] > 1_100 else f"/questions/{question.id}")
        bar = tab.locator(".actions.sticky")
        await expect(bar).to_be_visible()
        edge = await bar.evaluate("(bar) => innerHeight - bar.getBoundingClientRect().bottom")
        assert abs(edge) <= 1
