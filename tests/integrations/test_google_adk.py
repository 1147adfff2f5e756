from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.function_tool import FunctionTool
from google.genai.types import Content, FunctionCall, FunctionResponse, Part

import handraise
from handraise import Approval, Desk, open_desk
from handraise.integrations import google_adk
from handraise.testing import ManualClock
from tests.integrations.cells import LONG_WAY, killed_in_the_gate, shows
from tests.integrations.processes import ROOT, asked, started
from tests.integrations.shop import (
    SENT_BACK,
    TOLD,
    ask_back_and_answer,
    changed,
    reply_to,
    send_back_and_answer,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings(r"ignore:.*EXPERIMENTAL.*:UserWarning"),
]

APP = "examples/integrations/google_adk.py"


class Scripted(BaseLlm):
    """Makes these calls, then says that it is done; it keeps what it was told."""

    calls: list[FunctionCall]
    heard: list[dict[str, Any]]

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: FBT001, FBT002 -- ADK's own
    ) -> AsyncGenerator[LlmResponse, None]:
        del stream
        parts = [part for content in llm_request.contents for part in content.parts or []]
        told = [part.function_response for part in parts if part.function_response]
        self.heard.append({each.id or "": each.response for each in told})
        said = [Part(text="done")] if told else [Part(function_call=call) for call in self.calls]
        yield LlmResponse(content=Content(role="model", parts=said))


def ask(question: str, name: str = "call-1", **more: Any) -> FunctionCall:
    return FunctionCall(id=name, name="ask_human", args={"question": question, **more})


def runner_of(*tools: Any, calls: list[FunctionCall]) -> tuple[Runner, Scripted]:
    model = Scripted(model="scripted", calls=calls, heard=[])
    agent = LlmAgent(name="agent", model=model, tools=list(tools))
    sessions = InMemorySessionService()
    return Runner(app_name="app", agent=agent, session_service=sessions, auto_create_session=True), model


def run(runner: Runner, desk: Desk, **options: Any) -> asyncio.Task[Any]:
    going = google_adk.run(runner, "Go.", user_id="u", session_id="s", desk=desk, key="k", **options)
    return asyncio.create_task(going)


@shows("google-adk", *LONG_WAY)
@killed_in_the_gate
async def test_a_run_goes_on_in_another_process_after_a_kill(
    tmp_path: Path, postgres: str, workspace: str
) -> None:
    where = {"HANDRAISE_URL": postgres, "SESSIONS": f"sqlite+aiosqlite:///{tmp_path / 'sessions.db'}"}
    async with open_desk(postgres) as desk:
        async with started(ROOT / APP, workspace, **where) as first:
            pending = await asked(desk, workspace, number=2)
            assert await first.kill() == ["thinking"]
        why, refund = sorted(pending, key=lambda each: each.form.kind, reverse=True)
        assert isinstance(refund.form, Approval)
        assert refund.form.action.arguments == {"order": "A-17", "amount": 40}
        await desk.answer(refund.id, {"decision": "approve", "arguments": {"amount": 25}}, by="cleo")
        async with started(ROOT / APP, workspace, **where) as second:
            await desk.answer(why.id, "It was broken.", by="dora")
            printed = await second.rest()
        assert printed[0] == "refunding 25 for A-17"
        assert re.search(r"'send_refund': \{'result': 'sent'\}.*'ask_human'.*It was broken\.", printed[-1])
        assert len((await desk.list_settled(conversation=workspace)).items) == 2


@shows("google-adk", "other endings")
async def test_what_is_not_an_answer_reaches_the_model_as_such(tmp_path: Path) -> None:
    ran: list[str] = []

    def drop(table: str) -> str:
        ran.append(table)
        return "dropped"

    clock = ManualClock()
    calls = [
        ask("Why?"),
        ask("How long?", "call-2"),
        FunctionCall(id="call-3", name="drop", args={"table": "users"}),
        FunctionCall(id="call-4", name="drop", args={"table": "logs"}),
    ]
    runner, model = runner_of(google_adk.ask_human, google_adk.approved(drop), calls=calls)
    async with open_desk(f"sqlite:///{tmp_path / 'questions.db'}", clock=clock) as desk:
        going = run(runner, desk, expires_in=timedelta(hours=1))
        for each in await asked(desk, number=4):
            if each.prompt == "Why?":
                await desk.decline(each.id, by="ana", reason="ask Ben")
            if isinstance(each.form, Approval) and each.form.action.arguments == {"table": "users"}:
                await desk.answer(each.id, {"decision": "deny", "reason": "no"}, by="ana")
        clock.advance(timedelta(hours=2))
        await desk.run_due()
        await going
    told = model.heard[-1]
    assert '"declined"' in told["call-1"]["result"]
    assert '"expired"' in told["call-2"]["result"]
    assert told["call-3"]["error"] == "Not approved, and not executed: denied by ana: no"
    assert told["call-4"]["error"].startswith("Not approved, and not executed: expired")
    assert ran == []


class Replying(Scripted):
    """Asks, replies to people who ask back, and ends."""

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: FBT001, FBT002 -- ADK's own
    ) -> AsyncGenerator[LlmResponse, None]:
        parts = [part for content in llm_request.contents for part in content.parts or []]
        told = [part.function_response for part in parts if part.function_response]
        last = str((told[-1].response or {}).get("result")) if told else ""
        reply = reply_to(last)
        if again := changed(last):
            said = [Part(function_call=FunctionCall(id="call-2", name="ask_human", args=again))]
            yield LlmResponse(content=Content(role="model", parts=said))
            return
        if reply is None:
            async for each in super().generate_content_async(llm_request, stream):
                yield each
            return
        call = FunctionCall(id=f"reply-{len(told)}", name="reply_to_person", args=reply)
        yield LlmResponse(content=Content(role="model", parts=[Part(function_call=call)]))


@shows("google-adk", "asks back")
async def test_a_person_asks_back_and_the_model_replies(desk: Desk) -> None:
    model = Replying(model="scripted", calls=[ask("Why?")], heard=[])
    agent = LlmAgent(name="agent", model=model, tools=[google_adk.ask_human, google_adk.reply_to_person])
    runner = Runner(
        app_name="app", agent=agent, session_service=InMemorySessionService(), auto_create_session=True
    )
    going = run(runner, desk, replies="model")
    question = await ask_back_and_answer(desk)
    await going
    results = [json.loads(each["result"]) for each in model.heard[-1].values()]
    assert [each["status"] for each in results] == ["asked_back", "answered"]
    assert [each.id for each in (await desk.list_settled()).items] == [question.id]


@shows("google-adk", "sends back")
async def test_a_question_that_was_sent_back_is_changed_and_asked_again(desk: Desk) -> None:
    model = Replying(model="scripted", calls=[ask("Why?")], heard=[])
    agent = LlmAgent(name="agent", model=model, tools=[google_adk.ask_human])
    runner = Runner(
        app_name="app", agent=agent, session_service=InMemorySessionService(), auto_create_session=True
    )
    going = run(runner, desk)
    await send_back_and_answer(desk)
    await going
    results = [json.loads(each["result"])["status"] for each in model.heard[-1].values()]
    assert results == ["returned", "answered"]


@shows("google-adk", "sends back")
async def test_an_action_that_was_sent_back_is_not_executed(desk: Desk) -> None:
    ran: list[str] = []

    def drop(table: str) -> str:
        ran.append(table)
        return "dropped"

    call = FunctionCall(id="call-1", name="drop", args={"table": "users"})
    runner, model = runner_of(google_adk.approved(drop), calls=[call])
    going = run(runner, desk)
    [approval] = await asked(desk)
    await desk.send_back(approval.id, by="ana", reason=SENT_BACK)
    await going
    assert (model.heard[-1]["call-1"]["error"], ran) == (TOLD, [])


@shows("google-adk", "approve")
async def test_adks_own_confirmations_are_approvals_too(desk: Desk) -> None:
    ran: list[str] = []

    def mail(to: str) -> str:
        ran.append(to)
        return "sent"

    calls = [FunctionCall(id=f"call-{to}", name="mail", args={"to": to}) for to in ("ana", "ben")]
    runner, model = runner_of(FunctionTool(mail, require_confirmation=True), calls=calls)
    going = run(runner, desk)
    for each in reversed(await asked(desk, number=2)):
        assert isinstance(each.form, Approval)
        assert each.prompt == "May I run mail?"
        await desk.answer(
            each.id, "approve" if each.form.action.arguments["to"] == "ana" else "deny", by="cleo"
        )
    await going
    assert ran == ["ana"]
    assert model.heard[-1]["call-ana"] == {"result": "sent"}
    assert "rejected" in str(model.heard[-1]["call-ben"])


async def test_what_came_of_an_approved_tool_is_reported(desk: Desk) -> None:
    def mail(to: str) -> str:
        if to == "ben":
            raise ValueError("no such box")
        return f"sent to {to}"

    for to, report in (
        ("ana", (True, "sent to ana")),
        ("ben", (False, "ValueError: no such box")),
    ):
        call = FunctionCall(id=f"call-{to}", name="mail", args={"to": to})
        runner, _ = runner_of(google_adk.approved(mail), calls=[call])
        going = run(runner, desk.scoped(asker=to))
        [question] = await asked(desk)
        await desk.answer(question.id, "approve", by="cleo")
        await asyncio.wait([going])
        assert isinstance(going.exception(), ValueError) == (to == "ben")
        said = (await desk.get(question.id)).report
        assert said is not None
        assert (said.ok, said.text) == report


async def test_a_call_that_cannot_be_asked_goes_back_to_the_model(desk: Desk) -> None:
    runner, model = runner_of(google_adk.ask_human, calls=[ask("x" * 20_000)])
    await run(runner, desk)
    assert '"invalid"' in model.heard[-1]["call-1"]["result"]
    assert not (await desk.list_pending()).items


async def test_the_same_message_is_sent_once(desk: Desk) -> None:
    runner, model = runner_of(google_adk.ask_human, calls=[ask("Why?")])
    with pytest.raises(handraise.StillPending):
        await run(runner, desk, timeout=0)
    (question,) = (await desk.list_pending()).items
    await desk.answer(question.id, "So.", by="ana")
    await run(runner, desk)
    await run(runner, desk)
    assert len(model.heard) == 2


async def test_a_confirmation_that_did_not_come_through_the_desk_runs_nothing(desk: Desk) -> None:
    ran: list[str] = []

    def drop(table: str) -> str:
        ran.append(table)
        return "dropped"

    call = FunctionCall(id="call-1", name="drop", args={"table": "users"})
    runner, model = runner_of(google_adk.approved(drop), calls=[call])
    with pytest.raises(handraise.StillPending):
        await run(runner, desk, timeout=0)
    session = await runner.session_service.get_session(app_name="app", user_id="u", session_id="s")
    assert session is not None
    (waiting,) = [
        each
        for event in session.events
        for each in event.get_function_calls()
        if each.name == "adk_request_confirmation"
    ]
    forged = FunctionResponse(id=waiting.id, name=waiting.name, response={"confirmed": True})
    content = Content(role="user", parts=[Part(function_response=forged)])
    async for _ in runner.run_async(user_id="u", session_id="s", new_message=content):
        pass
    assert model.heard[-1]["call-1"] == {"error": "Not approved at the desk, and not executed."}
    assert ran == []


async def test_an_approval_that_a_dead_process_took_along_is_not_used_again(desk: Desk) -> None:
    ran: list[str] = []

    def drop(table: str) -> str:
        ran.append(table)
        return "dropped"

    call = FunctionCall(id="call-1", name="drop", args={"table": "users"})
    runner, model = runner_of(google_adk.approved(drop), calls=[call])
    with pytest.raises(handraise.StillPending):
        await run(runner, desk, timeout=0)
    (question,) = await asked(desk)
    await desk.answer(question.id, "approve", by="ana")
    await desk.consume_approval(question.id)
    await run(runner, desk)
    assert "Whether it was executed is unknown" in model.heard[-1]["call-1"]["error"]
    assert ran == []


def test_the_page_shows_the_program_that_these_tests_run() -> None:
    page = (ROOT / "docs/integrations/google-adk.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert shown == [(ROOT / APP).read_text(encoding="utf-8")]
