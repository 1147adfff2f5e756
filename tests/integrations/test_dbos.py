"""DBOS: workflows ask, sleep in DBOS, and are woken by its own messages."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from dbos import DBOS, DBOSClient, SetWorkflowID

from handraise import (
    Answered,
    Approval,
    Declined,
    Desk,
    Expired,
    NotAnswered,
    NotApproved,
    Outcome,
    StoreUnavailable,
)
from handraise.blocking import BlockingDesk
from handraise.blocking import open_desk as open_blocking
from handraise.errors import AlreadyConsumed
from handraise.integrations import dbos as asking
from handraise.integrations.waker import keep_waking
from handraise.outcomes import Returned
from handraise.questions import QuestionOptions
from tests.integrations.cells import KILLED_WHILE, killed_in_the_gate, more_processes, shows
from tests.integrations.processes import SOON, Program, asked, people, started, until
from tests.integrations.shop import SEEN, ask_back_to_program

HERE = Path(__file__).parent
EXAMPLE = HERE.parent.parent / "examples" / "integrations" / "dbos_workflow.py"
REFUND = Approval.of("send_refund", {"order": "A-17", "amount": 40}, editable=["amount"])

desks: list[BlockingDesk] = []
"""The desk of the workflows below, while a test runs."""


@DBOS.workflow()
def asks_blocking() -> Any:
    return asking.ask(desks[0], "How?", choices=["Canary", "Rolling"])


@DBOS.workflow()
async def asks_async() -> Any:
    return await asking.ask_async(desks[0], "How?", choices=["Canary", "Rolling"])


@DBOS.workflow()
def refunds_blocking() -> dict[str, Any]:
    return asking.request_approval(desks[0], REFUND).arguments


@DBOS.workflow()
async def refunds_async() -> dict[str, Any]:
    return (await asking.request_approval_async(desks[0], REFUND, replies="program")).arguments


sent: list[int] = []
"""What the step below has sent, while a test runs."""


@DBOS.step(retries_allowed=True, interval_seconds=0.01, max_attempts=2)
def send_once(question_id: str) -> str:
    try:
        action = desks[0].consume_approval(question_id)
    except AlreadyConsumed as used:
        return str(used)
    sent.append(action.arguments["amount"])
    raise ConnectionError("the line went dead behind the payment")


@DBOS.workflow()
def refunds_in_its_step() -> str:
    question_id = asking.post(desks[0], "May I refund?", form=REFUND)
    asking.wait(desks[0], question_id)
    return send_once(question_id)


@DBOS.workflow()
def refunds_as_told() -> dict[str, Any]:
    amount, options = 300, QuestionOptions()
    while True:
        try:
            approval = Approval.of("refund", {"amount": amount})
            return asking.request_approval(desks[0], approval, **options).arguments
        except NotApproved as refused:
            if not isinstance(refused.outcome, Returned):
                raise
            amount, options["replaces"] = int(refused.outcome.reason), refused.question_id


@DBOS.workflow()
def asks_two() -> list[Any]:
    first = asking.post(desks[0], "First?", choices=["a", "b"])
    second = asking.post(desks[0], "Second?", choices=["a", "b"])
    return [value_of(asking.wait(desks[0], each)) for each in (first, second)]


@DBOS.workflow()
async def asks_two_async() -> list[Any]:
    first = await asking.post_async(desks[0], "First?", choices=["a", "b"])
    second = await asking.post_async(desks[0], "Second?", choices=["a", "b"])
    return [value_of(await asking.wait_async(desks[0], each)) for each in (first, second)]


@DBOS.workflow()
def asks_for_a_while() -> Any:
    return asking.ask(desks[0], "Now?", expires_in=timedelta(seconds=0.3))


@DBOS.workflow()
def looks_again() -> Any:
    question_id = asking.post(desks[0], "How?", choices=["Canary", "Rolling"])
    return value_of(asking.wait(desks[0], question_id, look_again=0.1))


def value_of(outcome: Outcome) -> Any:
    assert isinstance(outcome, Answered)
    return outcome.value


@dataclass
class Setup:
    """A running DBOS in this process, and a desk for the people."""

    desk: Desk
    client: DBOSClient
    cursor: Path

    @asynccontextmanager
    async def waker(self) -> AsyncIterator[None]:
        task = asyncio.create_task(
            keep_waking(self.desk, asking.DBOSEngine(self.client), cursor=self.cursor, poll=0.05)
        )
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def started_as(workflow_id: str, workflow: Any) -> Any:
    """A handle to a workflow that was started as an application would: from a thread, or from a loop."""
    with SetWorkflowID(workflow_id):
        if inspect.iscoroutinefunction(workflow):
            await DBOS.start_workflow_async(workflow)
        else:
            await asyncio.to_thread(DBOS.start_workflow, workflow)
    return await DBOS.retrieve_workflow_async(workflow_id)


async def result_of(handle: Any) -> Any:
    async with asyncio.timeout(SOON):
        return await handle.get_result(polling_interval_sec=0.02)


@pytest.fixture
def dbos(tmp_path: Path) -> Iterator[str]:
    """DBOS in this process, on a SQLite file."""
    database = f"sqlite:///{tmp_path / 'dbos.sqlite'}"
    DBOS(
        config={
            "name": "tests",
            "system_database_url": database,
            "notification_listener_polling_interval_sec": 0.02,
            "log_level": "ERROR",
        }
    )
    DBOS.launch()
    yield database
    DBOS.destroy()


@pytest.fixture
async def setup(tmp_path: Path, dbos: str) -> AsyncIterator[Setup]:
    url = f"sqlite:///{tmp_path / 'questions.db'}"
    client = DBOSClient(system_database_url=dbos)
    with open_blocking(url) as desk:
        desks[:] = [desk]
        async with people(url) as others:
            yield Setup(others, client, tmp_path / "cursor")
        desks.clear()
    client.destroy()


@shows("dbos", "ask")
@pytest.mark.parametrize("workflow", [asks_blocking, asks_async])
async def test_a_workflow_goes_on_with_the_answer(setup: Setup, workflow: Any) -> None:
    async with setup.waker():
        handle = await started_as("w-1", workflow)
        [question] = await asked(setup.desk)
        await setup.desk.answer(question.id, "Canary", by="ana")
        assert await result_of(handle) == "Canary"


async def test_an_answer_from_before_the_waker_started_is_delivered(setup: Setup) -> None:
    handle = await started_as("w-1", asks_blocking)
    [question] = await asked(setup.desk)
    await setup.desk.answer(question.id, "Canary", by="ana")
    async with setup.waker():
        assert await result_of(handle) == "Canary"


@shows("dbos", "asks back")
async def test_a_program_replies_beside_the_workflow_to_a_person_who_asks_back(setup: Setup) -> None:
    async with setup.waker():
        handle = await started_as("w-1", refunds_async)
        [question] = await asked(setup.desk)
        await ask_back_to_program(setup.desk, question)
        await setup.desk.answer(question.id, "approve", by="ana", provenance=SEEN)
        assert await result_of(handle) == {"order": "A-17", "amount": 40}


@shows("dbos", "approve", "edit")
@pytest.mark.parametrize("workflow", [refunds_blocking, refunds_async])
async def test_an_action_is_executed_as_the_person_changed_it(setup: Setup, workflow: Any) -> None:
    async with setup.waker():
        handle = await started_as("w-1", workflow)
        [question] = await asked(setup.desk)
        await setup.desk.answer(question.id, {"decision": "approve", "arguments": {"amount": 25}}, by="ana")
        assert await result_of(handle) == {"order": "A-17", "amount": 25}
    assert (await setup.desk.get(question.id)).consumed_at is not None


@shows("dbos", "approve")
async def test_a_denied_action_is_not_given_out(setup: Setup) -> None:
    async with setup.waker():
        handle = await started_as("w-1", refunds_blocking)
        [question] = await asked(setup.desk)
        await setup.desk.answer(question.id, {"decision": "deny", "reason": "paid nothing yet"}, by="ana")
        with pytest.raises(NotApproved, match="paid nothing yet"):
            await result_of(handle)
    assert (await setup.desk.get(question.id)).consumed_at is None


@shows("dbos", "approve")
async def test_an_approval_is_used_once(setup: Setup) -> None:
    async with setup.waker():
        handle = await started_as("w-1", refunds_blocking)
        [question] = await asked(setup.desk)
        await setup.desk.answer(question.id, "approve", by="ana")
        await result_of(handle)
        steps = await DBOS.list_workflow_steps_async("w-1")
        (used,) = [each["function_id"] for each in steps if each["function_name"] == "handraise.consume"]
        fork = await DBOS.fork_workflow_async("w-1", used)
        with pytest.raises(Exception, match="already been used"):
            await result_of(fork)


@shows("dbos", "approve")
async def test_a_step_that_uses_up_the_approval_and_is_repeated_executes_nothing_twice(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.sent", [])
    async with setup.waker():
        handle = await started_as("w-1", refunds_in_its_step)
        [question] = await asked(setup.desk)
        await setup.desk.answer(question.id, {"decision": "approve", "arguments": {"amount": 25}}, by="ana")
        assert "unknown: find out before you ask" in await result_of(handle)
    assert sent == [25]


@shows("dbos", "approve")
async def test_an_approval_whose_giving_out_was_lost_is_given_to_the_same_step_again(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    consume, calls = BlockingDesk.consume_approval, []

    def consume_and_lose(self: BlockingDesk, question_id: str, **options: Any) -> Any:
        action = consume(self, question_id, **options)
        calls.append(question_id)
        if len(calls) == 1:
            raise StoreUnavailable("the line went dead behind the commit")
        return action

    monkeypatch.setattr(BlockingDesk, "consume_approval", consume_and_lose)
    async with setup.waker():
        started = await started_as("w-1", refunds_blocking)
        [question] = await asked(setup.desk)
        await setup.desk.answer(question.id, {"decision": "approve", "arguments": {"amount": 25}}, by="ana")
        assert await result_of(started) == {"order": "A-17", "amount": 25}
    assert calls == [question.id, question.id]


@shows("dbos", "several at once")
@pytest.mark.parametrize("workflow", [asks_two, asks_two_async])
async def test_two_questions_are_answered_in_reverse_order(setup: Setup, workflow: Any) -> None:
    async with setup.waker():
        handle = await started_as("w-1", workflow)
        by_prompt = {each.prompt: each.id for each in await asked(setup.desk, number=2)}
        await setup.desk.answer(by_prompt["Second?"], "b", by="ana")
        await setup.desk.answer(by_prompt["First?"], "a", by="bob")
        assert await result_of(handle) == ["a", "b"]


@shows("dbos", "asks once")
async def test_a_step_that_is_tried_again_asks_once(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    post, calls = BlockingDesk.post, []

    def post_and_lose(self: BlockingDesk, prompt: str, **options: Any) -> Any:
        posted = post(self, prompt, **options)
        calls.append(posted.id)
        if len(calls) == 1:
            raise StoreUnavailable("the line went dead behind the commit")
        return posted

    monkeypatch.setattr(BlockingDesk, "post", post_and_lose)
    async with setup.waker():
        handle = await started_as("w-1", asks_blocking)
        [question] = await asked(setup.desk)
        await setup.desk.answer(question.id, "Canary", by="ana")
        assert await result_of(handle) == "Canary"
    assert calls == [question.id, question.id]


@shows("dbos", "other endings")
async def test_declined_is_not_an_answer_and_can_be_read_from_outside(setup: Setup) -> None:
    async with setup.waker():
        await started_as("w-1", asks_blocking)
        [question] = await asked(setup.desk)
        await setup.desk.decline(question.id, by="ana", reason="not my business")
        with pytest.raises(NotAnswered) as caught:
            await result_of(await setup.client.retrieve_workflow_async("w-1"))
    assert isinstance(caught.value.outcome, Declined)
    assert caught.value.outcome.reason == "not my business"


@shows("dbos", "sends back")
async def test_a_workflow_changes_an_action_that_was_sent_back_and_asks_again(setup: Setup) -> None:
    async with setup.waker():
        handle = await started_as("w-1", refunds_as_told)
        [first] = await asked(setup.desk)
        await setup.desk.send_back(first.id, by="ana", reason="30")
        [second] = await asked(setup.desk)
        assert second.replaces == first.id
        await setup.desk.answer(second.id, "approve", by="ana")
        assert await result_of(handle) == {"amount": 30}


@shows("dbos", "other endings")
async def test_the_waker_keeps_timelines_and_an_expired_question_is_not_an_answer(setup: Setup) -> None:
    async with setup.waker():
        handle = await started_as("w-1", asks_for_a_while)
        with pytest.raises(NotAnswered) as caught:
            await result_of(handle)
    assert isinstance(caught.value.outcome, Expired)


async def test_a_forged_message_decides_nothing(setup: Setup) -> None:
    handle = await started_as("w-1", asks_blocking)
    [question] = await asked(setup.desk)
    for forged in ("Rolling", {"value": "Rolling"}, question.id):
        setup.client.send("w-1", forged, f"handraise:{question.id}")

    async def looked_again() -> bool:
        steps = await DBOS.list_workflow_steps_async("w-1")
        return len([each for each in steps if each["function_name"] == "handraise.outcome"]) == 4

    await until(looked_again)
    assert (await handle.get_status()).status == "PENDING"
    async with setup.waker():
        await setup.desk.answer(question.id, "Canary", by="ana")
        assert await result_of(handle) == "Canary"


async def test_a_workflow_looks_again_where_nobody_wakes_it(setup: Setup) -> None:
    handle = await started_as("w-1", looks_again)
    [question] = await asked(setup.desk)
    await setup.desk.answer(question.id, "Canary", by="ana")
    assert await result_of(handle) == "Canary"


async def test_a_second_delivery_changes_nothing_and_a_lost_workflow_holds_up_nobody(setup: Setup) -> None:
    await setup.desk.post("Whose?", key="lost", state={"wake": {"engine": "dbos", "workflow": "gone"}})
    [lost] = await asked(setup.desk)
    await setup.desk.answer(lost.id, "nobody's", by="ana")
    first, second = await started_as("w-1", asks_blocking), await started_as("w-2", asks_async)
    by_workflow = {each.state["wake"]["workflow"]: each for each in await asked(setup.desk, number=2)}
    one, other = by_workflow["w-1"], by_workflow["w-2"]
    await setup.desk.answer(one.id, "Canary", by="ana")
    async with setup.waker():
        assert await result_of(first) == "Canary"
    setup.cursor.unlink()
    async with setup.waker():
        await setup.desk.answer(other.id, "Rolling", by="ana")
        assert await result_of(second) == "Rolling"
    assert await result_of(first) == "Canary"


@shows("dbos", "survives kill", "resumes elsewhere", "asks once")
@pytest.mark.parametrize(("address", "die"), KILLED_WHILE, indirect=["address"])
@killed_in_the_gate
async def test_a_killed_workflow_goes_on_elsewhere_and_its_steps_ran_once(
    empty_address: str, tmp_path: Path, die: list[str]
) -> None:
    url = database = empty_address
    if url.startswith("sqlite:"):
        database = f"sqlite:///{tmp_path / 'dbos.sqlite'}"
    app = (HERE / "app_dbos.py", database, tmp_path / "log")
    async with people(url) as desk:
        async with started(*app, *die, HANDRAISE_URL=url) as first:
            [question] = await asked(desk)
            if die:
                assert await first.ends() == -9
            else:
                await until(lambda: asleep(database))
        async with waking(database, tmp_path / "cursor", url) as waker:
            await until((tmp_path / "cursor").exists)
            await waker.kill()
        await desk.answer(question.id, "Canary", by="ana")
        async with started(*app, HANDRAISE_URL=url) as second, waking(database, tmp_path / "cursor", url):
            assert await second.says("result:") == "result: Canary"
            assert await second.ends() == 0
        assert not (await desk.list_pending()).items
        assert [each.id for each in (await desk.list_settled()).items] == [question.id]
    assert (tmp_path / "log").read_text().splitlines() == ["prepared", "goes on with Canary"]


async def asleep(database: str) -> bool:
    """Whether the workflow waits for its message."""
    client = DBOSClient(system_database_url=database)
    try:
        steps = await client.list_workflow_steps_async("deploy-1")
        return any(each["function_name"] == "handraise.outcome" for each in steps)
    finally:
        client.destroy()


@asynccontextmanager
async def waking(database: str, cursor: Path, url: str) -> AsyncIterator[Program]:
    module = "handraise.integrations.dbos"
    async with started("-m", module, database, "--cursor", cursor, HANDRAISE_URL=url) as waker:
        yield waker


@more_processes
async def test_the_page_shows_a_program_that_runs(tmp_path: Path) -> None:
    page = (HERE.parent.parent / "docs" / "integrations" / "dbos.md").read_text(encoding="utf-8")
    assert f"```python\n{EXAMPLE.read_text(encoding='utf-8')}```" in page
    url = f"sqlite:///{tmp_path / 'questions.db'}"
    async with people(url) as desk, started(EXAMPLE, folder=tmp_path, HANDRAISE_URL=url) as first:
        [question] = await asked(desk)
        await first.kill()
        assert first.said[-1:] == ["built v42"] or "built v42" in first.said
        await desk.answer(question.id, "Canary", by="ana")
        command = "python -m handraise.integrations.dbos sqlite:///deploys.sqlite --cursor waker.json"
        assert command in page
        async with (
            started(*command.split()[1:], folder=tmp_path, HANDRAISE_URL=url),
            started(EXAMPLE, folder=tmp_path, HANDRAISE_URL=url) as second,
        ):
            await second.says("v42 goes out as Canary")
            assert not any("built" in line for line in second.said)
