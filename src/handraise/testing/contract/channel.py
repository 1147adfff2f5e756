"""The contract of a channel, as a pytest class: give it the channel, and the real service or a simulation of it.

For example:

    class TestMine(ChannelContract):
        unsafe = ("<script", "@everyone")

        @pytest.fixture
        async def channel(self, server: Server) -> AsyncIterator[Channel]:
            async with open_mine(server.url) as channel:
                yield channel
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Protocol

import pytest

from handraise.model.forms import AnyForm, Approval, Choice, Confirm, Field, Form, MultiChoice, Open, Option
from handraise.model.json_values import Json
from handraise.model.outcomes import Answered, Declined, Exhausted, Expired, Outcome, Withdrawn
from handraise.model.questions import Question, Vote
from handraise.model.reports import Report
from handraise.model.thread_messages import MessageKind, ThreadMessage
from handraise.model.timelines import Step
from handraise.ports.channel import Channel, Message, Notice, NotSent

AT = datetime(2026, 1, 5, 9, 30, tzinfo=UTC)
UNSEEN = "\u202e\u200b\u2066\x1b"
"""Characters that change the direction of text, or are invisible."""
HOSTILE = (
    "x</p><script>alert(1)</script><img src=x onerror=alert(1)> <!channel> <!everyone> <@U024BE7LH> <@&7> @everyone "
    "@here [Approve](https://evil.example) <https://evil.example|Approve> **b** *b* _i_ ~s~ `c` ``` > # - \\ & &lt; "
    f"%0d%0a\r\nBcc: all@evil.example\r\n.\r\n{UNSEEN} {{x}} {{{{x}}}} $x ' \" 名 🙂"
)
FORMS: dict[str, AnyForm] = {
    "choice": Choice.of("Blue-green", Option(id="canary", label="Canary", description="a few at first")),
    "choice or other": Choice.of("a", "b", allow_other=True),
    "many choices": Choice.of(*(f"Option {n}" for n in range(100))),
    "multi choice": MultiChoice.of("Tests", "Docs", "Notes", at_least=2),
    "open": Open(),
    "integer": Open(type="integer", minimum=1),
    "confirm": Confirm(),
    "form": Form(
        fields=(
            Field(name="region", form=Choice.of("eu", "us"), title="Where?"),
            Field(name="note", form=Open(), required=False),
            Field(name="now", form=Confirm()),
        )
    ),
    "approval": Approval.of("deploy", {"version": "1.2.3", "replicas": 3}),
    "edited approval": Approval.of("pay", {"to": "ann", "amount": 3}, editable=["amount"]),
    "high approval": Approval.of("drop_table", {"name": "users"}, risk="high"),
    "large approval": Approval.of("write", {"text": "line\n" * 20_000}),
}
HOSTILE_FORMS: dict[str, AnyForm] = {
    "choice": Choice.of(Option(id="a", label=HOSTILE, description=HOSTILE), Option(id=HOSTILE, label="b")),
    "multi choice": MultiChoice.of(Option(id="a", label=HOSTILE), "b"),
    "form": Form(fields=(Field(name="x", form=Open(), title=HOSTILE, description=HOSTILE, default=HOSTILE),)),
    "approval": Approval.of(HOSTILE, {HOSTILE: HOSTILE, "list": [HOSTILE, {"deep": HOSTILE}]}),
}
ANSWERS: dict[str, Json] = {
    "choice": "canary",
    "choice or other": {"other": HOSTILE},
    "many choices": "Option 99",
    "multi choice": ["Tests", "Docs"],
    "open": HOSTILE,
    "integer": 3,
    "confirm": True,
    "form": {"region": "eu", "note": HOSTILE, "now": False},
    "approval": {"decision": "approve"},
    "edited approval": {"decision": "approve", "arguments": {"amount": 2}},
    "high approval": {"decision": "deny", "reason": HOSTILE},
    "large approval": {"decision": "deny"},
}
"""An answer to each of the forms."""
OTHER_ENDINGS: dict[str, Outcome] = {
    "default": Answered(value=False, at=AT, source="default"),
    "grant": Answered(value=True, at=AT, by="ann", source="grant"),
    "declined": Declined(at=AT, by="ann", reason=HOSTILE),
    "expired": Expired(at=AT),
    "withdrawn": Withdrawn(at=AT, by="deploy-bot", reason=HOSTILE),
    "exhausted": Exhausted(at=AT, by="ann"),
}
NONSENSE: tuple[Json, ...] = (
    None,
    True,
    7,
    -1.5,
    "",
    " ",
    "\x00",
    [],
    [[]],
    {},
    {"x": 1},
    {"url": 7},
    "x" * 9_000,
)


@dataclass(frozen=True)
class Received:
    """A message, or a change to one, as the other end received it.

    `raw` is what was received, without the parts that may differ between two copies (a date, a signature);
    `text` is what people see; `pressable` lists the buttons for answering, without links.
    """

    raw: bytes
    text: str
    pressable: Sequence[str] = ()


class Peer(Protocol):
    """The other end of a channel: it accepts only what the real service would."""

    def received(self) -> Sequence[Received]:
        """Everything that was received, oldest first."""
        ...


class ChannelContract:
    """Everything that a channel promises; you define `channel`, `peer`, `to` and `dead`."""

    unsafe: ClassVar[Sequence[str]] = ()
    """Texts that no message may contain, whatever an agent wrote."""
    updates: ClassVar[bool] = True
    """Whether a message is changed or followed up when its question has ended."""
    reports: ClassVar[bool] = False
    """Whether that change also shows what came of the answer, if the asker has reported it."""
    shows: ClassVar[bool] = False
    """Whether its receipts have `shown`, the SHA-256 of what was shown to the person."""
    recipient: ClassVar[str] = "ann"

    @pytest.fixture
    def channel(self) -> Channel:
        raise NotImplementedError("A contract class needs a `channel` fixture.")

    @pytest.fixture
    def peer(self) -> Peer:
        raise NotImplementedError("A contract class needs a `peer` fixture.")

    @pytest.fixture
    def to(self) -> Json:
        """An address at which the peer gets messages."""
        raise NotImplementedError("A contract class needs a `to` fixture.")

    @pytest.fixture
    def dead(self) -> Json:
        """A valid address where nobody listens."""
        raise NotImplementedError("A contract class needs a `dead` fixture.")

    def message(self, channel: Channel, to: Json, *questions: Question) -> Message:
        """A message as a dispatcher would make it."""
        notices = [
            Notice(delivery_id=f"{each.id}-delivery", question=each, reason="asked", link=link_to(each))
            for each in questions
        ]
        return Message(
            id="d" * 32,
            workspace="w",
            channel=channel.name,
            recipient=self.recipient,
            to=to,
            at=AT,
            notices=notices,
        )

    def test_an_address_that_makes_sense_has_a_lane_and_nonsense_has_none(
        self, channel: Channel, to: Json, dead: Json
    ) -> None:
        assert channel.rate_limit_key(to)
        assert channel.rate_limit_key(dead)
        assert [each for each in NONSENSE if channel.rate_limit_key(each) is not None] == []

    def test_it_says_what_it_is(self, channel: Channel) -> None:
        assert channel.name.isascii()
        assert channel.name == channel.name.lower().strip() != ""
        assert channel.patience > timedelta()
        assert channel.private in (True, False)

    @pytest.mark.parametrize("kind", FORMS)
    async def test_a_message_sent_again_is_the_same_to_the_byte(
        self, channel: Channel, peer: Peer, to: Json, kind: str
    ) -> None:
        question = a_question(FORMS[kind], steps=(Step(timedelta(minutes=1), "escalate", ("bob",)),))
        later = dataclasses.replace(
            question, attempts=2, votes=(Vote("bob", "x"),), steps_taken=1, unreached_at=AT
        )
        for each in (question, question, later):
            assert await channel.send(self.message(channel, to, each)) is not None
        first, *others = (each.raw for each in peer.received())
        assert others == [first] * 2

    @pytest.mark.parametrize("kind", FORMS)
    async def test_it_shows_who_asks_what_and_where_to_answer(
        self, channel: Channel, peer: Peer, to: Json, kind: str
    ) -> None:
        question = a_question(FORMS[kind])
        await channel.send(self.message(channel, to, question))
        [received] = peer.received()
        for expected in (question.asker, question.prompt, link_to(question)):
            assert expected in received.text

    async def test_a_long_text_does_not_stop_it(self, channel: Channel, peer: Peer, to: Json) -> None:
        question = a_question(prompt="Which of these? " + "long " * 4_000)
        await channel.send(self.message(channel, to, question))
        [received] = peer.received()
        assert link_to(question) in received.text

    async def test_a_receipt_says_what_was_put_before_the_person(self, channel: Channel, to: Json) -> None:
        """The receipt has the SHA-256 of what was shown, for the record of an answer; not if there are several."""
        question, other = a_question(), a_question(prompt="Quite another one?")
        receipts = [
            await channel.send(self.message(channel, to, *questions))
            for questions in (
                (question,),
                (question,),
                (other,),
                (question, dataclasses.replace(other, id="q-2")),
            )
        ]
        shown = [receipt.get("shown") if isinstance(receipt, dict) else None for receipt in receipts]
        assert shown[3] is None
        if self.shows:
            assert shown[0] == shown[1] != shown[2]
            assert all(re.fullmatch("[0-9a-f]{64}", str(each)) for each in shown[:3])

    @pytest.mark.parametrize("kind", HOSTILE_FORMS)
    async def test_nothing_that_an_agent_writes_gets_out_of_its_place(
        self, channel: Channel, peer: Peer, to: Json, kind: str
    ) -> None:
        question = a_question(HOSTILE_FORMS[kind], prompt=HOSTILE, asker=HOSTILE, context={"x": HOSTILE})
        receipt = await channel.send(self.message(channel, to, question))
        await channel.send(self.message(channel, to, question, dataclasses.replace(question, id="q-2")))
        for outcome in (
            Answered(value=HOSTILE, at=AT, by=HOSTILE, channel=HOSTILE),
            Declined(at=AT, by=HOSTILE, reason=HOSTILE),
            Withdrawn(at=AT, by=HOSTILE, reason=HOSTILE),
        ):
            await channel.update(self.message(channel, to, settled(question, outcome)), receipt)
        report = Report(ok=False, text=HOSTILE, link="https://jobs.example/7", details=HOSTILE, at=AT)
        ended = settled(question, Answered(value=HOSTILE, at=AT, by="ann"))
        await channel.update(self.message(channel, to, dataclasses.replace(ended, report=report)), receipt)
        for received in peer.received():
            for unsafe in (*UNSEEN, *self.unsafe):
                assert unsafe not in received.text

    @pytest.mark.parametrize("count", [1, 2, 40])
    @pytest.mark.parametrize(
        "kind", ["confirm", "approval", "large approval", "high approval", "many choices"]
    )
    async def test_a_conversation_is_sent_however_long_and_stays_in_its_place(
        self, channel: Channel, peer: Peer, to: Json, kind: str, count: int
    ) -> None:
        kinds: Sequence[MessageKind] = ("asked_back", "noted", "replied")
        thread = [
            ThreadMessage(number=number + 1, kind=kinds[number % 3], by=HOSTILE, at=AT, text=HOSTILE)
            for number in range(count)
        ]
        question = dataclasses.replace(a_question(FORMS[kind]), thread=count, asked_back=count)
        message = self.message(channel, to, question)
        [notice] = message.notices
        talked = dataclasses.replace(notice, reason="replied", thread=thread)
        await channel.send(dataclasses.replace(message, notices=[talked]))
        [received] = peer.received()
        assert link_to(question) in received.text
        for unsafe in (*UNSEEN, *self.unsafe):
            assert unsafe not in received.text

    @pytest.mark.parametrize("kind", FORMS)
    async def test_what_has_been_answered_says_so_and_cannot_be_pressed(
        self, channel: Channel, peer: Peer, to: Json, kind: str
    ) -> None:
        answered = Answered(value=ANSWERS[kind], at=AT, by="ann", channel=channel.name)
        await self._ends(channel, peer, to, a_question(FORMS[kind]), answered)

    @pytest.mark.parametrize("ending", OTHER_ENDINGS)
    async def test_what_has_ended_otherwise_says_so_and_cannot_be_pressed(
        self, channel: Channel, peer: Peer, to: Json, ending: str
    ) -> None:
        await self._ends(channel, peer, to, a_question(Confirm()), OTHER_ENDINGS[ending])

    @pytest.mark.parametrize("kind", ["confirm", "approval", "large approval"])
    async def test_what_came_of_it_is_shown_in_the_words_of_the_agent(
        self, channel: Channel, peer: Peer, to: Json, kind: str
    ) -> None:
        question = a_question(FORMS[kind])
        receipt = await channel.send(self.message(channel, to, question))
        ended = settled(question, Answered(value=ANSWERS[kind], at=AT, by="ann"))
        for ok, text in ((True, "182,441 rows"), (False, "long " * 2_000)):
            before = len(peer.received())
            report = Report(ok=ok, text=text, link="https://jobs.example/7", at=AT)
            told = dataclasses.replace(ended, report=report)
            await channel.update(self.message(channel, to, told), receipt)
            changes = peer.received()[before:]
            assert bool(changes) == self.updates
            for change in changes[-1:]:
                assert (text[:12] in change.text) is self.reports
                assert not change.pressable

    async def _ends(
        self, channel: Channel, peer: Peer, to: Json, question: Question, outcome: Outcome
    ) -> None:
        receipt = await channel.send(self.message(channel, to, question))
        before = len(peer.received())
        await channel.update(self.message(channel, to, settled(question, outcome)), receipt)
        changes = peer.received()[before:]
        assert bool(changes) == self.updates
        for change in changes:
            assert not change.pressable
            if isinstance(outcome, Answered | Declined) and outcome.by is not None:
                assert outcome.by in change.text

    async def test_one_that_perhaps_never_came_can_be_followed_up(self, channel: Channel, to: Json) -> None:
        ended = settled(a_question(), OTHER_ENDINGS["declined"])
        await channel.update(self.message(channel, to, ended), None)

    async def test_several_that_waited_are_one_message_with_a_link_to_each(
        self, channel: Channel, peer: Peer, to: Json
    ) -> None:
        questions = [a_question(form, id=f"q-{place}") for place, form in enumerate(list(FORMS.values())[:3])]
        await channel.send(self.message(channel, to, *questions))
        [received] = peer.received()
        for each in questions:
            assert link_to(each) in received.text

    async def test_many_approvals_at_once_cannot_be_pressed(
        self, channel: Channel, peer: Peer, to: Json
    ) -> None:
        risky = [a_question(FORMS["high approval"], id=f"q-{place}") for place in range(3)]
        await channel.send(self.message(channel, to, *risky))
        assert [each for received in peer.received() for each in received.pressable] == []

    async def test_a_dead_receiver_is_not_sent_anything_and_may_live_later(
        self, channel: Channel, dead: Json
    ) -> None:
        question = a_question()
        with pytest.raises(NotSent) as failed:
            await channel.send(self.message(channel, dead, question))
        assert failed.value.again
        if self.updates:
            ended = settled(question, OTHER_ENDINGS["declined"])
            with pytest.raises(NotSent):
                await channel.update(self.message(channel, dead, ended), None)


def a_question(form: AnyForm | None = None, **changes: Any) -> Question:
    """A pending question."""
    given: dict[str, Any] = {
        "id": "q-1",
        "workspace": "w",
        "asker": "deploy-bot",
        "prompt": "Which strategy for 1.2.3?",
        "asked_at": AT,
        "recipients": ("ann",),
    }
    return Question(form=form or Confirm(), **(given | changes))


def settled(question: Question, outcome: Outcome) -> Question:
    """The question, settled like this."""
    return dataclasses.replace(question, status=outcome.status, outcome=outcome)


def link_to(question: Question) -> str:
    """Where a question can be answered."""
    return f"https://desk.example/questions/{question.id}"
