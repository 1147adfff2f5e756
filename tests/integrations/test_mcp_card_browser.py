"""Cards in a real browser, as a client shows them: the person answers, asks back and sends back, by keyboard too."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from handraise import Answered, Question
from handraise.outcomes import Returned
from tests.integrations.app_mcp_card_host import CardHost, shown
from tests.integrations.app_mcp_clients import LEGACY, Table, table
from tests.server.inbox.chromium import violations
from tests.server.inbox.hostile import MARK, TEXTS
from tests.server.inbox.own_chromium import *  # noqa: F403 -- fixtures come by name

pytestmark = pytest.mark.asyncio(loop_scope="session")

real_too = pytest.mark.parametrize(
    "host",
    [
        "small",
        pytest.param("bridge", marks=pytest.mark.slow("the real bridge; the small host says the same")),
    ],
)
STRATEGY = {"question": "Which strategy?", "choices": ["Blue-green", "Canary"], "allow_other": True}
REFUND = {
    "action": "refund",
    "arguments": {"order": "A-17", "amount": 40},
    "why": "The parcel was lost.",
    "checked": ["The parcel was sent on 3 March.", "The carrier confirms the loss."],
    "reversible": False,
    "links": [{"label": "The order", "url": "https://shop.example/orders/A-17"}],
    "editable": ["amount"],
}


async def settled(t: Table) -> Question:
    async with asyncio.timeout(20):
        while not (found := (await t.desk.list_settled()).items):
            await asyncio.sleep(0.02)
    return found[0]


async def approval(shown_card: CardHost) -> None:
    await expect(shown_card.card.get_by_role("button", name="Approve")).to_be_enabled()


@real_too
async def test_a_question_is_answered_by_keyboard_and_the_agent_is_told_once(
    chromium: Browser, host: str
) -> None:
    async with table(LEGACY, cards=True) as t, shown(chromium, t, "ask_human", STRATEGY, host=host) as window:
        card = window.card
        await expect(card.get_by_role("heading", name="agent asks")).to_be_visible()
        await card.get_by_label("Canary").focus()
        await window.page.keyboard.press("Space")
        await window.page.keyboard.press("Tab")
        await window.page.keyboard.press("Tab")
        await window.page.keyboard.press("Enter")
        await expect(card.get_by_text("Answered by you")).to_be_visible()
        await expect(card.get_by_text("The agent is told.")).to_be_visible()
        outcome = (question := await settled(t)).outcome
        assert isinstance(outcome, Answered)
        assert (outcome.value, outcome.by, outcome.evidence) == ("Canary", "ana", "client-asserted")
        [said] = await window.said()
        assert question.id in said
        assert "Canary" not in said  # the model collects it
        assert window.errors == []


@real_too
async def test_an_action_is_discussed_and_then_approved_with_an_edited_argument(
    chromium: Browser, host: str
) -> None:
    async with (
        table(LEGACY, cards=True) as t,
        shown(chromium, t, "request_approval", REFUND, host=host) as window,
    ):
        card = window.card
        await expect(card.get_by_text("Medium risk")).to_be_visible()
        await expect(card.get_by_label("What will be executed")).to_have_text(
            "What will be executedrefundamount40orderA-17"
        )
        await card.get_by_text("Change something before you approve").click()
        await card.get_by_label("amount").fill("30")
        await expect(card.get_by_text("It was: 40")).to_be_visible()
        await card.get_by_role("button", name="Ask the agent").click()
        await card.get_by_label("What do you want to know?").fill("Was it insured?")
        await card.get_by_role("button", name="Ask the agent").click()
        await expect(card.get_by_text("Waiting for the agent's reply.")).to_be_visible()
        [said] = await window.said()
        assert "reply_to_person" in said
        [question] = await t.asked()
        await t.call("reply_to_person", question_id=question.id, message=1, text="No, it was not.")
        await expect(card.get_by_text("No, it was not.")).to_be_visible()
        await card.get_by_role(
            "button", name="Approve with changes"
        ).click()  # what was entered is still there
        await expect(card.get_by_text("Approved with changed arguments by you")).to_be_visible()
        collected = await t.call("collect_answer", question_id=question.id)
        assert collected["action"]["arguments"] == {"order": "A-17", "amount": 30}
        assert len(await window.said()) == 2
        assert window.errors == []


@pytest.mark.slow("the tests of the server, and the others here, find nearly everything")
async def test_a_person_sends_an_action_back_and_can_change_their_mind_first(chromium: Browser) -> None:
    async with table(LEGACY, cards=True) as t, shown(chromium, t, "request_approval", REFUND) as window:
        card = window.card
        await card.get_by_role("button", name="Send back").click()
        await window.page.keyboard.press("Escape")
        await expect(card.get_by_role("button", name="Send back")).to_be_focused()
        await card.get_by_role("button", name="Send back").click()
        await card.get_by_role("button", name="Send back").click()
        await expect(card.get_by_role("alert")).to_contain_text("say what to change")
        await card.get_by_label("What should change").fill("Half of it.")
        await card.get_by_role("button", name="Send back").click()
        await expect(card.get_by_text("Sent back by you")).to_be_visible()
        outcome = (await settled(t)).outcome
        assert isinstance(outcome, Returned)
        assert outcome.reason == "Half of it."


async def test_the_key_of_the_card_never_leaves_it(chromium: Browser) -> None:
    keys: list[str] = []

    def note_key(result: dict[str, Any]) -> dict[str, Any]:
        keys.append(result["_meta"]["handraise/card"]["key"])
        return result

    async with (
        table(LEGACY, cards=True) as t,
        shown(chromium, t, "request_approval", REFUND, change=note_key) as window,
    ):
        await window.card.get_by_role("button", name="Deny").click()
        await expect(window.card.get_by_text("Denied by you")).to_be_visible()
        posted = str(await window.posted())
        assert "card_answer" in posted
        assert keys[0] not in posted


async def test_nothing_that_an_agent_writes_becomes_markup_or_a_request(chromium: Browser) -> None:
    texts = [each for each in TEXTS if "\x00" not in each][:60]
    hostile = {
        "action": "x" + texts[0],
        "arguments": {f"a{place} {text[:100]}": text for place, text in enumerate(texts)},
        "why": texts[1],
        "checked": texts[2:6],
    }
    async with table(LEGACY, cards=True) as t, shown(chromium, t, "request_approval", hostile) as window:
        await approval(window)
        frame = window.page.frames[-1]
        tags = await frame.evaluate(
            "[...new Set([...document.querySelectorAll('main *')].map((each) => each.localName))].sort()"
        )
        assert set(tags) <= {
            "button",
            "dd",
            "details",
            "div",
            "dl",
            "dt",
            "h1",
            "h2",
            "input",
            "label",
            "li",
            "p",
            "section",
            "span",
            "summary",
            "ul",
        }
        shown_texts = await frame.locator(".action dd").all_inner_texts()
        assert len(shown_texts) == len(texts)
        assert all(MARK in each for each in shown_texts)
        assert await frame.evaluate(f"typeof window.{MARK}") == "undefined"
        assert window.errors == []


@pytest.mark.slow("the tests of the server, and the others here, find nearly everything")
async def test_answered_elsewhere_nothing_is_said_in_the_persons_name_until_they_say_so(
    chromium: Browser,
) -> None:
    async with table(LEGACY, cards=True) as t, shown(chromium, t, "ask_human", STRATEGY) as window:
        await expect(window.card.get_by_role("button", name="Send the answer")).to_be_visible()
        [question] = await t.asked()
        await t.desk.answer(question.id, "Canary", by="bo")
        await expect(window.card.get_by_text("Answered by bo")).to_be_visible()
        assert await window.said() == []
        assert question.id in (await window.page.evaluate("contexts"))[0]
        await window.card.get_by_role("button", name="Tell the agent").click()
        await expect(window.card.get_by_text("The agent is told.")).to_be_visible()
        assert len(await window.said()) == 1


@pytest.mark.slow("the tests of the server, and the others here, find nearly everything")
async def test_a_client_that_takes_no_messages_or_passes_on_no_key_is_no_dead_end(chromium: Browser) -> None:
    async with table(LEGACY, cards=True) as t:
        async with shown(chromium, t, "ask_human", STRATEGY, capabilities={"serverTools": {}}) as window:
            await window.card.get_by_label("Or your own answer").fill("Wait until Monday")
            await window.page.keyboard.press("Enter")
            await expect(window.card.get_by_text("Write to the agent that it can go on.")).to_be_visible()
        outcome = (await settled(t)).outcome
        assert isinstance(outcome, Answered)
        assert outcome.value == {"other": "Wait until Monday"}
        without = {**STRATEGY, "question": "Which, without a key?"}
        async with shown(chromium, t, "ask_human", without, change=without_meta) as window:
            await expect(window.card.get_by_text("can be answered in the inbox")).to_be_visible()


@pytest.mark.slow("the tests of the server, and the others here, find nearly everything")
async def test_a_form_says_what_does_not_fit_and_an_optional_choice_can_be_left_open_again(
    chromium: Browser,
) -> None:
    schema = {
        "type": "object",
        "properties": {"guests": {"type": "integer", "minimum": 1}, "breakfast": {"type": "boolean"}},
        "required": ["guests"],
    }
    booking = {"question": "Which booking?", "schema": schema}
    async with table(LEGACY, cards=True) as t, shown(chromium, t, "ask_human", booking) as window:
        card = window.card
        await card.get_by_label("Yes").check()
        await card.get_by_label("Leave it open").check()
        await card.get_by_label("guests").fill("none")
        await card.get_by_role("button", name="Send the answer").click()
        await expect(card.get_by_label("guests")).to_be_focused()
        await expect(card.get_by_text("expected a whole number")).to_be_visible()
        await card.get_by_label("guests").fill("2")
        await card.get_by_role("button", name="Send the answer").click()
        await expect(card.get_by_text("Answered by you")).to_be_visible()
        outcome = (await settled(t)).outcome
        assert isinstance(outcome, Answered)
        assert outcome.value == {"guests": 2}


def without_meta(result: dict[str, Any]) -> dict[str, Any]:
    return {**result, "_meta": None}


@pytest.mark.slow("one client does this, and the others here find nearly everything")
async def test_a_card_finds_its_key_where_chatgpt_has_it(chromium: Browser) -> None:
    async with (
        table(LEGACY, cards=True) as t,
        shown(
            chromium,
            t,
            "ask_human",
            STRATEGY,
            change=without_meta,
            openai=lambda result: {"toolResponseMetadata": result["_meta"]},
        ) as window,
    ):
        await window.card.get_by_label("Canary").check()
        await window.card.get_by_role("button", name="Send the answer").click()
        await expect(window.card.get_by_text("Answered by you")).to_be_visible()


@pytest.mark.parametrize(
    ("theme", "width"),
    [
        ("dark", 380),
        ("light", 800),
        pytest.param("light", 380, marks=pytest.mark.slow("two of four find nearly everything")),
        pytest.param("dark", 800, marks=pytest.mark.slow("two of four find nearly everything")),
    ],
)
async def test_a_card_is_accessible_in_both_themes_on_a_phone_and_a_wide_screen(
    chromium: Browser, theme: str, width: int
) -> None:
    async with (
        table(LEGACY, cards=True) as t,
        shown(chromium, t, "request_approval", REFUND, theme=theme, width=width) as window,
    ):
        await approval(window)
        frame: Any = window.page.frames[-1]
        assert await violations(frame) == []
        assert await frame.evaluate("document.documentElement.scrollWidth <= innerWidth")
        # The host gives it the height that it asks for.
        async with asyncio.timeout(10):
            while await frame.evaluate("document.documentElement.scrollHeight - innerHeight"):
                await asyncio.sleep(0.02)
        assert window.errors == []
