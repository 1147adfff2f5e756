from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    Content,
    Executor,
    FunctionInvocationLayer,
    InMemoryCheckpointStorage,
    Message,
    WorkflowBuilder,
    WorkflowContext,
    handler,
    response_handler,
    tool,
)

import handraise
from handraise import Approval, Desk, open_desk
from handraise.integrations import agent_framework
from handraise.testing import ManualClock
from tests.integrations.cells import LONG_WAY, killed_in_the_gate, more_processes, shows
from tests.integrations.processes import ROOT, asked, started
from tests.integrations.shop import (
    SENT_BACK,
    TOLD,
    ask_back_and_answer,
    changed,
    reply_to,
    send_back_and_answer,
)

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

AGENT = "examples/integrations/agent_framework_agent.py"
WORKFLOW = "examples/integrations/agent_framework_workflow.py"


class Scripted(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """Makes these calls, then says that it is done; it keeps what it was told."""

    def __init__(self, *calls: tuple[str, str, dict[str, Any]]) -> None:
        super().__init__()
        self.calls = calls
        self.told: list[dict[str, str]] = []
        self.read: list[str] = []

    async def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> ChatResponse[Any]:
        del stream, options, kwargs
        contents = [content for message in messages for content in message.contents]
        results = [each for each in contents if each.type == "function_result"]
        self.told.append({str(each.call_id): str(each.result) for each in results})
        self.read = [str(each.text) for each in contents if each.type == "text"]
        if results:
            return ChatResponse(messages=[Message("assistant", ["done"])])
        made = [Content.from_function_call(*call[:2], arguments=call[2]) for call in self.calls]
        return ChatResponse(messages=[Message("assistant", made)])


def run(model: Scripted, desk: Desk, *tools: Any, **options: Any) -> asyncio.Task[Any]:
    agent = Agent(model, tools=list(tools))
    return asyncio.create_task(agent_framework.run(agent, "Go.", desk=desk, key="k", **options))


@shows("agent-framework", *LONG_WAY)
@killed_in_the_gate
async def test_an_agent_goes_on_in_another_process_after_a_kill(postgres: str, workspace: str) -> None:
    async with open_desk(postgres) as desk:
        async with started(ROOT / AGENT, workspace, HANDRAISE_URL=postgres) as first:
            pending = await asked(desk, workspace, number=2)
            assert await first.kill() == ["thinking"]
        why, refund = sorted(pending, key=lambda each: each.form.kind, reverse=True)
        assert isinstance(refund.form, Approval)
        assert refund.form.action.arguments == {"order": "A-17", "amount": 40}
        await desk.answer(refund.id, {"decision": "approve", "arguments": {"amount": 25}}, by="cleo")
        async with started(ROOT / AGENT, workspace, HANDRAISE_URL=postgres) as second:
            await desk.answer(why.id, "It was broken.", by="dora")
            printed = await second.rest()
        assert printed[0] == "refunding 25.0 for A-17"
        assert re.search(r"It was broken\..*, 'sent'\]", printed[-1])
        assert len((await desk.list_settled(conversation=workspace)).items) == 2


@shows("agent-framework", "ask", "survives kill", "resumes elsewhere", "several at once", "asks once")
@more_processes
async def test_a_workflow_goes_on_from_its_checkpoint_after_a_kill(tmp_path: Path, desk: Desk) -> None:
    where = {
        "HANDRAISE_URL": f"sqlite:///{tmp_path / 'questions.db'}",
        "CHECKPOINTS": str(tmp_path / "checkpoints"),
    }
    async with started(ROOT / WORKFLOW, "release", **where) as first:
        pending = {each.prompt: each for each in await asked(desk, "release", number=2)}
        assert await first.kill() == ["preparing v2"]
    await desk.answer(pending["Who watches v2?"].id, "Ben", by="cleo")
    with pytest.raises(handraise.InvalidAnswer):
        await desk.answer(pending["Which region?"].id, "asia", by="cleo")
    async with started(ROOT / WORKFLOW, "release", **where) as second:
        await desk.answer(pending["Which region?"].id, "eu", by="cleo")
        assert await second.rest() == ["['Who watches v2? Ben', 'release to eu']"]
    assert len((await desk.list_settled()).items) == 2


@shows("agent-framework", "other endings", "approve")
async def test_what_is_not_an_answer_reaches_the_model_as_such(tmp_path: Path) -> None:
    ran: list[str] = []

    @tool(approval_mode="always_require")
    def drop(table: str) -> str:
        ran.append(table)
        return "dropped"

    clock = ManualClock()
    model = Scripted(
        ("call-1", "ask_human", {"question": "Why?"}),
        ("call-2", "ask_human", {"question": "How long?"}),
        ("call-3", "drop", {"table": "users"}),
        ("call-4", "drop", {"table": "logs"}),
        ("call-5", "drop", {"table": "temp"}),
    )
    async with open_desk(f"sqlite:///{tmp_path / 'questions.db'}", clock=clock) as desk:
        going = run(model, desk, agent_framework.ask_human, drop, expires_in=timedelta(hours=1))
        for each in reversed(await asked(desk, number=5)):
            if each.prompt == "Why?":
                await desk.decline(each.id, by="ana", reason="ask Ben")
            if isinstance(each.form, Approval) and each.form.action.arguments == {"table": "users"}:
                await desk.answer(each.id, {"decision": "deny", "reason": "no"}, by="ana")
            if isinstance(each.form, Approval) and each.form.action.arguments == {"table": "temp"}:
                await desk.answer(each.id, "approve", by="ana")
        clock.advance(timedelta(hours=2))
        await desk.run_due()
        await going
    told = model.told[-1]
    assert '"declined"' in told["call-1"]
    assert '"expired"' in told["call-2"]
    assert told["call-5"] == "dropped"
    assert ran == ["temp"]
    said = "\n".join(model.read)
    assert "drop: Not approved, and not executed: denied by ana: no" in said
    assert "drop: Not approved, and not executed: expired without an answer." in said


class Replying(Scripted):
    """Asks, replies to people who ask back, and ends."""

    async def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> ChatResponse[Any]:
        contents = [content for message in messages for content in message.contents]
        told = [str(each.result) for each in contents if each.type == "function_result"]
        if told and (reply := reply_to(told[-1])):
            call = Content.from_function_call(f"reply-{len(told)}", "reply_to_person", arguments=reply)
            return ChatResponse(messages=[Message("assistant", [call])])
        if told and (again := changed(told[-1])):
            call = Content.from_function_call("call-2", "ask_human", arguments=again)
            return ChatResponse(messages=[Message("assistant", [call])])
        return await super()._inner_get_response(messages=messages, stream=stream, options=options, **kwargs)


@shows("agent-framework", "asks back")
async def test_a_person_asks_back_and_the_model_replies(desk: Desk) -> None:
    model = Replying(("call-1", "ask_human", {"question": "Why?"}))
    tools = (agent_framework.ask_human, agent_framework.reply_to_person)
    going = run(model, desk, *tools, replies="model")
    question = await ask_back_and_answer(desk)
    await going
    results = [json.loads(each) for each in model.told[-1].values()]
    assert [each["status"] for each in results] == ["asked_back", "answered"]
    assert [each.id for each in (await desk.list_settled()).items] == [question.id]


@shows("agent-framework", "sends back")
async def test_a_question_that_was_sent_back_is_changed_and_asked_again(desk: Desk) -> None:
    model = Replying(("call-1", "ask_human", {"question": "Why?"}))
    going = run(model, desk, agent_framework.ask_human)
    await send_back_and_answer(desk)
    await going
    assert [json.loads(each)["status"] for each in model.told[-1].values()] == ["returned", "answered"]


@shows("agent-framework", "sends back")
async def test_an_action_that_was_sent_back_is_not_executed(desk: Desk) -> None:
    ran: list[str] = []

    @tool(approval_mode="always_require")
    def drop(table: str) -> str:
        ran.append(table)
        return "dropped"

    model = Scripted(("call-1", "drop", {"table": "users"}))
    going = run(model, desk, drop)
    [approval] = await asked(desk)
    await desk.send_back(approval.id, by="ana", reason=SENT_BACK)
    await going
    assert f"drop: {TOLD}" in model.read
    assert ran == []


async def test_an_approval_that_a_dead_process_took_along_is_not_used_again(desk: Desk) -> None:
    ran: list[str] = []

    @tool(approval_mode="always_require")
    def drop(table: str) -> str:
        ran.append(table)
        return "dropped"

    model = Scripted(("call-1", "drop", {"table": "users"}))
    with pytest.raises(handraise.StillPending):
        await run(model, desk, drop, timeout=0)
    (question,) = await asked(desk)
    await desk.answer(question.id, "approve", by="ana")
    await desk.consume_approval(question.id)
    await run(model, desk, drop)
    assert ran == []
    assert any("Whether it was executed is unknown" in each for each in model.read)


async def test_a_call_that_cannot_be_asked_goes_back_to_the_model(desk: Desk) -> None:
    model = Scripted(("call-1", "ask_human", {"question": "x" * 20_000}))
    await run(model, desk, agent_framework.ask_human)
    assert '"invalid"' in model.told[-1]["call-1"]
    assert not (await desk.list_pending()).items


@shows("agent-framework", "other endings")
async def test_a_workflow_never_takes_another_ending_for_an_answer(desk: Desk) -> None:
    class Asking(Executor):
        @handler
        async def begin(self, text: str, ctx: WorkflowContext[Any, str]) -> None:
            await ctx.request_info(text, str)

        @response_handler
        async def told(self, asked: str, answer: str, ctx: WorkflowContext[Any, str]) -> None:
            await ctx.yield_output(asked + answer)

    start = Asking(id="asking")
    workflow = WorkflowBuilder(start_executor=start, output_from=[start]).build()
    going = asyncio.create_task(
        agent_framework.run_workflow(
            workflow, "Who?", desk=desk, key="w", storage=InMemoryCheckpointStorage()
        )
    )
    (question,) = await asked(desk)
    await desk.decline(question.id, by="ana")
    with pytest.raises(handraise.NotAnswered):
        await going


def test_the_page_shows_the_programs_that_these_tests_run() -> None:
    page = (ROOT / "docs/integrations/agent-framework.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert shown == [(ROOT / each).read_text(encoding="utf-8") for each in (AGENT, WORKFLOW)]
