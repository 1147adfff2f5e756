"""Questions in Teams, both ways: from posting one to the resumed asker, for every kind of form."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio

from handraise import AlreadySettled, Approval, Declined, Responder, Timeline
from handraise.model.deliveries import Address, DeliveryStatus
from handraise.model.forms import Choice, Confirm, Field, Form, MultiChoice, Open, Option
from handraise.model.outcomes import Answered
from handraise.model.provenance import Provenance
from handraise.model.questions import Question
from handraise.model.timelines import Escalation
from tests.channels.teams_peer import ROOM, TENANT, Fault, TeamsPeer, chat_with, open_peer
from tests.channels.teams_rules import as_text, inputs_in
from tests.channels.teams_server import ANN, BOB, PEOPLE, STRANGER, Office, open_office, open_server_for
from tests.conftest import own_database
from tests.samples import ON_DISK
from tests.tiers import sized

pytestmark = pytest.mark.asyncio(loop_scope="module")

OPERATOR = Responder("bob", frozenset({"ops"}))
OTHER_TENANT = "aaaaaaaa-0000-4000-8000-000000000002"
UNKNOWN = "I cannot take an answer to this from you. Open your inbox to see what waits for you."


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with own_database() as address:
        yield address


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(database: str) -> AsyncIterator[Office]:
    """A server on PostgreSQL, which many tests share."""
    async with open_office(url=database) as office:
        yield office


@pytest.fixture
def office(shared: Office) -> Office:
    shared.peer.messages.clear()
    shared.peer.people.update(dict.fromkeys((*PEOPLE.values(), STRANGER), TENANT))
    return shared


async def until_status(office: Office, question: Question, status: DeliveryStatus) -> None:
    async with asyncio.timeout(10):
        while {each.status for each in await office.ctx.outbox.deliveries(question.ref)} != {status}:
            await asyncio.sleep(0.005)


async def test_a_button_answers_and_the_card_says_so(office: Office) -> None:
    question, message = await office.ask(choices=["Blue-green", "Canary"])
    assert message.conversation == chat_with(ANN)
    assert message.pressable == ["option", "option", "send_back", "decline"]
    for part in ("agent asks you", "Which strategy?", "[ Blue-green ]", f"/questions/{question.id}"):
        assert part in message.shown
    shown = await office.peer.press(ANN, message, "option", title="Canary")
    assert await office.value(question) == "Canary"
    assert "Thank you" in as_text(shown)
    ended = await office.ended(message)
    assert ended.pressable == []
    assert "Answered by ann" in ended.shown
    assert "│ Canary" in ended.shown
    await until_status(office, question, DeliveryStatus.UPDATED)
    answered = (await office.desk.history(question.id))[-1]
    assert answered.data["details"] == {"tenant": TENANT, "user": ANN}


async def test_yes_and_no_are_buttons(office: Office) -> None:
    question, message = await office.ask("Go?", form=Confirm())
    assert message.pressable == ["yes", "no", "send_back", "decline"]
    await office.peer.press(ANN, message, "no")
    assert await office.value(question) is False


async def test_an_answer_that_can_be_undone_elsewhere_is_asked_for_once_more(office: Office) -> None:
    question, message = await office.ask("Go?", form=Confirm(), undo_for=10)
    sure = await office.peer.press(ANN, message, "yes")
    assert "You answer yes." in as_text(sure)
    await office.untouched(question)
    await office.peer.press(ANN, message, "yes", card=sure)
    assert await office.value(question) is True
    question, message = await office.ask(choices=["a", "b"], undo_for=10)
    sure = await office.peer.press(ANN, message, "option", title="b")
    assert "You choose option 2." in as_text(sure)
    await office.peer.press(ANN, message, "option", card=sure)
    assert await office.value(question) == "b"


async def test_more_options_are_a_menu(office: Office) -> None:
    options = [Option(id=f"id {n}", label=f"Option {n}") for n in range(20)]
    question, message = await office.ask(choices=options)
    assert message.pressable == ["send", "send_back", "decline"]
    await office.peer.press(ANN, message, "send", f0="19")
    assert await office.value(question) == "id 19"


async def test_long_options_are_listed_in_full_and_go_by_their_number(office: Office) -> None:
    options = [
        Option(id="a", label="A" * 200),
        Option(id="b", label="A" * 199 + "B", description="differs"),
        Option(id="c", label="[Approve](https://evil.example)"),
        Option(id="d", label="plain"),
    ]
    question, message = await office.ask(choices=options)
    assert f"2 · {'A' * 199}B: differs" in message.shown
    assert "3 · [Approve](https://evil.example)" in message.shown
    assert [f"[ {each} ]" in message.shown for each in ("Number 2", "Number 3", "4 · plain")] == [True] * 3
    await office.peer.press(ANN, message, "option", title="Number 2")
    assert await office.value(question) == "b"


async def test_a_text_of_ones_own_is_written_in_the_card(office: Office) -> None:
    question, message = await office.ask(form=Choice.of("a", "b", allow_other=True))
    both = await office.peer.press(ANN, message, "send", f0="0", f0o="mine")
    assert both == "That does not fit: choose one, or write your own answer, but not both."
    await office.untouched(question)
    await office.peer.press(ANN, message, "send", f0o=" mine ")
    assert await office.value(question) == {"other": "mine"}


async def test_several_options_are_chosen_and_what_does_not_fit_is_told(office: Office) -> None:
    question, message = await office.ask(form=MultiChoice.of("Tests", "Docs", "Notes", at_least=2))
    assert "Choose at least 2" in message.shown
    told = await office.peer.press(ANN, message, "send", f0="1")
    assert told == "That does not fit: choose at least 2, not 1."
    await office.peer.press(ANN, message, "send", f0="2,0")
    assert await office.value(question) == ["Tests", "Notes"]
    assert "Tests, Notes" in (await office.ended(message)).shown
    kinds = [each.kind.value for each in await office.desk.history(question.id)]
    assert kinds == ["asked", "attempted", "answered"]


async def test_none_of_several_may_be_an_answer(office: Office) -> None:
    question, message = await office.ask(form=MultiChoice.of("a", "b", at_least=0, allow_other=True))
    await office.peer.press(ANN, message, "send")
    assert await office.value(question) == []


@pytest.mark.parametrize(
    ("form", "kind", "wrong", "right", "value"),
    [
        (Open(), "Input.Text", None, {"f0": "Blue & <green>\n**b**"}, "Blue & <green>\n**b**"),
        (Open(type="integer", minimum=3), "Input.Number", {"f0": 2}, {"f0": 4}, 4),
        (Open(type="integer"), "Input.Number", {"f0": 2.5}, {"f0": -4}, -4),
        (Open(type="number", maximum=2), "Input.Number", {"f0": 2.5}, {"f0": 1.5}, 1.5),
        (Open(type="email"), "Input.Text", {"f0": "a@b"}, {"f0": "a@b.example"}, "a@b.example"),
        (Open(type="uri"), "Input.Text", {"f0": "x"}, {"f0": "https://a.example"}, "https://a.example"),
        (Open(type="date"), "Input.Date", {"f0": "2026-02-31"}, {"f0": "2026-11-15"}, "2026-11-15"),
        (
            Open(type="datetime"),
            "Input.Date",
            {"f0": "2026-02-31", "f0t": "10:00"},
            {"f0": "2026-11-15", "f0t": "14:10"},
            "2026-11-15T14:10:00+00:00",
        ),
        (Open(max_length=5), "Input.Text", {"f0": "too long"}, {"f0": "short"}, "short"),
    ],
)
async def test_each_kind_of_text_has_its_input(
    *, office: Office, form: Open, kind: str, wrong: Any, right: Any, value: Any
) -> None:
    question, message = await office.ask(form=form)
    assert message.pressable == ["send", "send_back", "decline"]
    assert next(inputs_in(message.card))["type"] == kind
    if wrong is not None:
        assert "That does not fit" in await office.peer.press(ANN, message, "send", **wrong)
    await office.peer.press(ANN, message, "send", **right)
    assert await office.value(question) == value


async def test_a_form_is_filled_in_with_what_stood_there_at_first(office: Office) -> None:
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
        Field(name="sure", form=Confirm()),
        Field(name="which", form=Choice.of(*(f"Option {n}" for n in range(12)))),
        Field(name="*bold*", form=Open(), title="[x](https://evil.example)", required=False),
    )
    question, message = await office.ask(form=Form(fields=fields))
    assert "12 · [x](https://evil.example)" in message.shown
    assert {each["type"] for each in inputs_in(message.card)} == {
        *("Input.Text", "Input.Number", "Input.Date", "Input.Time", "Input.Toggle", "Input.ChoiceSet")
    }
    told = await office.peer.press(ANN, message, "send", f1=0, f9="false", f10="11")
    assert told == "That does not fit: size: must be at least 1, is 0."
    await office.peer.press(ANN, message, "send", f8="false", f9="true", f10="11")
    assert await office.value(question) == {
        "region": "us",
        "size": 3,
        "parts": ["web"],
        "mail": "a@b.example",
        "page": "https://a.example/x",
        "day": "2026-11-15",
        "at": "2026-11-15T14:10:00+00:00",
        "now": False,
        "sure": True,
        "which": "Option 11",
    }
    assert "Where?: us" in (await office.ended(message)).shown


async def test_half_an_instant_is_told_so(office: Office) -> None:
    field = Field(name="at", form=Open(type="datetime"), required=False)
    question, message = await office.ask(form=Form(fields=(field, Field(name="x", form=Open()))))
    told = await office.peer.press(ANN, message, "send", f0="2026-11-15", f1="x")
    assert told == "That does not fit: at: give both the day and the time."
    await office.peer.press(ANN, message, "send", f1="x")
    assert await office.value(question) == {"x": "x"}


async def test_a_form_that_is_too_large_is_left_to_the_inbox(office: Office) -> None:
    fields = tuple(
        Field(name=f"n{n}", form=Choice.of("a", "b"), description="much to say " * 30) for n in range(45)
    )
    _, message = await office.ask(form=Form(fields=fields))
    assert message.pressable == ["send_back", "decline"]
    assert "too large to be answered here" in message.shown


async def test_somebody_may_decline(office: Office) -> None:
    question, message = await office.ask(choices=["a", "b"])
    step = await office.peer.press(ANN, message, "decline")
    assert "Why not?" in as_text(step)
    await office.untouched(question)
    back = await office.peer.press(ANN, message, "show", card=step)
    assert back == message.card
    await office.peer.press(ANN, message, "declined", card=step, reason="not mine to say")
    outcome = await office.outcome(question)
    assert isinstance(outcome, Declined)
    assert (outcome.by, outcome.reason) == ("ann", "not mine to say")
    ended = await office.ended(message)
    assert "Declined by ann" in ended.shown
    assert "│ not mine to say" in ended.shown


APPROVAL = {"version": "1.2.3", "replicas": 3, "notes": "a\nb ``` {{DATE(2026-01-01,LONG)}}"}


async def test_an_action_is_approved_as_it_is_shown(office: Office) -> None:
    question, message = await office.ask("Deploy?", form=Approval.of("deploy", APPROVAL))
    assert message.pressable == ["approve", "deny", "reason", "send_back"]
    for part in ("What will be executed", 'version: "1.2.3"', "b\u00a0``` {{DATE(", "Medium risk"):
        assert part.replace("\u00a0", " ") in message.shown.replace("\u00a0", " ")
    sure = await office.peer.press(ANN, message, "approve")
    assert 'version: "1.2.3"' in as_text(sure)
    await office.untouched(question)
    await office.peer.press(ANN, message, "approved", card=sure)
    assert (await office.value(question))["decision"] == "approve"
    assert (await office.desk.get(question.id)).decision
    assert "Approved by ann" in (await office.ended(message)).shown


async def test_an_action_is_denied_at_once_or_with_a_reason(office: Office) -> None:
    question, message = await office.ask("Deploy?", form=Approval.of("deploy", APPROVAL))
    await office.peer.press(ANN, message, "deny")
    assert (await office.value(question))["decision"] == "deny"
    question, message = await office.ask("Deploy?", form=Approval.of("deploy", APPROVAL))
    step = await office.peer.press(ANN, message, "reason")
    await office.peer.press(ANN, message, "denied", card=step, reason="not on a Friday")
    await office.outcome(question)
    decision = (await office.desk.get(question.id)).decision
    assert decision is not None
    assert (decision.approved, decision.reason) == (False, "not on a Friday")
    assert "not on a Friday" in (await office.ended(message)).shown


async def test_changed_arguments_are_shown_before_they_are_approved(office: Office) -> None:
    form = Approval.of("pay", {"to": "ann", "amount": 30, "fast": True}, editable=["amount", "fast"])
    question, message = await office.ask("Pay?", form=form)
    assert message.pressable == ["approve", "deny", "reason", "change", "send_back"]
    inputs = await office.peer.press(ANN, message, "change")
    assert "does not fit" in await office.peer.press(ANN, message, "changed", card=inputs, f0="2.5")
    shown = await office.peer.press(ANN, message, "changed", card=inputs, f0="20", f1="false")
    for part in ("- amount: 30", "+ amount: 20", "- fast: true", "+ fast: false"):
        assert part in as_text(shown)
    await office.untouched(question)
    await office.peer.press(ANN, message, "approved", card=shown)
    await office.outcome(question)
    decision = (await office.desk.get(question.id)).decision
    assert decision is not None
    assert decision.approved
    assert decision.action.arguments == {"to": "ann", "amount": 20, "fast": False}
    ended = (await office.ended(message)).shown
    assert "Approved with changed arguments" in ended
    assert "+ amount: 20" in ended


async def test_a_changed_approval_covers_the_conversation_too(office: Office) -> None:
    form = Approval.of("pay", {"amount": 30}, editable=["amount"])
    question, old = await office.ask("Pay?", form=form, replies="program")
    inputs = await office.peer.press(ANN, old, "change")
    await office.desk.ask_back(question.id, "Why?", by="ann")
    shown = await office.peer.press(ANN, old, "changed", card=inputs, f0="20")
    assert "The conversation has moved on" in as_text(shown)
    inputs = await office.peer.press(ANN, old, "change", card=shown)
    shown = await office.peer.press(ANN, old, "changed", card=inputs, f0="20")
    await office.peer.press(ANN, old, "approved", card=shown)
    assert (await office.value(question))["arguments"] == {"amount": 20}
    assert (await office.desk.history(question.id))[-1].data["seen"] == 1


async def test_an_action_of_high_risk_is_decided_elsewhere(office: Office) -> None:
    form = Approval.of("drop", {"table": "users"}, risk="high")
    question, message = await office.ask("Drop?", form=form)
    assert message.pressable == []
    for part in ("High risk", 'table: "users"', "Open it in the inbox", f"/questions/{question.id}"):
        assert part in message.shown
    # Teams would send whatever somebody makes their client send.
    _, other = await office.ask("Deploy?", form=Approval.of("deploy"))
    for verb, data in (
        ("approved", {"digest": form.digest}),
        ("approve", {"digest": form.digest}),
        ("deny", {"digest": form.digest}),
        ("change", {}),
    ):
        forged = office.peer.interaction(ANN, other, "deny")
        about = {"q": ["default", question.id], "l": "https://desk.example/x"}
        forged["value"]["action"] |= {"verb": verb, "data": about | data}
        status, said = await office.peer.send(forged)
        assert status == 200
        if verb in ("approved", "deny"):
            assert "decided in the inbox, where people sign in" in said["value"]
        else:
            assert "Approve" not in json.dumps(said["value"]["body"])
        await office.untouched(question)
    await office.peer.send(office.peer.typed(ANN, message.conversation, "approve", replyToId=message.id))
    assert "decided in the inbox, where people sign in" in await office.told(message.conversation)
    await office.untouched(question)


async def test_an_approval_of_another_action_is_not_taken(office: Office) -> None:
    question, message = await office.ask("Deploy?", form=Approval.of("deploy", {"version": 1}))
    sure = await office.peer.press(ANN, message, "approve")
    pressed = office.peer.interaction(ANN, message, "approved", card=sure)
    pressed["value"]["action"]["data"]["digest"] = "0" * 64
    status, said = await office.peer.send(pressed)
    assert (status, "the decision is about another action" in said["value"]) == (200, True)
    del pressed["value"]["action"]["data"]["digest"]
    assert await office.peer.send(pressed | {"id": "f:without"}) == (400, None)
    assert (await office.desk.get(question.id)).outcome is None


def quoting(message_id: str) -> dict[str, Any]:
    """What a message has that quotes another one."""
    return {"entities": [{"type": "quotedReply", "quotedReply": {"messageId": message_id}}]}


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [
        (Choice.of("Blue-green", "Canary"), "2", "Canary"),
        (Confirm(), " yes\u00a0", True),
        (Open(), "see a.example & more", "see a.example & more"),
        (Open(type="integer"), "12", 12),
        (Approval.of("deploy"), "deny: not now", None),
    ],
)
@pytest.mark.parametrize("way", ["named", "quoted"])
async def test_a_reply_to_the_message_answers(
    office: Office, form: Any, text: str, value: Any, way: str
) -> None:
    await office.ask("Another?", form=Confirm())
    question, message = await office.ask(form=form)
    which: dict[str, Any] = {"replyToId": message.id}
    if way == "quoted":
        text, which = f'<quoted messageId="{message.id}"/> {text}', quoting(message.id)
    reply = office.peer.typed(ANN, message.conversation, text, **which)
    assert await office.peer.send(reply) == (200, None)
    found = await office.value(question)
    assert found == value if value is not None else found["reason"] == "not now"
    assert "recorded" in await office.told(message.conversation)
    assert " by ann" in (await office.ended(message)).shown


async def test_a_reply_that_is_no_answer_is_told_why(office: Office) -> None:
    question, message = await office.ask(form=Confirm())
    await office.peer.send(
        office.peer.typed(ANN, message.conversation, "yes, but not in production", replyToId=message.id)
    )
    assert "reply with yes or no, and nothing else" in await office.told(message.conversation)
    await office.untouched(question)


async def test_a_message_that_replies_to_nothing_is_not_lost_without_a_word(office: Office) -> None:
    question, message = await office.ask(form=Confirm())
    for which in ({}, {"replyToId": "1700000000000"}):
        await office.peer.send(office.peer.typed(ANN, message.conversation, "yes", **which))
        assert "I cannot tell which question" in await office.told(message.conversation)
    # Nor does it belong to it in another chat.
    await office.peer.send(office.peer.typed(ANN, "a:1elsewhere", "yes", replyToId=message.id))
    await office.untouched(question)


async def test_a_reply_that_could_belong_to_two_questions_belongs_to_none(office: Office) -> None:
    office.peer.next_id = "1700000099999"
    try:
        first, message = await office.ask("Go?", form=Confirm())
        second, _ = await office.ask("Go on?", form=Confirm())
    finally:
        office.peer.next_id = None
    reply = office.peer.typed(ANN, message.conversation, "yes", replyToId=message.id)
    await office.peer.send(reply)
    assert "I cannot tell which question" in await office.told(message.conversation)
    await office.untouched(first)
    await office.desk.withdraw(second.id)
    await office.peer.send(reply | {"id": "f:alone"})
    assert await office.value(first) is True


@pytest.mark.parametrize(
    "change",
    [
        {"type": "conversationUpdate", "membersAdded": [{"id": "28:x"}]},
        {"type": "messageReaction", "reactionsAdded": [{"type": "like"}]},
        {"type": "messageUpdate"},
        {"type": "invoke", "name": "task/fetch"},
        {"type": "installationUpdate", "action": "add"},
        {"text": None},
        {"text": "  "},
        {"text": "\ud800"},
        {"text": ["yes"]},
    ],
)
async def test_what_is_no_answer_is_heard_and_forgotten(office: Office, change: dict[str, Any]) -> None:
    question, message = await office.ask(form=Confirm())
    reply = office.peer.typed(ANN, message.conversation, "yes", replyToId=message.id) | change
    assert await office.peer.send(reply) == (200, None)
    await office.untouched(question)


async def test_a_room_answers_and_says_who_did(office: Office) -> None:
    question, message = await office.ask("Go?", form=Confirm(), recipients=["group:ops"])
    assert message.conversation == ROOM
    assert await office.peer.press(STRANGER, message, "yes") == UNKNOWN
    await office.untouched(question)
    await office.peer.press(BOB, message, "yes")
    outcome = await office.outcome(question)
    assert isinstance(outcome, Answered)
    assert outcome.by == "bob"
    assert "Answered by bob" in (await office.ended(message)).shown


async def test_people_may_talk_in_the_thread_of_a_room(office: Office) -> None:
    question, message = await office.ask("Why?", recipients=["group:ops"])
    thread = f"{ROOM};messageid={message.id}"
    office.peer.rooms.add(thread)
    assert await office.peer.send(office.peer.typed(ANN, thread, "What do you think?")) == (200, None)
    await office.untouched(question)
    mention = {"type": "mention", "text": "<at>Handraise</at>", "mentioned": {"id": "28:" + "x"}}
    assert (await office.peer.send(office.peer.typed(ANN, thread, "<at>Bob</at> so", entities=[mention])))[
        0
    ] == 200
    await office.untouched(question)
    ours = office.peer.typed(ANN, thread, "<at>Handraise</at> Because of the tests")
    ours["entities"] = [{**mention, "mentioned": ours["recipient"]}]
    await office.peer.send(ours)
    assert await office.value(question) == "Because of the tests"
    assert "recorded" in await office.told(thread)


async def test_strangers_and_people_of_another_tenant_learn_and_do_nothing(office: Office) -> None:
    question, message = await office.ask("Go?", form=Confirm(), recipients=["group:ops"])
    nobody = office.peer.interaction(ANN, message, "yes")
    del nobody["from"]["aadObjectId"]
    other = office.peer.interaction(ANN, message, "yes")
    other["conversation"]["tenantId"] = other["channelData"]["tenant"]["id"] = OTHER_TENANT
    absent = office.peer.interaction(STRANGER, message, "yes")
    absent["value"]["action"]["data"]["q"][1] = "no such question"
    stranger = office.peer.interaction(STRANGER, message, "yes")
    for pressed in (nobody, other, absent, stranger):
        status, said = await office.peer.send(pressed)
        assert (status, said["value"]) == (200, UNKNOWN)
    for torn in ("conversation", "channelData"):
        pressed = office.peer.interaction(ANN, message, "yes")
        if torn == "conversation":
            pressed["conversation"]["tenantId"] = OTHER_TENANT
        else:
            pressed["channelData"]["tenant"]["id"] = OTHER_TENANT
        assert await office.peer.send(pressed) == (400, None)
    await office.peer.send(office.peer.typed(STRANGER, chat_with(STRANGER), "yes", replyToId=message.id))
    assert "I cannot tell" in await office.told(chat_with(STRANGER))
    await office.untouched(question)
    # Somebody of another tenant may be known here, by both ids.
    address = Address(
        workspace="default",
        recipient="bob",
        channel="teams",
        id=f"{OTHER_TENANT}:{ANN}",
        to={"user": ANN, "tenant": OTHER_TENANT},
    )
    await office.ctx.outbox.put_address(address)
    await office.peer.send(other | {"id": "f:again"})
    await office.ctx.outbox.remove_address("default", "bob", "teams", address.id)
    outcome = await office.outcome(question)
    assert isinstance(outcome, Answered)
    assert outcome.by == "bob"


async def test_somebody_of_another_workspace_learns_and_does_nothing(office: Office) -> None:
    _, message = await office.ask("Go?", form=Confirm())
    elsewhere = await office.desk.scoped("elsewhere").post("Secret?", form=Confirm())
    for name in (elsewhere.id, "no such question"):
        pressed = office.peer.interaction(ANN, message, "yes")
        pressed["value"]["action"]["data"]["q"] = ["elsewhere", name]
        assert (await office.peer.send(pressed))[1]["value"] == UNKNOWN
    assert (await office.desk.scoped("elsewhere").get(elsewhere.id)).outcome is None


async def test_what_was_settled_elsewhere_says_so_kindly(office: Office) -> None:
    question, message = await office.ask("Go?", form=Confirm(), recipients=["group:ops"])
    await office.desk.answer(question.id, True, by=OPERATOR, provenance=Provenance(channel="web"))
    await office.ended(message)
    # Ann's client still shows the old card.
    for verb in ("no", "decline", "show"):
        asked = {"q": ["default", question.id], "l": "https://desk.example/x"}
        pressed = office.peer.interaction(ANN, message, "no")
        pressed["value"]["action"] |= {"verb": verb, "data": asked}
        status, said = await office.peer.send(pressed)
        assert status == 200
        shown = as_text(said["value"])
        assert "has already been answered" in shown
        assert "Answered by bob" in shown
        assert "[ " not in shown
    outcome = (await office.desk.get(question.id)).outcome
    assert isinstance(outcome, Answered)
    assert outcome.value is True


async def test_the_same_interaction_again_answers_once(office: Office) -> None:
    form = MultiChoice.of("a", "b", at_least=2)
    question, message = await office.ask(form=form, max_attempts=2)
    wrong = office.peer.interaction(ANN, message, "send", f0="0")
    answers = [await office.peer.send(wrong) for _ in range(5)]
    assert {json.dumps(each) for each in answers} == {json.dumps(answers[0])}
    now = await office.desk.get(question.id)
    assert (now.attempts, now.outcome) == (1, None)
    # The same name for something else is not taken: nobody could say which of the two was meant.
    other = office.peer.interaction(ANN, message, "send", f0="0,1") | {"id": wrong["id"]}
    assert "This was sent twice with different content" in (await office.peer.send(other))[1]["value"]
    right = office.peer.interaction(ANN, message, "send", f0="0,1")
    came = await asyncio.gather(*(office.peer.send(right) for _ in range(10)))
    assert {status for status, _ in came} == {200}
    assert await office.value(question) == ["a", "b"]
    assert "Thank you" in as_text((await office.peer.send(right))[1]["value"])
    kinds = [each.kind.value for each in await office.desk.history(question.id)]
    assert kinds == ["asked", "attempted", "answered"]


async def test_reminders_and_escalations_say_that_they_are(office: Office) -> None:
    timeline = Timeline(
        remind=(timedelta(seconds=0.3),), escalate=(Escalation(after=timedelta(seconds=0.6), to=("bob",)),)
    )
    question = await office.desk.post("Go?", form=Confirm(), recipients=["ann"], timeline=timeline)
    reminder = await office.peer.message(
        lambda each: "A reminder" in each.shown and each.conversation == chat_with(ANN)
    )
    escalation = await office.peer.message(lambda each: "you are asked too" in each.shown)
    assert (reminder.conversation, escalation.conversation) == (chat_with(ANN), chat_with(BOB))
    await office.peer.press(BOB, escalation, "yes")
    await office.outcome(question)
    assert "Answered by bob" in (await office.ended(reminder)).shown


async def test_teams_and_the_desk_at_the_same_moment_have_one_winner(office: Office) -> None:
    winners = set()
    for turn in range(0, 20, sized(gate=2, nightly=1)):
        question, message = await office.ask(f"Go {turn}?", form=Confirm(), recipients=["ann", "bob"])
        _, his = await asyncio.gather(
            office.peer.press(ANN, message, "yes"), answer_at_the_desk(office, question, turns=10 * turn)
        )
        outcome = await office.outcome(question)
        assert isinstance(outcome, Answered)
        assert (outcome.by, outcome.value) == (("bob", False) if his else ("ann", True))
        kinds = [each.kind.value for each in await office.desk.history(question.id)]
        assert kinds.count("answered") == 1
        winners.add(outcome.by)
    assert winners <= {"ann", "bob"}


async def answer_at_the_desk(office: Office, question: Question, *, turns: int) -> bool:
    """Whether bob was first, after so many turns of the loop."""
    for _ in range(turns):
        await asyncio.sleep(0)
    try:
        await office.desk.answer(question.id, False, by="bob", provenance=Provenance(channel="web"))
    except AlreadySettled:
        return False
    return True


async def test_what_teams_says_is_heeded(office: Office) -> None:
    office.peer.fail("say", Fault(403, "BotNotInConversationRoster"))
    question = await office.desk.post("Go?", form=Confirm(), recipients=["bob"])
    await until_status(office, question, DeliveryStatus.FAILED)
    [delivery] = await office.ctx.outbox.deliveries(question.ref)
    assert delivery.problem == "Teams says “403 BotNotInConversationRoster” to POST activities"


async def test_a_message_that_is_gone_is_left_alone(office: Office) -> None:
    question, message = await office.ask("Go?", form=Confirm())
    del office.peer.messages[message.conversation, message.id]
    await office.desk.answer(question.id, True, by="ann")
    async with asyncio.timeout(10):
        while not (await office.ctx.outbox.deliveries(question.ref))[0].problem:
            await asyncio.sleep(0.005)
    [delivery] = await office.ctx.outbox.deliveries(question.ref)
    assert (delivery.status, delivery.due_at) == ("sent", None)
    assert delivery.problem == "Teams says “404 ActivityNotFoundInConversation” to PUT activities"


@pytest_asyncio.fixture(loop_scope="function")
async def lasting() -> AsyncIterator[TeamsPeer]:
    async with open_peer() as peer:
        peer.people.update(dict.fromkeys((*PEOPLE.values(), STRANGER), TENANT))
        yield peer


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.parametrize("address", ON_DISK, indirect=True)
async def test_nothing_is_lost_when_the_server_begins_anew_at_every_step(
    lasting: TeamsPeer, empty_address: str
) -> None:
    url = empty_address
    form = Approval.of("pay", {"amount": 30}, editable=["amount"])
    async with open_server_for(lasting, url=url) as office:
        approval, asked = await office.ask("Pay?", form=form)
        written, named = await office.ask("Why?")
        pending = await office.desk.post("Go?", form=Confirm(), recipients=["group:ops"])
        room = await office.sent(pending)
    async with open_server_for(lasting, url=url) as office:
        inputs = await lasting.press(ANN, asked, "change")
        await lasting.send(lasting.typed(ANN, named.conversation, "Because", replyToId=named.id))
        assert await office.value(written) == "Because"
        assert (await office.ended(named)).pressable == []
    async with open_server_for(lasting, url=url) as office:
        shown = await lasting.press(ANN, asked, "changed", card=inputs, f0="20")
    async with open_server_for(lasting, url=url) as office:
        pressed = lasting.interaction(ANN, asked, "approved", card=shown)
        first = await lasting.send(pressed)
        await office.desk.answer(pending.id, True, by=OPERATOR)
        for message in (asked, room):
            assert (await office.ended(message)).pressable == []
    async with open_server_for(lasting, url=url) as office:
        assert await lasting.send(pressed) == first
        assert (await office.value(approval))["arguments"] == {"amount": 20}
        kinds = [each.kind.value for each in await office.desk.history(approval.id)]
        assert kinds == ["asked", "answered"]
