"""Questions in Discord, both ways: from posting one to the resumed asker, for every kind of form."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio

from handraise import Approval, Declined, Timeline
from handraise.model.deliveries import DeliveryStatus
from handraise.model.forms import Choice, Confirm, Field, Form, MultiChoice, Open, Option
from handraise.model.outcomes import Answered
from handraise.model.provenance import Provenance
from handraise.model.questions import Question
from handraise.model.timelines import Escalation
from tests.channels.discord_peer import GUILD, WITHIN, Fault, open_peer
from tests.channels.discord_rules import modal_text
from tests.channels.discord_server import ANN, BOB, Team, open_team
from tests.samples import ON_DISK

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Team]:
    async with open_peer() as peer, open_team(peer) as team:
        yield team


@pytest.fixture
def team(shared: Team) -> Team:
    return shared.anew()


async def statuses(team: Team, question: Question) -> list[str]:
    return [each.status.value for each in await team.ctx.outbox.deliveries(question.ref)]


async def until_status(team: Team, question: Question, status: DeliveryStatus) -> None:
    async with asyncio.timeout(WITHIN):
        while set(await statuses(team, question)) != {status.value}:
            await asyncio.sleep(0.005)


async def test_a_button_answers_and_the_message_says_so(team: Team) -> None:
    question, message = await team.ask(choices=["Blue-green", "Canary"])
    assert team.peer.rooms[message.room] == ANN
    assert message.pressable == ["option-0", "option-1", "send_back", "decline"]
    for part in (
        "agent",
        "Which strategy?",
        "Canary",
        f"https://desk.example/questions/{question.id}",
    ):
        assert part in message.shown
    sent = await team.peer.press(ANN, message, "option-1")
    assert (sent.status, sent.answer) == (200, {"type": 6})
    assert await team.value(question) == "Canary"
    ended = await team.ended(message)
    assert ended.pressable == []
    assert "Answered by ann" in ended.shown
    assert "Canary" in ended.shown
    await until_status(team, question, DeliveryStatus.UPDATED)
    assert team.peer.told == []
    answered = (await team.desk.history(question.id))[-1]
    assert answered.data["details"] == {"user": ANN}


async def test_yes_and_no_are_buttons(team: Team) -> None:
    question, message = await team.ask("Go?", form=Confirm())
    assert message.pressable == ["yes", "no", "send_back", "decline"]
    await team.peer.press(ANN, message, "no")
    assert await team.value(question) is False


async def test_what_could_be_undone_elsewhere_is_asked_once_more(team: Team) -> None:
    question, message = await team.ask("Go?", form=Confirm(), undo_for=10)
    assert message.pressable == ["?yes", "?no", "send_back", "decline"]
    await team.peer.press(ANN, message, "?yes")
    assert "Send this answer? It counts as soon as it is sent.\n│ Yes" in team.told(ANN)
    assert (await team.desk.get(question.id)).outcome is None
    await team.peer.press(ANN, team.told_message(ANN), "yes")
    assert await team.value(question) is True
    assert team.told(ANN) == "Thank you, your answer was recorded."


async def test_more_options_are_a_menu_and_asked_once_more(team: Team) -> None:
    options = [Option(id=f"id {n}", label=f"Option {n}") for n in range(20)]
    question, message = await team.ask(choices=options)
    assert message.pressable == ["select", "send_back", "decline"]
    await team.peer.press(ANN, message, "select", option=19)
    assert "│ Option 19" in team.told(ANN)
    await team.peer.press(ANN, team.told_message(ANN), "option-19")
    assert await team.value(question) == "id 19"


async def test_long_options_are_listed_in_full_and_go_by_their_number(team: Team) -> None:
    options = [Option(id="a", label="A" * 200), Option(id="b", label="A" * 199 + "B", description="differs")]
    question, message = await team.ask(form=Choice.of(*options, allow_other=True))
    assert f"2. {'A' * 199}B: differs" in message.shown
    assert message.pressable == ["option-0", "option-1", "answer", "send_back", "decline"]
    await team.peer.press(ANN, message, "option-1")
    assert await team.value(question) == "b"


async def test_a_text_of_ones_own_is_written_in_a_form(team: Team) -> None:
    question, message = await team.ask(form=Choice.of("a", "b", allow_other=True))
    await team.peer.press(ANN, message, "answer")
    told = await team.peer.submit(ANN, f0=[0], f0o="mine")
    assert told == "That does not fit: choose one, or write your own answer, but not both."
    await team.peer.press(ANN, message, "answer")
    assert "recorded" in await team.peer.submit(ANN, f0o=" mine ")
    assert await team.value(question) == {"other": "mine"}


async def test_several_options_are_chosen_in_a_form_and_what_does_not_fit_is_told(team: Team) -> None:
    question, message = await team.ask(form=MultiChoice.of("Tests", "Docs", "Notes", at_least=2))
    assert "2. Docs" in message.shown
    assert "Choose at least 2." in message.shown
    await team.peer.press(ANN, message, "answer")
    assert "choose at least 2, not 1" in await team.peer.submit(ANN, f0=[1])
    await team.peer.press(ANN, message, "answer")
    assert "recorded" in await team.peer.submit(ANN, f0=[2, 0])
    assert await team.value(question) == ["Tests", "Notes"]
    assert "Tests, Notes" in (await team.ended(message)).shown
    kinds = [each.kind.value for each in await team.desk.history(question.id)]
    assert kinds == ["asked", "attempted", "answered"]


@pytest.mark.parametrize(
    ("form", "style", "wrong", "right", "value"),
    [
        (Open(), 2, None, "Blue & <green>\n**b**", "Blue & <green>\n**b**"),
        (Open(type="integer", minimum=3), 1, "2", " 4 ", 4),
        (Open(type="number", maximum=2), 1, "2.5", "1.5", 1.5),
        (Open(type="email"), 1, "a@b", "a@b.example", "a@b.example"),
        (Open(type="uri"), 1, "x", "https://a.example", "https://a.example"),
        (Open(type="date"), 1, "soon", "2026-11-15", "2026-11-15"),
        (Open(type="datetime"), 1, "soon", "2026-11-15T14:10:00Z", "2026-11-15T14:10:00+00:00"),
        (Open(max_length=5, pattern="^s"), 1, "long", "short", "short"),
        (Open(min_length=0), 2, None, "", ""),
    ],
)
async def test_each_kind_of_text_is_written_in_a_form(
    *, team: Team, form: Open, style: int, wrong: str | None, right: str, value: Any
) -> None:
    question, message = await team.ask(form=form)
    assert message.pressable == ["answer", "send_back", "decline"]
    if wrong is not None:
        await team.peer.press(ANN, message, "answer")
        assert "That does not fit" in await team.peer.submit(ANN, f0=wrong)
    await team.peer.press(ANN, message, "answer")
    modal, _ = team.peer.modals[ANN]
    assert modal["components"][-1]["component"]["style"] == style
    assert "Which strategy?" in modal_text(modal)
    assert "recorded" in await team.peer.submit(ANN, f0=right)
    assert await team.value(question) == value


async def test_a_form_is_filled_in_with_what_stood_there_at_first(team: Team) -> None:
    fields = (
        Field(name="region", form=Choice.of("eu", "us"), title="Where?", default="us"),
        Field(name="size", form=Open(type="integer", minimum=1), default=3, description="in machines"),
        Field(name="parts", form=MultiChoice.of("api", "web"), default=["web"]),
        Field(name="note", form=Open(min_length=0), required=False),
        Field(name="now", form=Confirm(), default=True),
    )
    question, message = await team.ask(form=Form(fields=fields))
    assert "region: Where? · eu / us" in message.shown
    await team.peer.press(ANN, message, "answer")
    assert "size: must be at least 1, is 0" in await team.peer.submit(ANN, f1="0")
    await team.peer.press(ANN, message, "answer")
    assert "recorded" in await team.peer.submit(ANN)
    assert await team.value(question) == {"region": "us", "size": 3, "parts": ["web"], "now": True}
    assert "Where?: us" in (await team.ended(message)).shown


async def test_a_form_that_is_too_large_for_discord_is_left_to_the_inbox(team: Team) -> None:
    fields = tuple(Field(name=f"n{n}", form=Open()) for n in range(6))
    question, message = await team.ask("How?", form=Form(fields=fields))
    assert message.pressable == ["send_back", "decline"]
    assert "It is answered in the inbox." in message.shown
    await team.peer.press(ANN, message, "decline")
    assert "declined" in await team.peer.submit(ANN)
    assert (await team.outcome(question)).status == "declined"


async def test_somebody_may_decline(team: Team) -> None:
    question, message = await team.ask(choices=["a", "b"])
    await team.peer.press(ANN, message, "decline")
    assert "You declined" in await team.peer.submit(ANN, reason="not mine to say")
    outcome = await team.outcome(question)
    assert isinstance(outcome, Declined)
    assert (outcome.by, outcome.reason) == ("ann", "not mine to say")
    ended = await team.ended(message)
    assert "Declined by ann" in ended.shown
    assert "not mine to say" in ended.shown


APPROVAL = {"version": "1.2.3", "replicas": 3, "notes": "a\nb ``` @everyone <@1> [x](https://evil.example)"}


async def test_an_action_is_approved_as_it_is_shown_and_asked_once_more(team: Team) -> None:
    question, message = await team.ask("Deploy?", form=Approval.of("deploy", APPROVAL))
    assert message.pressable == ["?approve", "deny", "reason", "note", "send_back"]
    for part in (
        "What will be executed",
        '"version": "1.2.3"',
        "a\\nb ‹U+0060›‹U+0060›‹U+0060› @every",
        "Medium risk",
    ):
        assert part in message.shown
    assert "⟦" not in message.shown
    await team.peer.press(ANN, message, "?approve")
    assert "Approve deploy? It is executed just as it stands in the message above." in team.told(ANN)
    assert (await team.desk.get(question.id)).outcome is None
    await team.peer.press(ANN, team.told_message(ANN), "approve")
    assert (await team.outcome(question)).status == "answered"
    settled = await team.desk.get(question.id)
    assert settled.decision
    assert "Approved" in (await team.ended(message)).shown


async def test_an_action_is_denied_with_a_reason_or_without(team: Team) -> None:
    for verb, reason in (("reason", "not on a Friday"), ("deny", None)):
        question, message = await team.ask("Deploy?", form=Approval.of("deploy", APPROVAL))
        await team.peer.press(ANN, message, verb)
        if reason:
            assert "recorded" in await team.peer.submit(ANN, reason=reason)
        await team.outcome(question)
        decision = (await team.desk.get(question.id)).decision
        assert decision is not None
        assert (decision.approved, decision.reason) == (False, reason)
        assert (reason or "Denied") in (await team.ended(message)).shown


async def test_in_a_room_whoever_presses_is_a_person_of_its_own(team: Team) -> None:
    question, message = await team.ask("Go?", form=Confirm(), recipients=["group:ops"])
    await team.peer.press(BOB, message, "yes")
    outcome = await team.outcome(question)
    assert isinstance(outcome, Answered)
    assert outcome.by == "bob"
    assert (await team.desk.history(question.id))[-1].data["details"] == {"user": BOB, "guild": GUILD}


async def test_what_was_settled_elsewhere_in_the_meantime_is_told(team: Team) -> None:
    question, message = await team.ask("Deploy?", form=Approval.of("deploy", APPROVAL))
    await team.peer.press(ANN, message, "?approve")
    await team.desk.withdraw(question.id)
    await team.peer.press(ANN, team.told_message(ANN), "approve")
    assert "was withdrawn" in team.told(ANN)
    assert "Withdrawn by the agent" in (await team.ended(message)).shown
    question, message = await team.ask()
    await team.peer.press(ANN, message, "answer")
    await team.desk.answer(question.id, "elsewhere", by="ann", provenance=Provenance(channel="web"))
    assert "answered this already" in await team.peer.submit(ANN, f0="late")
    outcome = (await team.desk.get(question.id)).outcome
    assert isinstance(outcome, Answered)
    assert outcome.value == "elsewhere"


async def test_the_same_interaction_again_answers_once(team: Team) -> None:
    question, message = await team.ask(form=MultiChoice.of("a", "b", at_least=2), max_attempts=2)
    await team.peer.press(ANN, message, "answer")
    modal, _ = team.peer.modals[ANN]
    misfit = team.peer.submission(ANN, modal, message, f0=[0])
    sent = [await team.peer.send(ANN, message, misfit) for _ in range(5)]
    assert {each.answer["data"]["content"] for each in sent} == {
        "That does not fit\\: choose at least 2, not 1."
    }
    now = await team.desk.get(question.id)
    assert (now.attempts, now.outcome) == (1, None)
    fits = team.peer.submission(ANN, modal, message, f0=[0, 1])
    for _ in range(3):
        assert (await team.peer.send(ANN, message, fits)).status == 200
    assert await team.value(question) == ["a", "b"]
    kinds = [each.kind.value for each in await team.desk.history(question.id)]
    assert kinds == ["asked", "attempted", "answered"]


async def test_reminders_and_escalations_say_that_they_are(team: Team) -> None:
    timeline = Timeline(
        remind=(timedelta(seconds=0.3),), escalate=(Escalation(after=timedelta(seconds=0.6), to=("bob",)),)
    )
    question = await team.desk.post("Go?", form=Confirm(), recipients=["ann"], timeline=timeline)
    reminder = await team.peer.message(
        lambda each: (
            "A reminder" in each.shown and question.id in each.shown and team.peer.rooms[each.room] == ANN
        )
    )
    escalation = await team.peer.message(
        lambda each: "so you are asked too" in each.shown and question.id in each.shown
    )
    assert [team.peer.rooms[each.room] for each in (reminder, escalation)] == [ANN, BOB]
    await team.peer.press(BOB, escalation, "yes")
    await team.outcome(question)
    assert "Answered by bob" in (await team.ended(reminder)).shown


async def test_what_discord_says_is_heeded(team: Team) -> None:
    limited = {"message": "You are being rate limited.", "retry_after": 30.5, "global": False}
    team.peer.fail("POST /channels", Fault(429, limited, {"retry-after": "31"}))
    first = await team.desk.post("Go?", form=Confirm(), recipients=["ann"])
    async with asyncio.timeout(WITHIN):
        while not any(each.problem for each in await team.ctx.outbox.deliveries(first.ref)):
            await asyncio.sleep(0.005)
    team.peer.closed.add(BOB)
    second = await team.desk.post("Go on?", form=Confirm(), recipients=["bob"])
    await until_status(team, second, DeliveryStatus.FAILED)
    [delivery] = await team.ctx.outbox.deliveries(second.ref)
    assert delivery.problem is not None
    assert delivery.problem.startswith("Discord says “Cannot send messages to this user (50007)” to POST")
    [waiting] = await team.ctx.outbox.deliveries(first.ref)
    assert waiting.status == "queued"
    assert "You are being rate limited." in (waiting.problem or "")


async def test_a_message_that_is_gone_is_left_alone(team: Team) -> None:
    question, message = await team.ask("Go?", form=Confirm())
    del team.peer.messages[message.id]
    await team.desk.answer(question.id, True, by="ann")
    async with asyncio.timeout(WITHIN):
        while not (await team.ctx.outbox.deliveries(question.ref))[0].problem:
            await asyncio.sleep(0.005)
    [delivery] = await team.ctx.outbox.deliveries(question.ref)
    assert (delivery.status, delivery.due_at) == ("sent", None)
    assert "Unknown Message (10008)" in (delivery.problem or "")


@pytest.mark.parametrize("address", ON_DISK, indirect=True)
async def test_a_server_that_starts_anew_in_between_knows_what_is_pressed(empty_address: str) -> None:
    url = empty_address
    async with open_peer() as peer:
        async with open_team(peer, url=url) as before:
            asked = [
                await before.ask("Go?", form=Confirm()),
                await before.ask("Which?", choices=[f"Option {n}" for n in range(9)]),
                await before.ask("What?"),
                await before.ask("Deploy?", form=Approval.of("deploy", APPROVAL)),
            ]
            menu, approval = asked[1][1], asked[3][1]
            await peer.press(ANN, menu, "select", option=4)
            chosen = before.told_message(ANN)
            await peer.press(ANN, asked[2][1], "answer")
            await peer.press(ANN, approval, "?approve")
            sure = before.told_message(ANN)
        async with open_team(peer, url=url) as after:
            await peer.press(ANN, asked[0][1], "yes")
            await peer.press(ANN, chosen, "option-4")
            await peer.submit(ANN, f0="a text")
            await peer.press(ANN, sure, "approve")
            values = [await after.value(question) for question, _ in asked]
            assert values[:3] == [True, "Option 4", "a text"]
            assert values[3]["decision"] == "approve"
            for _, message in asked:
                assert " by ann" in (await after.ended(message)).shown


@pytest.mark.parametrize("address", ON_DISK, indirect=True)
async def test_ten_copies_at_once_are_one_answer_in_a_database(empty_address: str) -> None:
    async with open_peer() as peer, open_team(peer, url=empty_address) as team:
        question, message = await team.ask("Go?", form=Confirm())
        press = peer.interaction(ANN, message, "yes")
        sent = await asyncio.gather(*(peer.send(ANN, message, press) for _ in range(10)))
        assert {each.status for each in sent} == {200}
        assert await team.value(question) is True
        kinds = [each.kind.value for each in await team.desk.history(question.id)]
        assert kinds == ["asked", "answered"]
