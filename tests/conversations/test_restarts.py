"""Nothing but the desk holds a conversation: it goes on after every restart, on every backend."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from handraise import Answered, Desk, Exhausted, Expired
from handraise.conversations import (
    Agent,
    AgentRegistry,
    AgentReply,
    IncomingMessage,
    MemoryChannel,
    PendingAsk,
    registry,
)
from handraise.conversations.asks import LEASE, state_of
from handraise.events import EventKind
from handraise.testing import ManualClock, promise
from handraise.testing.contract import Backend

SOON = 10.0
TALKER = Path(__file__).parent / "talker.py"


class Refunds(Agent):
    """Asks for an order number that starts with A-, and keeps what it found."""

    name = "refunds"

    def __init__(self) -> None:
        self.found: list[PendingAsk] = []

    async def handle(self, message: IncomingMessage) -> AgentReply:
        pending = await self.get_pending_ask()
        if pending is None:
            if not message.text.startswith("refund"):
                return AgentReply("Say “refund” to begin.")
            return await self.ask("Which order?", context={"wants": message.text}, expires_in=3600)
        self.found.append(pending)
        return await self.handle_pending_ask(
            pending, message.text, self.refund, self.skip, validator=self.validate
        )

    def validate(self, value: Any) -> str | None:
        return None if value.startswith("A-") else "order numbers start with A-"

    async def refund(self, order: Any, context: Any) -> AgentReply:
        return AgentReply(f"Done: {context['wants']} for {order}.")

    async def skip(self, context: Any) -> AgentReply:
        return AgentReply(f"No {context['wants']} then.")


class Lives:
    """Every message meets a new process: a new desk, a new registry, a new agent and a new channel."""

    def __init__(self, backend: Backend, workspace: str) -> None:
        self._backend = backend
        self._workspace = workspace
        self.clock = ManualClock()
        self.found: list[PendingAsk] = []

    async def write(self, by: str, text: str, agent: Agent | None = None) -> tuple[AgentReply, list[str]]:
        refunds, channel = Refunds(), MemoryChannel()
        async with (
            self.desk() as desk,
            AgentRegistry(desk, agents=[agent or refunds], channels=[channel]) as registry,
        ):
            message = IncomingMessage(conversation="thread-9", text=text, by=by, channel="chat")
            reply = await registry.receive(message)
        self.found = refunds.found
        return reply, channel.sent_to("thread-9")

    def desk(self) -> Any:
        return self._backend.open(workspace=self._workspace, clock=self.clock)


@pytest.fixture
def lives(backend: Backend, workspace: str) -> Lives:
    return Lives(backend, workspace)


async def kinds(desk: Desk, question_id: str) -> list[EventKind]:
    return [event.kind for event in await desk.history(question_id)]


@promise("P1", "P3")
async def test_a_conversation_of_two_people_over_three_restarts_that_ends_answered(lives: Lives) -> None:
    asked, said = await lives.write("ana", "refund of the lamp")
    assert said == ["Which order?"]
    assert asked.waiting_for is not None

    assert await lives.write("bob", "A-99") == (
        AgentReply("Say “refund” to begin."),
        ["Say “refund” to begin."],
    )

    again, said = await lives.write("ana", "the lamp")
    assert again == AgentReply(waiting_for=asked.waiting_for)
    assert said == ["I cannot take that as an answer: order numbers start with A-.\nWhich order?"]
    assert (lives.found[0].retries, lives.found[0].max_retries) == (0, 2)

    done, said = await lives.write("ana", "A-17")
    assert said == ["Done: refund of the lamp for A-17."]
    assert lives.found[0].context == {"wants": "refund of the lamp"}
    assert lives.found[0].retries == 1

    async with lives.desk() as desk:
        outcome = (await desk.get(asked.waiting_for)).outcome
        assert isinstance(outcome, Answered)
        assert (outcome.value, outcome.by, outcome.channel) == ("A-17", "ana", "chat")
        assert done.outcome == outcome
        assert await kinds(desk, asked.waiting_for) == ["asked", "sent", "attempted", "answered"]
        assert not await desk.list_pending()


@promise("P12", "P13")
async def test_a_conversation_of_two_people_over_three_restarts_that_ends_exhausted(lives: Lives) -> None:
    asked, said = await lives.write("ana", "refund of the lamp")
    assert said == ["Which order?"]
    assert asked.waiting_for is not None

    for text in ("the lamp", "17"):
        again, said = await lives.write("ana", text)
        assert again.waiting_for == asked.waiting_for
        assert said == ["I cannot take that as an answer: order numbers start with A-.\nWhich order?"]
    assert (await lives.write("bob", "A-99"))[0] == AgentReply("Say “refund” to begin.")

    gave_up, said = await lives.write("ana", "no idea")
    assert said == [
        "I did not get an answer that I can use, so I leave this out for now: Which order?",
        "No refund of the lamp then.",
    ]
    async with lives.desk() as desk:
        outcome = (await desk.get(asked.waiting_for)).outcome
        assert isinstance(outcome, Exhausted)
        assert (outcome.by, gave_up.outcome) == ("ana", outcome)
        assert await kinds(desk, asked.waiting_for) == [
            "asked",
            "sent",
            "attempted",
            "attempted",
            "exhausted",
        ]

    afresh, said = await lives.write("ana", "refund of the lamp")
    assert said == ["Which order?"]
    assert afresh.waiting_for not in (None, asked.waiting_for)


async def test_a_question_that_expired_between_two_lives_is_settled_and_not_given_out(lives: Lives) -> None:
    asked, _ = await lives.write("ana", "refund")
    lives.clock.advance(timedelta(hours=2))
    reply, said = await lives.write("ana", "A-17")
    assert said == ["Say “refund” to begin."]
    assert lives.found == []
    assert reply.outcome is None
    async with lives.desk() as desk:
        assert asked.waiting_for is not None
        assert isinstance((await desk.get(asked.waiting_for)).outcome, Expired)


class Twice(Agent):
    """Asks two things at once and takes what comes."""

    name = "twice"

    async def handle(self, message: IncomingMessage) -> AgentReply:
        pending = await self.get_pending_ask()
        if pending is not None:
            return await self.handle_pending_ask(
                pending, message.text, lambda value, context: AgentReply(f"{context}: {value}")
            )
        if message.text != "go":
            return AgentReply("?")
        await self.ask("Colour?", context="colour", expires_in=3600)
        return await self.ask("Size?", context="size")


async def test_a_second_question_is_sent_once_and_remembered_by_every_life(lives: Lives) -> None:
    assert (await lives.write("ana", "go", Twice()))[1] == ["Colour?"]
    assert (await lives.write("ana", "red", Twice()))[1] == ["colour: red", "Size?"]
    assert (await lives.write("bob", "hello", Twice()))[1] == ["?"]
    assert (await lives.write("ana", "L", Twice()))[1] == ["size: L"]
    assert (await lives.write("ana", "XL", Twice()))[1] == ["?"]


async def test_a_second_question_is_sent_by_the_next_life_when_the_first_one_expired(lives: Lives) -> None:
    await lives.write("ana", "go", Twice())
    lives.clock.advance(timedelta(hours=2))
    assert (await lives.write("ana", "L", Twice()))[1] == ["?", "Size?"]
    assert (await lives.write("ana", "L", Twice()))[1] == ["size: L"]


async def test_of_many_lives_at_once_one_sends_the_second_question(lives: Lives) -> None:
    await lives.write("ana", "go", Twice())
    lives.clock.advance(timedelta(hours=2))
    spoken = await asyncio.gather(*(lives.write(f"person {n}", "hello", Twice()) for n in range(6)))
    said = [text for _, texts in spoken for text in texts]
    assert sorted(said) == ["?"] * 6 + ["Size?"]
    assert (await lives.write("ana", "L", Twice()))[1] == ["size: L"]


@promise("P7")
async def test_nothing_is_asked_but_what_the_agent_asked(lives: Lives) -> None:
    await lives.write("ana", "go", Twice())
    await lives.write("ana", "red", Twice())
    await lives.write("ana", "L", Twice())
    async with lives.desk() as desk:
        asked = [each.prompt for each in await desk.list_settled()]
        events = [event for each in await desk.list_settled() for event in await desk.history(each.id)]
    assert asked == ["Size?", "Colour?"]
    assert [event.kind for event in events] == ["asked", "sent", "answered"] * 2


async def left_unsent(lives: Lives) -> str:
    """The question of a process that died when it was about to send it."""
    async with lives.desk() as desk:
        own: Desk = desk.scoped(asker="refunds")
        question = await own.post(
            "Which order?",
            conversation="thread-9",
            recipients=["ana"],
            state=state_of("chat", {"wants": "refund"}),
            max_attempts=3,
            expires_in=3600,
        )
        assert await own.claim_sending(question.id, lease=LEASE)
        return question.id


@promise("P1", "P5")
async def test_a_message_is_no_reply_to_a_question_that_was_never_sent_and_has_it_sent(lives: Lives) -> None:
    question_id = await left_unsent(lives)
    reply, said = await lives.write("ana", "A-555-1234")
    assert (reply.text, said) == ("Say “refund” to begin.", ["Say “refund” to begin."])
    lives.clock.advance(timedelta(seconds=LEASE))
    reply, said = await lives.write("ana", "A-555-1234")
    assert (reply.outcome, said) == (None, ["Say “refund” to begin.", "Which order?"])
    assert lives.found == []
    assert (await lives.write("ana", "A-17"))[1] == ["Done: refund for A-17."]
    async with lives.desk() as desk:
        assert await kinds(desk, question_id) == ["asked", "sent", "answered"]


@promise("P1", "P9")
async def test_what_was_never_sent_and_is_asked_again_is_one_question(lives: Lives) -> None:
    question_id = await left_unsent(lives)
    lives.clock.advance(timedelta(seconds=LEASE))
    reply, said = await lives.write("ana", "refund")
    assert (reply.waiting_for, said) == (question_id, ["Which order?"])
    other, said = await lives.write("bob", "refund")
    assert other.waiting_for not in (None, question_id)
    assert said == []


@promise("P1")
async def test_what_was_never_sent_is_sent_when_a_registry_has_started(
    lives: Lives, monkeypatch: pytest.MonkeyPatch
) -> None:
    question_id = await left_unsent(lives)
    lives.clock.advance(timedelta(seconds=LEASE))
    monkeypatch.setattr(registry, "LEASE", 0.0)
    async with lives.desk() as desk:
        sent = asyncio.Event()

        class Chat(MemoryChannel):
            async def send(self, conversation: str, text: str) -> None:
                await super().send(conversation, text)
                sent.set()

        channel = Chat()
        async with AgentRegistry(desk, agents=[Refunds()], channels=[channel]) as started:
            await asyncio.wait_for(sent.wait(), SOON)
            while (await desk.get(question_id)).sent_at is None:
                await asyncio.sleep(0)
            message = IncomingMessage(conversation="thread-9", text="A-17", by="ana", channel="chat")
            assert isinstance((await started.receive(message)).outcome, Answered)
    assert channel.sent_to("thread-9") == ["Which order?", "Done: refund for A-17."]


async def test_a_channel_that_fails_at_the_start_leaves_the_question_for_the_next_message(
    lives: Lives, monkeypatch: pytest.MonkeyPatch
) -> None:
    question_id = await left_unsent(lives)
    lives.clock.advance(timedelta(seconds=LEASE))
    async with lives.desk() as desk:
        tried = asyncio.Event()

        class Down(MemoryChannel):
            async def send(self, conversation: str, text: str) -> None:
                tried.set()
                raise ConnectionError(f"not yet: {conversation}, {text}")

        with monkeypatch.context() as patch:
            patch.setattr(registry, "LEASE", 0.0)
            async with AgentRegistry(desk, agents=[Refunds()], channels=[Down()]):
                await asyncio.wait_for(tried.wait(), SOON)
        assert (await desk.get(question_id)).outcome is None
    lives.clock.advance(timedelta(seconds=LEASE))
    assert (await lives.write("ana", "hello"))[1] == ["Say “refund” to begin.", "Which order?"]


@promise("P1", "P3")
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.slow("starts six processes; the tests above begin anew with each message, on each backend")
def test_a_conversation_goes_on_in_one_process_after_another(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, workspace: str
) -> None:
    address = request.getfixturevalue("postgres") if kind == "postgres" else f"sqlite:///{tmp_path / 'q.db'}"

    def write(conversation: str, person: str, text: str) -> str:
        done = subprocess.run(
            [sys.executable, TALKER, address, workspace, conversation, person, text],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    unclear = "I cannot take that as an answer: order numbers start with A-.\nWhich order?"
    assert write("one", "ana", "a refund") == "Which order?"
    assert write("two", "ana", "a voucher") == "Which order?"
    assert write("one", "ana", "17") == unclear
    assert write("two", "ana", "17") == unclear
    assert write("one", "ana", "A-17") == "Done: a refund for A-17."
    assert write("two", "ana", "18").endswith("No a voucher then.")
