"""Questions in Slack, both ways: from posting one to the resumed asker, for every kind of form."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from handraise import Approval, Declined, Timeline
from handraise.model.deliveries import Address, DeliveryStatus
from handraise.model.forms import Choice, Confirm, Field, Form, MultiChoice, Open, Option
from handraise.model.outcomes import Answered
from handraise.model.questions import Question
from handraise.model.timelines import Escalation
from tests.channels.slack_peer import ROOM, Fault, Posted
from tests.channels.slack_server import Team, Transport, open_team

ANN, BOB = "U0ANN", "U0BOB"


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["http", "socket"])
async def both(request: pytest.FixtureRequest) -> AsyncIterator[Team]:
    """A team that hears from Slack over HTTP, then one over Socket Mode; many tests share each."""
    transport: Transport = request.param
    async with open_team(transport) as team:
        yield team


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Team]:
    async with open_team() as team:
        yield team


@pytest.fixture
def either(both: Team) -> Team:
    return both.anew()


@pytest.fixture
def team(shared: Team) -> Team:
    return shared.anew()


async def statuses(team: Team, question: Question) -> list[str]:
    return [each.status.value for each in await team.ctx.outbox.deliveries(question.ref)]


async def until_status(team: Team, question: Question, status: DeliveryStatus) -> None:
    async with asyncio.timeout(10):
        while set(await statuses(team, question)) != {status.value}:
            await asyncio.sleep(0.005)


async def test_a_button_answers_and_the_message_says_so(either: Team) -> None:
    question, message = await either.ask(choices=["Blue-green", "Canary"])
    assert message.channel == "DU0ANN"
    assert message.pressable == ["option 0", "option 1", "send_back", "decline"]
    for part in (
        "agent",
        "Which strategy?",
        "Blue-green",
        "Canary",
        f"https://desk.example/questions/{question.id}",
    ):
        assert part in message.shown
    sent = await either.peer.press(ANN, message, "option 1")
    assert (sent.status, sent.answer) == (200, None)
    assert await either.value(question) == "Canary"
    ended = await either.ended(message)
    assert ended.pressable == []
    assert "Answered by ann" in ended.shown
    assert "Canary" in ended.shown
    await until_status(either, question, DeliveryStatus.UPDATED)
    assert either.peer.told == []
    outcome = (await either.desk.get(question.id)).outcome
    assert isinstance(outcome, Answered)
    assert outcome.evidence == ("slack-socket" if either.peer.post is None else "slack-signature")
    answered = (await either.desk.history(question.id))[-1]
    assert answered.data["details"] == {"team": "T0HOME", "user": ANN}


async def test_yes_and_no_are_buttons(team: Team) -> None:
    question, message = await team.ask("Go?", form=Confirm(), undo_for=10)
    assert message.pressable == ["yes", "no", "send_back", "decline"]
    assert [each.get("confirm") is not None for each in message.blocks[-2]["elements"]] == [
        True,
        True,
        False,
        False,
    ]
    await team.peer.press(ANN, message, "no")
    assert await team.value(question) is False


async def test_more_options_are_a_menu(either: Team) -> None:
    options = [Option(id=f"id {n}", label=f"Option {n}") for n in range(20)]
    question, message = await either.ask(choices=options)
    assert message.pressable == ["select", "send_back", "decline"]
    await either.peer.press(ANN, message, "select", option=19)
    assert await either.value(question) == "id 19"


async def test_long_options_are_listed_in_full_and_go_by_their_number(team: Team) -> None:
    options = [Option(id="a", label="A" * 200), Option(id="b", label="A" * 199 + "B", description="differs")]
    question, message = await team.ask(form=Choice.of(*options, allow_other=True))
    assert f"2. {'A' * 199}B: differs" in message.shown
    assert message.pressable == ["option 0", "option 1", "answer", "send_back", "decline"]
    await team.peer.press(ANN, message, "option 1")
    assert await team.value(question) == "b"


async def test_a_text_of_ones_own_is_written_in_a_view(team: Team) -> None:
    question, message = await team.ask(form=Choice.of("a", "b", allow_other=True))
    await team.peer.press(ANN, message, "answer")
    errors = await team.peer.submit(ANN, f0=0, f0o="mine")
    assert errors == {"f0": "choose one, or write your own answer, but not both"}
    assert await team.peer.submit(ANN, f0o=" mine ") is None
    assert await team.value(question) == {"other": "mine"}


async def test_several_options_are_chosen_in_a_view_and_what_does_not_fit_stands_beside_them(
    either: Team,
) -> None:
    question, message = await either.ask(form=MultiChoice.of("Tests", "Docs", "Notes", at_least=2))
    await either.peer.press(ANN, message, "answer")
    assert await either.peer.submit(ANN, f0=[1]) == {"f0": "choose at least 2, not 1"}
    assert await either.peer.submit(ANN, f0=[2, 0]) is None
    assert await either.value(question) == ["Tests", "Notes"]
    assert "Tests, Notes" in (await either.ended(message)).shown
    assert (
        len([each for each in await either.desk.history(question.id) if each.kind.value == "attempted"]) == 1
    )


async def test_many_options_are_chosen_from_a_menu_in_a_view(team: Team) -> None:
    question, message = await team.ask(form=MultiChoice.of(*(f"Option {n}" for n in range(15)), at_least=0))
    await team.peer.press(ANN, message, "answer")
    assert team.peer.views[ANN]["blocks"][-1]["element"]["type"] == "multi_static_select"
    assert await team.peer.submit(ANN) is None
    assert await team.value(question) == []


@pytest.mark.parametrize(
    ("form", "typed", "wrong", "right", "value"),
    [
        (Open(), "plain_text_input", None, "Blue & <green>", "Blue & <green>"),
        (Open(type="integer", minimum=3), "number_input", "2", "4", 4),
        (Open(type="number", maximum=2), "number_input", "2.5", "1.5", 1.5),
        (Open(type="email"), "email_text_input", "a@b", "a@b.example", "a@b.example"),
        (Open(type="uri"), "url_text_input", "x", "https://a.example", "https://a.example"),
        (Open(type="date"), "datepicker", None, "2026-11-15", "2026-11-15"),
        (Open(type="datetime"), "datetimepicker", None, 1_794_751_800, "2026-11-15T14:10:00+00:00"),
        (Open(max_length=5), "plain_text_input", "too long", "short", "short"),
    ],
)
async def test_each_kind_of_text_has_its_input(
    *, team: Team, form: Open, typed: str, wrong: Any, right: Any, value: Any
) -> None:
    question, message = await team.ask(form=form)
    assert message.pressable == ["answer", "send_back", "decline"]
    await team.peer.press(ANN, message, "answer")
    assert team.peer.views[ANN]["blocks"][-1]["element"]["type"] == typed
    if wrong is not None:
        assert "f0" in await team.peer.submit(ANN, f0=wrong)
    assert await team.peer.submit(ANN, f0=right) is None
    assert await team.value(question) == value


async def test_a_form_is_filled_in_with_what_stood_there_at_first(either: Team) -> None:
    fields = (
        Field(name="region", form=Choice.of("eu", "us"), title="Where?", default="us"),
        Field(name="size", form=Open(type="integer", minimum=1), default=3, description="in machines"),
        Field(name="parts", form=MultiChoice.of("api", "web"), default=["web"]),
        Field(name="note", form=Open(min_length=0), required=False),
        Field(name="mail", form=Open(type="email"), default="a@b.example"),
        Field(name="page", form=Open(type="uri"), default="https://a.example/x"),
        Field(name="day", form=Open(type="date"), default="2026-11-15"),
        Field(name="at", form=Open(type="datetime"), default="2026-11-15T14:10:00Z"),
        Field(name="now", form=Confirm(), default=True),
        Field(name="which", form=Choice.of(*(f"Option {n}" for n in range(12)))),
    )
    question, message = await either.ask(form=Form(fields=fields))
    await either.peer.press(ANN, message, "answer")
    errors = await either.peer.submit(ANN, f1="0", f9=11)
    assert errors == {"f1": "must be at least 1, is 0"}
    assert await either.peer.submit(ANN, f9=11) is None
    assert await either.value(question) == {
        "region": "us",
        "size": 3,
        "parts": ["web"],
        "mail": "a@b.example",
        "page": "https://a.example/x",
        "day": "2026-11-15",
        "at": "2026-11-15T14:10:00+00:00",
        "now": True,
        "which": "Option 11",
    }
    assert "Where?: us" in (await either.ended(message)).shown


async def test_a_form_that_is_too_large_for_slack_is_left_to_the_inbox(team: Team) -> None:
    fields = tuple(Field(name=f"n{n}", form=Choice.of("a", "b", allow_other=True)) for n in range(50))
    _, message = await team.ask(form=Form(fields=fields))
    assert message.pressable == ["send_back", "decline"]


async def test_somebody_may_decline(team: Team) -> None:
    question, message = await team.ask(choices=["a", "b"])
    await team.peer.press(ANN, message, "decline")
    assert await team.peer.submit(ANN, reason="not mine to say") is None
    outcome = await team.outcome(question)
    assert isinstance(outcome, Declined)
    assert (outcome.by, outcome.reason) == ("ann", "not mine to say")
    ended = await team.ended(message)
    assert "Declined by ann" in ended.shown
    assert "not mine to say" in ended.shown


APPROVAL = {"version": "1.2.3", "replicas": 3, "notes": "a\nb ``` <!channel>"}


async def test_an_action_is_approved_as_it_is_shown(either: Team) -> None:
    question, message = await either.ask("Deploy?", form=Approval.of("deploy", APPROVAL))
    assert message.pressable == ["approve", "deny", "reason", "send_back"]
    for part in ("What will be executed", '"version": "1.2.3"', "a\\nb ``` &lt;!channel&gt;", "Medium risk"):
        assert part in message.shown
    buttons = message.blocks[-2]["elements"]
    assert "confirm" in buttons[0]
    assert not any("style" in each for each in buttons)
    await either.peer.press(ANN, message, "approve")
    assert (await either.outcome(question)).status == "answered"
    settled = await either.desk.get(question.id)
    assert settled.decision
    assert "Approved" in (await either.ended(message)).shown


async def test_an_action_is_denied_with_a_reason(team: Team) -> None:
    question, message = await team.ask("Deploy?", form=Approval.of("deploy", APPROVAL))
    await team.peer.press(ANN, message, "reason")
    assert await team.peer.submit(ANN, reason="not on a Friday") is None
    await team.outcome(question)
    decision = (await team.desk.get(question.id)).decision
    assert decision is not None
    assert (decision.approved, decision.reason) == (False, "not on a Friday")
    assert "not on a Friday" in (await team.ended(message)).shown


async def test_changed_arguments_are_shown_before_they_are_approved(either: Team) -> None:
    form = Approval.of("pay", {"to": "ann", "amount": 30}, editable=["amount"])
    question, message = await either.ask("Pay?", form=form)
    assert message.pressable == ["approve", "deny", "reason", "change", "send_back"]
    await either.peer.press(ANN, message, "change")
    shown = await either.peer.submit(ANN, f0="20")
    assert "- amount: 30" in shown
    assert "+ amount: 20" in shown
    assert (await either.desk.get(question.id)).outcome is None
    assert await either.peer.submit(ANN) is None
    await either.outcome(question)
    decision = (await either.desk.get(question.id)).decision
    assert decision is not None
    assert decision.approved
    assert decision.action.arguments == {"to": "ann", "amount": 20}
    assert "Approved with changed arguments" in (await either.ended(message)).shown


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [
        (Choice.of("Blue-green", "Canary"), "2", "Canary"),
        (Confirm(), "yes", True),
        (
            Open(),
            "see <https://a.example|a.example> &amp; <mailto:a@b.example|a@b.example>",
            "see a.example & a@b.example",
        ),
        (Open(type="integer"), "12", 12),
        (Approval.of("deploy"), "deny: not now", None),
    ],
)
async def test_a_reply_in_the_thread_answers(either: Team, form: Any, text: str, value: Any) -> None:
    question, message = await either.ask(form=form)
    await either.peer.say(ANN, message.channel, text, thread=message.ts)
    found = await either.value(question)
    assert found == value if value is not None else found["reason"] == "not now"
    reply = await either.peer.message(lambda each: each.thread_ts == message.ts)
    assert "recorded" in reply.shown


async def test_a_reply_that_is_no_answer_is_told_why(team: Team) -> None:
    question, message = await team.ask(form=Confirm())
    await team.peer.say(ANN, message.channel, "yes, but not in production", thread=message.ts)
    reply = await team.peer.message(lambda each: each.thread_ts == message.ts)
    assert "reply with yes or no, and nothing else" in reply.shown
    assert (await team.desk.get(question.id)).outcome is None


async def test_a_message_outside_of_any_thread_is_not_lost_without_a_word(team: Team) -> None:
    question, message = await team.ask(form=Confirm())
    await team.peer.say(ANN, message.channel, "yes")
    reply = await team.peer.message(lambda each: "I cannot tell" in each.shown)
    assert "I cannot tell which question" in reply.shown
    assert (await team.desk.get(question.id)).outcome is None


@pytest.mark.parametrize(
    "more", [{"bot_id": "B1"}, {"subtype": "message_changed"}, {"subtype": "bot_message"}, {"user": "U0BOT"}]
)
async def test_what_no_person_wrote_is_no_answer(team: Team, more: dict[str, Any]) -> None:
    question, message = await team.ask(form=Confirm())
    event = team.peer.event(ANN, message.channel, "yes", thread=message.ts)
    event["event"] |= more
    assert (await team.peer.send(event)).status == 200
    assert (await team.desk.get(question.id)).outcome is None


async def test_a_thread_of_somebody_elses_message_is_about_no_question(team: Team) -> None:
    question, message = await team.ask(form=Confirm())
    forged = Posted(message.channel, "1.000001", "U0OTHERBOT", "x", metadata=message.metadata)
    team.peer.messages[forged.channel, forged.ts] = forged
    await team.peer.say(ANN, forged.channel, "yes", thread=forged.ts)
    lying = team.peer.event(ANN, forged.channel, "yes", thread=forged.ts, parent_user_id="U0BOT")
    await team.peer.send(lying)
    assert (await team.desk.get(question.id)).outcome is None


async def test_people_may_talk_in_the_thread_of_a_room(team: Team) -> None:
    question, message = await team.ask("Why?", recipients=["group:ops"])
    await team.peer.say(ANN, ROOM, "What do you think, Bob?", thread=message.ts)
    assert "mention me" in await team.told(ANN)
    assert (await team.desk.get(question.id)).outcome is None
    await team.peer.say(ANN, ROOM, "<@U0BOT> Because of the tests", thread=message.ts)
    assert await team.value(question) == "Because of the tests"
    assert "recorded" in await team.told(ANN, "recorded")


async def test_a_yes_among_people_in_a_room_approves_nothing(team: Team) -> None:
    question, message = await team.ask("Go?", form=Approval.of("deploy"), recipients=["group:ops"])
    await team.peer.say(ANN, ROOM, "yes", thread=message.ts)
    assert "mention me" in await team.told(ANN)
    assert (await team.desk.get(question.id)).outcome is None
    await team.peer.say(ANN, ROOM, "<@U0BOT> approve", thread=message.ts)
    assert (await team.value(question))["decision"] == "approve"


async def test_in_a_room_only_the_writer_is_asked_what_they_wrote(team: Team) -> None:
    form = Approval.of("deploy")
    question, message = await team.ask("Go?", form=form, recipients=["group:ops"], replies="model")
    posted = len(team.peer.messages)
    offer = await team.offer(ANN, message, "why now?")
    assert (team.peer.alone[-1][0], len(team.peer.messages)) == (ANN, posted)
    assert offer.pressable == ["asked_back", "noted"]
    assert "I cannot tell" in await team.choose(BOB, offer, "asked_back")
    assert await team.desk.thread(question.id) == ()
    await team.choose(ANN, offer, "asked_back")
    [said] = await team.desk.thread(question.id)
    assert (said.kind, said.by, said.text) == ("asked_back", "ann", "why now?")
    await team.peer.message(
        lambda each: each.ts == message.ts and "Waiting for the agent's reply." in each.shown
    )


async def test_a_changed_approval_covers_the_conversation_too(either: Team) -> None:
    form = Approval.of("pay", {"amount": 30}, editable=["amount"])
    question, old = await either.ask("Pay?", form=form, replies="program")
    await either.peer.press(ANN, old, "change")
    await either.desk.ask_back(question.id, "Why?", by="ann")
    await either.peer.submit(ANN, f0="20")
    assert "The conversation has moved on" in await either.peer.submit(ANN)
    await either.desk.reply(question.id, "It is due")
    message = await either.later(question, old)
    await either.peer.press(ANN, message, "change")
    await either.peer.submit(ANN, f0="20")
    assert await either.peer.submit(ANN) is None
    assert (await either.value(question))["arguments"] == {"amount": 20}
    assert (await either.desk.history(question.id))[-1].data["seen"] == 2


async def test_somebody_of_another_team_is_somebody_else(team: Team) -> None:
    question, message = await team.ask("Go?", form=Confirm(), recipients=["group:ops"])
    # The same member id, but from a team that shares the room with us.
    team.peer.people[ANN] = "T0OTHER"
    await team.peer.press(ANN, message, "yes")
    assert "I cannot take an answer to this from you" in await team.told(ANN)
    assert (await team.desk.get(question.id)).outcome is None
    address = Address(
        workspace="default", recipient="bob", channel="slack", id=f"T0OTHER:{ANN}", to={"user": ANN}
    )
    await team.ctx.outbox.put_address(address)
    await team.peer.press(ANN, message, "yes")
    await team.ctx.outbox.remove_address("default", "bob", "slack", address.id)
    outcome = await team.outcome(question)
    assert isinstance(outcome, Answered)
    assert outcome.by == "bob"


async def test_a_view_that_is_sent_too_late_says_so(team: Team) -> None:
    question, message = await team.ask()
    await team.peer.press(ANN, message, "answer")
    await team.desk.withdraw(question.id)
    assert "was withdrawn" in await team.peer.submit(ANN, f0="late")
    assert "Withdrawn by the agent" in (await team.ended(message)).shown


async def test_the_same_interaction_again_answers_once(either: Team) -> None:
    question, message = await either.ask(form=MultiChoice.of("a", "b", at_least=2), max_attempts=2)
    await either.peer.press(ANN, message, "answer")
    view = either.peer.views[ANN]
    submission = {
        **either.peer.interaction(ANN, message, "answer"),
        "type": "view_submission",
        "view": {**view, "state": {"values": {"f0": {"v": {"selected_options": [{"value": "0"}]}}}}},
    }
    answers = [(await either.peer.send(submission)).answer for _ in range(5)]
    assert answers == [{"response_action": "errors", "errors": {"f0": "choose at least 2, not 1"}}] * 5
    now = await either.desk.get(question.id)
    assert (now.attempts, now.outcome) == (1, None)
    event = either.peer.event(ANN, message.channel, "1, 2", thread=message.ts)
    for _ in range(3):
        assert (await either.peer.send(event)).status == 200
    assert await either.value(question) == ["a", "b"]


async def test_reminders_and_escalations_say_that_they_are(team: Team) -> None:
    timeline = Timeline(
        remind=(timedelta(seconds=0.3),), escalate=(Escalation(after=timedelta(seconds=0.6), to=("bob",)),)
    )
    question = await team.desk.post("Go?", form=Confirm(), recipients=["ann"], timeline=timeline)
    reminder = await team.peer.message(lambda each: "Reminder" in each.shown and each.channel == "DU0ANN")
    escalation = await team.peer.message(lambda each: "Escalated" in each.shown)
    assert (reminder.channel, escalation.channel) == ("DU0ANN", "DU0BOB")
    await team.peer.press(BOB, escalation, "yes")
    await team.outcome(question)
    assert "Answered by bob" in (await team.ended(reminder)).shown


async def test_what_slack_says_is_heeded(team: Team) -> None:
    team.peer.fail(
        "chat.postMessage", Fault(429, "ratelimited", {"retry-after": "1"}), Fault(200, "channel_not_found")
    )
    first = await team.desk.post("Go?", form=Confirm(), recipients=["ann"])
    async with asyncio.timeout(10):
        while team.peer.faults["chat.postMessage"][0].status != 200:
            await asyncio.sleep(0.005)
    second = await team.desk.post("Go on?", form=Confirm(), recipients=["bob"])
    await until_status(team, second, DeliveryStatus.FAILED)
    [delivery] = await team.ctx.outbox.deliveries(second.ref)
    assert delivery.problem == "Slack says “channel_not_found” to chat.postMessage"
    [waiting] = await team.ctx.outbox.deliveries(first.ref)
    assert (waiting.status, waiting.problem) == ("queued", "Slack says “ratelimited” to chat.postMessage")


async def test_a_message_that_is_gone_is_left_alone(team: Team) -> None:
    question, message = await team.ask("Go?", form=Confirm())
    del team.peer.messages[message.channel, message.ts]
    await team.desk.answer(question.id, True, by="ann")
    async with asyncio.timeout(10):
        while not (await team.ctx.outbox.deliveries(question.ref))[0].problem:
            await asyncio.sleep(0.005)
    [delivery] = await team.ctx.outbox.deliveries(question.ref)
    assert (delivery.status, delivery.due_at) == ("sent", None)
    assert delivery.problem == "Slack says “message_not_found” to chat.update"


async def test_on_a_file_it_is_the_same(tmp_path: Path) -> None:
    async with open_team(url=f"sqlite:///{tmp_path / 'questions.db'}") as team:
        question, message = await team.ask("Go?", form=Confirm())
        event = team.peer.event(ANN, message.channel, "yes", thread=message.ts)
        sent = await asyncio.gather(*(team.peer.send(event) for _ in range(10)))
        assert {each.status for each in sent} == {200}
        assert await team.value(question) is True
        assert "Answered by ann" in (await team.ended(message)).shown
        kinds = [each.kind.value for each in await team.desk.history(question.id)]
        assert kinds == ["asked", "answered"]
