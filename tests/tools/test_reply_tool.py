"""People ask a model back about its question, and the model replies: the same question goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from handraise import Desk, Question, QuestionNotFound, open_desk
from handraise.blocking import open_desk as open_blocking_desk
from handraise.errors import TooManyRequests
from handraise.model.provenance import Provenance
from handraise.model.thread_messages import ThreadMessage
from handraise.testing import ManualClock
from handraise.tools import (
    ApprovedTool,
    AskTool,
    Interrupt,
    ReplyTool,
    ToolResult,
    ask_human,
    client_message,
    find_tool,
    reply_to_person,
    requires_approval,
    submit_tool_result,
)

SOON = 10.0
ASK = {"question": "Which region?", "choices": ["eu", "us"]}


class Shop:
    """What has really been done."""

    def __init__(self) -> None:
        self.refunds: list[tuple[str, float]] = []

    def refund(self, order: str, amount: float) -> str:
        """Pay an order's money back."""
        self.refunds.append((order, amount))
        return f"refunded {amount}"


REFUND = {"order": "A-17", "amount": 40.0}


def seen(count: int) -> Provenance:
    return Provenance(seen=count)


async def asked(desk: Desk) -> Question:
    async with asyncio.timeout(SOON):
        while not (page := (await desk.list_pending()).items):
            await asyncio.sleep(0.005)
    return page[0]


async def soon(call: Coroutine[Any, Any, ToolResult]) -> ToolResult:
    async with asyncio.timeout(SOON):
        return await call


@pytest.fixture
def asking(desk: Desk) -> AskTool:
    return ask_human(desk, conversation="c")


@pytest.fixture
def replying(asking: AskTool) -> ReplyTool:
    return reply_to_person([asking])


async def asked_back(
    desk: Desk, asking: AskTool, text: str = "Which customer?"
) -> tuple[ToolResult, Question]:
    """What a waiting call returns when ana asks back."""
    async with asyncio.timeout(SOON), asyncio.TaskGroup() as group:
        call = group.create_task(asking.execute(ASK, call_id="call_1"))
        question = await asked(desk)
        await asyncio.sleep(0.02)
        assert not call.done()
        await desk.ask_back(question.id, text, by="ana")
    return call.result(), question


async def test_a_person_who_asks_back_ends_the_call_and_the_model_reads_what_to_do(
    desk: Desk, asking: AskTool, replying: ReplyTool
) -> None:
    result, question = await asked_back(desk, asking)
    assert question.replies == "model"
    read = json.loads(result.content)
    assert "reply_to_person" in read.pop("reason")
    assert read == {
        "status": "asked_back",
        "question_id": question.id,
        "by": "ana",
        "messages": [{"number": 1, "by": "ana", "text": "Which customer?"}],
    }
    assert "is_error" not in result.for_anthropic("call_1")
    offered: list[AskTool | ReplyTool] = [asking, replying]
    assert find_tool(offered, "reply_to_person") is replying


async def test_a_server_with_too_many_streams_is_read_again_and_the_call_goes_on(
    desk: Desk, asking: AskTool, replying: ReplyTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    del replying
    refusals: list[str] = []

    async def refuse(self: Desk, question_id: str) -> AsyncIterator[None]:
        del self
        refusals.append(question_id)
        raise TooManyRequests(1)
        yield

    monkeypatch.setattr(type(desk), "_changes_of", refuse)
    monkeypatch.setattr("handraise.tools.asked_back.LOOK_AGAIN", 0.05)
    result, question = await asked_back(desk, asking)
    assert (result.status, set(refusals)) == ("asked_back", {question.id})


async def test_the_reply_reaches_the_person_and_its_result_is_the_answer(
    desk: Desk, asking: AskTool, replying: ReplyTool
) -> None:
    _, question = await asked_back(desk, asking)
    reply = {"question_id": question.id, "message": 1, "text": "Customer 12."}
    async with asyncio.timeout(SOON), asyncio.TaskGroup() as group:
        call = group.create_task(replying.execute(json.dumps(reply), call_id="call_2"))
        while (await desk.get(question.id)).is_askers_turn:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.02)
        assert not call.done()
        await desk.answer(question.id, "eu", by="ana")
    result = call.result()
    assert (result.status, result.question_id, result.text, result.by) == (
        "answered",
        question.id,
        "eu",
        "ana",
    )
    assert [each.text for each in await desk.thread(question.id)] == ["Which customer?", "Customer 12."]
    assert len((await desk.list_settled()).items) == 1


async def test_a_message_that_the_model_has_not_read_stays_open(
    desk: Desk, asking: AskTool, replying: ReplyTool
) -> None:
    _, question = await asked_back(desk, asking)
    await desk.note(question.id, "I know them", by="bo")
    await desk.ask_back(question.id, "Since when?", by="bo")
    result = await soon(replying.execute({"question_id": question.id, "message": 1, "text": "Customer 12."}))
    assert result.status == "asked_back"
    assert [(each.number, each.by, each.text) for each in result.messages] == [(3, "bo", "Since when?")]
    assert "I know them" not in result.content


async def test_a_reply_that_is_executed_again_is_written_once(
    desk: Desk, asking: AskTool, replying: ReplyTool
) -> None:
    _, question = await asked_back(desk, asking)
    reply = {"question_id": question.id, "message": 1, "text": "Customer 12."}
    assert isinstance(await replying.start(reply, call_id="call_2"), Interrupt)
    await desk.ask_back(question.id, "Since when?", by="ana")
    again = await soon(replying.execute(reply, call_id="call_2"))
    assert [each.text for each in again.messages] == ["Since when?"]
    assert [each.kind for each in await desk.thread(question.id)] == ["asked_back", "replied", "asked_back"]
    await desk.answer(question.id, "eu", by="ana")
    assert (await soon(replying.execute(reply, call_id="call_2"))).text == "eu"


@pytest.mark.parametrize("way", ["execute", "start"])
async def test_an_ask_that_is_repeated_while_it_is_the_models_turn_says_so_at_once(
    desk: Desk, asking: AskTool, replying: ReplyTool, way: str
) -> None:
    del replying
    first, question = await asked_back(desk, asking)
    after_restart = ask_human(desk, conversation="c")
    again = await soon(getattr(after_restart, way)(ASK, call_id="call_1"))
    assert again == first
    assert [each.id for each in (await desk.list_pending()).items] == [question.id]


async def test_after_a_restart_the_reply_continues_the_same_question(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'questions.db'}"
    async with open_desk(url) as desk:
        asking = ask_human(desk, conversation="c")
        reply_to_person([asking])
        _, question = await asked_back(desk, asking)
    async with open_desk(url) as desk:
        replying = reply_to_person([ask_human(desk, conversation="c")])
        started = await replying.start({"question_id": question.id, "message": 1, "text": "Customer 12."})
        assert isinstance(started, Interrupt)
    async with open_desk(url) as desk:
        await desk.answer(question.id, "eu", by="ana")
        resumed = await soon(
            reply_to_person([ask_human(desk, conversation="c")]).resume(started.question_ids)
        )
    assert (resumed.status, resumed.text) == ("answered", "eu")


async def test_a_batch_ends_when_each_question_is_settled_or_asked_back(
    desk: Desk, asking: AskTool, replying: ReplyTool
) -> None:
    batch = {
        "questions": [{"id": "a", "question": "Which region?"}, {"id": "b", "question": "Which version?"}]
    }
    async with asyncio.timeout(SOON), asyncio.TaskGroup() as group:
        call = group.create_task(asking.execute(batch, call_id="call_1"))
        while len(found := (await desk.list_pending()).items) < 2:
            await asyncio.sleep(0.005)
        await desk.ask_back(found[1].id, "Of what?", by="ana")
        await asyncio.sleep(0.02)
        assert not call.done()
        await desk.answer(found[0].id, "eu", by="ana")
    result = call.result()
    assert result.status == "asked_back"
    assert [(each.echo, each.status) for each in result.responses] == [("a", "answered"), ("b", "asked_back")]
    reply = {"question_id": found[1].id, "message": 1, "text": "Of Python."}
    async with asyncio.timeout(SOON), asyncio.TaskGroup() as group:
        call = group.create_task(replying.execute(reply))
        await desk.answer(found[1].id, "3.14", by="ana")
    assert (call.result().echo, call.result().text, call.result().responses) == ("b", "3.14", ())


async def test_a_question_that_expires_while_the_model_thinks_says_so(clock: ManualClock, desk: Desk) -> None:
    asking = ask_human(desk, conversation="c", expires_in=timedelta(hours=1))
    replying = reply_to_person([asking])
    _, question = await asked_back(desk, asking)
    clock.advance(timedelta(hours=1))
    result = await soon(replying.execute({"question_id": question.id, "message": 1, "text": "Customer 12."}))
    assert (result.status, [each.kind for each in await desk.thread(question.id)]) == (
        "expired",
        ["asked_back"],
    )


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"question_id": "nope"}, "question_id"),
        ({"message": 2}, "message"),
        ({"message": 0}, "message"),
        ({"message": None}, "message"),
        ({"text": "  "}, "text"),
        ({"text": "a\x00b"}, "text"),
        ({"text": "x" * 100_000}, "text"),
        ({"approve": True}, "approve"),
    ],
)
async def test_what_is_no_reply_tells_the_model_what_to_change_and_writes_nothing(
    desk: Desk, asking: AskTool, replying: ReplyTool, change: dict[str, Any], path: str
) -> None:
    _, question = await asked_back(desk, asking)
    reply = {"question_id": question.id, "message": 1, "text": "Customer 12.", **change}
    result = await soon(replying.execute(reply))
    assert (result.status, result.problems[0].path) == ("invalid", path), result.content
    assert (result.reason or "").startswith("Nothing was replied.")
    assert (await desk.get(question.id)).thread == 1


JUNK: list[Any] = ["", "not json", "[]", "null", b"\xff", "{" * 100_000, {"question_id": {"a": []}}, None, 7]


@pytest.mark.parametrize("junk", JUNK, ids=range(len(JUNK)))
async def test_junk_from_a_model_is_a_result_and_no_error(replying: ReplyTool, junk: Any) -> None:
    assert (await soon(replying.execute(junk))).status == "invalid"
    started = await replying.start(junk)
    assert isinstance(started, ToolResult)
    assert started.status == "invalid"


async def test_a_model_replies_only_about_what_its_own_tools_asked(desk: Desk) -> None:
    foreign = await desk.post("Which?", conversation="c", replies="model")
    others = await desk.scoped(asker="other").post("Which?", conversation="c", replies="model")
    elsewhere = ask_human(desk, conversation="d")
    reply_to_person([elsewhere])
    started = await elsewhere.start(ASK)
    assert isinstance(started, Interrupt)
    replying = reply_to_person([ask_human(desk, conversation="c")])
    for each in (foreign.id, others.id, *started.question_ids):
        await desk.ask_back(each, "Why?", by="ana")
        result = await soon(replying.execute({"question_id": each, "message": 1, "text": "Because."}))
        assert (result.status, result.problems[0].path) == ("invalid", "question_id")
        assert (await desk.get(each)).thread == 1
        with pytest.raises(QuestionNotFound):
            await replying.resume([each])


async def test_without_the_tool_people_can_only_note(desk: Desk, asking: AskTool) -> None:
    started = await asking.start(ASK)
    assert isinstance(started, Interrupt)
    assert (await desk.get(started.question_ids[0])).replies is None
    with pytest.raises(TypeError, match="needs the tools"):
        reply_to_person([])


async def test_an_approval_after_a_reply_runs_the_action_once_and_tells_the_model(desk: Desk) -> None:
    shop = Shop()
    tool = ApprovedTool(shop.refund, desk=desk, conversation="c")
    replying = reply_to_person([ask_human(desk, conversation="c"), tool])
    async with asyncio.timeout(SOON), asyncio.TaskGroup() as group:
        call = group.create_task(tool.execute(REFUND, call_id="call_1"))
        question = await asked(desk)
        await desk.ask_back(question.id, "Which parcel?", by="ana")
    assert (call.result().status, call.result().value, shop.refunds) == ("asked_back", None, [])
    repeated = await soon(tool.execute(REFUND, call_id="call_1"))
    assert (repeated, await tool.start(REFUND, call_id="call_1")) == (call.result(), call.result())
    reply = {"question_id": question.id, "message": 1, "text": "The lost one."}
    async with asyncio.timeout(SOON), asyncio.TaskGroup() as group:
        call = group.create_task(replying.execute(reply))
        while (await desk.get(question.id)).is_askers_turn:
            await asyncio.sleep(0.005)
        assert shop.refunds == []
        await desk.answer(question.id, "approve", by="ana", provenance=seen(2))
    assert (call.result().status, call.result().by) == ("answered", "ana")
    assert call.result().value["output"] == "refunded 40.0"
    assert call.result().text == "refunded 40.0"
    again = await soon(replying.execute(reply))
    assert "output" not in again.value
    assert "at most once" in again.value["error"]
    assert shop.refunds == [("A-17", 40.0)]
    report = (await desk.get(question.id)).report
    assert report is not None
    assert report.ok


async def test_a_client_approves_what_it_has_shown(desk: Desk) -> None:
    tool = ApprovedTool(Shop().refund, desk=desk, conversation="c")
    reply_to_person([tool])
    started = await tool.start(REFUND, call_id="call_1")
    assert isinstance(started, Interrupt)
    (question_id,) = started.question_ids
    await desk.ask_back(question_id, "Which parcel?", by="ana")
    call = client_message(await desk.get(question_id))["tool_calls"][0]
    assert json.loads(call["function"]["arguments"])["thread"] == 1
    submission = {"agent": "agent", "tool_call_id": call["id"], "decision": "approve"}
    with pytest.raises(Exception, match="message") as refused:
        await submit_tool_result(desk, submission, by="ana")
    assert getattr(refused.value, "code", None) == "thread_moved"
    await submit_tool_result(desk, {**submission, "seen": 1}, by="ana")
    assert (await desk.get(question_id)).decision


def only_customer(message: ThreadMessage) -> str:
    return f"{message.text} Customer 12."


@pytest.fixture
async def real_desk() -> AsyncIterator[Desk]:
    async with open_desk("memory:") as desk:
        yield desk


async def test_a_program_replies_about_a_function_that_needs_approval(real_desk: Desk) -> None:
    desk, shop = real_desk, Shop()
    refund = requires_approval(desk, reply_with=only_customer)(shop.refund)
    async with asyncio.timeout(SOON), asyncio.TaskGroup() as group:
        call = group.create_task(refund("A-17", 40.0))
        question = await asked(desk)
        await replied(desk, question)
    assert (call.result(), question.replies) == ("refunded 40.0", "program")


async def test_a_program_replies_about_a_models_tool(real_desk: Desk) -> None:
    desk = real_desk
    tool = ApprovedTool(Shop().refund, desk=desk, conversation="c", reply_with=only_customer)
    with pytest.raises(TypeError, match="The program replies about refund"):
        reply_to_person([tool])
    async with asyncio.timeout(SOON), asyncio.TaskGroup() as group:
        call = group.create_task(tool.execute(REFUND))
        await replied(desk, await asked(desk))
    assert call.result().text == "refunded 40.0"


async def test_a_blocking_program_replies_too(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'questions.db'}"

    def program() -> str:
        with open_blocking_desk(url) as desk:
            refund = requires_approval(desk, reply_with=only_customer)(Shop().refund)
            return refund("A-17", 40.0)

    async with open_desk(url) as desk, asyncio.timeout(SOON), asyncio.TaskGroup() as group:
        call = group.create_task(asyncio.to_thread(program))
        await replied(desk, await asked(desk))
    assert call.result() == "refunded 40.0"


async def replied(desk: Desk, question: Question) -> None:
    """Ask back, read the reply, and approve."""
    await desk.ask_back(question.id, "Which customer?", by="ana")
    while (await desk.get(question.id)).is_askers_turn:
        await asyncio.sleep(0.005)
    assert (await desk.thread(question.id))[1].text == "Which customer? Customer 12."
    await desk.answer(question.id, "approve", by="ana", provenance=seen(2))
