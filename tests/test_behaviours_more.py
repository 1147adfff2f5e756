"""Behaviours of the specification that no other test shows by itself."""

from __future__ import annotations

import asyncio
import inspect
import json
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from handraise import (
    Answered,
    Desk,
    InvalidAnswer,
    Open,
    PermissionDenied,
    StillPending,
    open_desk,
)
from handraise.backends.sqlite import open_sqlite
from handraise.client import open_remote
from handraise.conversations import (
    Agent,
    AgentRegistry,
    AgentReply,
    IncomingMessage,
    MemoryChannel,
    OnSufficient,
    PendingAsk,
)
from handraise.desks import LocalDesk, desk_from_store
from handraise.errors import DeskClosed
from handraise.model.durations import Span
from handraise.testing import ManualClock
from handraise.tools import (
    ApprovedTool,
    AskTool,
    Interrupt,
    ask_clarifying_question,
    clarify,
    client_message,
    filter_client_messages,
    human_intervention_request,
    submit_tool_result,
)

SOON = 10.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def desk(clock: ManualClock) -> AsyncIterator[Desk]:
    async with open_desk("memory:", clock=clock) as desk:
        yield desk


async def started(tool: AskTool | ApprovedTool, arguments: Any, call_id: str) -> str:
    """The id of the question that a call waits for."""
    interrupt = await tool.start(arguments, call_id=call_id)
    assert isinstance(interrupt, Interrupt)
    return interrupt.question_ids[0]


async def choose(desk: Desk, question_id: str, choice: str) -> Any:
    submission = {"agent": "agent", "tool_call_id": f"hitl_{question_id}", "decision": "approve"}
    return await submit_tool_result(desk, {**submission, "choice": choice}, by="ana")


async def test_an_answer_of_the_wrong_kind_leaves_the_question_among_the_pending(desk: Desk) -> None:
    choice, number = await desk.post("Which?", choices=["a", "b"]), await desk.post("How?", form=Open())
    for question, wrong in ((choice, "in my own words"), (number, ["a"])):
        with pytest.raises(InvalidAnswer):
            await desk.answer(question.id, wrong, by="ana")
    assert [each.id for each in (await desk.list_pending()).items] == [choice.id, number.id]


async def test_a_desk_without_a_factory_makes_ids_that_nobody_can_guess(desk: Desk) -> None:
    made = [(await desk.post(f"Which {n}?")).id for n in range(5)]
    assert {uuid.UUID(each).version for each in made} == {7}
    assert made == sorted(set(made))


async def test_nothing_is_kept_in_memory_for_waits_that_ended(desk: Desk) -> None:
    settled, pending = await desk.post("One?"), await desk.post("Two?")
    answered = asyncio.create_task(desk.wait(settled.id, timeout=SOON))
    cancelled = asyncio.create_task(desk.wait(pending.id))
    await asyncio.sleep(0)
    with pytest.raises(StillPending):
        await desk.wait(pending.id, timeout=0.01)
    cancelled.cancel()
    await desk.answer(settled.id, "a", by="ana")
    assert isinstance(await answered, Answered)
    await asyncio.wait([cancelled], timeout=SOON)
    await asyncio.sleep(0)
    assert isinstance(desk, LocalDesk)
    assert desk._engine.waiters._waits == {}  # noqa: SLF001 -- what is kept cannot be seen from outside
    assert await desk.get(pending.id) == pending


async def test_a_desk_polls_every_second_and_one_at_a_server_every_five(desk: Desk) -> None:
    assert isinstance(desk, LocalDesk)
    assert desk._engine.poll_interval == 1.0  # noqa: SLF001 -- nobody wants to wait for it
    assert inspect.signature(open_remote).parameters["poll_interval"].default == 5.0
    async with open_desk("memory:", poll_interval="5s") as slower:
        assert isinstance(slower, LocalDesk)
        assert slower._engine.poll_interval == 5.0  # noqa: SLF001 -- the same


async def test_a_store_of_your_own_stays_open_when_its_desk_closes(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "questions.db") as backend:
        async with desk_from_store(backend.store, backend.bus) as desk:
            question = await desk.post("Which?")
        with pytest.raises(DeskClosed):
            await desk.wait(question.id, timeout=SOON)
        async with desk_from_store(backend.store, backend.bus) as desk:
            assert (await desk.answer(question.id, "a", by="ana")).status == "answered"


async def test_a_clarification_has_one_to_four_choices(desk: Desk) -> None:
    tool = clarify(desk, conversation="c")
    for number in range(1, 6):
        arguments = {"question": f"Which of {number}?", "choices": list("abcde"[:number])}
        begun = await tool.start(arguments)
        assert isinstance(begun, Interrupt) == (number <= 4)
    asked = [client_message(each) for each in (await desk.list_pending()).items]
    drawn = [json.loads(each["tool_calls"][0]["function"]["arguments"])["options"] for each in asked]
    assert drawn == [["a"], ["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d"]]


async def test_a_clarification_waits_as_long_as_it_is_told_to(desk: Desk, clock: ManualClock) -> None:
    tool = clarify(desk, conversation="c", expires_in="2m")
    question_id = await started(tool, {"question": "Why?"}, "call_1")
    clock.advance(timedelta(seconds=119))
    assert (await tool.resume([question_id], timeout=0)).status == "still_pending"
    clock.advance(timedelta(seconds=1))
    assert (await tool.resume([question_id], timeout=SOON)).status == "expired"


def test_the_schema_of_an_intervention_needs_a_prompt_and_an_option_and_takes_any_context(
    desk: Desk,
) -> None:
    schema = human_intervention_request(desk, conversation="c").spec.parameters
    assert schema["required"] == ["prompt", "options"]
    assert schema["properties"]["options"]["minItems"] == 1
    assert schema["properties"]["options"]["items"] == {"type": "string"}
    assert schema["properties"]["context"]["type"] == "object"
    assert schema["properties"]["context"]["additionalProperties"] is True


def test_the_schema_of_a_clarifying_question_needs_the_question_and_not_the_context(desk: Desk) -> None:
    schema = ask_clarifying_question(desk, conversation="c").spec.parameters
    assert set(schema["properties"]) == {"question", "context", "replaces"}
    assert schema["required"] == ["question"]


@pytest.mark.parametrize(
    "arguments", [{"options": ["a"]}, {"prompt": None, "options": ["a"]}, {"prompt": " ", "options": ["a"]}]
)
async def test_an_intervention_without_a_prompt_is_refused(desk: Desk, arguments: Any) -> None:
    result = await human_intervention_request(desk, conversation="c").execute(arguments)
    assert (result.status, [each.path for each in result.problems]) == ("invalid", ["prompt"])
    assert (await desk.list_pending()).items == []


@pytest.mark.parametrize("arguments", [{}, {"question": ""}, {"question": " "}, {"context": "Why not?"}])
async def test_a_clarifying_question_without_a_question_is_refused(desk: Desk, arguments: Any) -> None:
    result = await ask_clarifying_question(desk, conversation="c").execute(arguments)
    assert (result.status, [each.path for each in result.problems]) == ("invalid", ["question"])
    assert (await desk.list_pending()).items == []


async def test_a_call_waits_until_a_person_has_answered(desk: Desk) -> None:
    tool = ask_clarifying_question(desk, conversation="c")
    calling = asyncio.create_task(tool.execute({"question": "Which file?"}))
    async with asyncio.timeout(SOON):
        while not (pending := (await desk.list_pending()).items):
            await asyncio.sleep(0)
    assert not calling.done()
    await desk.answer(pending[0].id, "the second", by="ana")
    result = await asyncio.wait_for(calling, SOON)
    assert (result.status, result.text) == ("answered", "the second")


async def test_an_intervention_expires_only_where_it_is_told_to(desk: Desk, clock: ManualClock) -> None:
    arguments = {"prompt": "Which?", "options": ["a", "b"]}
    patient = human_intervention_request(desk, conversation="c")
    brief = human_intervention_request(desk, conversation="d", expires_in=60)
    waits, ends = await started(patient, arguments, "call_1"), await started(brief, arguments, "call_2")
    clock.advance(timedelta(days=3650))
    assert (await desk.get(waits)).status == "pending"
    assert (await brief.resume([ends])).status == "expired"


async def test_an_option_called_cancel_is_an_option_like_any_other(desk: Desk) -> None:
    tool = human_intervention_request(desk, conversation="c")
    question_id = await started(tool, {"prompt": "Which?", "options": ["Canary", "Cancel"]}, "call_1")
    message = await choose(desk, question_id, "Cancel")
    assert message == {"role": "tool", "tool_call_id": "call_1", "content": "Cancel"}
    assert (await desk.get(question_id)).status == "answered"


async def test_interventions_and_approvals_at_once_each_get_their_own_answer(desk: Desk) -> None:
    def pay(amount: int) -> str:
        return f"paid {amount}"

    paying = ApprovedTool(pay, desk=desk, conversation="c")
    asking = human_intervention_request(desk, conversation="c")
    first = await started(asking, {"prompt": "Where?", "options": ["here", "there"]}, "call_1")
    approval = await started(paying, {"amount": 40}, "call_2")
    second = await started(asking, {"prompt": "When?", "options": ["now", "later"]}, "call_3")
    later = await choose(desk, second, "later")
    approved = {"agent": "agent", "tool_call_id": f"approval_{approval}", "decision": "approve"}
    assert await submit_tool_result(desk, approved, by="ana") is None
    here = await choose(desk, first, "here")
    assert [(each["tool_call_id"], each["content"]) for each in (here, later)] == [
        ("call_1", "here"),
        ("call_3", "later"),
    ]
    assert (await paying.resume([approval])).value["output"] == "paid 40"


async def test_the_models_own_call_and_its_result_stay_in_its_history(desk: Desk) -> None:
    arguments = {"prompt": "Which?", "options": ["Canary", "Rolling"]}
    question_id = await started(human_intervention_request(desk, conversation="c"), arguments, "call_1")
    of_the_client = client_message(await desk.get(question_id))
    function = {"name": "human_intervention_request", "arguments": json.dumps(arguments)}
    call = {"id": "call_1", "type": "function", "function": function}
    own = [
        {"role": "user", "content": "Deploy."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        await choose(desk, question_id, "Canary"),
    ]
    result = {"role": "tool", "tool_call_id": f"hitl_{question_id}", "content": "Canary"}
    assert filter_client_messages([*own[:2], of_the_client, result, own[2]]) == own


class Ordering(Agent):
    """Asks for an order number."""

    name = "ordering"

    def __init__(self, *, expires_in: Span | None = None, on_sufficient: OnSufficient | None = None) -> None:
        self.expires_in = expires_in
        self.on_sufficient = on_sufficient or (lambda value, _: AgentReply(f"Got {value}."))
        self.found: PendingAsk | None = None

    async def handle(self, message: IncomingMessage) -> AgentReply:
        self.found = pending = await self.get_pending_ask()
        if pending is None:
            if self.expires_in is not None:
                return await self.ask("Which order?", expires_in=self.expires_in)
            return await self.ask("Which order?")
        return await self.handle_pending_ask(
            pending, message.text, self.on_sufficient, validator=self.validate
        )

    def validate(self, value: Any) -> str | None:
        return None if value.startswith("A") else "it starts with an A"


async def test_an_ask_in_a_chat_never_expires_unless_it_is_told_to(desk: Desk, clock: ManualClock) -> None:
    async with AgentRegistry(desk, agents=[Ordering()], channels=[MemoryChannel()]) as registry:
        hello, reply = (
            IncomingMessage(conversation="c", text=text, by="ana", channel="chat")
            for text in ("hello", "A-17")
        )
        asked = await registry.receive(hello)
        assert asked.waiting_for is not None
        assert (await desk.get(asked.waiting_for)).expires_at is None
        clock.advance(timedelta(days=3650))
        assert (await registry.receive(reply)).text == "Got A-17."


async def test_a_clarification_goes_to_the_channel_that_the_reply_came_from(desk: Desk) -> None:
    web, slack = MemoryChannel("web"), MemoryChannel("slack")
    async with AgentRegistry(desk, agents=[Ordering()], channels=[web, slack]) as registry:
        for channel, text in (("slack", "hello"), ("web", "17")):
            await registry.receive(IncomingMessage(conversation="c", text=text, by="ana", channel=channel))
    assert slack.sent_to("c") == ["Which order?"]
    assert web.sent_to("c") == ["I cannot take that as an answer: it starts with an A.\nWhich order?"]


def message(text: str, agent: str | None = None) -> IncomingMessage:
    return IncomingMessage(conversation="c", text=text, by="ana", channel="chat", agent=agent)


@pytest.mark.parametrize("span", [900, timedelta(minutes=15), "15m"])
async def test_how_long_an_ask_in_a_chat_waits_is_said_in_seconds_as_a_span_or_as_a_text(
    desk: Desk, span: Span
) -> None:
    async with AgentRegistry(
        desk, agents=[Ordering(expires_in=span)], channels=[MemoryChannel()]
    ) as registry:
        asked = await registry.receive(message("hello"))
    assert asked.waiting_for is not None
    question = await desk.get(asked.waiting_for)
    assert question.expires_at == question.asked_at + timedelta(minutes=15)


async def test_an_answer_in_a_chat_is_stored_before_the_agent_carries_on(desk: Desk) -> None:
    async def break_down(value: Any, _: Any) -> AgentReply:
        assert agent.found is not None
        outcome = (await desk.get(agent.found.id)).outcome
        assert isinstance(outcome, Answered)
        assert outcome.value == value
        raise RuntimeError("the shop is closed")

    agent = Ordering(on_sufficient=break_down)
    async with AgentRegistry(desk, agents=[agent], channels=[MemoryChannel()]) as registry:
        asked = await registry.receive(message("hello"))
        with pytest.raises(RuntimeError, match="the shop is closed"):
            await registry.receive(message("A-17"))
    assert asked.waiting_for is not None
    assert (await desk.get(asked.waiting_for)).status == "answered"


class Unchecked(Ordering):
    """Takes any order number that its question takes."""

    def validate(self, value: Any) -> str | None:
        return super().validate(f"A{value}")


async def test_a_reply_without_a_text_is_no_answer_in_a_chat(desk: Desk) -> None:
    async with AgentRegistry(desk, agents=[Unchecked()], channels=[MemoryChannel()]) as registry:
        asked = await registry.receive(message("hello"))
        assert (await registry.receive(message(""))).waiting_for == asked.waiting_for
        assert asked.waiting_for is not None
        assert (await desk.get(asked.waiting_for)).attempts == 1
        assert (await registry.receive(message("A-17"))).text == "Got A-17."


class Taking(Agent):
    """Tries to take the reply to a question of another agent."""

    name = "taking"

    def __init__(self, other: Ordering) -> None:
        self.other = other

    async def handle(self, message: IncomingMessage) -> AgentReply:
        assert await self.get_pending_ask() is None
        assert self.other.found is not None
        return await self.handle_pending_ask(self.other.found, message.text, lambda *_: AgentReply("never"))


async def test_an_agent_in_a_chat_cannot_take_the_answer_to_anothers_question(desk: Desk) -> None:
    ordering = Ordering()
    agents = [ordering, Taking(ordering)]
    async with AgentRegistry(desk, agents=agents, channels=[MemoryChannel()]) as registry:
        asked = await registry.receive(message("hello", "ordering"))
        await registry.receive(message("17", "ordering"))
        with pytest.raises(PermissionDenied, match="another agent asked"):
            await registry.receive(message("A-17", "taking"))
    assert asked.waiting_for is not None
    assert (await desk.get(asked.waiting_for)).status == "pending"
