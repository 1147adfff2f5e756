"""Pydantic AI: what an agent defers is asked of people, after the run has stopped or within it."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    DeferredToolRequests,
    ModelMessage,
    ModelResponse,
    ModelRetry,
    RunContext,
    TextPart,
    Tool,
    ToolCallPart,
    ToolDefinition,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.toolsets import ExternalToolset

import handraise
from handraise import Approval, Desk, InvalidQuestion, KeyConflict, Open, StillPending
from handraise.integrations.pydantic_ai import Folder, ask_human, asks, inline, reply_to_person, run
from tests.integrations.cells import LONG_WAY, ON_BOTH, killed_in_the_gate, more_processes, shows
from tests.integrations.processes import ROOT, asked, started
from tests.integrations.shop import (
    SENT_BACK,
    TOLD,
    ask_back_and_answer,
    changed,
    killed_while_three_things_wait,
    reply_to,
    send_back_and_answer,
)

APP = "tests/integrations/app_pydantic_ai.py"
EXAMPLE = "examples/integrations/pydantic_agent.py"


def refund(context: RunContext[list[tuple[str, int]]], order: str, amount: int) -> str:
    """Refund an order."""
    context.deps.append((order, amount))
    return f"refunded {amount}"


REFUND = Tool(refund, requires_approval=True)


class Shop:
    """An agent that calls tools as it is told to, and what it executed."""

    def __init__(
        self, *turns: Sequence[ToolCallPart], tools: Sequence[Any] = (REFUND, ask_human), **more: Any
    ) -> None:
        self.turns = turns
        self.refunds: list[tuple[str, int]] = []
        self.results: dict[str, ToolReturnPart] = {}
        self.agent = Agent(FunctionModel(self.think), deps_type=list[tuple[str, int]], tools=tools, **more)

    def think(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        """As many turns as there were, whatever process they were in."""
        del info
        done = sum(isinstance(message, ModelResponse) for message in messages)
        parts = [part for message in messages for part in message.parts]
        self.results = {part.tool_call_id: part for part in parts if isinstance(part, ToolReturnPart)}
        return ModelResponse([*self.turns[done]] if done < len(self.turns) else [TextPart("Done.")])

    async def run(self, desk: Desk, **options: Any) -> dict[str, Any]:
        """What the tools gave back to the model, by call id."""
        result = await run(self.agent, "Go.", desk=desk, key="shop", deps=self.refunds, **options)
        assert result.output == "Done."
        return {name: part.content for name, part in self.results.items()}

    async def run_inline(self, desk: Desk, **options: Any) -> dict[str, Any]:
        """The same within one run."""
        asking = inline(desk, key="shop", **options)
        result = await self.agent.run("Go.", deps=self.refunds, capabilities=[asking])
        assert result.output == "Done."
        return {name: part.content for name, part in self.results.items()}


WAYS = pytest.mark.parametrize("way", [Shop.run, Shop.run_inline], ids=["deferred", "inline"])


def refund_of(call_id: str, order: str, amount: int) -> ToolCallPart:
    return ToolCallPart("refund", {"order": order, "amount": amount}, tool_call_id=call_id)


def ask_of(call_id: str, **arguments: Any) -> ToolCallPart:
    return ToolCallPart("ask_human", arguments, tool_call_id=call_id)


@shows("pydantic-ai", *LONG_WAY)
@pytest.mark.parametrize("address", ON_BOTH, indirect=True)
@killed_in_the_gate
async def test_an_agent_that_is_killed_while_three_things_wait_goes_on_in_another_process(
    address: str, tmp_path: Path
) -> None:
    await killed_while_three_things_wait(APP, address, tmp_path)


@shows("pydantic-ai", "ask", "approve", "edit", "several at once")
@WAYS
async def test_answers_in_reverse_order_reach_their_own_calls(desk: Desk, way: Any) -> None:
    shop = Shop([ask_of("c1", question="Why?"), refund_of("c2", "A-17", 40), refund_of("c3", "B-2", 7)])
    running = asyncio.create_task(way(shop, desk, approvals={"refund": {"editable": ["amount"]}}))
    why, first, second = await asked(desk, number=3)
    assert [each.tool_call for each in (why, first, second)] == ["c1", "c2", "c3"]
    await desk.answer(second.id, {"decision": "deny", "reason": "not paid"}, by="ana")
    await desk.answer(first.id, {"decision": "approve", "arguments": {"amount": 25}}, by="ana")
    await desk.answer(why.id, "So.", by="ana")
    results = await running
    assert shop.refunds == [("A-17", 25)]
    assert json.loads(results["c1"])["text"] == "So."
    assert results["c2"] == "refunded 25"
    assert results["c3"] == "Not approved, and not executed: denied by ana: not paid"


class Replying(Shop):
    """Asks, replies to people who ask back, and ends."""

    def __init__(self) -> None:
        super().__init__(tools=[ask_human, reply_to_person])

    def think(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        done = super().think(messages, info)
        told = [str(part.content) for part in self.results.values()]
        if told and (reply := reply_to(told[-1])):
            return ModelResponse([ToolCallPart("reply_to_person", reply, tool_call_id=f"r{len(told)}")])
        if told and (again := changed(told[-1])):
            return ModelResponse([ask_of("c2", **again)])
        return done if told else ModelResponse([ask_of("c1", question="Why?")])


@shows("pydantic-ai", "asks back")
@WAYS
async def test_a_person_asks_back_and_the_model_replies(desk: Desk, way: Any) -> None:
    shop = Replying()
    going = asyncio.create_task(way(shop, desk, replies="model"))
    question = await ask_back_and_answer(desk)
    results = await going
    assert [json.loads(each)["status"] for each in results.values()] == ["asked_back", "answered"]
    assert [each.id for each in (await desk.list_settled()).items] == [question.id]


@shows("pydantic-ai", "sends back")
@WAYS
async def test_a_question_that_was_sent_back_is_changed_and_asked_again(desk: Desk, way: Any) -> None:
    going = asyncio.create_task(way(Replying(), desk))
    await send_back_and_answer(desk)
    results = await going
    assert [json.loads(each)["status"] for each in results.values()] == ["returned", "answered"]


@shows("pydantic-ai", "sends back")
@WAYS
async def test_an_action_that_was_sent_back_is_not_executed(desk: Desk, way: Any) -> None:
    shop = Shop([refund_of("c1", "A-17", 40)])
    running = asyncio.create_task(way(shop, desk))
    [approval] = await asked(desk)
    await desk.send_back(approval.id, by="ana", reason=SENT_BACK)
    assert await running == {"c1": TOLD}
    assert shop.refunds == []


@shows("pydantic-ai", "other endings")
@WAYS
async def test_other_endings_reach_the_model_as_such(desk: Desk, way: Any) -> None:
    shop = Shop([ask_of("c1", question="Why?"), refund_of("c2", "A-17", 40)])
    running = asyncio.create_task(way(shop, desk))
    why, approval = await asked(desk, number=2)
    await desk.decline(why.id, by="ana", reason="not my job")
    await desk.decline(approval.id, by="ana")
    results = await running
    assert json.loads(results["c1"])["status"] == "declined"
    assert results["c2"] == "Not approved, and not executed: declined by ana."
    assert shop.refunds == []


@shows("pydantic-ai", "other endings")
@WAYS
async def test_what_expires_is_not_approved(desk: Desk, way: Any) -> None:
    shop = Shop([ask_of("c1", question="Why?"), refund_of("c2", "A-17", 40)])
    results = await way(shop, desk, expires_in=0.01)
    assert json.loads(results["c1"])["status"] == "expired"
    assert "expired" in results["c2"]
    assert shop.refunds == []


@shows("pydantic-ai", "resumes elsewhere", "asks once")
async def test_a_run_that_pauses_twice_goes_on_from_its_latest_pause(desk: Desk) -> None:
    shop = Shop(
        [ask_of("c1", question="First?")], [ask_of("c2", question="Second?"), refund_of("c3", "A-17", 40)]
    )
    with pytest.raises(StillPending):
        await shop.run(desk, timeout=0)
    [first] = await asked(desk)
    await desk.answer(first.id, "one", by="ana")
    with pytest.raises(StillPending):
        await shop.run(desk, timeout=0)
    with pytest.raises(StillPending) as waiting:
        await shop.run(desk, timeout=0)
    second, approval = (await desk.list_pending()).items
    assert waiting.value.question_ids == (second.id, approval.id)
    await desk.answer(approval.id, "approve", by="ana")
    await desk.answer(second.id, "two", by="ana")
    results = await shop.run(desk, timeout=0)
    assert [json.loads(results[each])["text"] for each in ("c1", "c2")] == ["one", "two"]
    assert shop.refunds == [("A-17", 40)]


@shows("pydantic-ai", "asks once")
async def test_a_run_that_is_run_again_inline_asks_the_same_question(desk: Desk) -> None:
    shop = Shop([refund_of("c1", "A-17", 40)])
    with pytest.raises(StillPending):
        await shop.run_inline(desk, timeout=0)
    [question] = await asked(desk)
    await desk.answer(question.id, "approve", by="ana")
    assert await shop.run_inline(desk) == {"c1": "refunded 40"}
    assert await shop.run_inline(desk) == {"c1": "refunded 40"}  # what was reported: it is not executed again
    assert shop.refunds == [("A-17", 40)]


async def test_an_approval_is_not_taken_for_another_call_of_the_same_id(desk: Desk) -> None:
    asked_for, other = Shop([refund_of("c1", "A-17", 40)]), Shop([refund_of("c1", "B-2", 4000)])
    with pytest.raises(StillPending):
        await asked_for.run_inline(desk, timeout=0)
    [question] = await asked(desk)
    await desk.answer(question.id, "approve", by="ana")
    with pytest.raises(KeyConflict):
        await other.run_inline(desk)
    assert await asked_for.run_inline(desk, expires_in=1000) == {
        "c1": "refunded 40"
    }  # otherwise set up, the same call
    assert (other.refunds, asked_for.refunds) == ([], [("A-17", 40)])


async def test_a_run_that_needs_nobody_asks_nobody(desk: Desk) -> None:
    assert await Shop().run(desk) == {}
    assert (await desk.list_pending()).items == []


async def test_inline_takes_the_runs_own_id_for_a_key(desk: Desk) -> None:
    shop = Shop([ask_of("c1", question="Why?")])
    for run_id in ("r-1", "r-1", "r-2"):
        with pytest.raises(StillPending):
            await shop.agent.run("Go.", deps=[], run_id=run_id, capabilities=[inline(desk, timeout=0)])
    questions = (await desk.list_pending()).items
    assert [each.conversation for each in questions] == ["r-1", "r-2"]


@WAYS
async def test_what_came_of_an_approved_call_is_reported(desk: Desk, way: Any) -> None:
    def fail(order: str) -> str:
        """Never works."""
        raise ModelRetry(f"no {order}")

    shop = Shop(
        [refund_of("c1", "A-17", 40), ToolCallPart("fail", {"order": "B-2"}, tool_call_id="c2")],
        tools=(REFUND, Tool(fail, requires_approval=True)),
    )
    running = asyncio.create_task(way(shop, desk))
    for question in (questions := await asked(desk, number=2)):
        await desk.answer(question.id, "approve", by="ana")
    await running
    first, second = [(await desk.get(each.id)).report for each in questions]
    assert first is not None
    assert second is not None
    assert (first.ok, first.text, second.ok) == (True, "refunded 40", False)
    assert "no B-2" in second.text


async def test_a_run_that_has_ended_gives_the_same_result_again(desk: Desk) -> None:
    shop = Shop([refund_of("c1", "A-17", 40)])
    running = asyncio.create_task(shop.run(desk))
    [question] = await asked(desk)
    await desk.answer(question.id, "approve", by="ana")
    assert await running == await shop.run(desk) == {"c1": "refunded 40"}
    assert shop.refunds == [("A-17", 40)]


async def test_an_approval_that_was_given_out_before_runs_nothing(desk: Desk) -> None:
    shop = Shop([refund_of("c1", "A-17", 40)])
    with pytest.raises(StillPending):
        await shop.run(desk, timeout=0)
    [question] = await asked(desk)
    await desk.answer(question.id, "approve", by="ana")
    await desk.consume_approval(question.id)  # as a process does that is killed before it resumes
    assert "has already been used" in (await shop.run(desk))["c1"]
    assert shop.refunds == []


@WAYS
async def test_a_tool_asks_and_the_answer_is_its_result(desk: Desk, way: Any) -> None:
    def window() -> str:
        """When to deploy."""
        raise asks("When?", choices=["tonight", "tomorrow"])

    def size() -> dict[str, Any]:
        """How large."""
        raise asks(
            "How large?", form={"type": "object", "properties": {"nodes": {"type": "integer"}}}, context="x"
        )

    calls = [ToolCallPart("window", {}, tool_call_id="c1"), ToolCallPart("size", {}, tool_call_id="c2")]
    shop = Shop(calls, tools=[window, size])
    running = asyncio.create_task(way(shop, desk))
    when, large = await asked(desk, number=2)
    with pytest.raises(handraise.InvalidAnswer):
        await desk.answer(when.id, "never", by="ana")
    assert large.context == "x"
    await desk.answer(large.id, {"nodes": "3"}, by="ana")
    await desk.answer(when.id, "tonight", by="ana")
    assert await running == {"c1": "tonight", "c2": {"nodes": 3}}


@shows("pydantic-ai", "other endings")
@WAYS
async def test_a_tool_that_nobody_answers_has_failed(desk: Desk, way: Any) -> None:
    def window() -> str:
        """When to deploy."""
        raise asks("When?")

    shop = Shop([ToolCallPart("window", {}, tool_call_id="c1")], tools=[window])
    running = asyncio.create_task(way(shop, desk))
    [question] = await asked(desk)
    await desk.decline(question.id, by="ana")
    results = await running
    assert '"status":"declined"' in results["c1"]
    assert shop.results["c1"].outcome == "failed"


@WAYS
async def test_an_external_tool_is_done_by_a_person(desk: Desk, way: Any) -> None:
    definition = ToolDefinition(
        name="call_customer", parameters_json_schema={"type": "object", "properties": {}}
    )
    shop = Shop(
        [ToolCallPart("call_customer", {"name": "Ana"}, tool_call_id="c1")],
        toolsets=[ExternalToolset([definition])],
    )
    running = asyncio.create_task(way(shop, desk))
    [question] = await asked(desk)
    assert (question.prompt, question.context) == ("What is the result of call_customer?", {"name": "Ana"})
    assert isinstance(question.form, Open)
    await desk.answer(question.id, "She is happy.", by="ana")
    assert await running == {"c1": "She is happy."}


@WAYS
async def test_a_tool_that_wants_approval_now_and_then_says_why(desk: Desk, way: Any) -> None:
    ran: list[int] = []

    def pay(context: RunContext[Any], amount: int) -> str:
        """Pay."""
        if amount > 10 and not context.tool_call_approved:
            raise ApprovalRequired(metadata={"reason": "more than 10"})
        ran.append(amount)
        return "paid"

    calls = [ToolCallPart("pay", {"amount": amount}, tool_call_id=f"c{amount}") for amount in (5, 50)]
    shop = Shop(calls, tools=[pay])
    running = asyncio.create_task(way(shop, desk))
    [question] = await asked(desk)
    assert question.context == {"reason": "more than 10"}
    await desk.answer(question.id, "approve", by="ana")
    assert await running == {"c5": "paid", "c50": "paid"}
    assert ran == [5, 50]


@WAYS
async def test_what_a_model_gets_wrong_is_told_to_it_and_nobody_is_asked(
    desk: Desk, way: Any, tmp_path: Path
) -> None:
    shop = Shop(
        [ask_of("c1", question=" "), refund_of("c2", "A" * 100_000, 1), refund_of("c3", "\u202eA\x00", 1)]
    )
    results = await way(shop, desk, **({"state_store": Folder(tmp_path)} if way is Shop.run else {}))
    assert [json.loads(results[each])["status"] for each in ("c1", "c2", "c3")] == ["invalid"] * 3
    assert (await desk.list_pending()).items == []
    assert shop.refunds == []


async def test_messages_that_are_too_large_are_told_before_anybody_is_asked_or_kept_in_a_folder(
    desk: Desk, tmp_path: Path
) -> None:
    noise = "".join(random.Random(7).choices([chr(0x4E00 + place) for place in range(20_000)], k=60_000))

    def read() -> str:
        """Read a lot."""
        return noise

    shop = Shop(
        [ToolCallPart("read", {}, tool_call_id="c1")],
        [ask_of("c2", question="Why?")],
        tools=[read, ask_human],
    )
    with pytest.raises(InvalidQuestion, match="state"):
        await shop.run(desk)
    with pytest.raises(StillPending):
        await shop.run(desk, timeout=0, state_store=Folder(tmp_path / "runs"))
    [question] = await asked(desk)
    await desk.answer(question.id, "So.", by="ana")
    results = await shop.run(desk, state_store=Folder(tmp_path / "runs"))
    assert results["c1"] == noise
    assert json.loads(results["c2"])["text"] == "So."


async def test_an_agent_may_name_that_it_waits_among_its_outputs(desk: Desk) -> None:
    shop = Shop([refund_of("c1", "A-17", 40)], output_type=[str, DeferredToolRequests])
    seen: list[Any] = []

    @shop.agent.output_validator
    def look(output: Any) -> Any:
        seen.append(output)
        return output

    running = asyncio.create_task(shop.run(desk))
    [question] = await asked(desk)
    assert isinstance(question.form, Approval)
    await desk.answer(question.id, "approve", by="ana")
    await running
    assert seen == ["Done."]


@more_processes
async def test_the_page_shows_a_program_that_runs(
    desk: Desk, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / EXAMPLE).read_text(encoding="utf-8")
    assert f"```python\n{text}```" in (ROOT / "docs/integrations/pydantic-ai.md").read_text(encoding="utf-8")
    async with started(ROOT / EXAMPLE, HANDRAISE_URL=url) as running:
        why, approval = await asked(desk, number=2)
        await desk.answer(approval.id, {"decision": "approve", "arguments": {"amount": 25}}, by="ana")
        await desk.answer(why.id, "It was late.", by="ana")
        printed = "\n".join(await running.rest())
    assert '"text":"It was late."' in printed
    assert printed.endswith("refunded 25 for A-17")
