"""CrewAI has an environment of its own, because it wants older packages than others: a program there plays each script."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import handraise
from handraise import Approval, Desk, open_desk
from tests.integrations.cells import separate, shows
from tests.integrations.processes import ROOT, SEPARATE, Program, asked, started
from tests.integrations.shop import SEEN, SENT_BACK, SOON, ask_back_to_program, send_back_and_answer

FLOW = "examples/integrations/crewai_flow.py"
CREW = "examples/integrations/crewai_crew.py"
PLAYER = "tests/integrations/app_crewai.py"
QUIET = {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "CREWAI_TRACING_ENABLED": "false"}
several_starts = pytest.mark.timeout(300)  # a process with CrewAI takes many seconds to start
WHY = ["ask_human", {"question": "Why?"}]


@pytest.fixture
def where(tmp_path: Path) -> dict[str, str]:
    """Where CrewAI writes its own files."""
    return {**QUIET, "CREWAI_STORAGE_DIR": str(tmp_path / "crewai"), "HOME": str(tmp_path)}


@asynccontextmanager
async def playing(url: str, where: dict[str, str], **script: Any) -> AsyncIterator[Program]:
    """A program with a crew or a flow."""
    line = (ROOT / PLAYER, url, json.dumps(script))
    async with started(*line, python=SEPARATE, PYTHONPATH=str(ROOT), **where) as program:
        yield program


async def ended(program: Program) -> Any:
    """The last line, as JSON."""
    return json.loads(own(await program.rest())[-1])


def own(said: list[str]) -> list[str]:
    """What a program itself has said: CrewAI prints boxes around its own."""
    return [line for line in said if line and line[0] not in "╭│╰"]


@shows("crewai", "ask", "approve", "edit", "survives kill", "resumes elsewhere", "asks once")
@separate
@several_starts
async def test_a_flow_goes_on_in_another_process_after_each_kill(
    postgres: str, workspace: str, where: dict[str, str]
) -> None:
    line: dict[str, Any] = {"python": SEPARATE, "HANDRAISE_URL": postgres, **where}
    async with open_desk(postgres) as desk:
        async with started(ROOT / FLOW, workspace, **line) as first:
            [why] = await asked(desk, workspace)
            assert own(await first.kill()) == ["looking up A-17"]
        assert why.context == "Order A-17: a kettle for 40 euros."
        await desk.answer(why.id, "It was broken.", by="dora")
        async with started(ROOT / FLOW, workspace, **line) as second:
            [refund] = await asked(desk, workspace)
            assert own(await second.kill()) == []
        assert isinstance(refund.form, Approval)
        assert refund.form.action.arguments == {"order": "A-17", "amount": 40}
        await desk.answer(refund.id, {"decision": "approve", "arguments": {"amount": 25}}, by="cleo")
        async with started(ROOT / FLOW, workspace, **line) as third:
            assert own(await third.rest()) == ["refunding 25 for A-17", "refunded, because: It was broken."]
        assert len((await desk.list_settled(conversation=workspace)).items) == 2
        async with started(ROOT / FLOW, workspace, **line) as fourth:
            assert await fourth.ends() != 0
        assert own(fourth.said) == [], "an approval is used once"


@shows("crewai", "ask", "approve", "edit", "asks once")
@separate
@several_starts
async def test_a_killed_crew_begins_again_and_finds_the_answers_it_has_had(
    postgres: str, workspace: str, where: dict[str, str]
) -> None:
    line: dict[str, Any] = {"python": SEPARATE, "HANDRAISE_URL": postgres, **where}
    async with open_desk(postgres) as desk:
        async with started(ROOT / CREW, workspace, **line) as first:
            [why] = await asked(desk, workspace)
            assert own(await first.kill()) == ["thinking"]
        await desk.answer(why.id, "It was broken.", by="dora")
        async with started(ROOT / CREW, workspace, **line) as second:
            [refund] = await asked(desk, workspace)
            await desk.answer(refund.id, {"decision": "approve", "arguments": {"amount": 25}}, by="cleo")
            printed = own(await second.rest())
        assert printed[0] == "thinking", "it has thought twice, and asked once"
        assert re.fullmatch(r"refunding 25(\.0)? for A-17", printed[1])
        assert "It was broken." in printed[-1]
        assert len((await desk.list_settled(conversation=workspace)).items) == 2
        async with started(ROOT / CREW, workspace, **line) as third:
            printed = own(await third.rest())
        assert "refunding" not in "".join(printed[:-1]), "an approval is used once"
        assert "It worked, and this was reported: " in printed[-1]


@shows("crewai", "several at once")
@separate
async def test_two_tasks_of_a_crew_wait_in_threads_and_each_gets_its_own_answer(
    url: str, desk: Desk, where: dict[str, str]
) -> None:
    crew: list[Any] = [*([["ask_human", {"question": each}]] for each in ("A?", "B?")), []]
    async with playing(url, where, crew=crew) as program:
        pending = {each.prompt: each.id for each in await asked(desk, number=2)}
        await desk.answer(pending["B?"], "to b", by="ana")
        await desk.answer(pending["A?"], "to a", by="ana")
        results = await ended(program)
    assert ["to a" in results[0], "to b" in results[1]] == [True, True]


@shows("crewai", "asks back")
@separate
async def test_the_program_replies_to_a_person_who_asks_back_and_the_tool_reports(
    url: str, desk: Desk, where: dict[str, str]
) -> None:
    async with playing(url, where, crew=[[WHY, ["drop", {"table": "logs"}]]], replies=True) as program:
        for value in ("So.", "approve"):
            [each] = await asked(desk)
            assert each.replies == "program"
            await desk.ask_back(each.id, "Which customer?", by="ana")
            async with asyncio.timeout(SOON):
                while (await desk.get(each.id)).is_askers_turn:
                    await asyncio.sleep(0.01)
            assert (await desk.thread(each.id))[1].text == "Which customer? Customer 12."
            await desk.answer(each.id, value, by="ana", provenance=SEEN)
        [told] = await ended(program)
    assert "So." in told
    assert own(program.said)[0] == "dropped logs"
    [report] = [each.report for each in (await desk.list_settled()).items if each.report]
    assert (report.ok, report.text) == (True, "dropped logs")


@shows("crewai", "asks back")
@separate
async def test_a_person_asks_back_about_what_a_flow_asks(url: str, desk: Desk, where: dict[str, str]) -> None:
    async with playing(url, where, options={"replies": "program"}) as program:
        [question] = await asked(desk)
        await ask_back_to_program(desk, question)
        await desk.answer(question.id, ["mail"], by="ana", provenance=SEEN)
        [approval] = await asked(desk)
        await ask_back_to_program(desk, approval)
        await desk.answer(approval.id, "approve", by="ana", provenance=SEEN)
        assert await ended(program) == "dropped users by ['mail']"


@shows("crewai", "sends back")
@separate
async def test_a_question_of_a_crew_that_was_sent_back_is_changed_and_asked_again(
    url: str, desk: Desk, where: dict[str, str]
) -> None:
    async with playing(url, where, crew=[[WHY]]) as program:
        await send_back_and_answer(desk)
        [told] = await ended(program)
    assert "So." in told


@shows("crewai", "sends back", "other endings")
@separate
async def test_an_action_that_was_sent_back_or_denied_is_not_executed(
    url: str, desk: Desk, where: dict[str, str]
) -> None:
    tables = ("users", "logs", "temp", "system")
    crew = [[WHY, *(["drop", {"table": each}] for each in tables)]]
    async with playing(url, where, crew=crew) as program:
        [question] = await asked(desk)
        await desk.decline(question.id, by="ana", reason="ask Ben")
        [approval] = await asked(desk)
        await desk.send_back(approval.id, by="ana", reason=SENT_BACK)
        [approval] = await asked(desk)
        await desk.answer(approval.id, {"decision": "deny", "reason": "no"}, by="ana")
        for _ in range(2):
            [approval] = await asked(desk)
            await desk.answer(approval.id, "approve", by="ana")
        told = json.loads((await ended(program))[0])
    assert '"status":"declined"' in told[0]
    assert "sent back by ana: Say which order. Change it as they say, and call the tool again." in told[1]
    assert told[2].startswith("Not executed.")
    assert told[3] == "dropped temp"
    assert "not this one" in told[4]
    assert own(program.said)[:-1] == ["dropped temp"]
    report = (await desk.get(approval.id)).report
    assert report is not None
    assert (report.ok, report.text) == (False, "ValueError: not this one")


@shows("crewai", "other endings")
@separate
async def test_a_question_of_a_crew_that_expires_or_is_still_open_is_no_answer(
    url: str, desk: Desk, where: dict[str, str]
) -> None:
    crew = [[WHY, ["drop", {"table": "users"}]]]
    async with playing(url, where, crew=crew, options={"timeout": 0}) as program:
        told = json.loads((await ended(program))[0])
    assert [json.loads(each)["status"] for each in told] == ["still_pending"] * 2
    assert len((await desk.list_pending()).items) == 2
    crew = [[["ask_human", {"question": "How long?"}], ["drop", {"table": "logs"}]]]
    async with playing(url, where, crew=crew, options={"expires_in": 0.001}) as program:
        told = json.loads((await ended(program))[0])
    assert json.loads(told[0])["status"] == "expired"
    assert told[1].startswith("Not executed.")
    assert len(own(program.said)) == 1


@shows("crewai", "other endings", "sends back")
@separate
@pytest.mark.parametrize("ending", ["declined", "returned", "expired"])
async def test_a_flow_never_takes_another_ending_for_an_answer(
    url: str, desk: Desk, where: dict[str, str], ending: str
) -> None:
    options = {"expires_in": 0.001} if ending == "expired" else {}
    async with playing(url, where, options=options) as program:
        if ending != "expired":
            [question] = await asked(desk)
            with pytest.raises(handraise.InvalidAnswer):
                await desk.answer(question.id, ["letter"], by="ana")
            settle = desk.decline if ending == "declined" else desk.send_back
            await settle(question.id, by="ana", reason=SENT_BACK)
        printed = own(await program.rest())
    assert printed[0] == "begun"
    assert printed[-1].startswith("NotAnswered")
    assert len(printed) == 2


@shows("crewai", "other endings")
@separate
async def test_a_denied_action_of_a_flow_is_not_executed(url: str, desk: Desk, where: dict[str, str]) -> None:
    async with playing(url, where) as program:
        [question] = await asked(desk)
        await desk.answer(question.id, ["mail", "phone"], by="ana")
        [approval] = await asked(desk)
        await desk.answer(approval.id, {"decision": "deny", "reason": "no"}, by="ana")
        printed = own(await program.rest())
    assert printed == ["begun", "NotApproved: The action of question is not approved: denied by ana: no."]


@shows("crewai", "ask")
@separate
async def test_a_flow_goes_where_a_person_sends_it(url: str, desk: Desk, where: dict[str, str]) -> None:
    async with playing(url, where, flow="routing") as program:
        [question] = await asked(desk)
        assert (question.prompt, question.context) == ("Publish it?", "A draft.")
        await desk.answer(question.id, "rework", by="ana")
        assert await ended(program) == "rework: A draft."


@separate
async def test_feedback_that_did_not_come_from_the_desk_approves_nothing(
    url: str, desk: Desk, where: dict[str, str]
) -> None:
    question = await desk.post("May I?", form=Approval.of("drop", {"table": "users"}))
    await desk.answer(question.id, "approve", by="ana")
    async with playing(url, where, flow="forging", forged=question.id) as program:
        [printed] = own(await program.rest())
    assert printed.startswith("PermissionError: Not approved at the desk")


@separate
async def test_what_cannot_be_asked_goes_back_to_the_agent(
    url: str, desk: Desk, where: dict[str, str]
) -> None:
    async with playing(url, where, crew=[[["ask_human", {"question": "x" * 20_000}]]]) as program:
        [told] = json.loads((await ended(program))[0])
    assert '"status":"invalid"' in told
    assert not (await desk.list_pending()).items


def test_the_page_shows_the_programs_that_these_tests_run() -> None:
    page = (ROOT / "docs/integrations/crewai.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert shown == [(ROOT / each).read_text(encoding="utf-8") for each in (FLOW, CREW)]
