"""OpenAI Agents SDK: what a run waits for is asked of people, and any process goes on with what they said."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, FunctionTool, RunHooks, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.tool_context import ToolContext

import handraise
from handraise import (
    Approval,
    Choice,
    Desk,
    InvalidQuestion,
    Question,
    StillPending,
    open_desk,
)
from handraise.integrations.openai_agents import Folder, ask_human, editable, reply_to_person, run
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

APP = "tests/integrations/app_openai_agents.py"
EXAMPLE = "examples/integrations/openai_agent.py"

set_tracing_disabled(True)


class Context:
    """What a program gives to its tools, and what must not be kept."""

    def __init__(self) -> None:
        self.refunds: list[tuple[str, int]] = []
        self.secret = "s3cr3t"  # noqa: S105 -- it is to be looked for


@function_tool(needs_approval=True)
def refund(context: ToolContext[Context], order: str, amount: int) -> str:
    """Refund an order."""
    context.context.refunds.append((order, amount))
    return f"refunded {amount}"


class Shop:
    """An agent that calls tools as it is told to, and what it executed."""

    def __init__(self, *turns: Sequence[Any], tools: Sequence[FunctionTool] = (refund, ask_human)) -> None:
        self.turns = [*turns, [assistant_message("Done.")]]
        self.tools = list(tools)
        self.context = Context()
        self.model = ScriptedModel()

    async def run(self, desk: Desk, *, done: int = 0, **options: Any) -> dict[str, str]:
        """What the tools gave back to the model, by call id. Its model has thought `done` times before."""
        self.model = ScriptedModel(self.turns[done:])
        agent = Agent[Context](name="shop", model=self.model, tools=[*self.tools])
        result = await run(agent, "Go.", desk=desk, key="shop", context=self.context, **options)
        assert result.final_output == "Done."
        last = self.model.last_call
        assert last is not None
        return {each["call_id"]: each["output"] for each in last.input if "output" in each}


def refund_of(call_id: str, order: str, amount: int) -> Any:
    return function_call("refund", {"order": order, "amount": amount}, call_id=call_id)


def ask_of(call_id: str, **arguments: Any) -> Any:
    return function_call("ask_human", arguments, call_id=call_id)


@shows("openai-agents", *LONG_WAY)
@pytest.mark.parametrize("address", ON_BOTH, indirect=True)
@killed_in_the_gate
async def test_an_agent_that_is_killed_while_three_things_wait_goes_on_in_another_process(
    address: str, tmp_path: Path
) -> None:
    await killed_while_three_things_wait(APP, address, tmp_path)


@shows("openai-agents", "resumes elsewhere", "asks once")
async def test_a_run_that_pauses_twice_goes_on_from_its_latest_pause(desk: Desk) -> None:
    shop = Shop(
        [ask_of("c1", question="First?")], [ask_of("c2", question="Second?"), refund_of("c3", "A-17", 40)]
    )
    with pytest.raises(StillPending):
        await shop.run(desk, timeout=0)
    [first] = await asked(desk)
    await desk.answer(first.id, "one", by="ana")
    with pytest.raises(StillPending):
        await shop.run(desk, done=1, timeout=0)
    with pytest.raises(StillPending) as waiting:
        await shop.run(desk, done=2, timeout=0)
    second, approval = (await desk.list_pending()).items
    assert waiting.value.question_ids == (second.id, approval.id)
    await desk.answer(approval.id, "approve", by="ana")
    await desk.answer(second.id, "two", by="ana")
    results = await shop.run(desk, done=2, timeout=0)
    assert [json.loads(results[each])["text"] for each in ("c1", "c2")] == ["one", "two"]
    assert shop.context.refunds == [("A-17", 40)]


@shows("openai-agents", "approve", "several at once")
async def test_an_approved_call_runs_and_a_denied_one_does_not(desk: Desk) -> None:
    shop = Shop([refund_of("c1", "A-17", 40), refund_of("c2", "B-2", 7)])
    running = asyncio.create_task(shop.run(desk))
    first, second = await asked(desk, number=2)
    assert isinstance(first.form, Approval)
    assert first.form.editable == ()
    await desk.answer(second.id, "approve", by="ana")
    await desk.answer(first.id, {"decision": "deny", "reason": "not paid"}, by="ana")
    results = await running
    assert shop.context.refunds == [("B-2", 7)]
    assert results == {"c1": "Not approved, and not executed: denied by ana: not paid", "c2": "refunded 7"}


@shows("openai-agents", "edit")
async def test_what_a_person_changed_is_what_runs(desk: Desk) -> None:
    shop = Shop([refund_of("c1", "A-17", 40)], tools=[editable(refund, "amount")])
    running = asyncio.create_task(shop.run(desk))
    [question] = await asked(desk)
    with pytest.raises(handraise.InvalidAnswer):
        await desk.answer(question.id, {"decision": "approve", "arguments": {"amount": "much"}}, by="ana")
    await desk.answer(question.id, {"decision": "approve", "arguments": {"amount": 25}}, by="ana")
    assert await running == {"c1": "refunded 25"}
    assert shop.context.refunds == [("A-17", 25)]


async def test_an_edit_that_cannot_be_applied_is_not_offered_and_never_ignored(desk: Desk) -> None:
    shop = Shop([refund_of("c1", "A-17", 40)])
    with pytest.raises(TypeError, match="editable"):
        await shop.run(desk, approvals={"refund": {"editable": ["amount"]}})
    with pytest.raises(TypeError, match="no parameter sum"):
        editable(refund, "sum")

    able = Shop(*shop.turns[:1], tools=[editable(refund, "amount")])
    with pytest.raises(StillPending):
        await able.run(desk, timeout=0)
    [question] = await asked(desk)
    await desk.answer(question.id, {"decision": "approve", "arguments": {"amount": 25}}, by="ana")
    await shop.run(desk, done=1)  # an older program, whose tool would run with the model's own arguments
    assert shop.context.refunds == []


@shows("openai-agents", "other endings")
async def test_other_endings_reach_the_model_as_such(desk: Desk) -> None:
    shop = Shop([ask_of("c1", question="Why?"), refund_of("c2", "A-17", 40)])
    running = asyncio.create_task(shop.run(desk))
    question, approval = await asked(desk, number=2)
    await desk.decline(approval.id, by="ana", reason="not my job")
    await desk.decline(question.id, by="ana")
    results = await running
    assert json.loads(results["c1"])["status"] == "declined"
    assert results["c2"] == "Not approved, and not executed: declined by ana: not my job."
    assert shop.context.refunds == []


@shows("openai-agents", "other endings")
async def test_what_expires_is_not_approved(desk: Desk) -> None:
    shop = Shop([ask_of("c1", question="Why?"), refund_of("c2", "A-17", 40)])
    results = await shop.run(desk, expires_in=0.01)
    assert json.loads(results["c1"])["status"] == "expired"
    assert "expired" in results["c2"]
    assert shop.context.refunds == []


class Replying(ScriptedModel):
    """Asks, replies to people who ask back, changes what is sent back, and ends."""

    async def get_response(self, system_instructions: Any, input: Any, *more: Any, **options: Any) -> Any:  # noqa: A002 -- the SDK's own name for it
        outputs = [each["output"] for each in input if "output" in each] if isinstance(input, list) else []
        if outputs and (reply := reply_to(outputs[-1])):
            self.enqueue([function_call("reply_to_person", reply, call_id=f"r{len(outputs)}")])
        elif outputs and (again := changed(outputs[-1])):
            self.enqueue([ask_of("c2", **again)])
        else:
            said = assistant_message("Done.") if outputs else ask_of("c1", question="Why?")
            self.enqueue([said])
        return await super().get_response(system_instructions, input, *more, **options)


def replying() -> tuple[Agent[Any], Replying]:
    model = Replying()
    return Agent(name="shop", model=model, tools=[ask_human, reply_to_person]), model


@shows("openai-agents", "asks back")
async def test_a_person_asks_back_and_the_model_replies(desk: Desk) -> None:
    agent, model = replying()
    going = asyncio.create_task(run(agent, "Go.", desk=desk, key="k", replies="model"))
    question = await ask_back_and_answer(desk)
    assert (await going).final_output == "Done."
    last = model.last_call
    assert last is not None
    first, second = [json.loads(each["output"]) for each in last.input if "output" in each]
    assert (first["status"], second["status"], second["text"]) == ("asked_back", "answered", "So.")
    assert [each.id for each in (await desk.list_settled()).items] == [question.id]


@shows("openai-agents", "sends back")
async def test_a_question_that_was_sent_back_is_changed_and_asked_again(desk: Desk) -> None:
    agent, model = replying()
    going = asyncio.create_task(run(agent, "Go.", desk=desk, key="k"))
    await send_back_and_answer(desk)
    assert (await going).final_output == "Done."
    last = model.last_call
    assert last is not None
    told = [json.loads(each["output"])["status"] for each in last.input if "output" in each]
    assert told == ["returned", "answered"]


@shows("openai-agents", "sends back")
async def test_an_action_that_was_sent_back_is_not_executed(desk: Desk) -> None:
    shop = Shop([refund_of("c1", "A-17", 40)])
    running = asyncio.create_task(shop.run(desk))
    [approval] = await asked(desk)
    await desk.send_back(approval.id, by="ana", reason=SENT_BACK)
    assert await running == {"c1": TOLD}
    assert shop.context.refunds == []


async def test_a_model_replaces_only_what_its_own_run_has_asked(desk: Desk) -> None:
    other = await desk.post("Of another run?")
    shop = Shop(
        [ask_of("c1", question="Why?", replaces=other.id), ask_of("c2", question="Why?", replaces="?")]
    )
    results = await shop.run(desk)
    for each in results.values():
        told = json.loads(each)
        assert (told["status"], [at["path"] for at in told["problems"]]) == ("invalid", ["replaces"])
    assert [each.id for each in (await desk.list_pending()).items] == [other.id]


async def test_equal_questions_of_two_runs_with_one_topic_are_asked_once_and_approvals_each(
    desk: Desk,
) -> None:
    shops = [Shop([ask_of("c1", question="Which rate?"), refund_of("c2", "A-17", 40)]) for _ in range(2)]
    for number, shop in enumerate(shops):
        with pytest.raises(StillPending):
            await shop.run(desk.scoped(asker=f"shop-{number}"), timeout=0, topic="rates")
    questions = await asked(desk, number=4)
    open_ones = [each for each in questions if not isinstance(each.form, Approval)]
    assert [(each.topic, each.follows) for each in open_ones] == [
        ("rates", None),
        ("rates", open_ones[0].id),
    ]
    assert {each.topic for each in questions if isinstance(each.form, Approval)} == {None}


async def test_a_run_that_is_started_again_after_its_reply_gets_the_answer_and_replies_once(
    desk: Desk,
) -> None:
    agent, _ = replying()
    with pytest.raises(StillPending):
        await run(agent, "Go.", desk=desk, key="k", replies="model", timeout=0)
    [question] = await asked(desk)
    await desk.ask_back(question.id, "Which customer?", by="ana")
    with pytest.raises(StillPending) as waiting:
        await run(agent, "Go.", desk=desk, key="k", replies="model", timeout=0)
    assert waiting.value.question_ids == (question.id,)
    assert not (await desk.get(question.id)).is_askers_turn
    with pytest.raises(StillPending):
        await run(replying()[0], "Go.", desk=desk, key="k", replies="model", timeout=0)
    assert (await desk.get(question.id)).thread == 2
    await desk.answer(question.id, "So.", by="ana")
    agent, model = replying()
    await run(agent, "Go.", desk=desk, key="k", replies="model")
    last = model.last_call
    assert last is not None
    [told] = [json.loads(each["output"]) for each in last.input if "output" in each]
    assert (told["text"], (await desk.get(question.id)).thread) == ("So.", 2)


async def test_people_cannot_ask_back_about_an_approval_of_a_paused_call(desk: Desk) -> None:
    shop = Shop([refund_of("c1", "A-17", 40), function_call("reply_to_person", {"text": "?"}, call_id="c2")])
    shop.tools.append(reply_to_person)
    running = asyncio.create_task(shop.run(desk, replies="model"))
    [question] = await asked(desk)
    assert question.replies is None
    await desk.answer(question.id, "approve", by="ana")
    results = await running
    assert (results["c1"], json.loads(results["c2"])["status"]) == ("refunded 40", "invalid")


async def test_a_model_replies_only_about_a_question_of_its_own_run(desk: Desk) -> None:
    other = await desk.post("Which?", replies="model", state={"run": "another"})
    await desk.ask_back(other.id, "Why?", by="ana")
    reply = {"question_id": other.id, "message": 1, "text": "Because."}
    shop = Shop([function_call("reply_to_person", reply, call_id="c1")], tools=[reply_to_person])
    results = await shop.run(desk, replies="model")
    assert json.loads(results["c1"])["problems"][0]["path"] == "question_id"
    assert (await desk.get(other.id)).thread == 1


async def test_what_came_of_an_approved_call_is_reported(desk: Desk) -> None:
    @function_tool(needs_approval=True)
    def fail(order: str) -> str:
        """Never works."""
        raise OSError(order)

    ended: list[str] = []

    class Hooks(RunHooks[Any]):
        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: object) -> None:
            del context, agent, result
            ended.append(tool.name)

        async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
            del context, agent, output
            ended.append("agent")

    shop = Shop(
        [refund_of("c1", "A-17", 40), function_call("fail", {"order": "B-2"}, call_id="c2")],
        tools=(refund, fail),
    )
    running = asyncio.create_task(shop.run(desk, runner={"hooks": Hooks()}))
    for question in (questions := await asked(desk, number=2)):
        await desk.answer(question.id, "approve", by="ana")
    await running
    first, second = [(await desk.get(each.id)).report for each in questions]
    assert first is not None
    assert second is not None
    assert (first.ok, first.text, second.ok) == (True, "refunded 40", False)
    assert sorted(ended) == ["agent", "fail", "refund"]


async def test_a_run_that_has_ended_gives_the_same_result_again(desk: Desk) -> None:
    shop = Shop([refund_of("c1", "A-17", 40)])
    running = asyncio.create_task(shop.run(desk))
    [question] = await asked(desk)
    await desk.answer(question.id, "approve", by="ana")
    assert await running == await shop.run(desk, done=1) == {"c1": "refunded 40"}
    assert shop.context.refunds == [("A-17", 40)]


async def test_an_approval_that_was_given_out_before_runs_nothing(desk: Desk) -> None:
    shop = Shop([refund_of("c1", "A-17", 40)])
    with pytest.raises(StillPending):
        await shop.run(desk, timeout=0)
    [question] = await asked(desk)
    await desk.answer(question.id, "approve", by="ana")
    await desk.consume_approval(question.id)  # as a process does that is killed before it resumes
    results = await shop.run(desk, done=1)
    assert "has already been used" in results["c1"]
    assert shop.context.refunds == []


async def test_what_a_model_gets_wrong_is_told_to_it_and_nobody_is_asked(desk: Desk) -> None:
    bad = function_call("refund", "{not json", call_id="c3")
    long = refund_of("c4", "A" * 100_000, 1)
    shop = Shop(
        [ask_of("c1", question=" "), ask_of("c2", question="Which?", choices=["x"] * 30), bad, long],
        [refund_of("c5", "A-17", 1)],
    )
    running = asyncio.create_task(shop.run(desk))
    which = next(iter(await asked(desk)))
    assert isinstance(which.form, Choice)
    assert len(which.form.options) == 1
    await desk.answer(which.id, "x", by="ana")
    approval: list[Question] = await asked(desk)
    await desk.answer(approval[0].id, "approve", by="ana")
    results = await running
    assert [json.loads(results[each])["status"] for each in ("c1", "c3", "c4")] == ["invalid"] * 3
    assert shop.context.refunds == [("A-17", 1)]


async def test_odd_arguments_are_shown_as_they_are_or_refused(desk: Desk) -> None:
    nameless = function_call("ask_human", {"prompt": "?"}, call_id="c2")
    shop = Shop(
        [function_call("refund", "[1]", call_id="c1"), nameless, ask_of("c3", question="Which?", choices="a")]
    )
    running = asyncio.create_task(shop.run(desk))
    question, which = await asked(desk, number=2)
    assert isinstance(question.form, Approval)
    assert question.form.action.arguments == {"input": [1]}
    await desk.answer(which.id, "a", by="ana")
    await desk.answer(question.id, "deny", by="ana")
    results = await running
    assert json.loads(results["c2"])["status"] == "invalid"
    assert json.loads(results["c3"])["text"] == "a"
    assert shop.context.refunds == []


async def test_a_run_that_needs_nobody_asks_nobody(desk: Desk) -> None:
    assert await Shop().run(desk) == {}
    assert (await desk.list_pending()).items == []


async def test_a_pause_at_which_nobody_can_be_asked_does_not_lose_the_ones_before(desk: Desk) -> None:
    shop = Shop(
        [ask_of("c1", question="First?")], [ask_of("c2", question=" ")], [ask_of("c3", question="Third?")]
    )
    running = asyncio.create_task(shop.run(desk))
    [first] = await asked(desk)
    await desk.answer(first.id, "one", by="ana")
    [third] = await asked(desk)
    running.cancel()
    await asyncio.wait([running])
    await desk.answer(third.id, "three", by="ana")
    results = await shop.run(desk, done=3)
    assert json.loads(results["c3"])["text"] == "three"


async def test_the_context_is_not_kept_and_the_state_is_the_askers_own(desk: Desk, url: str) -> None:
    shop = Shop([refund_of("c1", "A-17", 40)])
    with pytest.raises(StillPending):
        await shop.run(desk, timeout=0)
    [question] = await asked(desk)
    assert question.tool_call == "c1"
    assert "saved" not in repr(question)
    async with open_desk(url, asker="mallory") as other:
        running = asyncio.create_task(shop.run(other))  # the same key of another asker is another run
        questions = await asked(desk, number=2)
        assert {each.asker for each in questions} == {"agent", "mallory"}
        running.cancel()
        await asyncio.wait([running])
    kept = zlib.decompress(base64.b64decode(question.state["saved"]["text"])).decode()
    assert "A-17" in kept
    assert "s3cr3t" not in kept


async def test_a_state_that_somebody_else_left_under_the_runs_name_is_not_loaded(desk: Desk) -> None:
    shop = Shop([refund_of("c1", "A-17", 40)])
    with pytest.raises(StillPending):
        await shop.run(desk, timeout=0)
    [question] = await asked(desk)
    assert question.key is not None
    elsewhere = desk.scoped("elsewhere")
    await desk.scoped("elsewhere", asker="mallory").post("?", key=question.key, state=question.state)
    with pytest.raises(StillPending):
        await shop.run(elsewhere, timeout=0)
    assert len(shop.model.calls) == 1  # the run began anew, with a model of its own
    assert [found.asker for found in await asked(elsewhere, number=2)] == ["mallory", elsewhere.asker]
    assert shop.context.refunds == []


@pytest.mark.slow("makes a state of megabytes; the limit itself is checked in tests/model")
async def test_a_state_that_is_too_large_is_told_before_anybody_is_asked_or_kept_in_a_folder(
    desk: Desk, tmp_path: Path
) -> None:
    noise = "".join(random.Random(7).choices([chr(0x4E00 + place) for place in range(20_000)], k=60_000))

    @function_tool
    def read() -> str:
        """Read a lot."""
        return noise

    turns = [
        [function_call("read", {}, call_id="c1")],
        [ask_of("c2", question="Why?"), refund_of("c3", noise, 1)],
    ]
    shop = Shop(*turns, tools=[read, refund, ask_human])
    with pytest.raises(InvalidQuestion, match="state"):
        await shop.run(desk)
    assert (await desk.list_pending()).items == []
    with pytest.raises(StillPending):
        await shop.run(desk, timeout=0, state_store=Folder(tmp_path / "runs"))
    [question] = await asked(desk)
    await desk.answer(question.id, "So.", by="ana")
    with pytest.raises(LookupError, match="missing"):
        await shop.run(desk, done=2)
    results = await shop.run(desk, done=2, state_store=Folder(tmp_path / "runs"))
    assert results["c1"] == noise
    assert json.loads(results["c2"])["text"] == "So."
    assert json.loads(results["c3"])["status"] == "invalid"
    assert shop.context.refunds == []


async def test_a_tool_that_only_has_the_name_of_ours_is_approved_like_any_other(desk: Desk) -> None:
    ran: list[str] = []

    @function_tool(needs_approval=True, name_override="ask_human")
    def impostor(question: str) -> str:
        """Do something else."""
        ran.append(question)
        return "done"

    shop = Shop([ask_of("c1", question="x")], tools=[impostor])
    running = asyncio.create_task(shop.run(desk))
    [question] = await asked(desk)
    assert isinstance(question.form, Approval)
    await desk.answer(question.id, "deny", by="ana")
    await running
    assert ran == []


async def test_an_agent_that_is_a_tool_of_another_one_asks_too(desk: Desk) -> None:
    inner = Agent[Context](
        name="inner",
        model=ScriptedModel([[refund_of("n1", "A-17", 40)], [assistant_message("ok")]]),
        tools=[refund],
    )
    shop = Shop(
        [function_call("inner", {"input": "refund"}, call_id="c1")],
        tools=[inner.as_tool("inner", "Refunds.")],
    )
    running = asyncio.create_task(shop.run(desk))
    [question] = await asked(desk)
    assert isinstance(question.form, Approval)
    assert question.form.action.tool == "refund"
    await desk.answer(question.id, "approve", by="ana")
    assert await running == {"c1": "ok"}
    assert shop.context.refunds == [("A-17", 40)]


@more_processes
async def test_the_page_shows_a_program_that_runs(
    desk: Desk, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / EXAMPLE).read_text(encoding="utf-8")
    assert f"```python\n{text}```" in (ROOT / "docs/integrations/openai-agents.md").read_text(
        encoding="utf-8"
    )
    async with started(ROOT / EXAMPLE, HANDRAISE_URL=url) as running:
        why, approval = await asked(desk, number=2)
        await desk.answer(approval.id, {"decision": "approve", "arguments": {"amount": 25}}, by="ana")
        await desk.answer(why.id, "It was late.", by="ana")
        printed = "\n".join(await running.rest())
    assert '"text":"It was late."' in printed
    assert printed.endswith("refunded 25 for A-17")
