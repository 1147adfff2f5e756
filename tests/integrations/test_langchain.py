"""LangChain: what its human-in-the-loop middleware wants reviewed is reviewed by people, in both of its modes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

import handraise
from handraise import Approval, Choice, Desk, NotApproved, Open, Question, StillPending, open_desk
from handraise.integrations.langgraph import Graph, ask, ask_human, reply_to_person, resume_command, run
from handraise.tools import ApprovalOptions
from tests.integrations.app_langchain_shop import MODES, Mode, Script, Shop, refund_of
from tests.integrations.cells import LONG_WAY, killed_in_the_gate, more_processes, shows
from tests.integrations.processes import ROOT, asked, people, started
from tests.integrations.shop import (
    SENT_BACK,
    TOLD,
    ask_back_and_answer,
    changed,
    reply_to,
    send_back_and_answer,
)

APP = "tests/integrations/app_langchain.py"
PAYMENT = "tests/integrations/app_langchain_payment.py"
EXAMPLE = "examples/integrations/langchain_agent.py"


class Replying(Script):
    """Asks, replies to people who ask back, and ends."""

    def _generate(self, messages: list[Any], *more: Any, **options: Any) -> Any:
        told = [str(each.content) for each in messages if isinstance(each, ToolMessage)]
        reply = reply_to(told[-1]) if told else None
        again = changed(told[-1]) if told else None
        call = {"name": "ask_human", "args": {"question": "Why?"}, "id": "c1"}
        if reply is not None:
            call = {"name": "reply_to_person", "args": reply, "id": f"r{len(told)}"}
        if again is not None:
            call = {"name": "ask_human", "args": again, "id": "c2"}
        is_over = told and not reply and not again
        self.i = 0
        self.responses = [AIMessage("Done.") if is_over else AIMessage("", tool_calls=[call])]
        return super()._generate(messages, *more, **options)


@shows("langchain", "asks back")
async def test_a_person_asks_back_and_the_model_replies(desk: Desk) -> None:
    agent: Graph = create_agent(
        Replying(responses=[]), [ask_human, reply_to_person], checkpointer=InMemorySaver()
    )
    start = {"messages": [("user", "Go.")]}
    going = asyncio.create_task(run(agent, start, desk=desk, key="t", replies="model"))
    question = await ask_back_and_answer(desk)
    messages = (await going)["messages"]
    first, second = [json.loads(str(each.content)) for each in messages if isinstance(each, ToolMessage)]
    assert (first["status"], second["status"], second["text"]) == ("asked_back", "answered", "So.")
    assert [each.id for each in (await desk.list_settled()).items] == [question.id]


@shows("langchain", "sends back")
async def test_a_question_that_was_sent_back_is_changed_and_asked_again(desk: Desk) -> None:
    agent: Graph = create_agent(Replying(responses=[]), [ask_human], checkpointer=InMemorySaver())
    start = {"messages": [("user", "Go.")]}
    going = asyncio.create_task(run(agent, start, desk=desk, key="t"))
    await send_back_and_answer(desk)
    messages = (await going)["messages"]
    told = [json.loads(str(each.content))["status"] for each in messages if isinstance(each, ToolMessage)]
    assert told == ["returned", "answered"]


@shows("langchain", "sends back")
@pytest.mark.parametrize("mode", MODES)
async def test_an_action_that_was_sent_back_is_not_executed(desk: Desk, mode: Mode) -> None:
    shop = Shop(desk, refund_of("A-17", 40), mode=mode)
    running = asyncio.create_task(shop.run(desk))
    [approval] = await asked(desk)
    await desk.send_back(approval.id, by="ana", reason=SENT_BACK)
    [result] = await running
    assert TOLD in str(result.content)
    assert shop.refunds == []


@shows("langchain", *LONG_WAY)
@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
@killed_in_the_gate
async def test_an_agent_that_is_killed_while_three_things_wait_goes_on_in_another_process(
    address: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    arguments = (address, str(tmp_path / "checkpoints.db"), "shop", str(log))
    async with open_desk(address) as desk:
        async with started(ROOT / APP, *arguments) as first:
            question, first_refund, second_refund = await asked(desk, "shop", number=3)
            await first.kill()
        assert isinstance(question.form, Choice)
        await desk.answer(second_refund.id, {"decision": "deny", "reason": "was paid in cash"}, by="ana")
        edit = {"decision": "approve", "arguments": {"amount": 25}}
        await desk.answer(first_refund.id, edit, by="ana")
        async with started(ROOT / APP, *arguments) as second:
            await desk.answer(question.id, "broken", by="ben")
            said = await second.rest()
        assert '"text":"broken"' in said[0]
        assert said[1].startswith("Note: a human reviewer replaced this tool call")
        assert "refunded 25 for A-17" in said
        assert "was paid in cash" in said[-1]
        assert len((await desk.list_settled(conversation="shop")).items) == 3
    assert log.read_text().splitlines() == ["looked up Ana", "refunded 25 for A-17"]


async def paid_after_a_kill(
    folder: Path, where: str, mode: Mode, saver: str
) -> tuple[list[str], str, Question]:
    """What an agent has paid that died there and was started again, what its model reads, and the question."""
    log, url = folder / "log", f"sqlite:///{folder / 'questions.db'}"
    arguments = (url, str(folder / "checkpoints.db"), str(log), mode, saver, where)
    log.touch()
    async with people(url) as desk:
        async with started(ROOT / PAYMENT, *arguments) as first:
            [question] = await asked(desk)
            await desk.answer(question.id, {"decision": "approve", "arguments": {"amount": 25}}, by="ana")
            assert await first.ends() == 9
        async with started(ROOT / PAYMENT, *arguments) as second:
            read = "\n".join(await second.rest())
        assert (await desk.list_pending()).items == []
        paid = [line for line in log.read_text().splitlines() if line.startswith("paid")]
        return paid, read, await desk.get(question.id)


@shows("langchain", "survives kill")
@pytest.mark.parametrize("saver", ["blocking", "async"])
@pytest.mark.parametrize("mode", MODES)
@more_processes
async def test_a_payment_that_was_killed_in_the_tool_is_not_repeated_and_the_model_reads_that_it_is_unknown(
    tmp_path: Path, mode: Mode, saver: str
) -> None:
    paid, read, question = await paid_after_a_kill(tmp_path, "in the tool", mode, saver)
    assert paid == ["paid 25 for 7"]
    assert "Whether it was executed is unknown: find out before you ask for another approval." in read
    assert "rejected" not in read
    assert "Not executed" not in read
    assert question.report is None


@shows("langchain", "survives kill")
@pytest.mark.parametrize("saver", ["blocking", "async"])
@pytest.mark.parametrize("mode", MODES)
@more_processes
async def test_a_payment_that_was_approved_before_the_kill_is_made_after_it(
    tmp_path: Path, mode: Mode, saver: str
) -> None:
    paid, read, question = await paid_after_a_kill(tmp_path, "before the tool", mode, saver)
    assert paid == ["paid 25 for 7"]
    assert read.endswith("paid 25 for 7")
    assert question.report is not None
    assert (question.report.ok, question.report.text) == (True, "paid 25 for 7")


@shows("langchain", "approve", "several at once")
@pytest.mark.parametrize("mode", MODES)
async def test_an_approved_call_runs_and_a_denied_one_does_not(desk: Desk, mode: Mode) -> None:
    shop = Shop(desk, refund_of("A-17", 40), refund_of("B-2", 7), mode=mode)
    running = asyncio.create_task(shop.run(desk))
    first, second = await asked(desk, number=2)
    await desk.answer(second.id, "approve", by="ana")
    await desk.answer(first.id, {"decision": "deny", "reason": "not paid"}, by="ana")
    denied, approved = await running
    assert shop.refunds == [("B-2", 7)]
    assert approved.content == "refunded 7"
    assert denied.status == "error"
    assert "not paid" in str(denied.content)


@shows("langchain", "edit")
@pytest.mark.parametrize("mode", MODES)
async def test_what_a_person_changed_is_what_runs(desk: Desk, mode: Mode) -> None:
    shop = Shop(desk, refund_of("A-17", 40), mode=mode)
    running = asyncio.create_task(shop.run(desk))
    [question] = await asked(desk)
    await desk.answer(question.id, {"decision": "approve", "arguments": {"amount": 25}}, by="ana")
    [result] = await running
    assert shop.refunds == [("A-17", 25)]
    assert str(result.content).endswith("refunded 25")


async def test_an_edit_must_fit_the_tools_own_schema(desk: Desk) -> None:
    shop = Shop(desk, refund_of("A-17", 40, way="cash"))
    running = asyncio.create_task(shop.run(desk))
    [question] = await asked(desk)
    edit = {"decision": "approve", "arguments": {"way": "gold"}}
    with pytest.raises(handraise.InvalidAnswer, match="gold"):
        await desk.answer(question.id, edit, by="ana")
    await desk.answer(question.id, {"decision": "approve", "arguments": {"way": "card"}}, by="ana")
    await running
    assert shop.refunds == [("A-17", 40)]


@pytest.mark.parametrize("mode", MODES)
async def test_nothing_can_be_changed_where_the_middleware_does_not_allow_it(desk: Desk, mode: Mode) -> None:
    shop = Shop(desk, refund_of("A-17", 40), mode=mode, allowed={"allowed_decisions": ["approve", "reject"]})
    running = asyncio.create_task(shop.run(desk))
    [question] = await asked(desk)
    assert isinstance(question.form, Approval)
    assert question.form.editable == ()
    await desk.answer(question.id, "approve", by="ana")
    await running
    assert shop.refunds == [("A-17", 40)]


@pytest.mark.parametrize("mode", MODES)
async def test_where_only_edits_are_allowed_an_unchanged_approval_is_one(desk: Desk, mode: Mode) -> None:
    shop = Shop(desk, refund_of("A-17", 40), mode=mode, allowed={"allowed_decisions": ["edit"]})
    running = asyncio.create_task(shop.run(desk))
    [question] = await asked(desk)
    await desk.answer(question.id, "approve", by="ana")
    await running
    assert shop.refunds == [("A-17", 40)]


@pytest.mark.parametrize("mode", MODES)
async def test_a_person_answers_in_the_place_of_a_tool(desk: Desk, mode: Mode) -> None:
    about = {"allowed_decisions": ["respond"], "description": "Refund by hand, please."}
    shop = Shop(desk, refund_of("A-17", 40), mode=mode, allowed=about)
    running = asyncio.create_task(shop.run(desk))
    [question] = await asked(desk)
    assert (question.prompt, question.context) == (about["description"], {"order": "A-17", "amount": 40})
    assert isinstance(question.form, Open)
    await desk.answer(question.id, "I did it.", by="ana")
    [result] = await running
    assert (result.content, result.status) == ("I did it.", "success")
    assert shop.refunds == []


@shows("langchain", "other endings")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("allowed", [["respond"], ["respond", "reject"]])
async def test_what_nobody_answers_reaches_the_model_as_such(
    desk: Desk, mode: Mode, allowed: list[str]
) -> None:
    shop = Shop(desk, refund_of("A-17", 40), mode=mode, allowed={"allowed_decisions": allowed})
    running = asyncio.create_task(shop.run(desk))
    [question] = await asked(desk)
    await desk.decline(question.id, by="ana", reason="not my job")
    [result] = await running
    assert '"status":"declined"' in str(result.content)
    assert shop.refunds == []


@shows("langchain", "other endings")
@pytest.mark.parametrize("mode", MODES)
async def test_an_approval_that_expires_is_not_one(desk: Desk, mode: Mode) -> None:
    shop = Shop(desk, refund_of("A-17", 40), mode=mode)
    [result] = await shop.run(desk, expires_in=0.01)
    assert "expired" in str(result.content)
    assert shop.refunds == []


@shows("langchain", "other endings")
@pytest.mark.parametrize("mode", MODES)
async def test_where_the_middleware_takes_no_refusal_the_run_stays(desk: Desk, mode: Mode) -> None:
    shop = Shop(desk, refund_of("A-17", 40), mode=mode, allowed={"allowed_decisions": ["approve"]})
    running = asyncio.create_task(shop.run(desk))
    [question] = await asked(desk)
    await desk.answer(question.id, "deny", by="ana")
    with pytest.raises(NotApproved):
        await running
    assert shop.refunds == []
    with pytest.raises(NotApproved):
        await shop.run(desk)
    assert shop.refunds == []


async def test_an_approval_that_was_given_out_before_runs_nothing(desk: Desk) -> None:
    shop = Shop(desk, refund_of("A-17", 40))
    with pytest.raises(StillPending):
        await shop.run(desk, timeout=0)
    [question] = await asked(desk)
    await desk.answer(question.id, "approve", by="ana")
    await desk.consume_approval(question.id)  # as a process does that is killed before the tool runs
    [result] = await shop.run(desk)
    assert "has already been used" in str(result.content)
    assert "unknown: find out" in str(result.content)
    assert result.status == "error"
    assert shop.refunds == []


@pytest.mark.parametrize("mode", MODES)
async def test_langchains_own_middleware_is_refused_for_an_action_before_anybody_is_asked(
    desk: Desk, mode: Mode
) -> None:
    checkpointer = InMemorySaver()
    shop = Shop(
        desk,
        refund_of("A-17", 40),
        mode=mode,
        reviewed_by=HumanInTheLoopMiddleware,
        checkpointer=checkpointer,
    )
    with pytest.raises(handraise.InvalidQuestion, match=r"write ApprovalMiddleware\(desk"):
        await shop.run(desk)
    assert (await desk.list_pending()).items == []
    assert shop.refunds == []
    # The corrected program goes on with the same thread.
    corrected = Shop(desk, refund_of("A-17", 40), mode=mode, checkpointer=checkpointer)
    corrected.go_on()
    running = asyncio.create_task(corrected.run(desk))
    [question] = await asked(desk)
    await desk.answer(question.id, "approve", by="ana")
    await running
    assert (shop.refunds, corrected.refunds) == ([], [("A-17", 40)])


@pytest.mark.parametrize("mode", MODES)
async def test_langchains_own_middleware_may_ask_for_an_answer_in_the_place_of_a_tool(
    desk: Desk, mode: Mode
) -> None:
    shop = Shop(
        desk,
        refund_of("A-17", 40),
        mode=mode,
        allowed={"allowed_decisions": ["respond"]},
        reviewed_by=HumanInTheLoopMiddleware,
    )
    running = asyncio.create_task(shop.run(desk))
    [question] = await asked(desk)
    await desk.answer(question.id, "I did it.", by="ana")
    [result] = await running
    assert (result.content, shop.refunds) == ("I did it.", [])


@pytest.mark.parametrize("mode", MODES)
async def test_a_graph_that_is_resumed_past_the_desk_executes_nothing(desk: Desk, mode: Mode) -> None:
    shop = Shop(desk, refund_of("A-17", 40), mode=mode)
    config: RunnableConfig = {"configurable": {"thread_id": "shop"}}
    await shop.graph.ainvoke({"messages": [("user", "Go.")]}, config)
    approve: Any = {"type": "approve"}
    command: Command[Any] = Command(resume=approve if mode == "per_call" else {"decisions": [approve]})
    result = await shop.graph.ainvoke(command, config)
    [told] = [each for each in result["messages"] if isinstance(each, ToolMessage)]
    assert "Nobody has approved this call on the desk" in str(told.content)
    assert shop.refunds == []


@pytest.mark.parametrize("mode", MODES)
async def test_an_approval_that_is_taken_back_before_the_tool_runs_is_none(desk: Desk, mode: Mode) -> None:
    shop = Shop(desk, refund_of("A-17", 40), mode=mode)
    config: RunnableConfig = {"configurable": {"thread_id": "shop"}}
    state = await shop.graph.ainvoke({"messages": [("user", "Go.")]}, config)
    going = asyncio.create_task(resume_command(state["__interrupt__"], desk=desk, key="shop"))
    [question] = await asked(desk)
    await desk.answer(question.id, "approve", by="ana")
    command = await going
    await desk.take_back(question.id, by="ana")
    result = await shop.graph.ainvoke(command, config)
    [told] = [each for each in result["messages"] if isinstance(each, ToolMessage)]
    assert str(told.content).startswith("Not executed.")
    assert "it was taken back" in str(told.content)
    assert shop.refunds == []


@pytest.mark.parametrize("mode", MODES)
async def test_a_call_that_its_rule_lets_pass_needs_nobody(desk: Desk, mode: Mode) -> None:
    rule = {
        "allowed_decisions": ["approve", "reject"],
        "description": "A large refund.",
        "when": lambda request: request.tool_call["args"]["amount"] > 10,
    }
    shop = Shop(desk, refund_of("A-17", 40), refund_of("B-2", 7), mode=mode, allowed=rule)
    running = asyncio.create_task(shop.run(desk))
    [question] = await asked(desk)
    assert question.prompt == "A large refund."
    await desk.answer(question.id, "approve", by="ana")
    await running
    assert sorted(shop.refunds) == [("A-17", 40), ("B-2", 7)]


@pytest.mark.parametrize("mode", MODES)
async def test_people_read_what_came_of_the_action(desk: Desk, mode: Mode) -> None:
    shop = Shop(desk, refund_of("A-17", 40), mode=mode)
    running = asyncio.create_task(shop.run(desk))
    [question] = await asked(desk)
    await desk.answer(question.id, "approve", by="ana")
    await running
    report = (await desk.get(question.id)).report
    assert report is not None
    assert (report.ok, report.text) == (True, "refunded 40")


@pytest.mark.parametrize("mode", MODES)
async def test_people_read_the_error_of_the_action_and_it_is_not_repeated(desk: Desk, mode: Mode) -> None:
    def fail() -> None:
        raise OSError("the line is down")

    shop = Shop(desk, refund_of("A-17", 40), mode=mode, does=fail)
    running = asyncio.create_task(shop.run(desk))
    [question] = await asked(desk)
    await desk.answer(question.id, "approve", by="ana")
    with pytest.raises(OSError, match="the line is down"):
        await running
    report = (await desk.get(question.id)).report
    assert report is not None
    assert (report.ok, report.text) == (False, "OSError: the line is down")
    [result] = await shop.run(desk)
    assert "It failed, and this was reported: OSError: the line is down" in str(result.content)
    assert shop.refunds == [("A-17", 40)]


async def test_a_tool_that_waits_for_an_approval_must_not_interrupt(desk: Desk) -> None:
    shop = Shop(desk, refund_of("A-17", 40), does=lambda: ask("Sure?"))
    running = asyncio.create_task(shop.run(desk))
    [question] = await asked(desk)
    await desk.answer(question.id, "approve", by="ana")
    with pytest.raises(TypeError, match="Ask in another tool"):
        await running


async def test_two_equal_calls_with_the_same_id_in_two_turns_need_an_approval_each(desk: Desk) -> None:
    checkpointer = InMemorySaver()
    for turn in ("First.", "Second."):
        shop = Shop(desk, refund_of("A-17", 40), checkpointer=checkpointer)
        running = asyncio.create_task(run(shop.graph, {"messages": [("user", turn)]}, desk=desk, key="shop"))
        [question] = await asked(desk)
        await desk.answer(question.id, "approve", by="ana")
        await running
        assert shop.refunds == [("A-17", 40)]


@shows("langchain", "ask", "other endings")
async def test_a_model_asks_and_reads_how_it_ended(desk: Desk) -> None:
    ask = {"name": "ask_human", "args": {"question": "Which?", "choices": ["a", "b"]}}
    shop = Shop(
        desk,
        ask,
        {"name": "ask_human", "args": {"question": "Why?"}},
        {"name": "ask_human", "args": {"question": " "}},
    )
    running = asyncio.create_task(shop.run(desk))
    which, why = sorted(await asked(desk, number=2), key=lambda each: each.prompt)
    with pytest.raises(handraise.InvalidAnswer):
        await desk.answer(which.id, "c", by="ana")
    await desk.decline(why.id, by="ana")
    await desk.answer(which.id, {"other": "both"}, by="ana")
    chosen, declined, invalid = [str(each.content) for each in await running]
    assert '"text":"both"' in chosen
    assert '"status":"declined"' in declined
    assert '"status":"invalid"' in invalid


async def test_a_hostile_call_is_shown_as_it_is_or_refused(desk: Desk) -> None:
    shop = Shop(
        desk, refund_of("\u202eA-17\x00", 40), refund_of("A" * 100_000, 1), refund_of("<b>A-17</b>\u202e", 2)
    )
    running = asyncio.create_task(shop.run(desk))
    [question] = await asked(desk)
    assert isinstance(question.form, Approval)
    assert question.form.action.arguments == {"order": "<b>A-17</b>\u202e", "amount": 2}
    await desk.answer(question.id, "approve", by="ana")
    results = await running
    assert shop.refunds == [("<b>A-17</b>\u202e", 2)]
    assert ["Nobody was asked" in str(each.content) for each in results] == [True, True, False]


async def test_the_programs_own_mistake_is_not_told_to_the_model(desk: Desk) -> None:
    shop = Shop(desk, refund_of("A-17", 40))
    with pytest.raises(handraise.InvalidQuestion, match="the asker cannot answer"):
        await shop.run(desk, recipients=[desk.asker])
    assert shop.refunds == []


async def test_more_can_be_said_about_the_approvals_of_a_tool(desk: Desk) -> None:
    shop = Shop(desk, refund_of("A-17", 40))
    about = {"refund": {"prompt": "Refund?", "editable": ["order"], "risk": "high", "recipients": ["ana"]}}
    running = asyncio.create_task(shop.run(desk, approvals=about))
    [question] = await asked(desk)
    assert isinstance(question.form, Approval)
    assert (question.prompt, question.recipients, question.form.risk) == ("Refund?", ("ana",), "high")
    assert [each.name for each in question.form.editable] == ["order"]
    await desk.answer(question.id, "approve", by="ana")
    await running
    assert shop.refunds == [("A-17", 40)]


async def test_a_grant_answers_what_was_approved_before(desk: Desk) -> None:
    about: dict[str, ApprovalOptions] = {"refund": {"scopes": ["once", "session"]}}
    for place in range(2):
        shop = Shop(desk, refund_of("A-17", 40))
        running = asyncio.create_task(
            run(
                shop.graph,
                {"messages": [("user", "Go.")]},
                desk=desk,
                key=f"t-{place}",
                approvals=about,
                conversation="c",
            )
        )
        if place == 0:
            [question] = await asked(desk)
            await desk.answer(question.id, {"decision": "approve", "scope": "session"}, by="ana")
        await running
        assert shop.refunds == [("A-17", 40)]


@more_processes
async def test_the_page_shows_a_program_that_runs(
    desk: Desk, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / EXAMPLE).read_text(encoding="utf-8")
    assert f"```python\n{text}```" in (ROOT / "docs/integrations/langgraph.md").read_text(encoding="utf-8")
    async with started(ROOT / EXAMPLE, HANDRAISE_URL=url) as running:
        why, refund = await asked(desk, number=2)
        await desk.answer(refund.id, {"decision": "approve", "arguments": {"amount": 25}}, by="ana")
        await desk.answer(why.id, "It was late.", by="ana")
        printed = "\n".join(await running.rest())
    assert '"text":"It was late."' in printed
    assert printed.endswith("refunded 25 for A-17")
