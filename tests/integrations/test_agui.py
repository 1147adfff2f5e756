from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pydantic
import pytest
import uvicorn
from ag_ui.core import BaseEvent, Event, ResumeEntry, RunAgentInput, UserMessage
from pydantic_ai import Agent, DeferredToolRequests, ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.ui.ag_ui import AGUIAdapter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

import handraise
from handraise import Answered, Approval, Desk, Field, Form, Open, Responder, open_desk
from handraise.integrations.agui import AguiAgent, RunFailed, agui_route
from handraise.integrations.agui.frontend import take_resume
from handraise.integrations.agui.transcript import patched
from handraise.tools import ApprovedTool, ToolResult, reply_to_person
from support.free_port import free_port
from tests.integrations.cells import killed_in_the_gate, more_processes, shows
from tests.integrations.processes import ROOT, asked, listening, started
from tests.integrations.shop import reply_to

EVENT: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(Event)
SERVE = "examples/integrations/agui_serve.py"
RUN = "examples/integrations/agui_run.py"
ANA = {"Cookie": "session=a session of your application"}
BEN = {"Cookie": "session=another session"}


class FrontEnd:
    """What @ag-ui/client does: it keeps messages and interrupts, and covers all of them when it resumes."""

    def __init__(self, client: httpx2.AsyncClient, thread: str = "t-1", path: str = "/agent") -> None:
        self.client = client
        self.thread = thread
        self.path = path
        self.messages: list[dict[str, Any]] = [{"id": "m-1", "role": "user", "content": "Refund A-17."}]
        self.interrupts: list[dict[str, Any]] = []
        self.runs = 0

    async def run(self, *, resume: list[dict[str, Any]] | None = None, **more: Any) -> list[dict[str, Any]]:
        self.runs += 1
        body: dict[str, Any] = {
            "threadId": self.thread,
            "runId": f"r-{self.runs}",
            "messages": self.messages,
            "protocolVersion": "1.0",
            **more,
        }
        if resume is not None:
            body["resume"] = resume
        response = await self.client.post(self.path, json=body, headers={"Accept": "text/event-stream"})
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].startswith("text/event-stream")
        events = [json.loads(part.removeprefix("data: ")) for part in response.text.split("\n\n") if part]
        for event in events:
            EVENT.validate_python(event)
            if event["type"] == "MESSAGES_SNAPSHOT":
                self.messages = event["messages"]
            if event["type"] == "TOOL_CALL_RESULT":
                said = {"id": event["messageId"], "role": "tool", "content": event["content"]}
                self.messages = [*self.messages, {**said, "toolCallId": event["toolCallId"]}]
        assert events[0] | {"type": "RUN_STARTED", "protocolVersion": "1.0"} == events[0]
        assert [each["type"] for each in events].count("RUN_FINISHED") <= 1
        outcome = events[-1].get("outcome", {})
        self.interrupts = outcome.get("interrupts", [])
        return events

    def interrupt(self, kind: str) -> dict[str, Any]:
        (found,) = [each for each in self.interrupts if each["metadata"]["handraise"]["kind"] == kind]
        return found

    @property
    def results(self) -> dict[str, Any]:
        """What the model reads for each call."""
        said = [message for message in self.messages if message["role"] == "tool"]
        return {message["toolCallId"]: json.loads(message["content"]) for message in said}


def resolved(interrupt: dict[str, Any], payload: Any) -> dict[str, Any]:
    return {"interruptId": interrupt["id"], "status": "resolved", "payload": payload}


def cancelled(interrupt: dict[str, Any]) -> dict[str, Any]:
    return {"interruptId": interrupt["id"], "status": "cancelled"}


@asynccontextmanager
async def front_end(port: int, headers: dict[str, str] | None = None) -> AsyncIterator[FrontEnd]:
    async with httpx2.AsyncClient(
        base_url=f"http://127.0.0.1:{port}", headers=headers or ANA, timeout=30
    ) as client:
        yield FrontEnd(client)


@shows("ag-ui", "ask", "approve", "edit", "survives kill", "resumes elsewhere", "several at once")
@killed_in_the_gate
async def test_a_front_end_answers_after_the_agent_was_killed_and_started_again(url: str) -> None:
    port = free_port()
    async with started(ROOT / SERVE, HANDRAISE_URL=url, PORT=str(port)) as first:
        await listening(port)
        async with front_end(port) as page:
            await page.run()
            printed = await first.kill()
    assert printed == ["thinking"]
    assert page.interrupt("open")["reason"] == "input_required"
    approval = page.interrupt("approval")
    assert (approval["reason"], approval["toolCallId"]) == ("tool_call", "call-2")
    assert approval["responseSchema"]["properties"]["editedArgs"]["required"] == ["amount", "order"]

    async with started(ROOT / SERVE, HANDRAISE_URL=url, PORT=str(port)) as second:
        await listening(port)
        page.client = httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=ANA, timeout=30)
        async with page.client:
            edited = {"approved": True, "editedArgs": {"order": "A-17", "amount": 25}}
            answers = [resolved(approval, edited), resolved(page.interrupt("open"), "It was broken.")]
            events = await page.run(resume=answers)
        assert events[-1]["outcome"] == {"type": "success"}
        assert "TOOL_CALL_START" not in [each["type"] for each in events]
        assert await second.kill() == ["refunding 25.0 for A-17"]
    assert page.results["call-1"]["text"] == "It was broken."
    assert page.results["call-2"]["value"]["output"] == "sent"
    async with open_desk(url) as desk:
        done = await desk.get(approval["id"])
        assert isinstance(done.outcome, Answered)
        assert (done.outcome.by, done.outcome.channel) == ("ana", "ag-ui")
        assert done.consumed_at is not None


@shows("ag-ui", "other endings", "asks once")
@more_processes
async def test_a_denial_and_an_abandoned_question_reach_the_model_as_such(url: str, desk: Desk) -> None:
    port = free_port()
    async with started(ROOT / SERVE, HANDRAISE_URL=url, PORT=str(port)) as server:
        await listening(port)
        async with front_end(port) as page:
            await page.run()
            before = page.interrupts
            again = await page.run()
            assert again[-1]["outcome"]["interrupts"] == before
            assert len((await desk.list_pending()).items) == 2
            denied = {"approved": False, "reason": "too much"}
            answers = [cancelled(page.interrupt("open")), resolved(page.interrupt("approval"), denied)]
            await page.run(resume=answers)
            assert page.results["call-1"]["status"] == "declined"
            assert page.results["call-2"]["value"]["decision"] == "deny"
            results, page.messages = page.results, page.messages[:2]
            replayed = await page.run(resume=answers)
            assert replayed[-1]["outcome"] == {"type": "success"}
            assert page.results == results
        assert await server.kill() == ["thinking"]


@asynccontextmanager
async def serving(*routes: Route) -> AsyncIterator[str]:
    """Serve these in this process; the address."""
    port = free_port()
    config = uvicorn.Config(Starlette(routes=list(routes)), port=port, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    try:
        await listening(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await task


def quiet(ran: list[str]) -> Callable[[RunAgentInput, Responder], AsyncGenerator[BaseEvent, None]]:
    async def agent(run: RunAgentInput, by: Responder) -> AsyncGenerator[BaseEvent, None]:
        ran.append(f"{run.thread_id} for {by.id}")
        return
        yield

    return agent


def signed_in(request: Request) -> Responder | None:
    name = request.headers.get("x-signed-in")
    return Responder(name, frozenset({"ops"}) if name == "olga" else frozenset()) if name else None


@asynccontextmanager
async def page_of(base: str, who: str, thread: str = "t-1") -> AsyncIterator[FrontEnd]:
    async with httpx2.AsyncClient(base_url=base, headers={"x-signed-in": who}, timeout=30) as client:
        yield FrontEnd(client, thread)


async def test_the_person_is_whom_the_host_signed_in_whatever_the_body_says(desk: Desk) -> None:
    question = await desk.post("Which region?", choices=["eu", "us"], conversation="t-1", recipients=["ana"])
    async with serving(agui_route("/agent", desk, quiet([]), person=signed_in)) as base:
        async with page_of(base, "ben") as page:
            claim = {"by": "ana", "person": "ana"}
            entry = resolved({"id": question.id}, "eu") | {"metadata": claim}
            events = await page.run(resume=[entry], forwardedProps=claim, context=[])
            assert [each["value"] for each in events if each["type"] == "CUSTOM"] == [
                [{"interruptId": question.id, "why": "the question is addressed to others"}]
            ]
            (left,) = page.interrupts
            assert left["reason"] == "handraise:waiting_for_others"
            assert "region" not in json.dumps(events)
        async with page_of(base, "ana") as page:
            await page.run(resume=[resolved({"id": question.id}, "eu")])
        async with httpx2.AsyncClient(base_url=base) as nobody:
            refused = await nobody.post("/agent", json={})
            assert refused.status_code == 401
    outcome = (await desk.get(question.id)).outcome
    assert isinstance(outcome, Answered)
    assert (outcome.value, outcome.by, outcome.evidence) == ("eu", "ana", "client-asserted")


async def test_an_answer_that_does_not_fit_comes_back_as_the_interrupt_with_the_reason(desk: Desk) -> None:
    ran: list[str] = []
    choice = await desk.post("Which region?\u202e", choices=["eu", "us"], conversation="t-1")
    form = Approval.of("drop", {"table": "users", "limit": 3}, editable=["limit"])
    action = await desk.post("May I?", form=form, conversation="t-1")
    async with (
        serving(agui_route("/agent", desk, quiet(ran), person=signed_in)) as base,
        page_of(base, "ana") as page,
    ):
        partial = {"approved": True, "editedArgs": {"limit": 4}}
        await page.run(resume=[resolved({"id": choice.id}, "asia"), resolved({"id": action.id}, partial)])
        told = {each["id"]: each["message"] for each in page.interrupts}
        assert "not one of the options" in told[choice.id]
        assert "‹U+202E›" in told[choice.id]
        assert "editedArgs.table" in told[action.id]
        for wrong in ({"approved": 1}, {"approved": "yes"}, {}, {"approved": True, "sudo": True}, [True], 1):
            await page.run(resume=[resolved({"id": action.id}, wrong)])
            assert (await desk.get(action.id)).outcome is None, wrong
        changed = {"approved": True, "editedArgs": {"table": "logs", "limit": 3}}
        await page.run(resume=[resolved({"id": action.id}, changed)])
        assert (await desk.get(action.id)).outcome is None
        assert ran == []
        await page.run(
            resume=[resolved({"id": choice.id}, "eu"), resolved({"id": action.id}, {"approved": False})]
        )
        assert ran == ["t-1 for ana"]
    assert (await desk.get(choice.id)).attempts == 1
    assert (await desk.get(action.id)).attempts == 8


async def test_a_question_of_another_thread_cannot_be_answered_in_this_one(desk: Desk) -> None:
    elsewhere = await desk.post("Which region?", conversation="t-2")
    ran: list[str] = []
    async with (
        serving(agui_route("/agent", desk, quiet(ran), person=signed_in)) as base,
        page_of(base, "ana") as page,
    ):
        events = await page.run(resume=[resolved({"id": elsewhere.id}, "eu"), resolved({"id": "\x00"}, 1)])
        (ignored,) = [each["value"] for each in events if each["type"] == "CUSTOM"]
        assert [each["why"] for each in ignored] == ["there is no such interrupt in this thread"] * 2
        assert events[-1]["outcome"] == {"type": "success"}
        for body in (
            {"threadId": "t-1"},
            {"threadId": "a\x00b", "runId": "r", "messages": []},
            {"threadId": "t", "runId": "r", "messages": [], "resume": [cancelled({"id": "1"})] * 2},
        ):
            assert (await page.client.post("/agent", json=body)).status_code == 422
        assert (await page.client.post("/agent", content=b"{" * 9_000_000)).status_code == 413
    assert (await desk.get(elsewhere.id)).outcome is None
    assert ran == ["t-1 for ana"]


@shows("ag-ui", "asks back")
async def test_a_person_asks_back_at_the_front_end_and_the_agent_replies(desk: Desk) -> None:
    refunds: list[str] = []

    def refund(order: str) -> str:
        """Refund an order."""
        refunds.append(order)
        return "sent"

    tool = ApprovedTool(refund, desk=desk, conversation="t-1")
    replying = reply_to_person([tool])
    read: list[ToolResult] = []

    async def agent(run: RunAgentInput, by: Responder) -> AsyncGenerator[BaseEvent, None]:
        del run, by
        result = await tool.start({"order": "A-17"}, call_id="call-1")
        if isinstance(result, ToolResult) and (reply := reply_to(result.content)):
            read.append(result)
            result = await replying.start(reply, call_id="call-2")
        if isinstance(result, ToolResult):
            read.append(result)
        return
        yield

    async with (
        serving(agui_route("/agent", desk, agent, person=signed_in)) as base,
        page_of(base, "ana") as page,
    ):
        await page.run()
        shown = page.interrupt("approval")
        assert shown["metadata"]["handraise"]["replies"] == "model"
        await page.run(resume=[resolved(shown, {"askBack": "Which customer?"})])
        shown = page.interrupt("approval")
        thread = shown["metadata"]["handraise"]["thread"]
        assert [(each["by"], each["text"]) for each in thread] == [
            ("ana", "Which customer?"),
            ("agent", "Customer 12."),
        ]
        assert shown["responseSchema"]["properties"]["seen"] == {"const": 2}
        for seen in ({}, {"seen": 1}, {"seen": True}, {"seen": "2"}):
            events = await page.run(resume=[resolved(shown, {"approved": True, **seen})])
            assert [each["name"] for each in events if each["type"] == "CUSTOM"] == ["handraise:ignored"]
        assert refunds == []
        await page.run(resume=[resolved(shown, {"approved": True, "seen": 2})])
    assert refunds == ["A-17"]
    assert [each.status for each in read] == ["asked_back", "answered"]
    question = await desk.get(shown["id"])
    assert (question.report is not None, question.thread) == (True, 2)


@shows("ag-ui", "sends back")
async def test_a_person_sends_an_action_back_at_the_front_end_and_the_agent_changes_it(desk: Desk) -> None:
    refunds: list[int] = []

    def refund(amount: int) -> str:
        """Refund an order."""
        refunds.append(amount)
        return "sent"

    tool = ApprovedTool(refund, desk=desk, conversation="t-1")
    read: list[ToolResult] = []

    async def agent(run: RunAgentInput, by: Responder) -> AsyncGenerator[BaseEvent, None]:
        del run, by
        result = await tool.start({"amount": 300}, call_id="call-1")
        if isinstance(result, ToolResult):
            read.append(result)
            result = await tool.start({"amount": 30, "replaces": result.question_id}, call_id="call-2")
        if isinstance(result, ToolResult):
            read.append(result)
        return
        yield

    async with (
        serving(agui_route("/agent", desk, agent, person=signed_in)) as base,
        page_of(base, "ana") as page,
    ):
        await page.run()
        first = page.interrupt("approval")
        for wrong in ("", " ", 7, None, ["Only 30."]):
            events = await page.run(resume=[resolved(first, {"sendBack": wrong})])
            assert [each["name"] for each in events if each["type"] == "CUSTOM"] == ["handraise:ignored"]
        await page.run(resume=[resolved(first, {"sendBack": "Only 30."})])
        second = page.interrupt("approval")
        assert second["metadata"]["handraise"]["replaces"] == first["id"]
        assert refunds == []
        await page.run(resume=[resolved(second, {"approved": True})])
    assert refunds == [30]
    assert [each.status for each in read] == ["returned", "returned", "answered"]
    assert read[0].reason == "Only 30."


@shows("ag-ui", "sends back")
async def test_a_remote_agent_is_told_what_was_sent_back(desk: Desk) -> None:
    asks = {"id": "int-1", "reason": "input_required", "message": "Where?"}
    script = Scripted([interrupts(asks)], [SUCCESS])
    async with agent_of(desk, script) as agent:
        running = asyncio.create_task(agent.run(the_run()))
        while not (pending := (await desk.list_pending(conversation="t-1")).items):
            await asyncio.sleep(0.01)
        await desk.send_back(pending[0].id, by="ana", reason="Say when.")
        await running
    [entry] = script.seen[1]["resume"]
    assert entry["status"] == "cancelled"
    assert entry["metadata"]["handraise"] == {"status": "returned", "reason": "Say when."}


async def test_a_field_with_that_name_is_answered_and_not_sent_back(desk: Desk) -> None:
    form = Form(fields=(Field(name="sendBack", form=Open()),))
    question = await desk.post("How?", form=form, conversation="t-1")
    entry = ResumeEntry(interrupt_id=question.id, status="resolved", payload={"sendBack": "By mail."})
    assert await take_resume(desk, [entry], thread="t-1", by="ana") == []
    assert (await desk.get(question.id)).status == "answered"


async def test_without_a_reply_tool_the_front_end_cannot_ask_back(desk: Desk) -> None:
    question = await desk.post("May I?", form=Approval.of("drop"), conversation="t-1")
    async with (
        serving(agui_route("/agent", desk, quiet([]), person=signed_in)) as base,
        page_of(base, "ana") as page,
    ):
        await page.run(resume=[resolved({"id": question.id}, {"askBack": "Why?"})])
        assert "replies" not in page.interrupt("approval")["metadata"]["handraise"]
    after = await desk.get(question.id)
    assert (after.thread, after.outcome) == (0, None)


async def test_high_risk_needs_more_evidence_than_a_program_in_between(desk: Desk) -> None:
    form = Approval.of("drop", {"table": "users"}, risk="high")
    action = await desk.post("May I?", form=form, conversation="t-1", recipients=["group:ops"])
    strong = agui_route("/sure", desk, quiet([]), person=signed_in, evidence="session")
    weak = agui_route("/agent", desk, quiet([]), person=signed_in)
    async with serving(weak, strong) as base, page_of(base, "olga") as page:
        await page.run(resume=[resolved({"id": action.id}, {"approved": True})])
        assert (await desk.get(action.id)).outcome is None
        page.path = "/sure"
        await page.run(resume=[resolved({"id": action.id}, {"approved": True, "digest": form.digest})])
    assert (await desk.get(action.id)).decision


async def test_an_agent_that_fails_ends_its_run_as_an_error_without_its_secrets(desk: Desk) -> None:
    async def agent(run: RunAgentInput, by: Responder) -> AsyncGenerator[BaseEvent, None]:
        raise RuntimeError(f"password of {by.id} in {run.thread_id}")
        yield

    async with (
        serving(agui_route("/agent", desk, agent, person=signed_in)) as base,
        page_of(base, "ana") as page,
    ):
        events = await page.run()
    assert (events[-1]["type"], events[-1]["code"]) == ("RUN_ERROR", "agent_failed")
    assert "password" not in json.dumps(events)


@shows("ag-ui", "survives kill", "resumes elsewhere", "several at once", "asks once")
@more_processes
async def test_our_inbox_answers_an_agent_that_is_run_again_after_a_kill(
    tmp_path: Path, postgres: str, workspace: str
) -> None:
    port = free_port()
    theirs = f"sqlite:///{tmp_path / 'theirs.db'}"
    agent = f"http://127.0.0.1:{port}/agent"
    async with started(ROOT / SERVE, HANDRAISE_URL=theirs, PORT=str(port)) as server:
        await listening(port)
        async with open_desk(postgres) as desk:
            async with started(ROOT / RUN, agent, workspace, HANDRAISE_URL=postgres) as first:
                pending = await asked(desk, workspace, number=2)
                await first.kill()
            async with started(ROOT / RUN, agent, workspace, HANDRAISE_URL=postgres) as second:
                why, refund = sorted(pending, key=lambda each: each.form.kind, reverse=True)
                assert isinstance(refund.form, Approval)
                assert refund.form.action.arguments == {"order": "A-17", "amount": 40}
                edited = {"decision": "approve", "arguments": {"amount": 25}}
                await desk.answer(refund.id, edited, by="cleo")
                assert len((await desk.list_pending(conversation=workspace)).items) == 1
                await desk.answer(why.id, "It was broken.", by="dora")
                printed = await second.rest()
        assert await server.kill() == ["thinking", "refunding 25.0 for A-17"]
    results = dict(line.split(" ", 1) for line in printed)
    assert json.loads(results["call-1"])["text"] == "It was broken."
    assert json.loads(results["call-2"])["value"]["output"] == "sent"


class Scripted:
    """An AG-UI agent that plays its runs one after the other, and checks what a consumer must do."""

    def __init__(self, *runs: list[dict[str, Any]]) -> None:
        self.runs = list(runs)
        self.seen: list[dict[str, Any]] = []
        self.open: list[str] = []

    async def answer(self, request: Request) -> Response:
        assert request.headers["accept"] == "text/event-stream"
        assert request.headers["content-type"] == "application/json"
        body = await request.json()
        RunAgentInput.model_validate(body)
        assert body["protocolVersion"] == "1.0"
        answered = [each["interruptId"] for each in body.get("resume") or []]
        assert answered == self.open, "one resume covers every open interrupt, once"
        assert not any(
            "payload" in each for each in body.get("resume") or [] if each["status"] == "cancelled"
        )
        self.seen.append(body)
        ids = {"threadId": body["threadId"], "runId": body["runId"]}
        events = [{"type": "RUN_STARTED", **ids}]
        events += [ids | each if each["type"].startswith("RUN_F") else each for each in self.runs.pop(0)]
        self.open = [each["id"] for each in events[-1].get("outcome", {}).get("interrupts", [])]
        text = ": keep-alive\n\n" + "".join(f"event: x\ndata: {json.dumps(each)}\n\n" for each in events)
        return StreamingResponse(iter([text.encode()]), media_type="text/event-stream")


def interrupts(*them: dict[str, Any]) -> dict[str, Any]:
    return {"type": "RUN_FINISHED", "outcome": {"type": "interrupt", "interrupts": list(them)}}


SUCCESS = {"type": "RUN_FINISHED", "outcome": {"type": "success"}, "result": {"ok": True}}
CALL = [
    {"type": "TOOL_CALL_START", "toolCallId": "tc", "toolCallName": "mail", "parentMessageId": "a-1"},
    {"type": "TOOL_CALL_ARGS", "toolCallId": "tc", "delta": '{"to": "a@b.c", '},
    {"type": "TOOL_CALL_ARGS", "toolCallId": "tc", "delta": '"cc": ["x"]}'},
    {"type": "TOOL_CALL_END", "toolCallId": "tc"},
]
EDITS = {"approved": {"type": "boolean"}, "editedArgs": {"type": "object"}}
APPROVE = {
    "id": "int-1",
    "reason": "tool_call",
    "message": "Send it?",
    "toolCallId": "tc",
    "responseSchema": {"type": "object", "properties": EDITS, "required": ["approved"]},
}


def the_run(run_id: str = "r-1") -> RunAgentInput:
    said = UserMessage(id="m-1", content="Go.")
    return RunAgentInput(thread_id="t-1", run_id=run_id, messages=[said], state={"count": 1})


@asynccontextmanager
async def agent_of(desk: Desk, script: Scripted, **options: Any) -> AsyncIterator[AguiAgent]:
    async with (
        serving(Route("/agent", script.answer, methods=["POST"])) as base,
        httpx2.AsyncClient(timeout=30) as client,
    ):
        yield AguiAgent(f"{base}/agent", desk=desk, client=client, **options)


@shows("ag-ui", "edit", "approve", "ask")
async def test_messages_state_and_edited_arguments_go_back_with_the_answers(desk: Desk) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string", "enum": ["Bern", "Rome"]}}}
    where = {"id": "int-2", "reason": "input_required", "message": "Where?", "responseSchema": schema}
    sure = {"id": "int-3", "reason": "confirmation", "message": "Sure?"}
    size = {"id": "int-4", "reason": "x:y", "message": "How many?", "responseSchema": {"type": "integer"}}
    first: list[dict[str, Any]] = [
        {"type": "TEXT_MESSAGE_START", "messageId": "a-0", "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "a-0", "delta": "Hel"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "a-0", "delta": "lo"},
        {"type": "TEXT_MESSAGE_END", "messageId": "a-0"},
        *CALL,
        {"type": "STATE_DELTA", "delta": [{"op": "replace", "path": "/count", "value": 2}]},
        {"type": "FROM_THE_FUTURE", "x": 1},
        interrupts(APPROVE, where, sure, size),
    ]
    script = Scripted(first, [SUCCESS])
    async with agent_of(desk, script, recipients=["ana"]) as agent:
        running = asyncio.create_task(agent.run(the_run()))
        mail, city, yes, many = await asked(desk, "t-1", number=4)
        assert mail.recipients == ("ana",)
        assert isinstance(city.form, Form)
        await desk.answer(many.id, 3, by="ana")
        await desk.answer(yes.id, "no", by="ana")
        await desk.answer(city.id, {"city": "Rome"}, by="ana")
        with pytest.raises(handraise.PermissionDenied):
            await desk.answer(mail.id, "approve", by="ben")
        await desk.answer(mail.id, {"decision": "approve", "arguments": {"to": "d@e.f"}}, by="ana")
        end = await running
        assert (end.outcome, end.result) == ("success", {"ok": True})
        resumed = script.seen[1]
        assert resumed["state"] == {"count": 2}
        assert [each["role"] for each in resumed["messages"]] == ["user", "assistant", "assistant"]
        assert resumed["messages"][1]["content"] == "Hello"
        assert json.loads(resumed["messages"][2]["toolCalls"][0]["function"]["arguments"])["cc"] == ["x"]
        approved = {"approved": True, "editedArgs": {"to": "d@e.f", "cc": ["x"]}}
        assert [each["payload"] for each in resumed["resume"]] == [approved, {"city": "Rome"}, False, 3]
        assert resumed["runId"] != "r-1"
        assert (await desk.get(mail.id)).consumed_at is not None

        script.runs, script.open = [[SUCCESS]], ["int-1", "int-2", "int-3", "int-4"]
        await agent.resume(city.id)
        assert script.seen[2] == resumed, "sent again, it is the same"


@shows("ag-ui", "other endings")
async def test_whatever_is_not_an_answer_abandons_the_interrupt_and_says_why(desk: Desk) -> None:
    past = (datetime.now(UTC) - timedelta(days=1)).isoformat()
    gone = APPROVE | {"id": "int-2", "expiresAt": past}
    asks = {"id": "int-3", "reason": "input_required", "message": "Where?"}
    script = Scripted([*CALL, interrupts(APPROVE, gone, asks)], [SUCCESS])
    async with agent_of(desk, script) as agent:
        running = asyncio.create_task(agent.run(the_run()))
        waiting: dict[str, str] = {}
        while not {"int-1", "int-3"} <= waiting.keys():
            pending = (await desk.list_pending(conversation="t-1")).items
            waiting = {each.state["agui"]["interrupt"]: each.id for each in pending}
        await desk.decline(waiting["int-3"], by="ana", reason="ask Ben")
        await desk.answer(waiting["int-1"], {"decision": "deny", "reason": "no"}, by="ana")
        await running
    denied, expired, declined = script.seen[1]["resume"]
    assert (denied["status"], denied["payload"]) == ("resolved", {"approved": False, "reason": "no"})
    assert expired["status"] == "cancelled"
    assert expired["metadata"]["handraise"] == {"status": "expired"}
    assert declined["status"] == "cancelled"
    assert declined["metadata"]["handraise"] == {"status": "declined", "reason": "ask Ben"}


async def test_an_answer_that_is_too_late_for_the_agent_is_not_sent(desk: Desk) -> None:
    now = datetime.now(UTC)
    script = Scripted(
        [*CALL, interrupts(APPROVE | {"expiresAt": (now + timedelta(hours=1)).isoformat()})], [SUCCESS]
    )
    async with agent_of(desk, script, now=lambda: now) as agent:
        with pytest.raises(handraise.StillPending):
            await agent.run(the_run(), timeout=0)
        (question,) = (await desk.list_pending()).items
        assert question.expires_at is not None
        await desk.answer(question.id, "approve", by="ana")
        now += timedelta(hours=2)
        await agent.resume(question.id)
    (entry,) = script.seen[1]["resume"]
    assert (entry["status"], entry["metadata"]) == ("cancelled", {"handraise": {"status": "expired"}})


@pytest.mark.parametrize(
    ("events", "says"),
    [
        ([], "ended before"),
        ([{"type": "RUN_ERROR", "message": "no credit"}], "no credit"),
        ([{"type": "STATE_DELTA", "delta": [{"op": "remove", "path": "/nothing"}]}], "not AG-UI"),
        ([{"type": "TEXT_MESSAGE_START"}], "not AG-UI"),
    ],
)
async def test_a_run_that_does_not_end_well_is_an_error(
    desk: Desk, events: list[dict[str, Any]], says: str
) -> None:
    async with agent_of(desk, Scripted(events)) as agent:
        with pytest.raises(RunFailed, match=says):
            await agent.run(the_run())
    assert not (await desk.list_pending()).items


async def test_a_key_that_somebody_else_has_taken_is_not_gone_on_from(desk: Desk) -> None:
    script = Scripted([*CALL, interrupts(APPROVE)])
    async with agent_of(desk, script) as agent:
        forged = {"agui": {"url": agent.url, "thread": "t-1", "run": "r-1"}, "left": "{}"}
        key = agent._key("t-1", "r-1", 0)  # noqa: SLF001 -- whoever guesses it
        await desk.scoped(asker="mallory").post("Send it?", key=key, state=forged)
        running = asyncio.create_task(agent.run(the_run()))
        theirs, ours = await asked(desk, number=2)
        assert (theirs.asker, ours.asker, ours.key) == ("mallory", desk.asker, key)
        running.cancel()


async def test_a_pydantic_ai_agent_is_answered_from_our_inbox(desk: Desk) -> None:
    sent: list[str] = []

    async def model(messages: list[ModelMessage], _: AgentInfo) -> AsyncIterator[Any]:
        if any(part.part_kind == "tool-return" for message in messages for part in message.parts):
            yield "All done."
        else:
            yield {0: DeltaToolCall(name="mail", json_args='{"to": "a@b.c"}', tool_call_id="tc-1")}

    theirs = Agent(FunctionModel(stream_function=model), output_type=[str, DeferredToolRequests])

    @theirs.tool_plain(requires_approval=True)
    def mail(to: str) -> str:
        sent.append(to)
        return "sent"

    async def endpoint(request: Request) -> Response:
        return await AGUIAdapter.dispatch_request(request, agent=theirs)

    async with (
        serving(Route("/agent", endpoint, methods=["POST"])) as base,
        httpx2.AsyncClient(timeout=30) as client,
    ):
        agent = AguiAgent(f"{base}/agent", desk=desk, client=client)
        said = UserMessage(id="m-1", content="Go.")
        running = asyncio.create_task(
            agent.run(RunAgentInput(thread_id="t-1", run_id="r-1", messages=[said]))
        )
        (question,) = await asked(desk, "t-1")
        assert isinstance(question.form, Approval)
        assert question.form.action.arguments == {"to": "a@b.c"}
        assert sent == []
        await desk.answer(question.id, "approve", by="ana")
        end = await running
    assert sent == ["a@b.c"]
    report = (await desk.get(question.id)).report
    assert report is not None
    assert (report.ok, report.text) == (True, "sent")
    assert end.messages[-1]["content"] == "All done."


def test_a_patch_does_what_rfc_6902_says() -> None:
    operations: list[dict[str, Any]] = [
        {"op": "add", "path": "/list/1", "value": "b"},
        {"op": "add", "path": "/list/-", "value": "d"},
        {"op": "replace", "path": "/a~1b", "value": 2},
        {"op": "copy", "from": "/list/0", "path": "/first"},
        {"op": "move", "from": "/old", "path": "/new"},
        {"op": "remove", "path": "/list/2"},
        {"op": "test", "path": "/first", "value": "a"},
    ]
    before = {"list": ["a", "c"], "a/b": 1, "old": None}
    assert patched(before, operations) == {"list": ["a", "b", "d"], "a/b": 2, "first": "a", "new": None}
    assert before == {"list": ["a", "c"], "a/b": 1, "old": None}
    assert patched(1, [{"op": "replace", "path": "", "value": {}}]) == {}
    wrongs: list[dict[str, Any]] = [
        {"op": "test", "path": "/list", "value": []},
        {"op": "add", "path": "/list/9", "value": 1},
        {"op": "add", "path": "/list/x", "value": 1},
        {"op": "replace", "path": "/none", "value": 1},
    ]
    for wrong in wrongs:
        with pytest.raises(ValueError, match=r"state|index"):
            patched(before, [wrong])


def test_the_page_shows_the_programs_that_these_tests_run() -> None:
    page = (ROOT / "docs/integrations/agui.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert shown == [(ROOT / each).read_text(encoding="utf-8") for each in (SERVE, RUN)]
