"""Every kind of question is answered in a real browser: with the mouse, with the keyboard alone, and without scripts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from handraise import Answered, Approval, Choice, Confirm, Declined, Field, Form, MultiChoice, Open, Question
from handraise.desk.local_desk import LocalDesk
from handraise.model.forms import AnyForm
from tests.server.inbox.chromium import *  # noqa: F403 -- fixtures come by name
from tests.server.inbox.chromium import NewWindow, complaints
from tests.server.inbox.hands import Hand, Keyboard, Mouse

Deeds = Callable[[Hand], Awaitable[None]]

SEND = "Send the answer"
PAYMENT = {"to": "ACME Ltd", "amount": 250, "note": "rent", "urgent": False}


async def choose_one(hand: Hand) -> None:
    await hand.tick("Rolling")
    await hand.press(SEND)


async def choose_other(hand: Hand) -> None:
    await hand.tick("Other")
    await hand.write("Another answer", "at night")
    await hand.press(SEND)


async def choose_some(hand: Hand) -> None:
    await hand.tick("api")
    await hand.tick("docs")
    await hand.press(SEND)


def writing(text: str) -> Deeds:
    async def write(hand: Hand) -> None:
        await hand.write("Your answer", text)
        await hand.press(SEND)

    return write


async def set_day(hand: Hand) -> None:
    await hand.date("Your answer", "2026-11-15")
    await hand.press(SEND)


async def set_instant(hand: Hand) -> None:
    await hand.date("Your answer", "2026-11-15T09:30")
    await hand.choose("Distance from UTC", "UTC+02:00")
    await hand.press(SEND)


def pressing(name: str) -> Deeds:
    return lambda hand: hand.press(name)


async def fill_in_several(hand: Hand) -> None:
    await hand.write("Who is told", "ops@example.com")
    await hand.write("retries", "5")
    await hand.tick("No")
    await hand.tick("eu")
    await hand.date("from", "2026-11-15")
    await hand.press(SEND)


async def approve_for_long(hand: Hand) -> None:
    await hand.tick("Always, until it ends")
    await hand.write("Reason (optional; the agent reads it)", "it is fine")
    await hand.press("Approve")


async def approve_changed(hand: Hand) -> None:
    await hand.open("Change something before you approve")
    await hand.write("amount", "200")
    await hand.write("note", "rent and heating")
    await hand.press("Approve")
    await hand.press("Approve with changes")


SEVERAL = Form(
    fields=(
        Field(name="who", form=Open(type="email"), title="Who is told"),
        Field(name="retries", form=Open(type="integer", minimum=0), default=3),
        Field(name="sure", form=Confirm()),
        Field(name="where", form=Choice.of("eu", "us"), required=False),
        Field(name="from", form=Open(type="date")),
        Field(name="note", form=Open(), required=False),
    )
)
Kind = tuple[AnyForm, Deeds, Any]
KINDS: dict[str, dict[str, Kind]] = {
    "choices": {
        "one": (Choice.of("Canary", "Rolling", "Blue-green"), choose_one, "Rolling"),
        "other": (Choice.of("now", "never", allow_other=True), choose_other, {"other": "at night"}),
        "several": (
            MultiChoice.of("web", "api", "docs", "jobs", at_least=2, at_most=3),
            choose_some,
            ["api", "docs"],
        ),
        "yes": (Confirm(), pressing("Yes"), True),
        "no": (Confirm(), pressing("No"), False),
    },
    "texts": {
        "text": (Open(), writing("Wait.\nThen ask Bob."), "Wait.\nThen ask Bob."),
        "line": (Open(max_length=40), writing("Monday"), "Monday"),
        "integer": (Open(type="integer", minimum=1), writing("42"), 42),
        "number": (Open(type="number"), writing("4.5"), 4.5),
        "email": (Open(type="email"), writing("ann@example.com"), "ann@example.com"),
        "uri": (Open(type="uri"), writing("https://example.com/a"), "https://example.com/a"),
    },
    "days": {
        "date": (Open(type="date"), set_day, "2026-11-15"),
        "datetime": (Open(type="datetime"), set_instant, "2026-11-15T07:30:00+00:00"),
        "form": (
            SEVERAL,
            fill_in_several,
            {"who": "ops@example.com", "retries": 5, "sure": False, "where": "eu", "from": "2026-11-15"},
        ),
    },
    "approvals": {
        "approved": (
            Approval.of("payments.transfer", PAYMENT, scopes=["once", "always"]),
            approve_for_long,
            (True, PAYMENT, "it is fine"),
        ),
        "denied": (Approval.of("payments.transfer", PAYMENT), pressing("Deny"), (False, PAYMENT, None)),
        "edited": (
            Approval.of("payments.transfer", PAYMENT, editable=["amount", "note"]),
            approve_changed,
            (True, PAYMENT | {"amount": 200, "note": "rent and heating"}, None),
        ),
    },
}
"""Each kind by name: its form, what a person does, and the answer. Those of a group share a window: it opens slowly."""


def said(question: Question) -> Any:
    """What was answered; of an approval, whether, to what, and why."""
    if question.decision is not None:
        return question.decision.approved, question.decision.action.arguments, question.decision.reason
    assert isinstance(question.outcome, Answered), question.outcome
    return question.outcome.value


WAYS = ("mouse", "keyboard", "no scripts")
IN_THE_GATE = {"choices": "keyboard", "texts": "no scripts", "days": "mouse", "approvals": "mouse"}
"""How the kinds of a group are answered in the gate; nightly they are answered in every way."""
NIGHTLY_IS_ENOUGH = pytest.mark.slow("the gate answers every kind in one of the three ways")


def ways(gate: str) -> list[Any]:
    """All ways; those that are not this one leave the gate."""
    return [pytest.param(way, marks=() if way == gate else NIGHTLY_IS_ENOUGH) for way in WAYS]


@pytest_asyncio.fixture(loop_scope="session")
async def page(person: NewWindow, way: str) -> AsyncIterator[Page]:
    async with person("ann", java_script_enabled=way != "no scripts", locale="en-US") as window:
        yield await window.new_page()


@pytest_asyncio.fixture(loop_scope="session")
async def hand(page: Page, way: str) -> Hand:
    return Keyboard(page) if way == "keyboard" else Mouse(page)


@pytest.mark.only_proof_of("every kind of question can be answered on its page")
@pytest.mark.parametrize(
    ("group", "way"),
    [
        pytest.param(group, *way.values, marks=way.marks)
        for group in KINDS
        for way in ways(IN_THE_GATE[group])
    ],
)
async def test_is_answered(page: Page, hand: Hand, desk: LocalDesk, group: str) -> None:
    found = complaints(page)
    for place, (kind, (form, deeds, value)) in enumerate(KINDS[group].items()):
        question = await desk.post(f"What shall I do next? ({kind})", form=form)
        if place == 0:
            await page.goto("/")
            await hand.open(question.prompt)
        else:
            await page.goto(f"/questions/{question.id}")
        await deeds(hand)
        if place == 0:
            await page.locator("[data-done]").get_by_role("link", name="View").click()
        await expect(page.get_by_role("heading", name="by you through the inbox")).to_be_visible()
        settled = await desk.get(question.id)
        assert said(settled) == value, kind
        assert isinstance(settled.outcome, Answered)
        assert (settled.outcome.by, settled.outcome.channel) == ("ann", "web")
    assert found == []


@pytest.mark.parametrize("way", ways("mouse"))
async def test_is_declined(page: Page, hand: Hand, desk: LocalDesk) -> None:
    for form in (Open(), Approval.of("payments.transfer", PAYMENT, editable=["amount"])):
        question = await desk.post("What now?", form=form)
        await page.goto(f"/questions/{question.id}")
        await hand.open("End for everyone")
        await hand.write("Why (optional; the agent reads it)", "ask Bob")
        await hand.press("End for everyone")
        await expect(page.get_by_role("heading", name="Declined by you")).to_be_visible()
        outcome = (await desk.get(question.id)).outcome
        assert isinstance(outcome, Declined)
        assert (outcome.by, outcome.reason) == ("ann", "ask Bob")
