"""An answer that can be taken back for a moment: nothing is sent before, nothing after Undo, and nothing gets lost."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from handraise import Approval, Choice, Confirm, Open
from handraise.desk.local_desk import LocalDesk
from handraise.model.forms import AnyForm
from tests.server.inbox.chromium import *  # noqa: F403 -- fixtures come by name
from tests.server.inbox.chromium import NewWindow, listens, outcome_of, violations

LONG = 60
SOON = 20_000
TEXT = Open()


async def opened(tab: Page, desk: LocalDesk, form: AnyForm = TEXT, **options: Any) -> str:
    """A question that is shown and may be undone for long."""
    question = await desk.post("Name it", form=form, **({"undo_for": LONG} | options))
    await listens(tab, f"/questions/{question.id}")
    return question.id


def panel(tab: Page) -> Locator:
    return tab.get_by_role("group", name="Sending in")


async def settled(desk: LocalDesk, question_id: str) -> Any:
    """The outcome, as soon as there is one."""
    await asyncio.wait_for(desk.wait(question_id), 20)
    return await outcome_of(desk, question_id)


async def hide(tab: Page) -> None:
    """Let the page believe that another tab is looked at."""
    await tab.evaluate(
        """() => {
            Object.defineProperty(document, "visibilityState", { value: "hidden", configurable: true });
            document.dispatchEvent(new Event("visibilitychange"));
        }"""
    )


@pytest.mark.only_proof_of("an answer that was taken back is never sent")
async def test_is_held_back_and_undo_leaves_everything_as_it_was(
    tab: Page, desk: LocalDesk, errors: list[str]
) -> None:
    question = await opened(tab, desk)
    await tab.get_by_label("Your answer").fill("my thought")
    await tab.get_by_role("button", name="Send the answer").click()
    undo = tab.get_by_role("button", name="Undo")
    await expect(undo).to_be_focused()
    await expect(undo).to_have_accessible_description(
        r"Sending in 60 s Undo takes it back. If you leave or hide this page, it is sent at once."
    )
    await expect(tab.get_by_role("button", name="Send the answer")).to_be_hidden()
    assert await tab.get_by_label("Your answer").is_editable()
    assert await tab.evaluate("document.querySelector('[data-answer]').inert")
    await tab.wait_for_timeout(500)
    await undo.click()
    await expect(panel(tab)).to_have_count(0)
    await expect(tab.get_by_role("button", name="Send the answer")).to_be_focused()
    await expect(tab.get_by_label("Your answer")).to_have_value("my thought")
    await tab.goto("/")
    await expect(tab.locator("[data-row]")).to_have_count(1)
    assert (await desk.get(question)).outcome is None
    assert errors == []


@pytest.mark.slow(
    "test_is_held_back_and_undo_leaves_everything_as_it_was has the panel; this is one more detail of it"
)
async def test_send_now_and_the_end_of_the_time_send_it(tab: Page, desk: LocalDesk) -> None:
    question = await opened(tab, desk)
    await tab.get_by_label("Your answer").fill("at once")
    await tab.get_by_role("button", name="Send the answer").press("Enter")
    await tab.get_by_role("button", name="Send now").press("Enter")
    await expect(tab.get_by_role("heading", name="Answered by you")).to_be_visible()
    assert await outcome_of(desk, question) == "at once"
    question = await opened(tab, desk, undo_for=timedelta(seconds=1.5))
    await tab.get_by_label("Your answer").fill("by itself")
    await tab.get_by_role("button", name="Send the answer").click()
    await expect(tab.get_by_role("heading", name="Answered by you")).to_be_visible(timeout=SOON)
    assert await outcome_of(desk, question) == "by itself"


@pytest.mark.parametrize(
    "way",
    [
        pytest.param("to the list", marks=pytest.mark.slow("by closing has the same event of the page")),
        "by closing",
        pytest.param("by hiding", marks=pytest.mark.slow("by closing sends it in the same way")),
    ],
)
async def test_is_sent_when_the_page_is_left(tab: Page, desk: LocalDesk, way: str) -> None:
    await tab.goto("/")
    await tab.evaluate("navigator.serviceWorker.ready.then(() => null)")
    question = await opened(tab, desk, Choice.of("a", "b"))
    assert await tab.evaluate("navigator.serviceWorker.controller !== null"), "a worker sees what pages send"
    await tab.keyboard.press("2")
    await tab.keyboard.press("Enter")
    await expect(panel(tab)).to_be_visible()
    match way:
        case "to the list":
            await tab.goto("/")
        case "by closing":
            await tab.close()
        case _:
            await hide(tab)
    assert await settled(desk, question) == "b"
    events = [event.kind.value for event in await desk.history(question)]
    assert events == ["asked", "answered"]
    if way == "by hiding":
        await expect(tab.get_by_role("heading", name="Answered by you")).to_be_visible()


@pytest.mark.slow(
    "test_is_held_back_and_undo_leaves_everything_as_it_was has the panel; this is one more detail of it"
)
@pytest.mark.parametrize("way", ["to the list", "by hiding"])
async def test_that_was_taken_back_is_not_sent_when_the_page_is_left(
    tab: Page, desk: LocalDesk, way: str
) -> None:
    question = await opened(tab, desk, Confirm())
    sent: list[str] = []
    tab.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    await tab.get_by_role("button", name="Yes").press("Enter")
    await expect(tab.get_by_role("group", name="Sending in 60 s: Yes")).to_be_visible()
    await tab.keyboard.press("Escape")
    await expect(tab.get_by_role("button", name="Yes")).to_be_focused()
    await (tab.goto("/") if way == "to the list" else hide(tab))
    await tab.goto("/")
    assert sent == []
    assert (await desk.get(question)).outcome is None


@pytest.mark.slow("test_browser_races.py and test_browser_live.py have who was first")
async def test_is_not_sent_where_somebody_else_is_first(
    tab: Page, desk: LocalDesk, errors: list[str]
) -> None:
    question = await opened(tab, desk)
    await tab.get_by_label("Your answer").fill("my thought")
    await tab.get_by_role("button", name="Send the answer").click()
    await expect(panel(tab)).to_be_visible()
    await desk.answer(question, "first", by="bob")
    told = tab.get_by_role("status").filter(has_text="This was answered just now by bob. Yours was not sent.")
    await expect(told).to_be_visible()
    await expect(panel(tab)).to_have_count(0)
    await expect(tab.get_by_label("Your answer")).to_have_value("my thought")
    await tab.get_by_role("link", name="Show how it ended").click()
    await expect(tab.get_by_role("heading", name="Answered by bob")).to_be_visible()
    await expect(tab.get_by_text("my thought")).to_be_visible()
    assert [event.kind.value for event in await desk.history(question)] == ["asked", "answered"]
    assert errors == []


@pytest.mark.slow(
    "test_is_held_back_and_undo_leaves_everything_as_it_was has the panel; this is one more detail of it"
)
async def test_an_answer_that_does_not_fit_says_so_also_on_a_hidden_page(tab: Page, desk: LocalDesk) -> None:
    question = await opened(tab, desk, Choice.of("a", "b", allow_other=True))
    await tab.get_by_role("button", name="Send the answer").click()
    await expect(panel(tab)).to_be_visible()
    await hide(tab)
    await expect(tab.locator("[data-live]")).to_contain_text("It was sent, and does not fit yet.")
    await expect(panel(tab)).to_have_count(0)
    await expect(tab.get_by_role("button", name="Send the answer")).to_be_enabled()
    assert (await desk.get(question)).outcome is None


@pytest.mark.slow(
    "test_is_held_back_and_undo_leaves_everything_as_it_was has the panel; this is one more detail of it"
)
async def test_an_answer_that_could_not_be_sent_is_kept_and_sent_later(tab: Page, desk: LocalDesk) -> None:
    question = await opened(tab, desk)
    await tab.get_by_label("Your answer").fill("my thought")
    await tab.get_by_role("button", name="Send the answer").click()
    await tab.context.set_offline(True)
    await hide(tab)
    await expect(tab.locator("[data-offline]")).to_contain_text("Kept. It will be sent")
    await expect(panel(tab)).to_have_count(0)
    assert await tab.evaluate("document.querySelector('[data-answer]').inert")
    await tab.context.set_offline(False)
    await expect(tab.get_by_role("heading", name="Answered by you")).to_be_visible()
    assert await outcome_of(desk, question) == "my thought"


@pytest.mark.slow(
    "test_is_held_back_and_undo_leaves_everything_as_it_was has the panel; this is one more detail of it"
)
async def test_a_second_click_or_a_held_key_takes_nothing_back(tab: Page, desk: LocalDesk) -> None:
    await opened(tab, desk, Confirm())
    yes = await tab.get_by_role("button", name="Yes").bounding_box()
    assert yes is not None
    await tab.mouse.dblclick(yes["x"] + 20, yes["y"] + 20)
    await expect(panel(tab)).to_be_visible()
    await tab.keyboard.press("Escape")
    await tab.get_by_role("button", name="Yes").focus()
    await tab.keyboard.down("Enter")
    for _ in range(5):
        await tab.keyboard.down("Enter")
    await tab.keyboard.up("Enter")
    await expect(panel(tab)).to_be_visible()


@pytest.mark.slow(
    "test_is_held_back_and_undo_leaves_everything_as_it_was has the panel; this is one more detail of it"
)
class TestWhatIsHeldBack:
    async def test_declining(self, tab: Page, desk: LocalDesk) -> None:
        question = await opened(tab, desk)
        await tab.get_by_text("End for everyone").first.click()
        await tab.get_by_label("Why (optional; the agent reads it)").fill("not mine")
        await tab.get_by_role("button", name="End for everyone").click()
        await expect(tab.get_by_role("group", name="Sending in 60 s: End for everyone")).to_be_visible()
        await tab.goto("/")
        assert getattr(await settled(desk, question), "reason", None) == "not mine"

    async def test_denying_and_approving_but_not_a_look_at_changes(self, tab: Page, desk: LocalDesk) -> None:
        form = Approval.of("pay", {"to": "B", "amount": 3}, editable=["amount"])
        question = await opened(tab, desk, form)
        await tab.get_by_role("button", name="Deny").click()
        await expect(tab.get_by_role("group", name="Sending in 60 s: Deny")).to_be_visible()
        await tab.keyboard.press("Escape")
        await tab.get_by_role("button", name="Approve").click()
        await expect(tab.get_by_role("group", name="Sending in 60 s: Approve")).to_be_visible()
        await tab.keyboard.press("Escape")
        await tab.get_by_text("Change something before you approve").click()
        await tab.get_by_label("amount").fill("4")
        await tab.get_by_role("button", name="Approve").click()
        await expect(tab.get_by_role("heading", name="Approve with your changes?")).to_be_visible()
        await tab.get_by_role("button", name="Go back").click()
        await expect(tab.get_by_role("button", name="Deny")).to_be_visible()
        await tab.wait_for_load_state()
        await tab.get_by_role("button", name="Approve").click()
        await expect(tab.get_by_role("heading", name="Approve with your changes?")).to_be_visible()
        await tab.wait_for_load_state()
        await tab.get_by_role("button", name="Approve with changes").click()
        await expect(tab.get_by_role("group", name="Sending in 60 s: Approve with changes")).to_be_visible()
        await tab.goto("/")
        assert (await settled(desk, question))["arguments"] == {"to": "B", "amount": 4}

    async def test_nothing_where_the_asker_does_not_say_so(self, tab: Page, desk: LocalDesk) -> None:
        question = await opened(tab, desk, Confirm(), undo_for=0)
        await tab.get_by_role("button", name="No", exact=True).click()
        await expect(tab.get_by_role("heading", name="Answered by you")).to_be_visible()
        assert await outcome_of(desk, question) is False

    async def test_nothing_without_scripts(self, person: NewWindow, desk: LocalDesk) -> None:
        question = await desk.post("Sure?", form=Confirm(), undo_for=LONG)
        async with person("ann", java_script_enabled=False) as window:
            tab = await window.new_page()
            await tab.goto(f"/questions/{question.id}")
            await tab.get_by_role("button", name="Yes").click()
            await expect(tab.get_by_role("heading", name="Answered by you")).to_be_visible()
        assert await outcome_of(desk, question.id) is True

    async def test_nothing_that_a_page_could_not_send_while_it_is_left(
        self, tab: Page, desk: LocalDesk
    ) -> None:
        question = await opened(tab, desk)
        await tab.get_by_label("Your answer").fill("ä" * 15_000)
        await tab.get_by_role("button", name="Send the answer").click()
        await expect(tab.get_by_role("heading", name="Answered by you")).to_be_visible()
        assert len(await outcome_of(desk, question)) == 15_000


@pytest.mark.slow("by the clock on the wall")
class TestNearItsEnd:
    """By the clock on the wall."""

    @pytest.fixture
    def clock(self) -> None:
        return None

    async def test_it_is_sent_at_once(self, tab: Page, desk: LocalDesk) -> None:
        question = await opened(tab, desk, Confirm(), expires_in=6)
        await tab.get_by_role("button", name="Yes").click()
        await expect(tab.get_by_role("heading", name="Answered by you")).to_be_visible()
        assert await outcome_of(desk, question) is True

    async def test_it_is_held_back_for_a_shorter_time(self, tab: Page, desk: LocalDesk) -> None:
        await opened(tab, desk, Confirm(), expires_in=30)
        await tab.get_by_role("button", name="Yes").click()
        await expect(tab.get_by_role("group", name="Sending in 2")).to_be_visible()


@pytest.mark.slow("one rule of the style sheet")
@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
async def test_nothing_moves_for_who_wants_no_motion(person: NewWindow, desk: LocalDesk, motion: str) -> None:
    async with person("ann", reduced_motion=motion) as window:
        tab = await window.new_page()
        await opened(tab, desk, Confirm())
        await tab.get_by_role("button", name="Yes").click()
        await expect(panel(tab)).to_be_visible()
        moving = await tab.evaluate("document.getAnimations().map((each) => each.animationName)")
        assert moving == ([] if motion == "reduce" else ["run-out"])


@pytest.mark.slow("test_browser_access.py runs axe on one page of every type in the gate")
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_what_is_held_back_passes_axe(person: NewWindow, desk: LocalDesk, theme: str) -> None:
    async with person("ann", color_scheme=theme, bypass_csp=True, reduced_motion="reduce") as window:
        tab = await window.new_page()
        await opened(tab, desk, Approval.of("deploy", {"to": "prod"}, risk="high"))
        await tab.get_by_role("button", name="Approve").click()
        await expect(panel(tab)).to_be_visible()
        assert await violations(tab) == []
