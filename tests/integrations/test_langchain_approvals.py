"""LangChain: an approved call is executed at most once and as approved, whatever else happens, and everybody reads what came of it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command
from pydantic import Field

from handraise import Desk, open_desk
from handraise.integrations import langchain
from handraise.integrations.langchain import ApprovalMiddleware
from handraise.integrations.langgraph import ask, resume_command
from tests.integrations.app_langchain_shop import MODES, Mode, Shop, refund_of
from tests.integrations.processes import asked

EDIT = {"decision": "approve", "arguments": {"amount": 25}}
THREAD: RunnableConfig = {"configurable": {"thread_id": "shop"}}
START: Any = {"messages": [("user", "Go.")]}


class Killed(BaseException):
    """What ends a process in the middle of a tool."""


def killed() -> None:
    raise Killed


class Limit:
    """Refunds above it need an approval; it can be changed while people are asked."""

    def __init__(self, amount: int, *allowed: str) -> None:
        self.amount = amount
        self.rule = {"allowed_decisions": list(allowed or ("approve", "edit", "reject")), "when": self._when}

    def _when(self, request: ToolCallRequest) -> bool:
        return bool(request.tool_call["args"]["amount"] > self.amount)


async def report_of(desk: Desk, question_id: str) -> tuple[bool, str]:
    report = (await desk.get(question_id)).report
    assert report is not None
    return report.ok, report.text


@pytest.mark.parametrize("saver", ["blocking", "async"])
@pytest.mark.parametrize("mode", MODES)
async def test_a_denied_call_is_not_executed_although_its_rule_would_let_it_pass_by_then(
    desk: Desk, mode: Mode, saver: str, tmp_path: Path
) -> None:
    limit = Limit(10)
    with SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db")) as blocking:
        checkpointer = blocking if saver == "blocking" else InMemorySaver()
        shop = Shop(desk, refund_of("A-17", 40), mode=mode, allowed=limit.rule, checkpointer=checkpointer)
        running = asyncio.create_task(shop.run(desk))
        [question] = await asked(desk)
        limit.amount = 100
        await desk.answer(question.id, {"decision": "deny", "reason": "not paid"}, by="ana")
        [told] = await running
    assert (shop.refunds, told.status) == ([], "error")
    assert str(told.content).startswith("Not executed.")
    assert "not paid" in str(told.content)


@pytest.mark.parametrize("mode", MODES)
async def test_an_approved_call_is_executed_once_although_its_rule_would_let_it_pass_by_then(
    desk: Desk, mode: Mode
) -> None:
    limit = Limit(10)
    shop = Shop(desk, refund_of("A-17", 40), mode=mode, allowed=limit.rule, does=killed)
    running = asyncio.create_task(shop.run(desk))
    [question] = await asked(desk)
    limit.amount = 100
    await desk.answer(question.id, EDIT, by="ana")
    with pytest.raises(Killed):
        await running
    [told] = await shop.run(desk)
    assert shop.refunds == [("A-17", 25)]
    assert "unknown: find out" in str(told.content)


@pytest.mark.parametrize("mode", MODES)
async def test_what_a_person_answered_in_the_place_of_a_tool_stays_although_its_rule_would_let_it_pass_by_then(
    desk: Desk, mode: Mode
) -> None:
    limit = Limit(10, "respond")
    shop = Shop(desk, refund_of("A-17", 40), mode=mode, allowed=limit.rule)
    running = asyncio.create_task(shop.run(desk))
    [question] = await asked(desk)
    limit.amount = 100
    await desk.answer(question.id, "I did it.", by="ana")
    [told] = await running
    assert (told.content, told.status, shop.refunds) == ("I did it.", "success", [])


@pytest.mark.parametrize("mode", MODES)
async def test_a_call_that_needs_an_approval_only_when_it_begins_is_not_executed(
    desk: Desk, mode: Mode
) -> None:
    needs_approval = iter([False, True])
    rule = {"allowed_decisions": ["approve", "reject"], "when": lambda _: next(needs_approval)}
    shop = Shop(desk, refund_of("A-17", 40), mode=mode, allowed=rule)
    [told] = await shop.run(desk)
    assert "Nobody has approved this call on the desk" in str(told.content)
    assert "`when` has changed its answer" in str(told.content)
    assert (shop.refunds, (await desk.list_pending()).items) == ([], [])


async def test_a_refusal_names_the_other_desk_or_asker_as_its_cause(desk: Desk, url: str) -> None:
    async with open_desk(url, asker="another") as other:
        shop = Shop(other, refund_of("A-17", 40))
        running = asyncio.create_task(shop.run(desk))
        [question] = await asked(desk)
        await desk.answer(question.id, "approve", by="ana")
        [told] = await running
    assert "another desk or asker than `run`" in str(told.content)
    assert shop.refunds == []


@pytest.mark.parametrize("allowed", [["approve", "edit", "reject"], ["edit"]])
@pytest.mark.parametrize("mode", MODES)
async def test_an_edit_that_the_tool_refuses_reaches_the_model_as_the_tools_own_error(
    desk: Desk, mode: Mode, allowed: list[str]
) -> None:
    paid = []

    @tool
    def refund(order: str, amount: Annotated[int, Field(multiple_of=5)]) -> str:
        """Refund an order."""
        paid.append((order, amount))
        return "paid"

    shop = Shop(
        desk,
        refund_of("A-17", 40),
        refund_of("B-2", 40),
        mode=mode,
        allowed={"allowed_decisions": allowed},
        refund_tool=refund,
    )
    running = asyncio.create_task(shop.run(desk))
    first, second = await asked(desk, number=2)
    await desk.answer(first.id, {"decision": "approve", "arguments": {"amount": 27}}, by="ana")
    await desk.answer(second.id, "approve", by="ana")
    refused, executed = await running
    assert paid == [("B-2", 40)]
    assert (refused.status, executed.content) == ("error", "paid")
    assert "multiple of 5" in str(refused.content)
    assert "replaced this tool call" in str(refused.content)
    ok, text = await report_of(desk, first.id)
    assert not ok
    assert "multiple of 5" in text


@pytest.mark.parametrize("mode", MODES)
async def test_an_edited_call_that_was_not_executed_is_not_told_as_executed(desk: Desk, mode: Mode) -> None:
    shop = Shop(desk, refund_of("A-17", 40), mode=mode)
    state = await shop.graph.ainvoke(START, THREAD)
    going = asyncio.create_task(resume_command(state["__interrupt__"], desk=desk, key="shop"))
    [question] = await asked(desk)
    await desk.answer(question.id, EDIT, by="ana")
    command = await going
    await desk.take_back(question.id, by="ana")
    [told] = tool_messages(await shop.graph.ainvoke(command, THREAD))
    assert str(told.content).startswith("Not executed.")
    assert "Executed instead" not in str(told.content)


@pytest.mark.parametrize("mode", MODES)
async def test_an_edit_past_the_desk_is_not_told_as_executed(desk: Desk, mode: Mode) -> None:
    shop = Shop(desk, refund_of("A-17", 40), mode=mode)
    await shop.graph.ainvoke(START, THREAD)
    edit: Any = {
        "type": "edit",
        "edited_action": {"name": "refund", "args": {"order": "A-17", "amount": 1}},
    }
    command: Command[Any] = Command(resume=edit if mode == "per_call" else {"decisions": [edit]})
    [told] = tool_messages(await shop.graph.ainvoke(command, THREAD))
    assert str(told.content).startswith("Not executed.")
    assert shop.refunds == []


@pytest.mark.parametrize("mode", MODES)
async def test_the_notice_of_an_edit_can_be_changed_and_left_out(desk: Desk, mode: Mode) -> None:
    for notice, start in (("Changed.", "Changed. Executed instead: refund with"), (None, "refunded 25")):

        def review(
            tools: Any, *, edit_notice: str | None = notice, interrupt_mode: Mode
        ) -> ApprovalMiddleware:
            return ApprovalMiddleware(desk, tools, edit_notice=edit_notice, interrupt_mode=interrupt_mode)

        shop = Shop(desk, refund_of("A-17", 40), mode=mode, reviewed_by=review)
        running = asyncio.create_task(shop.run(desk))
        [question] = await asked(desk)
        await desk.answer(question.id, EDIT, by="ana")
        [told] = await running
        assert str(told.content).startswith(start)


def in_a_list(order: str, call_id: str) -> Any:
    return [ToolMessage(f"paid {order}", tool_call_id=call_id), Command(update={})]


def in_a_command(order: str, call_id: str) -> Any:
    return Command(update={"messages": [ToolMessage(f"paid {order}", tool_call_id=call_id)]})


def in_blocks(order: str, call_id: str) -> Any:
    return ToolMessage([{"type": "text", "text": f"paid {order}"}], tool_call_id=call_id)


@pytest.mark.parametrize("saver", ["blocking", "async"])
@pytest.mark.parametrize("returned", [in_a_list, in_a_command, in_blocks])
async def test_whatever_a_tool_may_return_is_reported_and_has_the_notice_of_an_edit(
    desk: Desk, saver: str, returned: Callable[[str, str], Any], tmp_path: Path
) -> None:
    paid = []

    @tool
    def refund(order: str, amount: int, call_id: Annotated[str, InjectedToolCallId]) -> Any:
        """Refund an order."""
        paid.append((order, amount))
        return returned(order, call_id)

    with SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db")) as blocking:
        checkpointer = blocking if saver == "blocking" else InMemorySaver()
        shop = Shop(desk, refund_of("A-17", 40), refund_tool=refund, checkpointer=checkpointer)
        running = asyncio.create_task(shop.run(desk))
        [question] = await asked(desk)
        await desk.answer(question.id, EDIT, by="ana")
        [told] = await running
    assert paid == [("A-17", 25)]
    assert "replaced this tool call" in str(told.content)
    assert "paid A-17" in str(told.content)
    ok, text = await report_of(desk, question.id)
    assert ok
    assert "paid A-17" in text
    assert "Command" not in text


async def test_a_graph_that_blocks_the_desks_event_loop_says_so_and_uses_up_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(langchain, "LOOP_TIMEOUT", 0.3)
    shop = Shop(desk, refund_of("A-17", 40))
    state = shop.graph.invoke(START, THREAD)
    going = asyncio.create_task(resume_command(state["__interrupt__"], desk=desk, key="shop"))
    [question] = await asked(desk)
    await desk.answer(question.id, "approve", by="ana")
    command = await going
    with pytest.raises(RuntimeError, match="event loop of the desk is blocked"):
        shop.graph.invoke(command, THREAD)
    assert (await desk.get(question.id)).consumed_at is None
    [told] = tool_messages(await shop.graph.ainvoke(command, THREAD))
    assert (told.content, shop.refunds) == ("refunded 40", [("A-17", 40)])


class KilledAfterTheTool(AgentMiddleware[Any, Any, Any]):
    """Ends the process once, when the tool has run and its report is sent."""

    def __init__(self) -> None:
        super().__init__()
        self._has_killed = False

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        result = await handler(request)
        if not self._has_killed:
            self._has_killed = True
            raise Killed
        return result


@pytest.mark.parametrize("mode", MODES)
async def test_a_model_reads_the_report_of_a_call_that_was_executed_before_a_kill(
    desk: Desk, mode: Mode
) -> None:
    shop = Shop(desk, refund_of("A-17", 40), mode=mode, outer=[KilledAfterTheTool()])
    running = asyncio.create_task(shop.run(desk))
    [question] = await asked(desk)
    await desk.answer(question.id, "approve", by="ana")
    with pytest.raises(Killed):
        await running
    [told] = await shop.run(desk)
    assert (shop.refunds, told.status) == ([("A-17", 40)], "success")
    assert str(told.content).endswith("It worked, and this was reported: refunded 40")
    assert "unknown" not in str(told.content)


@pytest.mark.parametrize("mode", MODES)
async def test_an_async_tool_with_a_checkpointer_that_is_not_uses_up_nothing(
    desk: Desk, mode: Mode, tmp_path: Path
) -> None:
    paid = []

    @tool
    async def refund(order: str, amount: int) -> str:
        """Refund an order."""
        paid.append((order, amount))
        return "paid"

    def shop_with(checkpointer: Any) -> Shop:
        return Shop(desk, refund_of("A-17", 40), mode=mode, refund_tool=refund, checkpointer=checkpointer)

    checkpoints = str(tmp_path / "checkpoints.db")
    with SqliteSaver.from_conn_string(checkpoints) as blocking:
        running = asyncio.create_task(shop_with(blocking).run(desk))
        if mode == "batched":  # it asks before any tool begins
            [question] = await asked(desk)
            await desk.answer(question.id, "approve", by="ana")
        with pytest.raises(TypeError, match=r"refund(.|\n)*such as AsyncSqliteSaver"):
            await running
    async with AsyncSqliteSaver.from_conn_string(checkpoints) as checkpointer:
        shop = shop_with(checkpointer)
        shop.go_on()
        going = asyncio.create_task(shop.run(desk))
        if mode == "per_call":
            [question] = await asked(desk)
            await desk.answer(question.id, "approve", by="ana")
        [told] = await going
    assert (told.content, paid) == ("paid", [("A-17", 40)])


async def test_people_read_that_an_approved_tool_interrupted_the_graph(desk: Desk) -> None:
    shop = Shop(desk, refund_of("A-17", 40), does=lambda: ask("Sure?"))
    running = asyncio.create_task(shop.run(desk))
    [question] = await asked(desk)
    await desk.answer(question.id, "approve", by="ana")
    with pytest.raises(TypeError, match="Ask in another tool"):
        await running
    ok, text = await report_of(desk, question.id)
    assert not ok
    assert text.startswith("TypeError: refund waits for an approval and then interrupts the graph.")


def test_without_langchain_the_missing_extra_is_named() -> None:
    program = (
        "import sys\n"
        "sys.modules['langchain'] = None\n"
        "import handraise\n"
        "try:\n"
        "    import handraise.integrations.langchain\n"
        "except handraise.errors.MissingExtra as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert 'pip install "handraise[langchain]"' in done.stdout


def tool_messages(state: dict[str, Any]) -> list[ToolMessage]:
    return [each for each in state["messages"] if isinstance(each, ToolMessage)]
