"""Behaviours of the seed documents that no other test shows by itself."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from handraise import Answered, Desk, InvalidAnswer, Open, StillPending, open_desk
from handraise.conversations import Agent, AgentRegistry, AgentReply, IncomingMessage, MemoryChannel
from handraise.desks import LocalDesk
from handraise.testing import ManualClock
from handraise.tools import (
    ApprovedTool,
    AskTool,
    Interrupt,
    ask_clarifying_question,
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


def test_the_schema_of_an_intervention_needs_a_prompt_and_an_option_and_takes_any_context(
    desk: Desk,
) -> None:
    schema = human_intervention_request(desk, conversation="c").spec.parameters
    assert schema["required"] == ["prompt", "options"]
    assert schema["properties"]["options"]["minItems"] == 1
    assert schema["properties"]["options"]["items"] == {"type": "string"}
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


class Ordering(Agent):
    """Asks for an order number."""

    name = "ordering"

    async def handle(self, message: IncomingMessage) -> AgentReply:
        pending = await self.get_pending_ask()
        if pending is None:
            return await self.ask("Which order?")
        return await self.handle_pending_ask(
            pending, message.text, lambda value, _: AgentReply(f"Got {value}."), validator=self.validate
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
