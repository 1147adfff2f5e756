"""One agent in one chat: what it asks, what a reply does, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from handraise import (
    AlreadySettled,
    Answered,
    Approval,
    Choice,
    Confirm,
    Decision,
    Desk,
    Exhausted,
    Expired,
    Field,
    Form,
    InvalidAnswer,
    InvalidQuestion,
    MultiChoice,
    Open,
    Option,
    PermissionDenied,
    Problem,
    Responder,
    open_desk,
)
from handraise.conversations import (
    Agent,
    AgentNotRegistered,
    AgentRegistry,
    AgentReply,
    IncomingMessage,
    MemoryChannel,
    MessageSpent,
    NobodyAnswers,
    NothingTriggered,
    PendingAsk,
    Undelivered,
    current_turn,
)
from handraise.forms import NotAnAnswer, Understood
from handraise.model.provenance import Provenance
from handraise.outcomes import Returned
from handraise.presentation.translation import Locale, use_locale
from handraise.testing import ManualClock, promise

PROMPT = "What is your order number?"


class Support(Agent):
    """What an author writes. Orders start with an A."""

    name = "support"
    description = "Pays refunds."

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.calls: list[tuple[str, Any, Any]] = []

    async def handle(self, message: IncomingMessage) -> AgentReply:
        pending = await self.get_pending_ask()
        if pending is None:
            return await self.ask(PROMPT, context={"wants": message.text}, **self.options)
        return await self.handle_pending_ask(
            pending, message.text, self.on_sufficient, self.on_insufficient, validator=self.validate
        )

    def validate(self, value: Any) -> str | None:
        return None if str(value).startswith("A") else "order numbers start with an A"

    async def on_sufficient(self, answer: Any, context: Any) -> AgentReply:
        self.calls.append(("sufficient", answer, context))
        return AgentReply(f"Refunded {answer}.")

    async def on_insufficient(self, context: Any) -> AgentReply:
        self.calls.append(("insufficient", None, context))
        return AgentReply("Write again whenever you like.")


Doing = Callable[["Scripted", IncomingMessage], Awaitable[AgentReply | None]]


class Scripted(Agent):
    """An agent that does what a test says, message by message."""

    def __init__(self, *doing: Doing, name: str = "support") -> None:
        self.name = name
        self.doing = list(doing)

    async def handle(self, message: IncomingMessage) -> AgentReply:
        return await self.doing.pop(0)(self, message) or AgentReply()


class BrokenChannel(MemoryChannel):
    """Delivers as often as it is told to, then no more."""

    def __init__(self, works: int = 0) -> None:
        super().__init__()
        self.works = works

    async def send(self, conversation: str, text: str) -> None:
        if len(self.sent) >= self.works:
            raise ConnectionResetError("the line is dead")
        await super().send(conversation, text)


class Chat:
    """A desk, a channel and a registry, and a way to write into it."""

    def __init__(self, desk: Desk, registry: AgentRegistry, channel: MemoryChannel) -> None:
        self.desk, self.registry, self.channel = desk, registry, channel

    async def write(self, text: str, by: str | Responder = "ana", conversation: str = "c1") -> AgentReply:
        message = IncomingMessage(conversation=conversation, text=text, by=by, channel=self.channel.name)
        return await self.registry.receive(message)

    @property
    def said(self) -> list[str]:
        return self.channel.sent_to("c1")

    async def kinds(self, question_id: str) -> list[str]:
        return [event.kind.value for event in await self.desk.history(question_id)]


@asynccontextmanager
async def chat_with(
    *agents: Agent, channel: MemoryChannel | None = None, clock: ManualClock | None = None
) -> AsyncIterator[Chat]:
    channel = channel or MemoryChannel()
    async with (
        open_desk("memory:", clock=clock) as desk,
        AgentRegistry(desk, agents=agents, channels=[channel]) as registry,
    ):
        yield Chat(desk, registry, channel)


def waited_for(reply: AgentReply) -> str:
    assert reply.waiting_for is not None
    return reply.waiting_for


async def use_up(desk: Desk, question_id: str) -> None:
    for _ in range(3):
        await desk.reject_answer(question_id, "x", [Problem("", "not that")], by="ana")


def ask(question: str, **options: Any) -> Doing:
    async def doing(agent: Scripted, _: IncomingMessage) -> AgentReply:
        return await agent.ask(question, **options)

    return doing


async def take(agent: Scripted, message: IncomingMessage) -> AgentReply:
    """Take the message as a reply, and say what was understood."""
    pending = await agent.get_pending_ask()
    if pending is None:
        return AgentReply("There is nothing to reply to.")
    return await agent.handle_pending_ask(
        pending, message.text, lambda value, _: AgentReply(f"Got {value!r}.")
    )


async def test_ask_stores_the_question_sends_it_once_and_returns_at_once() -> None:
    async with chat_with(Support(expires_in=600)) as chat:
        reply = await chat.write("refund")
        assert chat.channel.sent == [("c1", PROMPT)]
        assert (reply.text, reply.outcome) == (None, None)
        question = await chat.desk.get(waited_for(reply))
        assert (question.prompt, question.asker, question.conversation) == (PROMPT, "support", "c1")
        assert (question.status, question.max_attempts, question.recipients) == ("pending", 3, ("ana",))
        assert question.expires_at == question.asked_at + timedelta(minutes=10)


async def test_a_text_beside_a_question_is_sent_and_the_question_is_not_repeated() -> None:
    async def greet_and_ask(agent: Scripted, _: IncomingMessage) -> AgentReply:
        waiting = await agent.ask("Which order?")
        return AgentReply("I will look into it.", waiting_for=waiting.waiting_for)

    async with chat_with(Scripted(greet_and_ask)) as chat:
        await chat.write("hello")
        assert chat.said == ["Which order?", "I will look into it."]


async def test_the_next_message_finds_the_question_and_its_context() -> None:
    found: list[PendingAsk] = []

    async def look(agent: Scripted, _: IncomingMessage) -> None:
        pending = await agent.get_pending_ask()
        assert pending is not None
        found.append(pending)

    context = {"intent": "refund", "items": [1, 2]}
    asking = ask("Which order?", context=context, max_retries=4, expires_in=timedelta(hours=1))
    async with chat_with(Scripted(asking, look)) as chat:
        question_id = waited_for(await chat.write("refund"))
        await chat.write("A-17")
        question = await chat.desk.get(question_id)
    (pending,) = found
    assert (pending.id, pending.conversation, pending.agent) == (question_id, "c1", "support")
    assert (pending.question, pending.context, pending.channel) == ("Which order?", context, "chat")
    assert (pending.status, pending.outcome) == ("pending", None)
    assert (pending.retries, pending.max_retries) == (0, 4)
    assert (pending.asked_at, pending.expires_at) == (question.asked_at, question.expires_at)
    assert "refund" not in repr(pending)


async def test_a_sufficient_reply_answers_on_the_desk_and_carries_on_with_the_context() -> None:
    agent = Support()
    async with chat_with(agent) as chat:
        question_id = waited_for(await chat.write("refund"))
        reply = await chat.write("A-17")
        outcome = (await chat.desk.get(question_id)).outcome
        assert isinstance(outcome, Answered)
        assert (outcome.value, outcome.by, outcome.channel) == ("A-17", "ana", "chat")
        assert reply == AgentReply("Refunded A-17.", outcome=outcome)
        assert agent.calls == [("sufficient", "A-17", {"wants": "refund"})]
        assert chat.said == [PROMPT, "Refunded A-17."]


@promise("P12")
async def test_an_insufficient_reply_is_kept_and_the_same_question_is_asked_again() -> None:
    agent = Support()
    async with chat_with(agent) as chat:
        question_id = waited_for(await chat.write("refund"))
        again = await chat.write("17")
        assert again == AgentReply(waiting_for=question_id)
        assert chat.said[1:] == [
            f"I cannot take that as an answer: order numbers start with an A.\n{PROMPT}",
        ]
        assert len((await chat.desk.list_pending(conversation="c1")).items) == 1
        attempt = (await chat.desk.history(question_id))[-1]
        assert (attempt.kind, attempt.by, attempt.channel) == ("attempted", "ana", "chat")
        assert attempt.data["value"] == "17"
        assert attempt.data["problems"] == [{"path": "", "message": "order numbers start with an A"}]
        await chat.write("A-17")
        assert agent.calls == [("sufficient", "A-17", {"wants": "refund"})]
        assert await chat.kinds(question_id) == ["asked", "sent", "attempted", "answered"]


async def test_what_is_said_besides_the_question_is_in_the_language_of_the_reader() -> None:
    async with chat_with(Support()) as chat:
        with use_locale(Locale("de")):
            await chat.write("refund")
            await chat.write("17")
        assert chat.said[1].startswith("Das lässt sich nicht als Antwort verstehen: order numbers start")
        await chat.write("18")
        assert chat.said[2].startswith("I cannot take that as an answer: order numbers start")


@promise("P13")
async def test_a_reply_sends_the_question_back_and_the_agent_learns_why() -> None:
    agent = Support()
    async with chat_with(agent) as chat:
        question = waited_for(await chat.write("refund"))
        empty = await chat.write("send back:")
        assert (empty.waiting_for, "say what to change" in chat.said[-1]) == (question, True)
        reply = await chat.write("Send back: ask for the <@U1> date instead")
        assert isinstance(reply.outcome, Returned)
        assert (reply.outcome.by, reply.outcome.reason) == ("ana", "ask for the <@U1> date instead")
        assert agent.calls == [("insufficient", None, {"wants": "refund"})]
        assert chat.said[-2:] == [
            "Sent back. The agent is told what to change.",
            "Write again whenever you like.",
        ]
        assert await chat.kinds(question) == ["asked", "sent", "returned"]


async def test_a_reply_leaves_the_question_to_the_others() -> None:
    async with chat_with(Scripted(ask("Which?", recipients=[]), take, take, take)) as chat:
        question = waited_for(await chat.write("go"))
        assert (await chat.write("not for me")).waiting_for == question
        assert chat.said[-1] == "You are not asked this any more. The others still are."
        await chat.write("B", by="ana")
        assert chat.said[-1] == "There is nothing to reply to."
        await chat.write("B", by="bo")
        assert chat.said[-1] == "Got 'B'."


async def test_two_retries_are_three_unfit_replies_and_then_it_is_exhausted() -> None:
    agent = Support()
    async with chat_with(agent) as chat:
        question_id = waited_for(await chat.write("refund"))
        for text in ("17", "18"):
            assert (await chat.write(text)).waiting_for == question_id
        reply = await chat.write("19")
        outcome = (await chat.desk.get(question_id)).outcome
        assert isinstance(outcome, Exhausted)
        assert reply == AgentReply("Write again whenever you like.", outcome=outcome)
        assert agent.calls == [("insufficient", None, {"wants": "refund"})]
        assert chat.said[-2:] == [
            f"I did not get an answer that I can use, so I leave this out for now: {PROMPT}",
            "Write again whenever you like.",
        ]
        assert await chat.kinds(question_id) == ["asked", "sent", "attempted", "attempted", "exhausted"]


async def test_without_on_insufficient_the_polite_message_is_all_that_is_said() -> None:
    async with chat_with(Scripted(ask("Sure?", form=Confirm(), max_retries=0), take)) as chat:
        await chat.write("go")
        reply = await chat.write("hm")
        assert isinstance(reply.outcome, Exhausted)
        assert reply.text is None
        assert chat.said[1:] == ["I did not get an answer that I can use, so I leave this out for now: Sure?"]


@pytest.mark.parametrize("text", ["no", "42", "ok", "y"])
async def test_short_replies_are_answers(text: str) -> None:
    async with chat_with(Scripted(ask("What now?"), take)) as chat:
        await chat.write("go")
        assert (await chat.write(text)).text == f"Got {text!r}."


@pytest.mark.parametrize(
    ("options", "shown", "text", "value"),
    [
        ({"choices": ["Blue", "Red"]}, "What?\n1. Blue\n2. Red", "2", "Red"),
        (
            {"form": Choice.of(Option(id="b", label="Blue", description="like the sea"), allow_other=True)},
            "What?\n1. Blue: like the sea\nOr reply with “other:” and your own answer.",
            "blue",
            "b",
        ),
        (
            {"form": MultiChoice.of("S", "M", "L")},
            "What?\n1. S\n2. M\n3. L\nReply with the numbers, with commas between.",
            "3, 1",
            ["S", "L"],
        ),
        ({"form": Confirm()}, "What?\nReply with yes or no.", "no", False),
        ({"form": Open(type="integer")}, "What?", " 42 ", 42),
        (
            {
                "form": Form(
                    fields=(Field(name="n", form=Open(), title="Number"), Field(name="m", form=Open()))
                )
            },
            "What?\nReply with one line for each:\nn: Number\nm: …",
            "n: 1\nm: 2",
            {"n": "1", "m": "2"},
        ),
    ],
    ids=["choices", "choice", "multi choice", "confirm", "number", "form"],
)
async def test_a_question_shows_what_can_be_replied_and_its_form_reads_the_reply(
    options: dict[str, Any], shown: str, text: str, value: Any
) -> None:
    async with chat_with(Scripted(ask("What?", **options), take)) as chat:
        await chat.write("go")
        assert chat.said == [shown]
        assert (await chat.write(text)).text == f"Got {value!r}."


@promise("P11")
@pytest.mark.parametrize(("text", "approved"), [("approve", True), ("deny: too much", False)])
async def test_an_approval_shows_its_action_and_gives_a_decision(text: str, *, approved: bool) -> None:
    decided: list[Decision] = []

    async def decide(agent: Scripted, message: IncomingMessage) -> AgentReply:
        pending = await agent.get_pending_ask()
        assert pending is not None
        return await agent.handle_pending_ask(pending, message.text, remember)

    def remember(value: Any, context: Any) -> AgentReply:
        assert context is None
        decided.append(value)
        return AgentReply()

    form = Approval.of("pay", {"amount": 12})
    async with chat_with(Scripted(ask("Pay?", form=form), decide, decide)) as chat:
        await chat.write("go")
        assert 'pay {"amount":12}' in chat.said[0]
        assert (await chat.write("yes, but not today")).waiting_for is not None
        await chat.write(text)
    (decision,) = decided
    assert bool(decision) is approved


async def test_an_approval_in_a_chat_does_not_cover_what_was_written_elsewhere() -> None:
    async def decide(agent: Scripted, message: IncomingMessage) -> AgentReply:
        pending = await agent.get_pending_ask()
        assert pending is not None
        return await agent.handle_pending_ask(pending, message.text, lambda *_: AgentReply("paid"))

    async with chat_with(
        Scripted(ask("Pay?", form=Approval.of("pay", {"amount": 12})), decide, decide)
    ) as chat:
        question_id = waited_for(await chat.write("go"))
        person = (await chat.desk.get(question_id)).recipients[0]
        await chat.desk.note(question_id, "It was paid on Monday", by=person)
        assert (await chat.write("approve")).waiting_for == question_id
        assert "Read the conversation, then decide again." in chat.said[-1]
        await chat.write("deny")
        assert (await chat.desk.get(question_id)).status == "answered"


async def test_the_form_decides_first_then_the_validator_then_the_judge() -> None:
    seen: list[str] = []

    def validator(value: Any) -> str | None:
        seen.append(f"validator {value}")
        return "too many" if value > 10 else None

    async def judge(pending: PendingAsk, value: Any) -> str | None:
        seen.append(f"judge {pending.question} {value}")
        return "unlucky" if value == 7 else None

    verdicts: list[Understood | NotAnAnswer] = []

    async def evaluate(agent: Scripted, _: IncomingMessage) -> None:
        pending = await agent.get_pending_ask()
        assert pending is not None
        verdicts[:] = [
            await agent.evaluate_answer(pending, text, validator=validator, judge=judge)
            for text in ("many", "11", "7", "5")
        ]
        verdicts.append(await agent.evaluate_answer(pending, "99"))

    async with chat_with(Scripted(ask("How many?", form=Open(type="integer")), evaluate)) as chat:
        question_id = waited_for(await chat.write("go"))
        await chat.write("?")
        assert await chat.kinds(question_id) == ["asked", "sent"]
    assert [getattr(verdict, "reason", None) for verdict in verdicts] == [
        "expected a whole number, got a text",
        "too many",
        "unlucky",
        None,
        None,
    ]
    assert seen == [
        "validator 11",
        "validator 7",
        "judge How many? 7",
        "validator 5",
        "judge How many? 5",
    ]


async def test_a_judges_refusal_is_an_attempt_with_its_reason() -> None:
    async def judge(_: PendingAsk, value: Any) -> str | None:
        return None if "because" in value else "say why"

    async def judged(agent: Scripted, message: IncomingMessage) -> AgentReply:
        pending = await agent.get_pending_ask()
        assert pending is not None
        return await agent.handle_pending_ask(
            pending, message.text, lambda *_: AgentReply("Thanks."), judge=judge
        )

    async with chat_with(Scripted(ask("Why?"), judged, judged)) as chat:
        question_id = waited_for(await chat.write("go"))
        assert (await chat.write("dunno")).waiting_for == question_id
        assert "say why" in chat.said[-1]
        assert (await chat.write("because of rain")).text == "Thanks."


async def test_a_validator_that_does_not_say_what_is_wrong_is_refused_and_nothing_changes() -> None:
    async def badly(agent: Scripted, message: IncomingMessage) -> AgentReply:
        pending = await agent.get_pending_ask()
        assert pending is not None
        wrong: Any = lambda value: value == "x"  # noqa: E731 -- a predicate where a reason is wanted
        return await agent.handle_pending_ask(pending, message.text, lambda *_: AgentReply(), validator=wrong)

    async with chat_with(Scripted(ask("Why?"), badly)) as chat:
        question_id = waited_for(await chat.write("go"))
        with pytest.raises(TypeError, match="return what is wrong"):
            await chat.write("y")
        assert await chat.kinds(question_id) == ["asked", "sent"]


async def test_an_evaluation_of_ones_own_may_understand_more_but_never_past_the_form() -> None:
    class Guessing(Scripted):
        async def evaluate_answer(
            self, pending: PendingAsk, reply: str, **_: Any
        ) -> Understood | NotAnAnswer:
            assert pending.question == "Which?"
            return Understood({"the second one": "Red"}.get(reply, "Green"))

    async with chat_with(Guessing(ask("Which?", choices=["Blue", "Red"]), take, take)) as chat:
        question_id = waited_for(await chat.write("go"))
        assert (await chat.write("hm")).waiting_for == question_id
        assert "is not one of the options" in chat.said[-1]
        assert (await chat.write("the second one")).text == "Got 'Red'."
        assert await chat.kinds(question_id) == ["asked", "sent", "attempted", "answered"]


async def test_an_author_can_decide_and_resolve_it() -> None:
    async def resolve(agent: Scripted, message: IncomingMessage) -> AgentReply:
        pending = await agent.get_pending_ask()
        assert pending is not None
        resolved = await agent.resolve_pending_ask(pending.id, message.text.upper())
        assert (resolved.status, resolved.context) == ("answered", {"n": 1})
        assert await agent.get_pending_ask() is None
        return AgentReply("Noted.")

    async with chat_with(Scripted(ask("Which?", context={"n": 1}), resolve)) as chat:
        question_id = waited_for(await chat.write("go"))
        assert (await chat.write("a-17")).text == "Noted."
        outcome = (await chat.desk.get(question_id)).outcome
        assert isinstance(outcome, Answered)
        assert (outcome.value, outcome.by, outcome.channel) == ("A-17", "ana", "chat")


async def test_what_an_author_resolves_must_fit() -> None:
    async def resolve(agent: Scripted, message: IncomingMessage) -> AgentReply:
        pending = await agent.get_pending_ask()
        assert pending is not None
        await agent.resolve_pending_ask(pending.id, message.text)
        return AgentReply()

    async with chat_with(Scripted(ask("Which?", choices=["a"]), resolve)) as chat:
        question_id = waited_for(await chat.write("go"))
        with pytest.raises(InvalidAnswer):
            await chat.write("b")
        assert await chat.kinds(question_id) == ["asked", "sent", "attempted"]


@promise("P5")
async def test_what_the_conversation_has_not_got_yet_cannot_be_resolved() -> None:
    async def resolve(agent: Scripted, message: IncomingMessage) -> AgentReply:
        await agent.resolve_pending_ask(second, message.text)
        return AgentReply("never")

    async def misuse(agent: Scripted, message: IncomingMessage) -> AgentReply:
        kept = PendingAsk(await chat.desk.get(second), "chat", None)
        return await agent.handle_pending_ask(kept, message.text, lambda *_: AgentReply("never"))

    async with chat_with(Scripted(ask("First?"), ask("Second?"), resolve, misuse, resolve)) as chat:
        await chat.write("go")
        second = waited_for(await chat.write("and on"))
        for _ in range(2):
            with pytest.raises(PermissionDenied, match="has not been sent"):
                await chat.write("yes")
        assert await chat.kinds(second) == ["asked"]
        await chat.desk.answer(second, "in the inbox", by="ana")
        with pytest.raises(AlreadySettled):
            await chat.write("yes")


@promise("P5")
async def test_what_is_not_delivered_is_withdrawn_and_the_error_says_undelivered() -> None:
    async with chat_with(Support(), channel=BrokenChannel()) as chat:
        with pytest.raises(Undelivered, match="did not deliver") as failure:
            await chat.write("refund")
        assert isinstance(failure.value.__cause__, ConnectionResetError)
        assert (failure.value.code, failure.value.channel) == ("undelivered", "chat")
        assert failure.value.question_id is not None
        question = await chat.desk.get(failure.value.question_id)
        assert question.status == "withdrawn"
        assert not (await chat.desk.list_pending()).items


async def test_a_cancelled_delivery_withdraws_the_question_too() -> None:
    class HangingChannel(MemoryChannel):
        def __init__(self) -> None:
            super().__init__()
            self.sending = asyncio.Event()

        async def send(self, conversation: str, text: str) -> None:
            del conversation, text
            self.sending.set()
            await asyncio.Event().wait()

    channel = HangingChannel()
    async with chat_with(Support(), channel=channel) as chat:
        writing = asyncio.create_task(chat.write("refund"))
        await asyncio.wait_for(channel.sending.wait(), 10)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        assert not (await chat.desk.list_pending()).items


async def test_a_clarification_that_is_not_delivered_leaves_the_question_pending() -> None:
    async with chat_with(Support(), channel=BrokenChannel(works=1)) as chat:
        question_id = waited_for(await chat.write("refund"))
        with pytest.raises(Undelivered) as failure:
            await chat.write("17")
        assert failure.value.question_id is None
        assert (await chat.desk.get(question_id)).status == "pending"
        assert await chat.kinds(question_id) == ["asked", "sent", "attempted"]


async def test_an_expired_question_is_settled_as_expired_and_not_given_out() -> None:
    clock = ManualClock()
    async with chat_with(Support(expires_in=60), clock=clock) as chat:
        first = waited_for(await chat.write("refund"))
        clock.advance(timedelta(minutes=2))
        second = waited_for(await chat.write("A-17"))
        assert second != first
        assert isinstance((await chat.desk.get(first)).outcome, Expired)
        assert chat.said == [PROMPT, PROMPT]


async def test_a_question_that_expires_while_it_is_judged_is_not_answered() -> None:
    clock = ManualClock()

    async def slowly(agent: Scripted, message: IncomingMessage) -> AgentReply:
        pending = await agent.get_pending_ask()
        assert pending is not None
        clock.advance(timedelta(minutes=2))
        return await agent.handle_pending_ask(pending, message.text, lambda *_: AgentReply("never"))

    async with chat_with(Scripted(ask("Which?", expires_in=60), slowly), clock=clock) as chat:
        await chat.write("go")
        reply = await chat.write("A-17")
        assert isinstance(reply.outcome, Expired)
        assert chat.said[-1] == "That question has expired, so your reply was not used."


@pytest.mark.parametrize(
    ("settle", "told"),
    [
        (lambda desk, each: desk.answer(each, "A-1", by="ana"), "has already been answered"),
        (lambda desk, each: desk.decline(each, by="ana"), "has already been declined"),
        (lambda desk, each: desk.scoped(asker="support").withdraw(each), "was withdrawn"),
        (use_up, "is closed"),
    ],
    ids=["answered", "declined", "withdrawn", "exhausted"],
)
@promise("P2")
async def test_a_reply_that_comes_too_late_is_not_used_and_its_writer_is_told(
    settle: Callable[[Desk, str], Awaitable[Any]], told: str
) -> None:
    async def late(agent: Scripted, message: IncomingMessage) -> AgentReply:
        pending = await agent.get_pending_ask()
        assert pending is not None
        turn = current_turn()
        assert turn is not None
        await settle(turn.desk, pending.id)
        return await agent.handle_pending_ask(pending, message.text, lambda *_: AgentReply("never"))

    async with chat_with(Scripted(ask("Which?"), late)) as chat:
        question_id = waited_for(await chat.write("go"))
        reply = await chat.write("A-17")
        assert reply.outcome == (await chat.desk.get(question_id)).outcome
        assert chat.said[-1] == f"That question {told}, so your reply was not used."


async def test_only_the_person_who_was_asked_may_answer() -> None:
    agent = Scripted(ask("Which?"), take, take)
    async with chat_with(agent) as chat:
        question_id = waited_for(await chat.write("go", by="ana"))
        assert (await chat.write("A-1", by="eve")).text == "There is nothing to reply to."
        assert await chat.kinds(question_id) == ["asked", "sent"]
        assert (await chat.write("A-2", by="ana")).text == "Got 'A-2'."


async def test_an_agent_can_ask_other_people_in_the_conversation() -> None:
    asking = ask("Approve?", form=Confirm(), recipients=["bob", "group:leads"])
    async with chat_with(Scripted(asking, take, take)) as chat:
        question_id = waited_for(await chat.write("please", by="ana"))
        assert (await chat.write("yes", by="ana")).text == "There is nothing to reply to."
        lead = Responder("cy", groups=frozenset({"leads"}))
        assert (await chat.write("yes", by=lead)).text == "Got True."
        outcome = (await chat.desk.get(question_id)).outcome
        assert isinstance(outcome, Answered)
        assert outcome.by == "cy"


async def test_with_no_recipients_anybody_in_the_conversation_may_answer() -> None:
    async with chat_with(Scripted(ask("Who?", recipients=[]), take)) as chat:
        await chat.write("go", by="ana")
        assert (await chat.write("me", by="bob")).text == "Got 'me'."


async def test_a_question_kept_from_another_turn_cannot_be_answered_by_a_stranger() -> None:
    kept: list[PendingAsk] = []

    async def keep(agent: Scripted, _: IncomingMessage) -> None:
        pending = await agent.get_pending_ask()
        assert pending is not None
        kept.append(pending)

    async def misuse(agent: Scripted, message: IncomingMessage) -> AgentReply:
        return await agent.handle_pending_ask(kept[0], message.text, lambda *_: AgentReply("never"))

    async def resolve(agent: Scripted, message: IncomingMessage) -> AgentReply:
        await agent.resolve_pending_ask(kept[0].id, message.text)
        return AgentReply("never")

    agent = Scripted(ask("Which?"), keep, misuse, resolve, misuse, resolve)
    async with chat_with(agent) as chat:
        question_id = waited_for(await chat.write("go"))
        await chat.write("hm")
        for conversation, by in [("c1", "eve"), ("c1", "eve"), ("c2", "ana"), ("c2", "ana")]:
            with pytest.raises(PermissionDenied):
                await chat.write("A-1", by=by, conversation=conversation)
        assert await chat.kinds(question_id) == ["asked", "sent"]


@promise("P2")
async def test_an_agents_own_echo_is_no_answer() -> None:
    agent = Support()
    async with chat_with(agent) as chat:
        question_id = waited_for(await chat.write("refund"))
        assert await chat.write(PROMPT, by="support") == AgentReply()
        assert await chat.kinds(question_id) == ["asked", "sent"]
        assert (chat.said, agent.calls) == ([PROMPT], [])


async def test_a_second_question_is_asked_when_the_first_is_settled_and_only_once() -> None:
    async def ask_both(agent: Scripted, _: IncomingMessage) -> AgentReply:
        await agent.ask("First?")
        return await agent.ask("Second?", context=2)

    async with chat_with(Scripted(ask_both, take, take, take)) as chat:
        second = waited_for(await chat.write("go"))
        assert chat.said == ["First?"]
        assert (await chat.desk.get(second)).status == "pending"
        assert (await chat.write("one")).text == "Got 'one'."
        assert chat.said == ["First?", "Got 'one'.", "Second?"]
        assert (await chat.desk.get(second)).status == "pending"
        assert (await chat.write("two")).text == "Got 'two'."
        assert (await chat.write("three")).text == "There is nothing to reply to."
        assert chat.said.count("Second?") == 1
        assert not (await chat.desk.list_pending()).items


async def test_a_second_question_waits_while_the_first_is_asked_again() -> None:
    async def ask_both(agent: Scripted, _: IncomingMessage) -> AgentReply:
        await agent.ask("Sure?", form=Confirm(), max_retries=1)
        return await agent.ask("Second?")

    async with chat_with(Scripted(ask_both, take, take, take)) as chat:
        await chat.write("go")
        await chat.write("perhaps")
        assert "Second?" not in chat.said
        await chat.write("perhaps")
        assert chat.said[-1] == "Second?"
        assert (await chat.write("two")).text == "Got 'two'."


async def test_a_question_whose_turn_came_elsewhere_is_asked_before_a_message_can_answer_it() -> None:
    async def ask_both(agent: Scripted, _: IncomingMessage) -> AgentReply:
        first = await agent.ask("First?")
        await agent.ask("Second?")
        return first

    async with chat_with(Scripted(ask_both, take, take)) as chat:
        first = waited_for(await chat.write("go"))
        await chat.desk.answer(first, "one", by="ana", provenance=Provenance(channel="inbox"))
        assert (await chat.write("hello?")).text == "There is nothing to reply to."
        assert chat.said == ["First?", "There is nothing to reply to.", "Second?"]
        assert (await chat.write("two")).text == "Got 'two'."


async def test_a_second_question_that_is_not_delivered_is_withdrawn() -> None:
    async def ask_both(agent: Scripted, _: IncomingMessage) -> AgentReply:
        await agent.ask("First?")
        return await agent.ask("Second?")

    async with chat_with(Scripted(ask_both, take), channel=BrokenChannel(works=2)) as chat:
        second = waited_for(await chat.write("go"))
        with pytest.raises(Undelivered) as failure:
            await chat.write("one")
        assert failure.value.question_id == second
        assert (await chat.desk.get(second)).status == "withdrawn"


async def test_one_reply_never_settles_two_questions() -> None:
    spent: list[MessageSpent] = []

    async def ask_at_once(agent: Scripted, _: IncomingMessage) -> AgentReply:
        replies = await asyncio.gather(agent.ask("First?"), agent.ask("Second?"))
        return replies[1]

    async def greedy(agent: Scripted, message: IncomingMessage) -> AgentReply:
        reply = AgentReply()
        turn = current_turn()
        assert turn is not None
        while pending := await agent.get_pending_ask():
            reply = await agent.handle_pending_ask(pending, message.text, lambda *_: AgentReply("Got it."))
        (left,) = (await turn.desk.list_pending(conversation="c1")).items
        with pytest.raises(MessageSpent) as refusal:
            await agent.handle_pending_ask(
                PendingAsk(left, "chat", None), message.text, lambda *_: AgentReply("never")
            )
        spent.append(refusal.value)
        return reply

    async with chat_with(Scripted(ask_at_once, greedy)) as chat:
        await chat.write("go")
        assert sorted(chat.said) == ["First?", "Second?"]
        await chat.write("one")
        (left,) = (await chat.desk.list_pending()).items
        assert (left.prompt, left.attempts) == ("Second?", 0)
    assert spent[0].code == "message_spent"


@promise("P2")
async def test_of_two_replies_at_once_one_answers_and_the_other_is_told() -> None:
    both_looked = asyncio.Barrier(2)

    async def race(agent: Scripted, message: IncomingMessage) -> AgentReply:
        pending = await agent.get_pending_ask()
        assert pending is not None
        await asyncio.wait_for(both_looked.wait(), 10)
        return await agent.handle_pending_ask(
            pending, message.text, lambda value, _: AgentReply(f"Got {value}.")
        )

    async def ask_both(agent: Scripted, _: IncomingMessage) -> AgentReply:
        first = await agent.ask("First?")
        await agent.ask("Second?")
        return first

    async with chat_with(Scripted(ask_both, race, race)) as chat:
        first = waited_for(await chat.write("go"))
        replies = await asyncio.gather(chat.write("one"), chat.write("two"))
        outcome = (await chat.desk.get(first)).outcome
        assert isinstance(outcome, Answered)
        assert [reply.outcome for reply in replies] == [outcome, outcome]
        assert sorted(chat.said) == [
            "First?",
            f"Got {outcome.value}.",
            "Second?",
            "That question has already been answered, so your reply was not used.",
        ]
        (left,) = (await chat.desk.list_pending()).items
        assert (left.prompt, left.attempts) == ("Second?", 0)


async def test_questions_of_other_programs_in_the_conversation_are_left_alone() -> None:
    async with chat_with(Scripted(take)) as chat:
        question = await chat.desk.scoped(asker="support").post(
            "From a tool?", conversation="c1", state={"n": 1}
        )
        assert (await chat.write("yes")).text == "There is nothing to reply to."
        assert await chat.kinds(question.id) == ["asked"]


async def test_an_ask_is_found_behind_many_questions_of_other_programs() -> None:
    async with chat_with(Scripted(ask("Which?"), take)) as chat:
        for number in range(60):
            await chat.desk.scoped(asker="support").post(f"From tool {number}?", conversation="c1")
        await chat.write("go")
        assert (await chat.write("A-17")).text == "Got 'A-17'."


async def test_an_answered_question_is_not_answered_again_by_resolving_it() -> None:
    async def twice(agent: Scripted, _: IncomingMessage) -> AgentReply:
        pending = await agent.get_pending_ask()
        assert pending is not None
        await agent.resolve_pending_ask(pending.id, "one")
        with pytest.raises(AlreadySettled):
            await agent.resolve_pending_ask(pending.id, "two")
        return AgentReply()

    async with chat_with(Scripted(ask("Which?"), twice)) as chat:
        await chat.write("go")
        await chat.write("one")


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"max_retries": -1}, InvalidQuestion),
        ({"choices": []}, InvalidQuestion),
        ({"context": object()}, InvalidQuestion),
        ({"key": "k"}, TypeError),
    ],
    ids=["fewer than no retries", "no choices", "a context that is not JSON", "an option of the desk"],
)
async def test_what_cannot_be_asked_is_refused_and_nothing_is_sent(
    options: dict[str, Any], refusal: type[Exception]
) -> None:
    async with chat_with(Scripted(ask("Which?", **options))) as chat:
        with pytest.raises(refusal):
            await chat.write("go")
        assert chat.said == []
        assert not (await chat.desk.list_pending()).items


async def test_a_trigger_channel_refuses_to_ask_and_can_still_be_told_something() -> None:
    async def report(agent: Scripted, _: IncomingMessage) -> AgentReply:
        with pytest.raises(NobodyAnswers, match="trigger channel") as refusal:
            await agent.ask("Which?")
        assert (refusal.value.agent, refusal.value.channel) == ("support", "nightly")
        return AgentReply("Nothing to do.")

    channel = MemoryChannel("nightly", is_trigger=True)
    async with chat_with(Scripted(report), channel=channel) as chat:
        await chat.write("tick", by="scheduler")
        assert chat.said == ["Nothing to do."]
        assert not (await chat.desk.list_pending()).items


async def test_an_agent_that_is_not_registered_cannot_ask() -> None:
    with pytest.raises(AgentNotRegistered, match="AgentRegistry"):
        await Support().ask("Which?")

    other = Support()

    async def let_another_ask(_: Scripted, __: IncomingMessage) -> AgentReply:
        return await other.ask("Which?")

    async with chat_with(Scripted(let_another_ask)) as chat:
        with pytest.raises(AgentNotRegistered):
            await chat.write("go")


async def test_outside_of_a_message_there_is_no_channel_to_ask_on() -> None:
    agent = Support()
    async with chat_with(agent):
        assert current_turn() is None
        for verb in (agent.ask("Which?"), agent.get_pending_ask(), agent.say("Hello")):
            with pytest.raises(NothingTriggered, match="no triggering channel"):
                await verb
    with pytest.raises(AgentNotRegistered):
        await agent.ask("Which?")


async def test_an_agent_can_say_something_before_it_replies() -> None:
    async def work(agent: Scripted, _: IncomingMessage) -> AgentReply:
        await agent.say("Working on it.")
        return AgentReply("Done.")

    async with chat_with(Scripted(work)) as chat:
        await chat.write("go")
        assert chat.said == ["Working on it.", "Done."]


async def test_messages_and_replies_hide_their_texts_from_logs() -> None:
    message = IncomingMessage(conversation="c1", text="hunter2", by="ana", channel="chat")
    assert "hunter2" not in repr(message)
    assert "hunter2" not in repr(AgentReply("hunter2"))
