"""What a model reads of a question that was sent back, and the call that asks it again, changed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from handraise import Approval, Desk, NotApproved, Question
from handraise.outcomes import Returned
from handraise.testing import promise
from handraise.tools import (
    ApprovedTool,
    AskEvent,
    AskTool,
    Interrupt,
    ToolResult,
    ask_human,
    client_message,
    preset_tools,
    requires_approval,
    submit_tool_result,
)

WHY = "Only 30: the rest was paid back in May."
refunds: list[tuple[str, float]] = []


def refund(order: str, amount: float) -> str:
    """Pay an order's money back."""
    refunds.append((order, amount))
    return f"refunded {amount}"


@pytest.fixture(autouse=True)
def _nothing_paid() -> None:
    refunds.clear()


def refunding(desk: Desk, **options: Any) -> ApprovedTool:
    return ApprovedTool(refund, desk=desk, **{"conversation": "c", **options})


async def started(tool: AskTool | ApprovedTool, arguments: Any, call_id: str | None = None) -> str:
    interrupt = await tool.start(arguments, call_id=call_id)
    assert isinstance(interrupt, Interrupt), interrupt
    return interrupt.question_ids[0]


async def sent_back(desk: Desk, tool: AskTool | ApprovedTool, arguments: Any) -> str:
    question_id = await started(tool, arguments)
    await desk.send_back(question_id, by="ana", reason=WHY)
    return question_id


async def invalid(tool: AskTool | ApprovedTool, arguments: Any) -> list[str]:
    result = await tool.start(arguments)
    assert isinstance(result, ToolResult)
    assert result.status == "invalid"
    return [each.path for each in result.problems]


async def all_of(desk: Desk) -> list[Question]:
    return [*(await desk.list_pending()).items, *(await desk.list_settled()).items]


async def test_a_model_reads_who_sent_it_back_and_what_to_do(desk: Desk) -> None:
    tool = ask_human(desk, conversation="c")
    question_id = await sent_back(desk, tool, {"question": "Refund 300?"})
    told = json.loads((await tool.resume([question_id])).content)
    assert (told["status"], told["by"], told["reason"]) == ("returned", "ana", WHY)
    assert "replaces set to this question_id" in told["note"]
    assert "value" not in told


async def test_a_changed_question_replaces_the_one_that_was_sent_back(desk: Desk) -> None:
    shown: list[AskEvent] = []
    tool = ask_human(desk, conversation="c", emit=shown.append)
    old = await sent_back(desk, tool, {"question": "Refund 300?"})
    new = await started(tool, {"question": "Refund 30?", "replaces": old}, "call_2")
    assert (await desk.get(new)).replaces == old
    assert (await desk.get(old)).replaced_by == new
    assert [each.replaces for each in shown] == [None, old]
    assert (
        json.loads(client_message(await desk.get(new))["tool_calls"][0]["function"]["arguments"])["replaces"]
        == old
    )
    assert await started(tool, {"question": "Refund 30?", "replaces": old}, "call_2") == new
    assert len(await all_of(desk)) == 2


async def test_every_preset_takes_it_and_each_question_of_a_batch(desk: Desk) -> None:
    for tool in (*preset_tools(desk, conversation="c"), ask_human(desk, conversation="c")):
        first: dict[str, Any] = {"question": "Now?"}
        if "prompt" in tool.spec.parameters["properties"]:
            first = {"prompt": "Now?", "options": ["yes", "no"]}
        assert tool.spec.parameters["properties"]["replaces"]["type"] == "string"
        old = await sent_back(desk, tool, first)
        again = {**first, next(iter(first)): "Tomorrow?", "replaces": old}
        assert (await desk.get(await started(tool, again))).replaces == old
    old = await sent_back(desk, tool, {"question": "Why?"})
    batch = {"questions": [{"question": "Why so?", "replaces": old}, "When?"]}
    assert (await desk.get(await started(tool, batch))).replaces == old
    assert await invalid(tool, {**batch, "replaces": old}) == [""]


async def test_a_pending_question_is_withdrawn_for_the_changed_one(desk: Desk) -> None:
    tool = ask_human(desk, conversation="c")
    old = await started(tool, {"question": "Refund 300?"})
    new = await started(tool, {"question": "Refund 30?", "replaces": old})
    assert [each.id for each in (await desk.list_pending()).items] == [new]


@promise("P8")
async def test_only_what_the_same_tool_asked_in_the_conversation_is_replaced(desk: Desk) -> None:
    tool, paying = ask_human(desk, conversation="c"), refunding(desk)
    other = desk.scoped(asker="other")
    strange = [
        await started(ask_human(desk, conversation="d"), {"question": "Yours?"}),
        await started(refunding(desk, conversation="d"), {"order": "A-17", "amount": 300}),
        await started(ask_human(other, conversation="c"), {"question": "Yours?"}),
        await started(refunding(other), {"order": "A-17", "amount": 300}),
        (await desk.post("By the program itself?", conversation="c")).id,
        "no-such-question",
    ]
    mine = await started(tool, {"question": "Mine?"})
    paid = await started(paying, {"order": "A-18", "amount": 1})
    for each in (*strange, paid, 7, ["x"], {"id": mine}):
        assert await invalid(tool, {"question": "Now?", "replaces": each}) == ["replaces"]
    assert await invalid(tool, {"questions": ["a", {"question": "b", "replaces": paid}]}) == [
        "questions[1].replaces"
    ]
    for each in (*strange, mine, 7, ["x"], {"id": paid}):
        assert await invalid(paying, {"order": "A-18", "amount": 2, "replaces": each}) == ["replaces"]
    assert {each.status for each in await all_of(desk)} == {"pending"}
    assert len(await all_of(desk)) == 7


async def test_what_was_replaced_before_names_its_successor(desk: Desk) -> None:
    for tool, first in (
        (ask_human(desk, conversation="c"), {"question": "Refund 300?"}),
        (refunding(desk), {"order": "A-17", "amount": 300}),
    ):
        old = await sent_back(desk, tool, first)
        new = await started(tool, {**first, "replaces": old})
        await desk.send_back(new, by="ana", reason=WHY)
        refused = await tool.start({**first, "replaces": old})
        assert isinstance(refused, ToolResult)
        assert new in refused.content
        assert (await desk.get(await started(tool, {**first, "replaces": new}))).replaces == new


@pytest.mark.parametrize("nothing", [None, ""])
async def test_a_model_may_send_that_it_replaces_nothing(desk: Desk, nothing: Any) -> None:
    for tool, first in (
        (ask_human(desk, conversation="c"), {"question": "Refund 300?"}),
        (refunding(desk), {"order": "A-17", "amount": 300}),
    ):
        question = await desk.get(await started(tool, {**first, "replaces": nothing}))
        assert question.replaces is None


@promise("P11")
async def test_a_call_that_was_sent_back_runs_only_after_an_approval_of_its_own(desk: Desk) -> None:
    tool = refunding(desk)
    old = await sent_back(desk, tool, {"order": "A-17", "amount": 300})
    told = await tool.resume([old])
    assert (told.status, told.reason) == ("returned", WHY)
    new = await started(tool, {"order": "A-17", "amount": 30, "replaces": old})
    assert (await tool.resume([new], timeout=0)).status == "still_pending"
    assert refunds == []
    question = await desk.get(new)
    assert isinstance(question.form, Approval)
    assert question.form.action.arguments == {"order": "A-17", "amount": 30.0}
    await desk.answer(new, "approve", by="ana")
    assert (await tool.resume([new])).text == "refunded 30.0"
    assert (await tool.resume([old])).status == "returned"
    assert refunds == [("A-17", 30.0)]


async def test_its_schema_has_the_parameter_and_the_function_cannot(desk: Desk) -> None:
    spec = refunding(desk).spec
    assert list(spec.parameters["properties"]) == ["order", "amount", "replaces"]
    assert spec.parameters["required"] == ["order", "amount"]

    def rename(replaces: str) -> None:
        del replaces

    with pytest.raises(TypeError, match="rename it"):
        ApprovedTool(rename, desk=desk, conversation="c")


async def test_a_client_sends_a_question_back(desk: Desk) -> None:
    tool = ask_human(desk, conversation="c")
    question_id = await started(tool, {"question": "Refund 300?"}, "call_1")
    given = {"agent": "agent", "tool_call_id": f"hitl_{question_id}", "decision": "send_back", "reason": WHY}
    message = await submit_tool_result(desk, given, by="ana")
    assert message is not None
    assert (message["tool_call_id"], json.loads(message["content"])["status"]) == ("call_1", "returned")
    question = await desk.get(question_id)
    assert isinstance(question.outcome, Returned)
    assert question.outcome.evidence == "client-asserted"


async def test_a_client_sends_an_action_back(desk: Desk) -> None:
    tool = refunding(desk)
    question_id = await started(tool, {"order": "A-17", "amount": 300})
    given = {"agent": "agent", "tool_call_id": f"approval_{question_id}", "decision": "send_back"}
    assert await submit_tool_result(desk, {**given, "reason": WHY}, by="ana") is None
    assert (await tool.resume([question_id])).status == "returned"


async def test_a_decorated_function_says_how_and_why(desk: Desk) -> None:
    paying = requires_approval(desk, call_key=lambda arguments: f"refund {arguments['order']}")(refund)
    form = Approval.of("refund", {"order": "A-17", "amount": 300.0})
    question = await desk.post("May I run refund?", form=form, key="refund A-17")
    await desk.send_back(question.id, by="ana", reason=WHY)
    with pytest.raises(NotApproved, match="sent back by ana: Only 30") as refused:
        await paying("A-17", 300)
    assert isinstance(refused.value.outcome, Returned)
    assert refused.value.question_id == question.id
    assert refunds == []
