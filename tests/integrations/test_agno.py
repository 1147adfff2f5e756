from __future__ import annotations

import asyncio
import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from agno.agent import Agent
from agno.models.base import Model
from agno.models.message import Message
from agno.models.response import ModelResponse
from agno.tools import tool
from agno.tools.user_control_flow import UserControlFlowTools

import handraise
from handraise import Approval, Desk, Form, open_desk
from handraise.integrations import agno
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

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

APP = "examples/integrations/agno_agent.py"
Call = tuple[str, str, dict[str, Any]]


class Scripted(Model):
    """Makes these calls, replies to people who ask back, asks again what was sent back, and ends."""

    def __init__(self, *calls: Call) -> None:
        super().__init__(id="scripted")
        self.calls = calls
        self.told: dict[str, str] = {}

    async def ainvoke(self, messages: list[Message], *_: Any, **__: Any) -> ModelResponse:
        self.told = {
            str(message.tool_call_id): str(message.content) for message in messages if message.role == "tool"
        }
        if not self.told:
            return called(*self.calls)
        last = list(self.told.values())[-1]
        if reply := reply_to(last):
            return called((f"reply-{len(self.told)}", "reply_to_person", reply))
        if again := changed(last):
            return called(("call-2", "ask_human", again))
        return ModelResponse(role="assistant", content="done")

    def invoke(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    invoke_stream = ainvoke_stream = _parse_provider_response = _parse_provider_response_delta = invoke


def called(*calls: Call) -> ModelResponse:
    made = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for call_id, name, arguments in calls
    ]
    return ModelResponse(role="assistant", tool_calls=made)


def run(model: Scripted, desk: Desk, *tools: Any, **options: Any) -> asyncio.Task[Any]:
    agent = Agent(model=model, tools=list(tools), telemetry=False)
    return asyncio.create_task(agno.run(agent, "Go.", desk=desk, key="k", **options))


def dropping(ran: list[str]) -> Any:
    @tool(requires_confirmation=True)
    def drop(table: str) -> str:
        ran.append(table)
        return f"dropped {table}"

    return drop


@shows("agno", *LONG_WAY)
@killed_in_the_gate
async def test_an_agent_goes_on_in_another_process_after_a_kill(postgres: str, workspace: str) -> None:
    async with open_desk(postgres) as desk:
        async with started(ROOT / APP, workspace, HANDRAISE_URL=postgres) as first:
            pending = await asked(desk, workspace, number=2)
            assert await first.kill() == ["thinking"]
        why, refund = sorted(pending, key=lambda each: each.form.kind, reverse=True)
        assert isinstance(refund.form, Approval)
        assert refund.form.action.arguments == {"order": "A-17", "amount": 40}
        await desk.answer(refund.id, {"decision": "approve", "arguments": {"amount": 25}}, by="cleo")
        async with started(ROOT / APP, workspace, HANDRAISE_URL=postgres) as second:
            await desk.answer(why.id, "It was broken.", by="dora")
            printed = await second.rest()
        assert re.fullmatch(r"refunding 25(\.0)? for A-17", printed[0])
        assert re.search(r"It was broken\..*'call-2': 'sent'", printed[-1])
        assert len((await desk.list_settled(conversation=workspace)).items) == 2


@shows("agno", "other endings", "approve")
async def test_what_is_not_an_answer_reaches_the_model_as_such(tmp_path: Path) -> None:
    ran: list[str] = []
    looked: list[str] = []

    def look(at: str) -> str:
        """Look at something."""
        looked.append(at)
        return "seen"

    clock = ManualClock()
    model = Scripted(
        ("call-1", "ask_human", {"question": "Why?"}),
        ("call-2", "ask_human", {"question": "How long?"}),
        ("call-3", "drop", {"table": "users"}),
        ("call-4", "drop", {"table": "logs"}),
        ("call-5", "drop", {"table": "temp"}),
        ("call-6", "look", {"at": "this"}),
    )
    async with open_desk(f"sqlite:///{tmp_path / 'questions.db'}", clock=clock) as desk:
        going = run(model, desk, agno.ask_human, dropping(ran), look, expires_in=timedelta(hours=1))
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
    assert '"declined"' in model.told["call-1"]
    assert '"expired"' in model.told["call-2"]
    assert model.told["call-3"] == "Not approved, and not executed: denied by ana: no"
    assert model.told["call-4"] == "Not approved, and not executed: expired without an answer."
    assert model.told["call-5"] == "dropped temp"
    assert model.told["call-6"] == "seen"
    assert (ran, looked) == (["temp"], ["this"])


@shows("agno", "asks back")
async def test_a_person_asks_back_and_the_model_replies(desk: Desk) -> None:
    model = Scripted(("call-1", "ask_human", {"question": "Why?"}))
    going = run(model, desk, agno.ask_human, agno.reply_to_person, replies="model")
    question = await ask_back_and_answer(desk)
    await going
    assert [json.loads(each)["status"] for each in model.told.values()] == ["asked_back", "answered"]
    assert [each.id for each in (await desk.list_settled()).items] == [question.id]


@shows("agno", "sends back")
async def test_a_question_that_was_sent_back_is_changed_and_asked_again(desk: Desk) -> None:
    model = Scripted(("call-1", "ask_human", {"question": "Why?"}))
    going = run(model, desk, agno.ask_human)
    await send_back_and_answer(desk)
    await going
    assert [json.loads(each)["status"] for each in model.told.values()] == ["returned", "answered"]


@shows("agno", "sends back")
async def test_an_action_that_was_sent_back_is_not_executed(desk: Desk) -> None:
    ran: list[str] = []
    model = Scripted(("call-1", "drop", {"table": "users"}))
    going = run(model, desk, dropping(ran))
    [approval] = await asked(desk)
    await desk.send_back(approval.id, by="ana", reason=SENT_BACK)
    await going
    assert (model.told["call-1"], ran) == (TOLD, [])


@shows("agno", "ask", "other endings")
async def test_a_person_gives_what_a_tool_requires_or_it_is_not_executed(desk: Desk) -> None:
    sent: list[tuple[str, int]] = []

    @tool(requires_user_input=True, user_input_fields=["copies"])
    def send(to: str, copies: int) -> str:
        """Send it."""
        sent.append((to, copies))
        return f"sent to {to}"

    model = Scripted(("call-1", "send", {"to": "ana"}), ("call-2", "send", {"to": "ben"}))
    going = run(model, desk, send)
    for each in await asked(desk, number=2):
        assert isinstance(each.form, Form)
        assert [field.name for field in each.form.fields] == ["copies"]
        if each.context == {"to": "ana"}:
            with pytest.raises(handraise.InvalidAnswer):
                await desk.answer(each.id, {"copies": "many"}, by="cleo")
            await desk.answer(each.id, {"copies": 2}, by="cleo")
        else:
            await desk.decline(each.id, by="cleo", reason="ask Ben")
    await going
    assert sent == [("ana", 2)]
    assert model.told["call-1"] == "sent to ana"
    assert '"declined"' in model.told["call-2"]


@shows("agno", "ask")
async def test_agnos_own_tool_for_input_asks_with_a_form(desk: Desk) -> None:
    field = {"field_name": "city", "field_type": "str", "field_description": "Where it goes"}
    model = Scripted(("call-1", "get_user_input", {"user_input_fields": [field]}))
    going = run(model, desk, UserControlFlowTools())
    [question] = await asked(desk)
    await desk.answer(question.id, {"city": "Ulm"}, by="cleo")
    await going
    assert '"value": "Ulm"' in model.told["call-1"]


async def test_an_approval_that_a_dead_process_took_along_is_not_used_again(desk: Desk) -> None:
    ran: list[str] = []
    model = Scripted(("call-1", "drop", {"table": "users"}))
    with pytest.raises(handraise.StillPending):
        await run(model, desk, dropping(ran), timeout=0)
    (question,) = await asked(desk)
    await desk.answer(question.id, "approve", by="ana")
    await desk.consume_approval(question.id)
    await run(model, desk, dropping(ran))
    assert "Whether it was executed is unknown" in model.told["call-1"]
    assert ran == []


async def test_a_call_that_cannot_be_asked_goes_back_to_the_model(desk: Desk) -> None:
    model = Scripted(("call-1", "ask_human", {"question": "x" * 20_000}))
    await run(model, desk, agno.ask_human)
    assert '"invalid"' in model.told["call-1"]
    assert not (await desk.list_pending()).items


def test_the_page_shows_the_program_that_these_tests_run() -> None:
    page = (ROOT / "docs/integrations/agno.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert shown == [(ROOT / APP).read_text(encoding="utf-8")]
