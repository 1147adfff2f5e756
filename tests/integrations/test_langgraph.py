"""LangGraph: a graph interrupts, people are asked, and it goes on from its checkpoint with their answers."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any, TypedDict

import pydantic
import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import interrupt

import handraise
from handraise import Choice, Declined, Desk, Expired, Form, NotAnswered, StillPending, open_desk
from handraise.integrations.langgraph import Graph, ask, ask_human, reply_to_person, resume_command, run
from handraise.tools import requires_approval
from tests.integrations.cells import ON_BOTH, cannot, killed_in_the_gate, more_processes, shows
from tests.integrations.processes import ROOT, asked, started
from tests.integrations.shop import SENT_BACK, ask_back_and_answer, changed, reply_to, send_back_and_answer

APP = "tests/integrations/app_langgraph.py"
EXAMPLE = "examples/integrations/langgraph_graph.py"
APPROVAL = "examples/integrations/langgraph_approval.py"
NO_CALLS = (
    "a graph has no tool calls of its own: use `requires_approval` around a function in a node, as its page shows, or LangChain's "
    "agents"
)
PAGE = ROOT / "docs" / "integrations" / "langgraph.md"


class State(TypedDict, total=False):
    value: Any
    other: Any


def graph_of(*nodes: Any, checkpointer: Any = None) -> Graph:
    """A graph of nodes that run side by side."""
    builder = StateGraph(State)
    for node in nodes:
        builder.add_node(node.__name__, node)
        builder.add_edge(START, node.__name__)
    return builder.compile(checkpointer=checkpointer or InMemorySaver())


def by_prompt(questions: list[handraise.Question]) -> dict[str, handraise.Question]:
    return {question.prompt: question for question in questions}


@shows("langgraph", "ask", "survives kill", "resumes elsewhere", "several at once", "asks once")
@pytest.mark.parametrize("address", ON_BOTH, indirect=True)
@killed_in_the_gate
async def test_a_graph_that_is_killed_while_two_people_are_asked_goes_on_in_another_process(
    address: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    checkpoints = address if address.startswith("postgresql:") else str(tmp_path / "checkpoints.db")
    arguments = (address, checkpoints, f"deploy {tmp_path.name}", str(log))
    async with open_desk(address) as desk:
        async with started(ROOT / APP, *arguments) as first:
            before = by_prompt(await asked(desk, arguments[2], number=2))
            await first.kill()
        await desk.answer(before["Which region?"].id, "eu-1", by="ana")
        async with started(ROOT / APP, *arguments) as second:
            await desk.answer(before["Which strategy?"].id, "Rolling", by="ben")
            assert await second.rest() == ["Rolling in eu-1"]
        assert (await desk.list_pending(conversation=arguments[2])).items == []
    assert log.read_text().splitlines() == ["prepared", "deployed Rolling in eu-1"]


def replying_graph(checkpointer: InMemorySaver) -> Graph:
    """A graph with tools of its own: it asks, and replies to people who ask back."""

    def model(state: MessagesState) -> Any:
        told = [str(each.content) for each in state["messages"] if isinstance(each, ToolMessage)]
        if told and (reply := reply_to(told[-1])):
            call = {"name": "reply_to_person", "args": reply, "id": f"r{len(told)}"}
        elif told and (again := changed(told[-1])):
            call = {"name": "ask_human", "args": again, "id": "c2"}
        elif told:
            return {"messages": [AIMessage("Done.")]}
        else:
            call = {"name": "ask_human", "args": {"question": "Why?"}, "id": "c1"}
        return {"messages": [AIMessage("", tool_calls=[call])]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", model)
    builder.add_node("tools", ToolNode([ask_human, reply_to_person]))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=checkpointer)


@shows("langgraph", "asks back")
async def test_a_person_asks_back_and_a_graph_that_is_run_again_replies_once(desk: Desk) -> None:
    checkpointer = InMemorySaver()

    async def go_on(timeout: float | None = 0) -> Any:
        graph = replying_graph(checkpointer)
        start = {"messages": [("user", "Go.")]}
        return await run(graph, start, desk=desk, key="t", replies="model", timeout=timeout)

    with pytest.raises(StillPending):
        await go_on()
    answering = asyncio.create_task(ask_back_and_answer(desk))
    [question] = await asked(desk)
    async with asyncio.timeout(20):
        while not (await desk.get(question.id)).thread:
            await asyncio.sleep(0.01)
    for _ in range(2):
        with suppress(StillPending):
            await go_on()
    result = await go_on(timeout=None)
    assert (await answering).id == question.id
    told = [json.loads(str(each.content)) for each in result["messages"] if isinstance(each, ToolMessage)]
    assert [each["status"] for each in told] == ["asked_back", "answered"]
    assert ((await desk.get(question.id)).thread, len((await desk.list_settled()).items)) == (2, 1)


@shows("langgraph", "sends back")
async def test_a_question_that_was_sent_back_is_changed_and_asked_again(desk: Desk) -> None:
    start = {"messages": [("user", "Go.")]}
    going = asyncio.create_task(run(replying_graph(InMemorySaver()), start, desk=desk, key="t"))
    await send_back_and_answer(desk)
    messages = (await going)["messages"]
    told = [json.loads(str(each.content))["status"] for each in messages if isinstance(each, ToolMessage)]
    assert told == ["returned", "answered"]


@shows("langgraph", "sends back")
async def test_a_node_reads_why_its_question_was_sent_back(desk: Desk) -> None:
    ended: list[Any] = []

    def node(_: State) -> State:
        try:
            return {"value": ask("Which region?")}
        except NotAnswered as refused:
            ended.append(refused.outcome)
            return {"value": ask(f"Which region? {refused.outcome.status}")}

    running = asyncio.create_task(run(graph_of(node), {}, desk=desk, key="t"))
    [question] = await asked(desk)
    sent_back = await desk.send_back(question.id, by="ana", reason=SENT_BACK)
    [again] = await asked(desk)
    assert again.prompt == "Which region? returned"
    await desk.answer(again.id, "eu", by="ana")
    assert await running == {"value": "eu"}
    assert set(ended) == {sent_back.outcome}


async def test_an_approval_is_refused_in_one_sentence_and_a_corrected_node_goes_on(desk: Desk) -> None:
    asked_for: list[Any] = [handraise.Approval.of("pay")]

    def node(_: State) -> State:
        return {"value": ask("Pay?", form=asked_for[-1])}

    graph = graph_of(node)
    for _ in range(2):
        with pytest.raises(
            handraise.InvalidQuestion, match=r"desk\.request_approval\(Approval\.of"
        ) as refused:
            await run(graph, {}, desk=desk, key="t")
        assert len(str(refused.value).splitlines()) == 1
    asked_for.append(handraise.Confirm())
    running = asyncio.create_task(run(graph, {}, desk=desk, key="t"))
    [question] = await asked(desk)
    await desk.answer(question.id, "yes", by="ana")
    assert await running == {"value": True}


async def test_what_an_earlier_release_stored_and_nobody_can_be_asked_heals_with_a_corrected_node(
    desk: Desk,
) -> None:
    stored: list[Any] = [{"handraise": {"prompt": "Pay?", "form": {"kind": "approval"}, "context": None}}]

    def node(_: State) -> State:
        return {"value": interrupt(stored[-1])}

    graph = graph_of(node)
    with pytest.raises(handraise.InvalidQuestion, match="cannot ask for an approval"):
        await run(graph, {}, desk=desk, key="t")
    stored.append("Pay?")
    running = asyncio.create_task(run(graph, {}, desk=desk, key="t"))
    [question] = await asked(desk)
    await desk.answer(question.id, "no", by="ana")
    assert await running == {"value": "no"}


async def test_a_finished_run_that_is_called_again_gives_its_result_and_asks_nobody(desk: Desk) -> None:
    runs: list[str] = []

    def node(state: State) -> State:
        runs.append("ran")
        return {"value": [state.get("other"), ask("Which?")]}

    graph = graph_of(node)
    running = asyncio.create_task(run(graph, {"other": 1}, desk=desk, key="t"))
    [question] = await asked(desk)
    await desk.answer(question.id, "a", by="ana")
    assert (await running)["value"] == [1, "a"]
    assert (await run(graph, {"other": 1}, desk=desk, key="t"))["value"] == [1, "a"]
    assert len(runs) == 2  # it interrupts once, as LangGraph does
    with pytest.raises(StillPending):
        await run(graph, {"other": 2}, desk=desk, key="t", timeout=0)


@shows("langgraph", "several at once")
async def test_answers_in_reverse_order_reach_their_own_nodes(desk: Desk) -> None:
    def first(_: State) -> State:
        return {"value": ask("First?")}

    def second(_: State) -> State:
        return {"other": ask("Second?")}

    running = asyncio.create_task(run(graph_of(first, second), {}, desk=desk, key="t"))
    questions = by_prompt(await asked(desk, number=2))
    await desk.answer(questions["Second?"].id, "two", by="ana")
    await desk.answer(questions["First?"].id, "one", by="ana")
    assert await running == {"value": "one", "other": "two"}


async def test_two_questions_in_one_node_are_asked_one_after_the_other(desk: Desk) -> None:
    def node(_: State) -> State:
        return {"value": [ask("Sure?", choices=["yes", "no"]), ask("Sure?", choices=["yes", "no"])]}

    running = asyncio.create_task(run(graph_of(node), {}, desk=desk, key="t"))
    [first] = await asked(desk)
    await desk.answer(first.id, "yes", by="ana")
    [second] = await asked(desk)
    assert second.id != first.id
    await desk.answer(second.id, "no", by="ana")
    assert await running == {"value": ["yes", "no"]}


@shows("langgraph", "other endings")
async def test_another_ending_than_an_answer_is_raised_in_the_node(desk: Desk) -> None:
    seen: list[NotAnswered] = []

    def node(_: State) -> State:
        try:
            return {"value": ask("Which region?")}
        except NotAnswered as ended:
            seen.append(ended)
            return {"value": str(ended.outcome)}

    running = asyncio.create_task(run(graph_of(node), {}, desk=desk, key="declined"))
    [question] = await asked(desk)
    await desk.decline(question.id, by="ana", reason="not my job")
    assert await running == {"value": "declined by ana: not my job"}
    assert isinstance(seen[-1].outcome, Declined)
    assert seen[-1].question_id == question.id
    assert seen[-1].outcome == (await desk.get(question.id)).outcome

    result = await run(graph_of(node), {}, desk=desk, key="expired", expires_in=0.01)
    assert result == {"value": "expired without an answer"}
    assert isinstance(seen[-1].outcome, Expired)


@shows("langgraph", "other endings")
async def test_a_plain_interrupt_that_nobody_answers_stays_and_is_never_resumed(desk: Desk) -> None:
    def node(_: State) -> State:
        return {"value": interrupt("Which region?")}

    graph = graph_of(node)
    running = asyncio.create_task(run(graph, {}, desk=desk, key="t"))
    [question] = await asked(desk)
    await desk.decline(question.id, by="ana")
    with pytest.raises(NotAnswered):
        await running
    snapshot = await graph.aget_state({"configurable": {"thread_id": "t"}})
    assert len(snapshot.interrupts) == 1
    assert snapshot.values == {}


class Window(pydantic.BaseModel):
    start: str
    minutes: int


async def test_a_plain_interrupt_takes_its_form_from_its_response_schema(desk: Desk) -> None:
    def node(_: State) -> State:
        window = interrupt("When?", response_schema=Window)
        return {"value": (window.start, window.minutes)}

    running = asyncio.create_task(run(graph_of(node), {}, desk=desk, key="t"))
    [question] = await asked(desk)
    assert question.prompt == "When?"
    assert isinstance(question.form, Form)
    with pytest.raises(handraise.InvalidAnswer):
        await desk.answer(question.id, {"start": "noon", "minutes": "a few"}, by="ana")
    await desk.answer(question.id, {"start": "noon", "minutes": "30"}, by="ana")
    assert await running == {"value": ("noon", 30)}


async def test_a_plain_interrupt_may_be_about_anything(desk: Desk) -> None:
    schema = {"type": "string", "enum": ["a", "b"]}

    def node(_: State) -> State:
        return {"value": interrupt({"draft": "Dear Ana", "to": 7}, response_schema=schema)}

    running = asyncio.create_task(run(graph_of(node), {}, desk=desk, key="t"))
    [question] = await asked(desk)
    assert question.context == {"draft": "Dear Ana", "to": 7}
    assert isinstance(question.form, Choice)
    await desk.answer(question.id, "b", by="ana")
    assert await running == {"value": "b"}


async def test_a_schema_that_people_cannot_be_shown_is_the_programs_mistake(desk: Desk) -> None:
    def node(_: State) -> State:
        return {
            "value": interrupt(
                "?", response_schema={"type": "object", "properties": {"a": {"type": "object"}}}
            )
        }

    with pytest.raises(handraise.InvalidQuestion):
        await run(graph_of(node), {}, desk=desk, key="t")
    assert (await desk.list_pending()).items == []


async def test_what_cannot_be_asked_is_the_programs_mistake(desk: Desk) -> None:
    def node(_: State) -> State:
        return {"value": ask(" ")}

    with pytest.raises(handraise.InvalidQuestion, match="prompt"):
        await run(graph_of(node), {}, desk=desk, key="t")


@shows("langgraph", "asks once")
async def test_a_run_that_is_not_awaited_long_enough_stays_and_asks_nothing_twice(desk: Desk) -> None:
    def node(_: State) -> State:
        return {
            "value": ask("Which region?", form={"type": "object", "properties": {"name": {"type": "string"}}})
        }

    graph = graph_of(node)
    with pytest.raises(StillPending) as waiting:
        await run(graph, {}, desk=desk, key="t", timeout=0)
    with pytest.raises(StillPending):
        await run(graph, {}, desk=desk, key="t", timeout=0)
    [question] = (await desk.list_pending()).items
    assert waiting.value.question_ids == (question.id,)
    await desk.answer(question.id, {"name": "eu-1"}, by="ana")
    assert await run(graph, {}, desk=desk, key="t", timeout=0) == {"value": {"name": "eu-1"}}


async def test_a_thread_that_failed_goes_on_from_its_checkpoint_and_not_from_its_input(desk: Desk) -> None:
    ran: list[str] = []

    def prepare(_: State) -> State:
        ran.append("prepare")
        return {}

    def fail_once(_: State) -> State:
        ran.append("fail")
        if ran.count("fail") == 1:
            raise OSError("the line is down")
        return {"value": "up"}

    builder = StateGraph(State)
    nodes: list[Any] = [prepare, fail_once]
    for node in nodes:
        builder.add_node(node)
    builder.add_edge(START, "prepare")
    builder.add_edge("prepare", "fail_once")
    graph = builder.compile(checkpointer=InMemorySaver())
    with pytest.raises(OSError, match="down"):
        await run(graph, {"other": 1}, desk=desk, key="t")
    assert await run(graph, {"other": 2}, desk=desk, key="t") == {"other": 1, "value": "up"}
    assert ran == ["prepare", "fail", "fail"]


async def test_who_drives_the_graph_alone_gets_the_command(desk: Desk) -> None:
    def node(_: State) -> State:
        return {"value": ask("Which region?")}

    graph = graph_of(node)
    config: RunnableConfig = {"configurable": {"thread_id": "t"}}
    stopped = await graph.ainvoke({}, config)
    going = asyncio.create_task(
        resume_command(stopped["__interrupt__"], desk=desk, key="t", recipients=["ana"])
    )
    [question] = await asked(desk)
    with pytest.raises(handraise.PermissionDenied):
        await desk.answer(question.id, "us-1", by="ben")
    await desk.answer(question.id, "eu-1", by="ana")
    streamed = [part async for part in graph.astream(await going, config)]
    assert streamed == [{"node": {"value": "eu-1"}}]


@cannot("langgraph", "approve", NO_CALLS)
@cannot("langgraph", "edit", NO_CALLS)
async def test_an_interrupt_is_a_value_and_no_action(desk: Desk) -> None:
    def node(_: State) -> State:
        return {"value": interrupt({"name": "refund", "args": {"order": "A-17"}})}

    with pytest.raises(StillPending):
        await run(graph_of(node), {}, desk=desk, key="t", timeout=0)
    [question] = (await desk.list_pending()).items
    assert question.form.kind == "open"


class Killed(BaseException):
    """What ends a process in the middle of a node."""


async def test_an_action_in_a_node_is_executed_once_and_a_repeated_node_reads_that_it_is_unknown(
    desk: Desk,
) -> None:
    paid: list[int] = []

    def pay(amount: int) -> str:
        paid.append(amount)
        raise Killed

    pay_approved = requires_approval(desk, call_key=lambda _: "pay-7", editable=["amount"])(pay)

    async def node(_: State) -> State:
        try:
            return {"value": await pay_approved(40)}
        except handraise.errors.AlreadyConsumed as used:
            return {"value": str(used)}

    graph = graph_of(node)
    running = asyncio.create_task(run(graph, {}, desk=desk, key="t"))
    [question] = await asked(desk)
    await desk.answer(question.id, {"decision": "approve", "arguments": {"amount": 25}}, by="ana")
    with pytest.raises(Killed):
        await running
    told = (await run(graph, {}, desk=desk, key="t"))["value"]
    assert paid == [25]
    assert "unknown: find out before you ask" in told


async def test_an_async_node_with_a_checkpointer_that_is_not_async_is_told_which_one_it_needs(
    desk: Desk, tmp_path: Path
) -> None:
    async def node(_: State) -> State:
        return {"value": 1}

    with SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db")) as checkpointer:
        graph = graph_of(node, checkpointer=checkpointer)
        with pytest.raises(TypeError, match=r'"node"(.|\n)*such as AsyncSqliteSaver'):
            await run(graph, {}, desk=desk, key="t")


@more_processes
async def test_the_page_shows_how_an_action_in_a_node_is_approved(
    desk: Desk, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / APPROVAL).read_text(encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    assert f"```python\n{text}```" in page
    async with started(ROOT / APPROVAL, HANDRAISE_URL=url) as running:
        [question] = await asked(desk)
        await running.kill()
    await desk.answer(question.id, {"decision": "approve", "arguments": {"amount": 25}}, by="ana")
    async with started(ROOT / APPROVAL, HANDRAISE_URL=url) as again:
        [printed] = await again.rest()
    assert f"```console\n$ python {Path(APPROVAL).name}\n{printed}\n```" in page
    assert (await desk.get(question.id)).report is not None


@more_processes
async def test_the_page_shows_a_program_that_runs(
    desk: Desk, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / EXAMPLE).read_text(encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    assert f"```python\n{text}```" in page
    async with started(ROOT / EXAMPLE, HANDRAISE_URL=url) as running:
        [question] = await asked(desk)
        await desk.answer(question.id, "Canary", by="ana")
        [printed] = await running.rest()
    assert f"```console\n$ python {Path(EXAMPLE).name}\n{printed}\n```" in page
