"""Questions in Telegram, both ways: from posting one to the resumed asker, for every kind of form."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio

from handraise import Approval, Declined, Timeline
from handraise.model.deliveries import Delivery, DeliveryStatus
from handraise.model.forms import Choice, Confirm, Field, Form, MultiChoice, Open, Option
from handraise.model.outcomes import Answered
from handraise.model.questions import Question
from handraise.model.timelines import Escalation
from tests.channels.telegram_peer import ROOM, Fault
from tests.channels.telegram_server import ANN, BOB, EVE, Team, Transport, open_team

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["webhook", "poll"])
async def both(request: pytest.FixtureRequest) -> AsyncIterator[Team]:
    """A team that hears from Telegram over HTTP, then one that asks; many tests share each."""
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


async def test_a_button_answers_and_the_message_says_so(either: Team) -> None:
    question, message = await either.ask(choices=["Blue-green", "Canary"])
    assert message.chat == ANN
    assert message.pressable == ["Blue-green", "Canary", "Send back…", "Decline…"]
    for part in (
        "agent asks you to choose one",
        "Which strategy?",
        f"https://desk.example/questions/{question.id}",
    ):
        assert part in message.shown
    assert await either.peer.press(ANN, message, "Canary") == 200
    assert await either.value(question) == "Canary"
    ended = await either.ended(message)
    assert ended.pressable == []
    assert "Answered by ann:\nCanary" in ended.shown
    await either.delivered(question, DeliveryStatus.SENT)
    assert either.peer.toasts == [(ANN, "Thank you, your answer was recorded.", False)]
    outcome = (await either.desk.get(question.id)).outcome
    assert isinstance(outcome, Answered)
    assert outcome.evidence == ("telegram-poll" if either.peer.post is None else "telegram-secret")
    answered = (await either.desk.history(question.id))[-1]
    assert answered.data["details"] == {"user": ANN, "chat": ANN}


async def test_yes_and_no_are_buttons(either: Team) -> None:
    question, message = await either.ask("Go?", form=Confirm())
    assert message.pressable == ["Yes", "No", "Send back…", "Decline…"]
    await either.peer.press(ANN, message, "No")
    assert await either.value(question) is False


async def test_what_could_not_be_undone_is_asked_once_more(team: Team) -> None:
    question, message = await team.ask("Go?", form=Confirm(), undo_for=10)
    await team.peer.press(ANN, message, "Yes")
    sure = await team.now(message)
    assert sure.pressable == ["Send “Yes”", "Go back"]
    await team.peer.press(ANN, sure, "Go back")
    assert (await team.now(message)).markup == message.markup
    await team.peer.press(ANN, await team.now(message), "No")
    assert (await team.desk.get(question.id)).outcome is None
    await team.peer.press(ANN, await team.now(message), "Send “No”")
    assert await team.value(question) is False


async def test_long_options_are_listed_in_full_and_go_by_their_number(either: Team) -> None:
    options = [Option(id=f"id {n}", label=f"{'A' * 30}{n}", description="differs") for n in range(12)]
    question, message = await either.ask(choices=options)
    assert f"12. {'A' * 30}11: differs" in message.shown
    assert message.pressable == [*(str(n) for n in range(1, 13)), "Send back…", "Decline…"]
    assert message.markup is not None
    assert [len(row) for row in message.markup["inline_keyboard"]] == [5, 5, 2, 1, 1]
    await either.peer.press(ANN, message, "12")
    assert await either.value(question) == "id 11"


async def test_a_text_of_ones_own_is_written_in_a_reply(either: Team) -> None:
    question, message = await either.ask(form=Choice.of("a", "b", allow_other=True))
    assert message.pressable == ["a", "b", "Other…", "Send back…", "Decline…"]
    await either.peer.press(ANN, message, "Other…")
    prompt = await either.prompt(message)
    assert (prompt.reply_to, "with your own answer" in prompt.shown) == (message.id, True)
    await either.peer.say(ANN, " mine ", to=prompt)
    assert await either.value(question) == {"other": "mine"}
    assert "recorded" in await either.told(prompt)


async def test_several_options_are_written_and_what_does_not_fit_is_asked_again(either: Team) -> None:
    question, message = await either.ask(form=MultiChoice.of("Tests", "Docs", "Notes", at_least=2))
    assert "2. Docs" in message.shown
    assert "Choose at least 2." in message.shown
    await either.peer.press(ANN, message, "Answer…")
    first = await either.prompt(message)
    await either.peer.say(ANN, "2", to=first)
    second = await either.prompt(first)
    assert "choose at least 2, not 1" in second.shown
    await either.peer.say(ANN, "3, Tests", to=second)
    assert await either.value(question) == ["Tests", "Notes"]
    assert "Tests, Notes" in (await either.ended(message)).shown


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [
        (Open(), "Blue & <green>\n/start @ann", "Blue & <green>\n/start @ann"),
        (Open(type="integer", minimum=3), "4", 4),
        (Open(type="number"), "1.5", 1.5),
        (Open(type="email"), "a@b.example", "a@b.example"),
        (Open(type="date"), "2026-11-15", "2026-11-15"),
        (Confirm(), "yes", True),
        (Choice.of("Blue-green", "Canary"), "2", "Canary"),
    ],
)
async def test_a_reply_to_the_message_itself_answers(either: Team, form: Any, text: str, value: Any) -> None:
    question, message = await either.ask(form=form)
    assert "Or reply to this message" in message.shown
    await either.peer.say(ANN, text, to=message)
    assert await either.value(question) == value
    assert "recorded" in await either.told(message)


async def test_a_form_is_filled_in_line_by_line(either: Team) -> None:
    fields = (
        Field(name="region", form=Choice.of("eu", "us"), title="Where?"),
        Field(name="size", form=Open(type="integer", minimum=1), description="in machines"),
        Field(name="note", form=Open(min_length=0), required=False),
        Field(name="now", form=Confirm()),
    )
    question, message = await either.ask(form=Form(fields=fields))
    assert "region: Where? · eu / us" in message.shown
    await either.peer.press(ANN, message, "Answer…")
    first = await either.prompt(message)
    await either.peer.say(ANN, "region: eu\nsize: 0\nnow: yes", to=first)
    second = await either.prompt(first)
    assert "must be at least 1" in second.shown
    await either.peer.say(ANN, "region: eu\nsize: 2\nnow: yes", to=second)
    assert await either.value(question) == {"region": "eu", "size": 2, "now": True}
    assert "Where?: eu" in (await either.ended(message)).shown


async def test_somebody_may_decline(either: Team) -> None:
    question, message = await either.ask(choices=["a", "b"])
    await either.peer.press(ANN, message, "Decline…")
    assert (await either.desk.get(question.id)).outcome is None
    sure = await either.now(message)
    assert sure.pressable == ["Yes, decline", "Decline with a reason…", "Go back"]
    await either.peer.press(ANN, sure, "Yes, decline")
    outcome = await either.outcome(question)
    assert isinstance(outcome, Declined)
    assert (outcome.by, outcome.reason) == ("ann", None)
    assert "Declined by ann" in (await either.ended(message)).shown


async def test_somebody_may_say_why_they_decline(team: Team) -> None:
    question, message = await team.ask(choices=["a", "b"])
    await team.peer.press(ANN, message, "Decline…")
    await team.peer.press(ANN, await team.now(message), "Decline with a reason…")
    await team.peer.say(ANN, "not mine to say", to=await team.prompt(message))
    outcome = await team.outcome(question)
    assert isinstance(outcome, Declined)
    assert (outcome.by, outcome.reason) == ("ann", "not mine to say")
    assert "not mine to say" in (await team.ended(message)).shown


ACTION = {"version": "1.2.3", "replicas": 3, "notes": "a\nversion: 9 @ann https://evil.example"}


async def test_an_action_is_approved_as_it_is_shown(either: Team) -> None:
    question, message = await either.ask("Deploy?", form=Approval.of("deploy", ACTION))
    assert message.pressable == ["Approve…", "Deny", "Deny with a reason…", "Send back…", "Decline…"]
    for part in (
        "This is what will be executed: deploy\n",
        'version: "1.2.3"\n',
        "notes (text):\n│ a\n│ version: 9 @ann https://evil.example",
        "Medium risk",
    ):
        assert part in message.shown
    await either.peer.press(ANN, message, "Approve…")
    assert (await either.desk.get(question.id)).outcome is None
    await either.peer.press(ANN, await either.now(message), "Yes, approve")
    assert (await either.outcome(question)).status == "answered"
    assert (await either.desk.get(question.id)).decision
    ended = await either.ended(message)
    assert "Approved" in ended.shown
    assert 'version: "1.2.3"' in ended.shown


async def test_an_action_is_denied_at_once_or_with_a_reason(either: Team) -> None:
    first, message = await either.ask("Deploy?", form=Approval.of("deploy", ACTION))
    await either.peer.press(ANN, message, "Deny")
    assert (await either.value(first))["decision"] == "deny"
    second, message = await either.ask("Deploy?", form=Approval.of("deploy", ACTION))
    await either.peer.press(ANN, message, "Deny with a reason…")
    await either.peer.say(ANN, "not on a Friday", to=await either.prompt(message))
    await either.outcome(second)
    decision = (await either.desk.get(second.id)).decision
    assert decision is not None
    assert (decision.approved, decision.reason) == (False, "not on a Friday")
    assert "not on a Friday" in (await either.ended(message)).shown


async def test_a_word_in_reply_decides_too(team: Team) -> None:
    question, message = await team.ask("Deploy?", form=Approval.of("deploy", ACTION))
    offer = await team.offer(ANN, message, "approve it")
    assert "write just “approve” or “deny”" in offer.shown
    await team.peer.say(ANN, "approve", to=offer)
    assert (await team.value(question))["decision"] == "approve"


async def test_a_message_that_is_no_reply_is_not_lost_without_a_word(team: Team) -> None:
    question, message = await team.ask(form=Confirm())
    await team.peer.say(ANN, "yes")
    assert "I cannot tell which question" in await team.told(message)
    assert (await team.desk.get(question.id)).outcome is None


@pytest.mark.parametrize("text", ["/start", "/start abc", "/id", "/id@handraise_bot"])
async def test_whoever_comes_is_told_the_id_that_an_address_needs(team: Team, text: str) -> None:
    _, message = await team.ask(form=Confirm(), recipients=["group:ops"])
    await team.peer.say(EVE, text)
    assert f"Your Telegram id is {EVE}." in await team.told_in(EVE)
    await team.peer.say(EVE, text, chat=ROOM)
    assert f"The id of this room is {ROOM}." in await team.told(message)


async def test_what_is_not_text_is_told_so(team: Team) -> None:
    question, message = await team.ask()
    update = team.peer.writing(ANN, "", to=message, voice={"file_id": "x", "duration": 3})
    del update["message"]["text"]
    await team.peer.send(update)
    assert "I can read only text" in await team.told(message)
    assert (await team.desk.get(question.id)).outcome is None


@pytest.mark.parametrize(
    "more",
    [
        {"via_bot": {"id": 5, "is_bot": True, "first_name": "x"}},
        {"sender_chat": {"id": ROOM, "type": "supergroup"}},
        {"forward_origin": {"type": "user"}},
        {"from": {"id": ANN, "is_bot": True, "first_name": "x"}},
        {"from": None},
    ],
)
async def test_what_no_person_wrote_is_no_answer(team: Team, more: dict[str, Any]) -> None:
    question, message = await team.ask(form=Confirm())
    assert await team.peer.send(team.peer.writing(ANN, "yes", to=message, **more)) == 200
    assert (await team.desk.get(question.id)).outcome is None


async def test_a_reply_to_somebody_elses_message_is_about_no_question(team: Team) -> None:
    question, message = await team.ask(form=Confirm())
    update = team.peer.writing(ANN, "yes", to=message)
    update["message"]["reply_to_message"]["from"] = {"id": 9, "is_bot": True, "first_name": "Other"}
    await team.peer.send(update)
    assert (await team.desk.get(question.id)).outcome is None


async def test_a_stranger_learns_nothing(either: Team) -> None:
    question, message = await either.ask("Go?", form=Confirm())
    await either.peer.say(EVE, "yes", to=message)
    assert "I cannot take an answer to this from you" in await either.told(message)
    now = await either.desk.get(question.id)
    assert (now.outcome, now.attempts) == (None, 0)
    assert (await either.now(message)).markup == message.markup


async def test_people_may_talk_in_a_room_and_who_is_asked_by_name_answers(either: Team) -> None:
    question, message = await either.ask("Why?", recipients=["group:ops"])
    assert "Or reply" not in message.shown
    await either.peer.say(ANN, "What do you think, Bob?", to=message)
    assert "people may talk here" in await either.told(message)
    await either.peer.press(ANN, message, "Answer…")
    prompt = await either.prompt(message)
    assert prompt.shown.startswith(f"Person {ANN}, ")
    assert prompt.markup is not None
    assert prompt.markup["selective"] is True
    await either.peer.say(BOB, "Because", to=prompt)
    assert "That was for somebody else" in await either.told(prompt)
    assert (await either.desk.get(question.id)).outcome is None
    await either.peer.say(ANN, "Because of the tests", to=prompt)
    assert await either.value(question) == "Because of the tests"


async def test_a_yes_among_people_in_a_room_approves_nothing(team: Team) -> None:
    question, message = await team.ask("Go?", form=Approval.of("deploy"), recipients=["group:ops"])
    await team.peer.say(ANN, "yes", to=message)
    assert "people may talk here" in await team.told(message)
    offer = await team.offer(ANN, message, "yes, but later")
    assert "That does not decide it" in offer.shown
    await team.peer.press(BOB, offer, "Note for colleagues")
    assert "for somebody else" in team.toast(BOB)
    await team.untouched(question)
    assert (await team.desk.get(question.id)).outcome is None


async def test_what_is_settled_elsewhere_says_so_and_replies_come_too_late(either: Team) -> None:
    question, message = await either.ask()
    await either.peer.press(ANN, message, "Answer…")
    prompt = await either.prompt(message)
    await either.desk.withdraw(question.id)
    ended = await either.ended(message)
    assert ended.pressable == []
    assert "Withdrawn by the agent" in ended.shown
    for late in (prompt, ended):
        await either.peer.say(ANN, "late", to=late)
        assert "was withdrawn" in await either.told(late)


async def test_the_same_update_again_answers_once(either: Team) -> None:
    question, message = await either.ask(
        form=MultiChoice.of("a", "b", "c", at_least=2), max_attempts=3, recipients=["ann", "bob"], quorum=2
    )
    await either.peer.press(ANN, message, "Answer…")
    prompt = await either.prompt(message)
    misfit = either.peer.writing(ANN, "1", to=prompt)
    answer = either.peer.writing(ANN, "1, 2", to=prompt)
    for update in (misfit, answer):
        for turn in range(5):
            assert await either.peer.send(update, again=turn > 0) == 200
    kinds = [each.kind.value for each in await either.desk.history(question.id)]
    assert kinds == ["asked", "voted"]
    press = either.peer.pressing(ANN, message, "End for everyone…")
    for turn in range(3):
        assert await either.peer.send(press, again=turn > 0) == 200
    assert (await either.desk.get(question.id)).outcome is None


async def test_reminders_and_escalations_say_that_they_are(team: Team) -> None:
    timeline = Timeline(
        remind=(timedelta(seconds=0.3),), escalate=(Escalation(after=timedelta(seconds=0.6), to=("bob",)),)
    )
    question = await team.desk.post("Go?", form=Confirm(), recipients=["ann"], timeline=timeline)
    reminder = await team.peer.message(lambda each: "A reminder" in each.shown and each.chat == ANN)
    escalation = await team.peer.message(lambda each: "you are asked too" in each.shown)
    assert (reminder.chat, escalation.chat) == (ANN, BOB)
    await team.peer.press(BOB, escalation, "Yes")
    await team.outcome(question)
    assert "Answered by bob" in (await team.ended(reminder)).shown


async def problem_with(team: Team, question: Question) -> Delivery:
    """The one delivery of a question, once it has a problem."""
    async with asyncio.timeout(10):
        while True:
            for each in await team.ctx.outbox.deliveries(question.ref):
                if each.problem:
                    return each
            await asyncio.sleep(0.005)


async def test_who_has_blocked_the_bot_is_not_written_to_again(team: Team) -> None:
    team.peer.blocked.add(ANN)
    question = await team.desk.post("Go?", form=Confirm(), recipients=["ann"])
    delivery = await problem_with(team, question)
    assert (delivery.status, delivery.due_at) == ("failed", None)
    assert delivery.problem == "Telegram says “Forbidden: bot was blocked by the user” to sendMessage"


async def test_what_telegram_says_is_heeded(team: Team) -> None:
    team.peer.fail("sendMessage", Fault(429, "Too Many Requests: retry after 3000", {"retry_after": 3_000}))
    question = await team.desk.post("Go?", form=Confirm(), recipients=["ann"])
    waiting = await problem_with(team, question)
    assert waiting.due_at is not None
    assert (waiting.status, waiting.due_at - waiting.created_at > timedelta(seconds=2_900)) == (
        "queued",
        True,
    )


async def test_a_message_that_is_gone_is_left_alone(team: Team) -> None:
    question, message = await team.ask("Go?", form=Confirm())
    del team.peer.messages[message.chat, message.id]
    await team.desk.answer(question.id, True, by="ann")
    delivery = await problem_with(team, question)
    assert (delivery.status, delivery.due_at) == ("sent", None)
    assert delivery.problem == "Telegram says “Bad Request: message to edit not found” to editMessageText"
