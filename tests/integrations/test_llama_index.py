from __future__ import annotations

import asyncio
import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from workflows import Context, Workflow, step
from workflows.events import StartEvent, StopEvent

import handraise
from handraise import Approval, Desk, open_desk
from handraise.integrations import llama_index
from handraise.testing import ManualClock
from tests.integrations.cells import LONG_WAY, ON_BOTH, killed_in_the_gate, shows
from tests.integrations.processes import ROOT, asked, started
from tests.integrations.shop import SEEN, ask_back_to_program

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

APP = "examples/integrations/llama_index_workflow.py"


@shows("llama-index", *LONG_WAY)
@pytest.mark.parametrize("address", ON_BOTH, indirect=True)
@killed_in_the_gate
async def test_a_workflow_goes_on_in_another_process_after_a_kill(address: str, workspace: str) -> None:
    async with open_desk(address) as desk:
        async with started(ROOT / APP, workspace, HANDRAISE_URL=address) as first:
            pending = await asked(desk, workspace, number=2)
            assert await first.kill() == ["thinking"]
        why, refund = sorted(pending, key=lambda each: each.form.kind, reverse=True)
        assert isinstance(refund.form, Approval)
        assert refund.form.action.arguments == {"order": "A-17", "amount": 40}
        await desk.answer(refund.id, {"decision": "approve", "arguments": {"amount": 25}}, by="cleo")
        async with started(ROOT / APP, workspace, HANDRAISE_URL=address) as second:
            await desk.answer(why.id, "It was broken.", by="dora")
            printed = await second.rest()
        assert printed[0] == "refunding 25 for A-17"
        assert re.search(r"\['sent', .*It was broken\.", printed[-1])
        assert len((await desk.list_settled(conversation=workspace)).items) == 2


class Trip(Workflow):
    """Asks one thing after the other, in one step."""

    def __init__(self) -> None:
        super().__init__(timeout=None)
        self.begun = 0

    @step
    async def plan(self, ctx: Context[Any], start: StartEvent) -> StopEvent:
        self.begun += 1
        city = await llama_index.ask(ctx, "city", "Which city?", choices=["Bern", "Rome"])
        nights = await llama_index.ask(
            ctx, "nights", "How long?", form={"type": "object", "properties": {"n": {"type": "integer"}}}
        )
        try:
            booked: Any = await llama_index.request_approval(ctx, "book", "book", {"city": city.value})
        except handraise.NotApproved as refused:
            booked = refused.reason
        return StopEvent(result=[start.get("who"), city.value, nights.answered, nights.words, booked])


def run(desk: Desk, workflow: Workflow | None = None, **options: Any) -> asyncio.Task[Any]:
    start = StartEvent(who="ana")
    return asyncio.create_task(llama_index.run(workflow or Trip(), start, desk=desk, key="trip", **options))


@shows("llama-index", "other endings")
async def test_what_is_not_an_answer_reaches_the_step_as_such(tmp_path: Path) -> None:
    clock = ManualClock()
    async with open_desk(f"sqlite:///{tmp_path / 'questions.db'}", clock=clock) as desk:
        going = run(desk, expires_in=timedelta(hours=1))
        (city,) = await asked(desk)
        await desk.answer(city.id, "Rome", by="ana")
        (nights,) = await asked(desk)
        await desk.decline(nights.id, by="ana", reason="who knows")
        (book,) = await asked(desk)
        assert isinstance(book.form, Approval)
        clock.advance(timedelta(hours=2))
        await desk.run_due()
        who, where, answered, words, booked = await going
    assert (who, where, answered) == ("ana", "Rome", False)
    assert '"declined"' in words
    assert "who knows" in words
    assert booked == "expired without an answer"


@shows("llama-index", "sends back")
async def test_a_step_reads_why_its_question_was_sent_back_and_its_action_is_not_approved(desk: Desk) -> None:
    going = run(desk)
    for answer in ("Bern", None, None):
        (question,) = await asked(desk)
        if answer is None:
            await desk.send_back(question.id, by="ana", reason="Say for how many.")
        else:
            await desk.answer(question.id, answer, by="ana")
    _, _, answered, words, booked = await going
    told = json.loads(words)
    assert (answered, told["status"], told["reason"]) == (False, "returned", "Say for how many.")
    assert booked == "sent back by ana: Say for how many."


@shows("llama-index", "asks back")
async def test_a_program_replies_beside_the_workflow_to_a_person_who_asks_back(desk: Desk) -> None:
    going = run(desk, replies="program")
    for answer in ("Bern", {"n": 3}, "approve"):
        (question,) = await asked(desk)
        await ask_back_to_program(desk, question)
        await desk.answer(question.id, answer, by="ana", provenance=SEEN)
    assert (await going)[-1] == {"city": "Bern"}


@shows("llama-index", "asks once")
async def test_a_run_that_is_made_again_at_every_question_asks_each_once(desk: Desk) -> None:
    answers: dict[str, Any] = {"Which city?": "Bern", "How long?": {"n": 3}, "May I run book?": "approve"}
    for prompt, answer in answers.items():
        with pytest.raises(handraise.StillPending):
            await run(desk, timeout=0)
        with pytest.raises(handraise.StillPending):
            await run(desk, timeout=0)
        (question,) = (await desk.list_pending()).items
        assert question.prompt == prompt
        await desk.answer(question.id, answer, by="ana")
    who, where, answered, words, booked = await run(desk)
    assert (who, where, answered, booked) == ("ana", "Bern", True, {"city": "Bern"})
    assert '"value":{"n":3}' in words
    assert len((await desk.list_settled()).items) == 3


async def test_a_step_runs_again_from_its_start_for_every_answer(desk: Desk) -> None:
    workflow = Trip()
    going = run(desk, workflow)
    for answer in ("Bern", {"n": 3}, "approve"):
        (question,) = await asked(desk)
        await desk.answer(question.id, answer, by="ana")
    await going
    assert workflow.begun == 4


async def test_an_approval_is_given_out_once_though_its_step_runs_again(desk: Desk) -> None:
    ran: list[str] = []

    class Twice(Workflow):
        @step
        async def plan(self, ctx: Context[Any], start: StartEvent) -> StopEvent:
            arguments = await llama_index.request_approval(ctx, "drop", "drop", {"table": "users"})
            ran.append(arguments["table"])
            told = await llama_index.ask(ctx, "next", f"What next, {start.get('who')}?")
            return StopEvent(result=told.value)

    going = run(desk, Twice(timeout=None))
    (approval,) = await asked(desk)
    await desk.answer(approval.id, "approve", by="ana")
    (following,) = await asked(desk)
    await desk.answer(following.id, "nothing", by="ana")
    with pytest.raises(handraise.errors.AlreadyConsumed):
        await going
    assert ran == ["users"]


@pytest.mark.parametrize("fails", [False, True])
async def test_what_came_of_an_approved_function_is_reported(desk: Desk, *, fails: bool) -> None:
    def drop(table: str, limit: int) -> str:
        if fails:
            raise ValueError("not this one")
        return f"dropped {limit} of {table}"

    class Drops(Workflow):
        @step
        async def plan(self, ctx: Context[Any], start: StartEvent) -> StopEvent:
            table = {"table": str(start.get("who")), "limit": 3}
            return StopEvent(result=await llama_index.run_approved(ctx, "d", drop, table, editable=["limit"]))

    going = run(desk, Drops(timeout=None))
    (question,) = await asked(desk)
    await desk.answer(question.id, {"decision": "approve", "arguments": {"limit": 2}}, by="ana")
    await asyncio.wait([going])
    report = (await desk.get(question.id)).report
    assert report is not None
    if fails:
        assert isinstance(going.exception(), ValueError)
        assert (report.ok, report.text) == (False, "ValueError: not this one")
    else:
        assert (report.ok, report.text) == (True, going.result())
        assert report.text == "dropped 2 of ana"


async def test_what_no_person_could_be_shown_is_an_error_of_the_workflow(desk: Desk) -> None:
    class Bad(Workflow):
        @step
        async def plan(self, ctx: Context[Any], start: StartEvent) -> StopEvent:
            await llama_index.request_approval(
                ctx, "x", "tool", {"of": start.get("who")}, prompt="x" * 20_000
            )
            return StopEvent(result=None)

    with pytest.raises(handraise.InvalidQuestion):
        await run(desk, Bad(timeout=None))
    assert not (await desk.list_pending()).items


def test_the_page_shows_the_program_that_these_tests_run() -> None:
    page = (ROOT / "docs/integrations/llama-index.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert shown == [(ROOT / APP).read_text(encoding="utf-8")]
