"""A model that may give a topic: what it asks is asked once for several agents."""

from __future__ import annotations

from typing import Any

import pytest

from handraise import Desk
from handraise.tools import AskTool, Interrupt, ToolResult, ask_human, preset_tools

RATE: dict[str, Any] = {"question": "Which VAT rate applies?", "choices": ["7", "19"], "topic": "vat-rate:DE"}


async def started(tool: AskTool, arguments: Any, call_id: str | None = None) -> str:
    interrupt = await tool.start(arguments, call_id=call_id)
    assert isinstance(interrupt, Interrupt), interrupt
    return interrupt.question_ids[0]


async def test_one_answer_is_for_the_models_of_several_agents(desk: Desk) -> None:
    tools = [
        ask_human(desk.scoped(asker=name), conversation=name, recipients=["ana"], topics=True)
        for name in ("one", "two")
    ]
    first, second = [await started(tool, RATE, "call_1") for tool in tools]
    assert (await desk.get(second)).follows == first
    assert [each.id for each in (await desk.list_pending(recipient="ana")).items] == [first]
    await desk.answer(first, "19", by="ana")
    told = [await tool.execute(RATE, call_id="call_1") for tool in tools]
    assert [(each.status, each.value, each.source) for each in told] == [
        ("answered", "19", "person"),
        ("answered", "19", "shared"),
    ]


async def test_a_topic_takes_no_answer_from_people_who_were_not_asked(desk: Desk) -> None:
    """A model that knows a topic gets what its own people say to its own question, and nothing else."""
    first = await started(ask_human(desk, conversation="a", recipients=["ana"], topics=True), RATE)
    for recipients, arguments in ((["bob"], RATE), (["ana"], {**RATE, "question": "Which rate?"})):
        other = ask_human(desk.scoped(asker="other"), conversation="b", recipients=recipients, topics=True)
        found = await desk.get(await started(other, arguments))
        assert (found.topic, found.follows) == ("vat-rate:DE", None)
    await desk.answer(first, "19", by="ana")
    assert len((await desk.list_pending()).items) == 2


async def test_every_tool_takes_it_only_if_its_author_says_so(desk: Desk) -> None:
    for topics in (False, True):
        tools = (
            *preset_tools(desk, conversation="c", topics=topics),
            ask_human(desk, conversation="c", topics=topics),
        )
        for tool in tools:
            properties = tool.spec.parameters["properties"]
            assert ("topic" in properties) is topics
            if "questions" in properties:
                assert ("topic" in properties["questions"]["items"]["properties"]) is topics
            asked: dict[str, Any] = {"question": "Now?", "topic": "t"}
            if "prompt" in properties:
                asked = {"prompt": "Now?", "options": ["yes", "no"], "topic": "t"}
            if topics:
                question_id = await started(tool, asked)
                assert (await desk.get(question_id)).topic == "t"
                await desk.withdraw(question_id)
            else:
                refused = await tool.start(asked)
                assert isinstance(refused, ToolResult)
                assert [(each.path, each.message) for each in refused.problems] == [
                    ("topic", "there is no such parameter; leave it out")
                ]
    assert (await desk.list_pending()).items == []


async def test_each_question_of_a_batch_has_its_own(desk: Desk) -> None:
    batch = {"questions": [{"question": "a", "topic": "one"}, {"question": "b", "topic": ""}, "c"]}
    interrupt = await ask_human(desk, conversation="c", topics=True).start(batch)
    assert isinstance(interrupt, Interrupt)
    assert [(await desk.get(each)).topic for each in interrupt.question_ids] == ["one", None, None]
    refused = await ask_human(desk, conversation="c").start(batch)
    assert isinstance(refused, ToolResult)
    assert [each.path for each in refused.problems] == ["questions[0].topic"]


@pytest.mark.parametrize("topic", ["x" * 10_000, "a\ud800", ["t"], 7])
async def test_a_topic_that_cannot_be_kept_is_told_to_the_model(desk: Desk, topic: Any) -> None:
    refused = await ask_human(desk, conversation="c", topics=True).start({**RATE, "topic": topic})
    assert isinstance(refused, ToolResult)
    assert (refused.status, [each.path for each in refused.problems]) == ("invalid", ["topic"])
    assert (await desk.list_pending()).items == []
