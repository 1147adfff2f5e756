from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from a2a.client import Client, ClientConfig, create_client
from a2a.helpers import get_data_parts, get_message_text, new_data_part, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    GetTaskRequest,
    Message,
    Role,
    SendMessageRequest,
    Task,
    TaskState,
    TaskStatus,
)
from starlette.applications import Starlette

import handraise
from handraise import Answered, Approval, Desk, Form, open_desk
from handraise.integrations.a2a import DeskTask, RemoteAgent, TaskWaker
from handraise.integrations.waker import NobodyWaits
from support.free_port import free_port
from tests.integrations.cells import killed_in_the_gate, more_processes, shows
from tests.integrations.processes import ROOT, SOON, asked, listening, started
from tests.integrations.shop import ask_back_to_program

AGENT = "examples/integrations/a2a_agent.py"
RUN = "examples/integrations/a2a_run.py"
NEEDS_INPUT = TaskState.TASK_STATE_INPUT_REQUIRED
COMPLETED = TaskState.TASK_STATE_COMPLETED


@asynccontextmanager
async def client_at(port: int, token: str = "a token of your application") -> AsyncIterator[Client]:  # noqa: S107 -- an example's
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(headers=headers, timeout=30) as http:
        yield await create_client(
            f"http://127.0.0.1:{port}", ClientConfig(streaming=False, httpx_client=http)
        )


async def send(client: Client, message: Message) -> Task:
    (event,) = [event async for event in client.send_message(SendMessageRequest(message=message))]
    return event.task


def reply(task: Task, *parts: Any) -> Message:
    return Message(
        role=Role.ROLE_USER,
        message_id=f"m-{len(task.history)}",
        task_id=task.id,
        context_id=task.context_id,
        parts=parts,
    )


def questions_in(task: Task) -> dict[str, dict[str, Any]]:
    (data,) = get_data_parts(task.status.message.parts)
    return {each["kind"]: each for each in data["handraise"]["questions"]}


def answering(answers: dict[str, Any]) -> Any:
    return new_data_part({"handraise": {"answers": answers}})


async def until(client: Client, task: Task, state: Any) -> Task:
    async with asyncio.timeout(SOON):
        while True:
            task = await client.get_task(GetTaskRequest(id=task.id))
            if task.status.state == state:
                return task
            await asyncio.sleep(0.02)


GO = new_text_message("Refund A-17.", role=Role.ROLE_USER)


@shows("a2a", "ask", "approve", "edit", "survives kill", "resumes elsewhere", "several at once", "asks once")
@killed_in_the_gate
async def test_a_task_goes_on_after_a_kill_when_people_answer_in_the_inbox(
    tmp_path: Path, url: str, desk: Desk
) -> None:
    port = free_port()
    async with started(ROOT / AGENT, HANDRAISE_URL=url, PORT=str(port), DATA=str(tmp_path)) as first:
        await listening(port)
        async with client_at(port) as client:
            task = await send(client, GO)
            assert task.status.state == NEEDS_INPUT
            assert set(questions_in(task)) == {"open", "approval"}
        assert await first.kill() == ["thinking"]
    why, refund = sorted(await asked(desk, number=2), key=lambda each: each.form.kind, reverse=True)
    await desk.answer(refund.id, {"decision": "approve", "arguments": {"amount": 25}}, by="cleo")
    async with started(ROOT / AGENT, HANDRAISE_URL=url, PORT=str(port), DATA=str(tmp_path)) as second:
        await listening(port)
        async with client_at(port) as client:
            await desk.answer(why.id, "It was broken.", by="dora")
            task = await until(client, task, COMPLETED)
        assert await second.kill() == ["refunding 25 for A-17"]
    assert "It was broken." in get_message_text(task.status.message)
    assert "sent" in get_message_text(task.status.message)
    assert len((await desk.list_settled()).items) == 2


@shows("a2a", "other endings")
@more_processes
async def test_a_client_answers_by_message_as_whom_the_host_signed_in(
    tmp_path: Path, url: str, desk: Desk
) -> None:
    port = free_port()
    async with started(ROOT / AGENT, HANDRAISE_URL=url, PORT=str(port), DATA=str(tmp_path)) as agent:
        await listening(port)
        async with client_at(port) as client:
            task = await send(client, GO)
            questions = questions_in(task)
            unfit = {questions["approval"]["id"]: {"decision": "perhaps"}, "another": 1}
            task = await send(client, reply(task, answering(unfit)))
            assert task.status.state == NEEDS_INPUT
            said = get_message_text(task.status.message)
            assert "does not fit" in said
            assert "no open question 'another'" in said
            denied = {questions["approval"]["id"]: {"decision": "deny", "reason": "no"}}
            task = await send(client, reply(task, answering(denied)))
            assert set(questions_in(task)) == {"open"}
            declined = {questions["open"]["id"]: {"declined": True, "reason": "ask Ben"}}
            task = await send(client, reply(task, answering(declined)))
            assert task.status.state == COMPLETED
            why, refund = get_message_text(task.status.message).splitlines()
            assert json.loads(why)["status"] == "declined"
            assert json.loads(refund)["value"]["decision"] == "deny"
            by = (await desk.get(questions["approval"]["id"])).outcome
            assert isinstance(by, Answered)
            assert (by.by, by.channel, by.evidence) == ("ana", "a2a", "client-asserted")

            task = await send(client, GO)
            for each in (await desk.list_pending()).items:
                if isinstance(each.form, Approval):
                    await desk.answer(each.id, "deny", by="cleo")
            task = await send(client, reply(task, new_text_part("It was blue.")))
            assert task.status.state == COMPLETED
            assert "It was blue." in get_message_text(task.status.message)
        async with client_at(port, "no token") as nobody:
            task = await send(nobody, GO)
            answers = {each["id"]: "approve" for each in questions_in(task).values()}
            task = await send(nobody, reply(task, answering(answers)))
            assert task.status.state == NEEDS_INPUT
            assert "Sign in" in get_message_text(task.status.message)
            assert len((await desk.list_pending()).items) == 2
        assert "refunding" not in " ".join(await agent.kill())


@shows("a2a", "survives kill", "resumes elsewhere", "several at once", "approve", "edit")
@more_processes
async def test_our_inbox_answers_a_remote_agent_after_the_client_was_killed(
    tmp_path: Path, postgres: str, workspace: str
) -> None:
    port = free_port()
    theirs = f"sqlite:///{tmp_path / 'theirs.db'}"
    base = f"http://127.0.0.1:{port}"
    async with started(ROOT / AGENT, HANDRAISE_URL=theirs, PORT=str(port), DATA=str(tmp_path)) as agent:
        await listening(port)
        async with open_desk(postgres) as desk:
            async with started(ROOT / RUN, base, workspace, HANDRAISE_URL=postgres) as first:
                pending = await asked(desk, workspace, number=2)
                await first.kill()
            why, refund = sorted(pending, key=lambda each: each.form.kind, reverse=True)
            assert isinstance(refund.form, Approval)
            assert refund.form.action.arguments == {"order": "A-17", "amount": 40}
            await desk.answer(refund.id, {"decision": "approve", "arguments": {"amount": 30}}, by="cleo")
            await desk.answer(why.id, "It was broken.", by="dora")
            async with started(ROOT / RUN, base, workspace, HANDRAISE_URL=postgres) as second:
                printed = await second.rest()
            assert len((await desk.list_settled(conversation=workspace)).items) == 2
        assert await agent.kill() == ["thinking", "refunding 30 for A-17"]
    assert "It was broken." in printed[0]
    assert printed[-1] == "sent"


class Plain(AgentExecutor):
    """Somebody else's agent, which knows nothing of Handraise: it asks in words, perhaps with a schema."""

    def __init__(self, *needs: list[Any]) -> None:
        self.needs = list(needs)
        self.heard: list[Message] = []

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        assert context.task_id is not None
        assert context.context_id is not None
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        if context.current_task is None:
            await event_queue.enqueue_event(
                Task(id=context.task_id, context_id=context.context_id, history=[context.message])
            )
        self.heard.append(context.message)
        if self.needs:
            await updater.requires_input(updater.new_agent_message(self.needs.pop(0)))
        else:
            await updater.complete(updater.new_agent_message([new_text_part("done")]))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


def card_at(port: int) -> AgentCard:
    return AgentCard(
        name="Plain",
        description="Plain.",
        version="1",
        capabilities=AgentCapabilities(streaming=False),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="s", name="s", description="s", tags=["s"])],
        supported_interfaces=[
            AgentInterface(
                protocol_binding="JSONRPC", protocol_version="1.0", url=f"http://127.0.0.1:{port}/rpc"
            )
        ],
    )


@asynccontextmanager
async def serving(agent: AgentExecutor) -> AsyncIterator[Client]:
    port = free_port()
    card = card_at(port)
    handler = DefaultRequestHandler(agent_executor=agent, task_store=InMemoryTaskStore(), agent_card=card)
    app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/rpc")])
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error", lifespan="off"))
    task = asyncio.create_task(server.serve())
    try:
        await listening(port)
        async with client_at(port) as client:
            yield client
    finally:
        server.should_exit = True
        await task
        await handler.aclose()


SCHEMA = {"type": "object", "properties": {"nights": {"type": "integer"}}, "required": ["nights"]}


@shows("a2a", "ask", "asks once", "other endings")
async def test_somebody_elses_agent_is_told_the_answer_or_that_there_is_none(desk: Desk) -> None:
    agent = Plain(
        [new_text_part("Which city?")],
        [new_text_part("How long?"), new_data_part(SCHEMA)],
        [new_text_part("And who pays?")],
    )
    async with serving(agent) as client:
        remote = RemoteAgent(client, desk)
        running = asyncio.create_task(remote.run(GO, key="trip", recipients=["ana"]))
        (city,) = await asked(desk)
        assert (city.prompt, city.recipients) == ("Which city?", ("ana",))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        running = asyncio.create_task(remote.run(GO, key="trip", recipients=["ana"]))
        await desk.answer(city.id, "Bern", by="ana")
        (nights,) = await asked(desk)
        assert isinstance(nights.form, Form)
        await desk.answer(nights.id, {"nights": 3}, by="ana")
        (pays,) = await asked(desk)
        await desk.decline(pays.id, by="ana", reason="not my business")
        task = await running
        assert isinstance(task, Task)
        assert get_message_text(task.status.message) == "done"
        again = await remote.run(GO, key="trip", recipients=["ana"])
        assert isinstance(again, Task)
        assert again.id == task.id
    said = [get_message_text(each) for each in agent.heard]
    assert said[:2] == ["Refund A-17.", "Bern"]
    assert get_data_parts(agent.heard[2].parts) == [{"handraise": {"answers": {"answer": {"nights": 3.0}}}}]
    assert said[3] == "No answer: declined by ana: not my business."
    assert len(said) == 4


@shows("a2a", "sends back")
async def test_a_remote_agent_is_told_what_was_sent_back(desk: Desk) -> None:
    asks = {"id": "q-1", "prompt": "Pay?", "kind": "approval", "tool": "pay", "arguments": {"amount": 300}}
    agent = Plain([new_text_part("Pay?"), new_data_part({"handraise": {"questions": [asks]}})])
    async with serving(agent) as client:
        running = asyncio.create_task(RemoteAgent(client, desk).run(GO, key="trip"))
        (pay,) = await asked(desk)
        await desk.send_back(pay.id, by="ana", reason="Only 30.")
        await running
    [answers] = get_data_parts(agent.heard[1].parts)
    assert answers == {"handraise": {"answers": {"q-1": {"sendBack": "Only 30."}}}}


class Paying(AgentExecutor):
    """Asks whether it may pay, changes what is sent back, and says what it may pay in the end."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        task = DeskTask(self.desk, context, event_queue, person=lambda _: "ana")
        await task.begin()
        pay = await task.ask("pay", "Pay?", form=Approval.of("pay", {"amount": 300}))
        if pay.status == "returned":
            form = Approval.of("pay", {"amount": 30})
            pay = await task.ask("pay less", "Pay?", form=form, replaces=pay.id)
        if await task.paused():
            return
        amount = (await self.desk.consume_approval(pay.id)).arguments["amount"]
        await task.updater.complete(task.updater.new_agent_message([new_text_part(f"paid {amount}")]))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


@shows("a2a", "sends back")
async def test_a_client_sends_an_action_back_and_the_agent_changes_it(desk: Desk) -> None:
    async with serving(Paying(desk)) as client:
        task = await send(client, GO)
        first = questions_in(task)["approval"]["id"]
        for wrong in ("", 7, None):
            task = await send(client, reply(task, answering({first: {"sendBack": wrong}})))
            assert "say what to change" in get_message_text(task.status.message)
        task = await send(client, reply(task, answering({first: {"sendBack": "Only 30."}})))
        second = questions_in(task)["approval"]
        assert (second["replaces"], second["arguments"]) == (first, {"amount": 30})
        task = await send(client, reply(task, answering({second["id"]: {"decision": "approve"}})))
    assert get_message_text(task.status.message) == "paid 30"


@shows("a2a", "asks back")
async def test_a_program_replies_for_a_remote_agent_to_a_person_who_asks_back(desk: Desk) -> None:
    agent = Plain([new_text_part("Which city?")])
    async with serving(agent) as client:
        running = asyncio.create_task(RemoteAgent(client, desk).run(GO, key="trip", replies="program"))
        (city,) = await asked(desk)
        await ask_back_to_program(desk, city)
        await desk.answer(city.id, "Bern", by="ana")
        await running
    assert [get_message_text(each) for each in agent.heard] == ["Refund A-17.", "Bern"]


async def test_a_schema_that_no_person_could_be_shown_is_refused_and_nobody_is_asked(desk: Desk) -> None:
    nested = {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}}
    async with serving(Plain([new_text_part("What?"), new_data_part(nested)])) as client:
        with pytest.raises(handraise.InvalidQuestion):
            await RemoteAgent(client, desk).run(GO, key="trip")
    assert not (await desk.list_pending()).items


async def test_a_task_that_is_at_work_already_is_not_run_a_second_time_for_the_same_answer(
    desk: Desk,
) -> None:
    """Else an answer that came in a message would be woken for as well, and the second run find its approval used."""
    runs: list[str] = []

    class Agent(AgentExecutor):
        async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
            runs.append(str(context.task_id))
            await TaskUpdater(event_queue, str(context.task_id), str(context.context_id)).complete()

        async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
            raise NotImplementedError

    store, call = InMemoryTaskStore(), ServerCallContext()
    handler = DefaultRequestHandler(agent_executor=Agent(), task_store=store, agent_card=card_at(1))
    working = Task(id="t", context_id="c", status=TaskStatus(state=TaskState.TASK_STATE_WORKING))
    await store.save(working, call)
    to = {"task": "t", "context": "c", "user": None, "tenant": ""}
    waking = asyncio.create_task(TaskWaker(desk, handler).wake("q", to))
    await asyncio.sleep(0.2)
    await store.save(Task(id="t", context_id="c", status=TaskStatus(state=COMPLETED)), call)
    with pytest.raises(NobodyWaits):
        await waking
    assert runs == []


def test_the_page_shows_the_programs_that_these_tests_run() -> None:
    page = (ROOT / "docs/integrations/a2a.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert shown == [(ROOT / each).read_text(encoding="utf-8") for each in (RUN, AGENT)]
