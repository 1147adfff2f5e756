"""Answers that are sent later than they were given: recorded only if everything is as their person saw it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx2
import pytest

from handraise import Approval, Choice, Confirm, Question
from handraise.desk.local_desk import LocalDesk
from handraise.model.provenance import Provenance
from handraise.presentation.one_press import notification_digest
from tests.server.conftest import ORIGIN
from tests.server.inbox.browser import FORM, Input, Sheet, open_page
from tests.server.inbox.chromium import outcome_of

YES = ("v", "yes")


@pytest.fixture
def settings() -> dict[str, Any]:
    return {"check_recipients": False, "push_answers": True}


async def form_of(ann: httpx2.AsyncClient, question_id: str, part: str = "data-answer") -> Sheet:
    """The form as ann saw it before she went offline."""
    return (await open_page(ann, f"/questions/{question_id}")).sheet(part)


async def send_later(
    ann: httpx2.AsyncClient,
    sheet: Sheet,
    button: tuple[str, str] | None = YES,
    *,
    account: str = "ann",
    workspace: str,
) -> httpx2.Response:
    headers = {"accept": "application/json", "handraise-account": f"{workspace}%2F{account}"}
    return await ann.post(sheet.action, content=sheet.body(button), headers=ORIGIN | FORM | headers)


def refusal_in(response: httpx2.Response) -> dict[str, str]:
    assert response.status_code == 409, response.text
    refused: dict[str, str] = response.json()["refused"]
    return refused


async def test_is_recorded_once_with_what_was_seen(
    ann: httpx2.AsyncClient, desk: LocalDesk, workspace: str
) -> None:
    question = await desk.post("Ship it?", form=Confirm())
    sheet = await form_of(ann, question.id)
    for _ in range(2):  # the first response was lost
        sent = await send_later(ann, sheet, workspace=workspace)
        assert (sent.status_code, sent.json()["done"]["text"]) == (200, "Answered")
    events = await desk.history(question.id)
    assert [each.kind.value for each in events] == ["asked", "answered"]
    assert events[-1].data["shown_digest"] == sheet.sent()["shown"][0]


async def test_a_vote_is_counted_once_and_a_later_change_of_mind_stands(
    ann: httpx2.AsyncClient, desk: LocalDesk, workspace: str
) -> None:
    question = await desk.post("Ship it?", form=Confirm(), quorum=2, recipients=["ann", "bob"])
    sheet = await form_of(ann, question.id)
    for _ in range(2):
        assert (await send_later(ann, sheet, workspace=workspace)).json()["done"]["waits"]
    assert [each.kind.value for each in await desk.history(question.id)] == ["asked", "voted"]
    refused = refusal_in(await send_later(ann, sheet, ("v", "no"), workspace=workspace))
    assert refused["text"] == "You have voted on it already."
    assert len(await desk.history(question.id)) == 2


async def test_a_vote_that_was_recorded_is_told_as_recorded(
    ann: httpx2.AsyncClient, desk: LocalDesk, workspace: str
) -> None:
    declined, agreed = [
        await desk.post("Ship it?", form=Confirm(), quorum=2, recipients=["ann", "bob"]) for _ in range(2)
    ]
    sheet = await form_of(ann, declined.id, "data-decline")
    for _ in range(2):
        assert (await send_later(ann, sheet, None, workspace=workspace)).json()["done"]["waits"]
    sheet = await form_of(ann, agreed.id)
    await send_later(ann, sheet, workspace=workspace)  # the response is lost
    await desk.answer(agreed.id, True, by="bob")
    assert (await send_later(ann, sheet, workspace=workspace)).status_code == 200


async def test_an_answer_that_is_sent_again_keeps_nothing_again(
    ann: httpx2.AsyncClient, desk: LocalDesk, workspace: str
) -> None:
    question = await desk.post("Which?", form=Confirm(), topic="t", recipients=["ann"])
    sheet = await form_of(ann, question.id)
    (day,) = [each for each in sheet.inputs if each.name == "keep_until"]
    day.value = "2999-12-31"
    first = await send_later(ann, sheet, workspace=workspace)
    assert first.json()["problem"] == "It is not kept for later questions."  # longer than anything is kept
    kept = await desk.keep_answer(question.id, until=question.asked_at + timedelta(days=2), by="ann")
    day.value = f"{question.asked_at + timedelta(days=9):%Y-%m-%d}"
    assert (await send_later(ann, sheet, workspace=workspace)).status_code == 200
    assert [each.id for each in await desk.list_standing_answers()] == [kept.id]


async def test_says_what_is_recorded_if_it_has_ended(
    ann: httpx2.AsyncClient, desk: LocalDesk, workspace: str
) -> None:
    question = await desk.post("Ship it?", form=Confirm())
    sheets = [await form_of(ann, question.id, part) for part in ("data-answer", "data-decline")]
    await desk.answer(question.id, False, by="bob", provenance=Provenance(channel="web"))
    for sheet, button in zip(sheets, (YES, None), strict=True):
        refused = refusal_in(await send_later(ann, sheet, button, workspace=workspace))
        assert refused["text"] == "It had ended before your answer arrived."
        assert refused["recorded"].startswith("Answered by bob")
        assert refused["recorded"].endswith("No")
        assert refused["href"] == f"/questions/{question.id}"
    assert await outcome_of(desk, question.id) is False


async def test_nothing_is_recorded_if_somebody_wrote_something_meanwhile(
    ann: httpx2.AsyncClient, desk: LocalDesk, workspace: str
) -> None:
    question = await desk.post("Ship it?", form=Choice.of("a", "b"))
    sheet = await form_of(ann, question.id)
    sheet.tick("v", "0")
    await desk.note(question.id, "Wait!", by="bob")
    refused = refusal_in(await send_later(ann, sheet, None, workspace=workspace))
    assert refused["text"] == "There are messages that you had not seen."
    assert await outcome_of(desk, question.id) is None
    seen = await form_of(ann, question.id)
    seen.tick("v", "0")
    assert (await send_later(ann, seen, None, workspace=workspace)).status_code == 200


async def test_nothing_is_recorded_if_it_was_shown_differently(
    ann: httpx2.AsyncClient, desk: LocalDesk, workspace: str
) -> None:
    question = await desk.post("Pay?", form=Approval.of("pay", {"amount": 3}))
    other = await form_of(ann, (await desk.post("Pay?", form=Approval.of("pay", {"amount": 4}))).id)
    other.action = f"/questions/{question.id}"
    refused = refusal_in(await send_later(ann, other, ("decision", "approve"), workspace=workspace))
    assert refused["text"] == "Its page is not as you had seen it."
    assert await outcome_of(desk, question.id) is None


async def test_high_risk_and_what_is_no_answer_are_not_sent_later(
    ann: httpx2.AsyncClient, desk: LocalDesk, workspace: str
) -> None:
    question = await desk.post("Pay?", form=Approval.of("pay", {"amount": 3}, risk="high"))
    sheet = await form_of(ann, question.id)
    for button in (("decision", "approve"), ("decision", "deny")):
        refused = refusal_in(await send_later(ann, sheet, button, workspace=workspace))
        assert refused["text"] == "This has to be decided on its page."
    approved = await desk.post("Pay?", form=Approval.of("pay", {"amount": 3}))
    await desk.answer(approved.id, "approve", by="ann")
    take_back = await form_of(ann, approved.id, "data-take-back")
    refusal_in(await send_later(ann, take_back, None, workspace=workspace))
    assert (await desk.get(approved.id)).taken_back_at is None


@pytest.mark.parametrize("account", ["bob", "", "anna"])
async def test_another_person_on_the_same_browser_sends_nothing(
    ann: httpx2.AsyncClient, desk: LocalDesk, workspace: str, account: str
) -> None:
    question = await desk.post("Ship it?", form=Confirm())
    sheet = await form_of(ann, question.id)
    refused = await send_later(ann, sheet, account=account, workspace=workspace)
    assert refused.status_code == 401
    assert await outcome_of(desk, question.id) is None
    elsewhere = await send_later(ann, sheet, workspace=f"{workspace}-2")
    assert elsewhere.status_code == 401
    assert await outcome_of(desk, question.id) is None


async def test_without_a_session_it_leads_to_the_sign_in_page(
    ann: httpx2.AsyncClient, desk: LocalDesk, workspace: str
) -> None:
    question = await desk.post("Ship it?", form=Confirm())
    sheet = await form_of(ann, question.id)
    ann.cookies.clear()
    sent = await send_later(ann, sheet, workspace=workspace)
    assert (sent.status_code, sent.headers["location"]) == (303, "/sign-in")
    assert await outcome_of(desk, question.id) is None


class TestFromANotification:
    async def test_is_recorded_as_such(
        self, ann: httpx2.AsyncClient, desk: LocalDesk, workspace: str
    ) -> None:
        question = await desk.post("Restart?", form=Approval.of("restart", {"host": "a"}, risk="low"))
        sheet = pressed(question)
        assert (await send_later(ann, sheet, None, workspace=workspace)).status_code == 200
        outcome = (await desk.get(question.id)).outcome
        assert getattr(outcome, "channel", None) == "webpush"
        assert (await desk.history(question.id))[-1].data["shown_digest"] == notification_digest(question)

    async def test_only_what_the_notification_could_show(
        self, ann: httpx2.AsyncClient, desk: LocalDesk, workspace: str
    ) -> None:
        for form, shown in (
            (Approval.of("restart", {"host": "a"}, risk="medium"), None),
            (Approval.of("restart", {"host": "a"}, risk="low"), "0" * 64),
        ):
            question = await desk.post("Restart?", form=form)
            sheet = pressed(question, shown)
            refusal_in(await send_later(ann, sheet, None, workspace=workspace))
            assert await outcome_of(desk, question.id) is None

    @pytest.mark.parametrize("settings", [{"check_recipients": False}])
    async def test_not_if_the_server_has_no_such_buttons(
        self, ann: httpx2.AsyncClient, desk: LocalDesk, workspace: str
    ) -> None:
        question = await desk.post("Restart?", form=Approval.of("restart", {"host": "a"}, risk="low"))
        sheet = pressed(question)
        refusal_in(await send_later(ann, sheet, None, workspace=workspace))
        assert await outcome_of(desk, question.id) is None


def pressed(question: Question, shown: str | None = None) -> Sheet:
    """What the button of a notification sends."""
    assert isinstance(question.form, Approval)
    shown, digest = shown or notification_digest(question), question.form.digest
    fields = {"via": "webpush", "shown": shown, "seen": "0", "digest": digest, "decision": "approve"}
    sheet = Sheet(f"/questions/{question.id}", "post")
    sheet.inputs = [Input(name, "hidden", value) for name, value in fields.items()]
    return sheet
