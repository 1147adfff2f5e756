"""Strands has an environment of its own, because it wants an older MCP SDK than others: a program there plays each script."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from handraise import Approval, Desk, open_desk
from tests.integrations.cells import LONG_WAY, separate, shows
from tests.integrations.processes import ROOT, SEPARATE, Program, asked, started
from tests.integrations.shop import SENT_BACK, TOLD, ask_back_and_answer, send_back_and_answer

APP = "examples/integrations/strands_agent.py"
PLAYER = "tests/integrations/app_strands.py"
WHY = ["call-1", "ask_human", {"question": "Why?"}]
DROP = ["call-1", "drop", {"table": "users"}]


@asynccontextmanager
async def playing(url: str, *calls: list[Any], **script: Any) -> AsyncIterator[Program]:
    """A program with an agent that makes these calls."""
    written = json.dumps({"calls": calls, **script})
    async with started(ROOT / PLAYER, url, written, python=SEPARATE, PYTHONPATH=str(ROOT)) as program:
        yield program


async def told(program: Program) -> dict[str, str]:
    """What the model was told in the end, by the ids of its calls."""
    return dict(json.loads((await program.rest())[-1]))


@shows("strands", *LONG_WAY)
@separate
async def test_an_agent_goes_on_in_another_process_after_a_kill(postgres: str, workspace: str) -> None:
    async with open_desk(postgres) as desk:
        async with started(ROOT / APP, workspace, python=SEPARATE, HANDRAISE_URL=postgres) as first:
            pending = await asked(desk, workspace, number=2)
            assert await first.kill() == ["thinking"]
        why, refund = sorted(pending, key=lambda each: each.form.kind, reverse=True)
        assert isinstance(refund.form, Approval)
        assert refund.form.action.arguments == {"order": "A-17", "amount": 40}
        await desk.answer(refund.id, {"decision": "approve", "arguments": {"amount": 25}}, by="cleo")
        async with started(ROOT / APP, workspace, python=SEPARATE, HANDRAISE_URL=postgres) as second:
            await desk.answer(why.id, "It was broken.", by="dora")
            printed = await second.rest()
        assert re.fullmatch(r"refunding 25(\.0)? for A-17", printed[0])
        assert re.search(r"It was broken\..*'call-2': 'sent'", printed[-1])
        assert len((await desk.list_settled(conversation=workspace)).items) == 2
        report = (await desk.get(refund.id)).report
        assert report is not None
        assert (report.ok, report.text) == (True, "sent")


@shows("strands", "other endings", "approve")
@separate
async def test_what_a_person_refuses_reaches_the_model_as_such(url: str, desk: Desk) -> None:
    calls = [
        WHY,
        ["call-2", "drop", {"table": "users"}],
        ["call-3", "drop", {"table": "temp"}],
        ["call-4", "drop", {"table": "system"}],
    ]
    async with playing(url, *calls) as program:
        for each in reversed(await asked(desk, number=4)):
            if not isinstance(each.form, Approval):
                await desk.decline(each.id, by="ana", reason="ask Ben")
            elif each.form.action.arguments == {"table": "users"}:
                await desk.answer(each.id, {"decision": "deny", "reason": "no"}, by="ana")
            else:
                await desk.answer(each.id, "approve", by="ana")
        results = await told(program)
    assert '"declined"' in results["call-1"]
    assert results["call-2"] == "Not approved, and not executed: denied by ana: no"
    assert results["call-3"] == "dropped temp"
    assert "not this one" in results["call-4"]
    assert program.said[:-1] == ["dropped temp"]
    reports = [each.report for each in (await desk.list_settled()).items if each.report is not None]
    assert sorted(each.ok for each in reports) == [False, True]


@shows("strands", "other endings")
@separate
async def test_what_expires_reaches_the_model_as_such(url: str) -> None:
    async with playing(url, WHY, ["call-2", *DROP[1:]], options={"expires_in": 0.001}) as program:
        results = await told(program)
    assert '"expired"' in results["call-1"]
    assert results["call-2"] == "Not approved, and not executed: expired without an answer."
    assert len(program.said) == 1


@shows("strands", "asks back")
@separate
async def test_a_person_asks_back_and_the_model_replies(url: str, desk: Desk) -> None:
    async with playing(url, WHY, options={"replies": "model"}) as program:
        question = await ask_back_and_answer(desk)
        results = await told(program)
    assert [json.loads(each)["status"] for each in results.values()] == ["asked_back", "answered"]
    assert [each.id for each in (await desk.list_settled()).items] == [question.id]


@shows("strands", "sends back")
@separate
async def test_a_question_that_was_sent_back_is_changed_and_asked_again(url: str, desk: Desk) -> None:
    async with playing(url, WHY) as program:
        await send_back_and_answer(desk)
        results = await told(program)
    assert [json.loads(each)["status"] for each in results.values()] == ["returned", "answered"]


@shows("strands", "sends back")
@separate
async def test_an_action_that_was_sent_back_is_not_executed(url: str, desk: Desk) -> None:
    async with playing(url, DROP) as program:
        [approval] = await asked(desk)
        await desk.send_back(approval.id, by="ana", reason=SENT_BACK)
        assert await told(program) == {"call-1": TOLD}
    assert len(program.said) == 1


@shows("strands", "ask")
@separate
async def test_a_tool_gets_a_no_as_an_answer_and_asks_once(url: str, desk: Desk) -> None:
    async with playing(url, ["call-1", "clean", {}]) as program:
        [question] = await asked(desk)
        await desk.answer(question.id, "no", by="ana")
        assert await told(program) == {"call-1": "wanted: False"}
    assert program.said[:-1] == ["about to clean"] * 2
    assert len((await desk.list_settled()).items) == 1


@separate
async def test_a_tool_that_gets_no_answer_fails(url: str, desk: Desk) -> None:
    async with playing(url, ["call-1", "clean", {}]) as program:
        [question] = await asked(desk)
        await desk.decline(question.id, by="ana", reason="ask Ben")
        assert "declined" in (await told(program))["call-1"]


@separate
async def test_an_interrupt_of_strands_own_is_an_open_question(url: str, desk: Desk) -> None:
    async with playing(url, ["call-1", "plain", {}]) as program:
        [question] = await asked(desk)
        await desk.answer(question.id, "So.", by="ana")
        assert await told(program) == {"call-1": "So."}
    async with playing(url, ["call-1", "plain", {}], key="declined") as program:
        [question] = await asked(desk)
        await desk.decline(question.id, by="ana")
        assert (await program.rest())[0] == "NotAnswered"


@separate
async def test_an_approval_that_a_dead_process_took_along_is_not_used_again(url: str, desk: Desk) -> None:
    async with playing(url, DROP, options={"timeout": 0}) as program:
        assert (await program.rest())[0] == "StillPending"
    [question] = await asked(desk)
    await desk.answer(question.id, "approve", by="ana")
    await desk.consume_approval(question.id)
    async with playing(url, DROP) as program:
        assert "Whether it was executed is unknown" in (await told(program))["call-1"]
    assert len(program.said) == 1


@separate
async def test_a_response_that_did_not_come_from_the_desk_runs_nothing(url: str) -> None:
    async with playing(url, DROP, forged=True) as program:
        assert await told(program) == {"call-1": "Not approved at the desk, and not executed."}
    assert len(program.said) == 1


@separate
async def test_a_call_that_cannot_be_asked_goes_back_to_the_model(url: str, desk: Desk) -> None:
    async with playing(url, ["call-1", "ask_human", {"question": "x" * 20_000}]) as program:
        assert '"invalid"' in (await told(program))["call-1"]
    assert not (await desk.list_pending()).items


@separate
async def test_a_tool_that_the_agent_does_not_have_cannot_be_gated(url: str) -> None:
    async with playing(url, DROP, gated=["dorp"]) as program:
        assert await program.ends() != 0
    assert program.said == []


def test_the_page_shows_the_program_that_these_tests_run() -> None:
    page = (ROOT / "docs/integrations/strands.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert shown == [(ROOT / APP).read_text(encoding="utf-8")]
