"""`ask_human`: a question, choices, context or a batch; and what makes its presets different."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from handraise import Choice, Desk, MultiChoice, Open, Option
from handraise.tools import AskTool, Interrupt, ToolResult, ask_human, clarify, client_message

SOON = 10.0


@pytest.fixture
def tool(desk: Desk) -> AskTool:
    return ask_human(desk, conversation="c")


async def start(tool: AskTool, arguments: Any) -> Interrupt:
    interrupt = await tool.start(arguments)
    assert isinstance(interrupt, Interrupt), interrupt
    return interrupt


@pytest.mark.parametrize(
    ("arguments", "form"),
    [
        ({"question": "Which?"}, Open()),
        ({"question": "Which?", "choices": []}, Open()),
        ({"question": "Which?", "choices": ["a", "b"]}, Choice.of("a", "b", allow_other=True)),
        (
            {"question": "Which?", "choices": ["a", "b"], "multi_select": True},
            MultiChoice.of("a", "b", allow_other=True),
        ),
        ({"question": "Which?", "choices": list("abcdef")}, Choice.of(*"abcdef", allow_other=True)),
    ],
)
async def test_the_arguments_decide_the_form(
    desk: Desk, tool: AskTool, arguments: dict[str, Any], form: Any
) -> None:
    interrupt = await start(tool, {**arguments, "context": "There are two."})
    question = await desk.get(interrupt.question_ids[0])
    assert (question.prompt, question.form, question.context) == ("Which?", form, "There are two.")
    assert (question.conversation, question.expires_at) == ("c", None)


async def test_it_waits_until_every_question_is_answered(desk: Desk, tool: AskTool) -> None:
    arguments = {"questions": [{"id": "why", "question": "Why?", "context": "It is late."}, "When?"]}
    async with asyncio.timeout(SOON), asyncio.TaskGroup() as group:
        call = group.create_task(tool.execute(arguments, call_id="call_1"))
        while len(found := (await desk.list_pending()).items) < 2:
            await asyncio.sleep(0.005)
        assert [each.context for each in found] == ["It is late.", None]
        await desk.answer(found[0].id, "Because.", by="ana")
        await asyncio.sleep(0.02)
        assert not call.done()
        await desk.answer(found[1].id, "Now.", by="ana")
    result = call.result()
    assert (result.status, [(each.echo, each.text) for each in result.responses]) == (
        "answered",
        [("why", "Because."), (None, "Now.")],
    )


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "give either question or questions"),
        ({"question": "a", "questions": ["b"]}, "give either question or questions"),
        ({"questions": ["a"], "choices": ["b"]}, "choices belong in each of the questions"),
        ({"questions": ["a"], "context": "b"}, "context belongs in each of the questions"),
        ({"question": "a", "multi_select": True}, "multi_select needs choices to select from"),
        (
            {"questions": list("abcdef")},
            "questions: at most 5 questions are possible, not 6; ask fewer at once",
        ),
        (
            {"question": "a", "choices": [str(n) for n in range(21)]},
            "choices: at most 20 options are possible, not 21",
        ),
        ({"prompt": "a"}, "prompt: there is no such parameter; leave it out"),
    ],
)
async def test_what_cannot_be_asked_is_a_result_for_the_model(
    desk: Desk, tool: AskTool, arguments: dict[str, Any], problem: str
) -> None:
    result = await tool.execute(arguments)
    assert result.status == "invalid"
    assert problem in [str(each) for each in result.problems]
    assert (await desk.list_pending()).items == []


async def test_its_options_are_passed_on(desk: Desk) -> None:
    shown: list[str] = []
    tool = ask_human(
        desk,
        conversation="c",
        run="r",
        emit=lambda event: shown.append(event.prompt),
        expires_in="2h",
        recipients=["ana"],
    )
    question = await desk.get((await start(tool, {"question": "Why?"})).question_ids[0])
    assert (question.recipients, shown) == (("ana",), ["Why?"])
    assert question.expires_at is not None


async def test_a_client_draws_it_with_the_arguments_of_the_model(desk: Desk, tool: AskTool) -> None:
    arguments = {"question": "Which?", "choices": ["a", "b"], "multi_select": True, "context": "Two."}
    question = await desk.get((await start(tool, arguments)).question_ids[0])
    drawn = client_message(question)["tool_calls"][0]["function"]["arguments"]
    assert '"name":"ask_human"' in drawn
    assert '"multi_select":true' in drawn


async def test_a_preset_is_another_tool_with_narrower_parameters(desk: Desk, tool: AskTool) -> None:
    preset = clarify(desk, conversation="c")
    refused = await preset.start({"question": "Which?", "context": "Two."})
    assert isinstance(refused, ToolResult)
    assert [each.path for each in refused.problems] == ["context"]
    few = await preset.start({"question": "Which?", "choices": list("abcde")})
    assert isinstance(few, ToolResult)
    ids = {(await start(each, {"question": "Which?"})).question_ids[0] for each in (tool, preset)}
    assert len(ids) == 2


async def test_a_model_shows_and_recommends_options(desk: Desk, tool: AskTool) -> None:
    side: dict[str, Any] = {
        "label": "Sidebar",
        "description": "On the left",
        "preview": "  # Left",
        "recommended": True,
        "reason": "More room",
    }
    interrupt = await start(
        tool, {"question": "Which?", "choices": [side, {"label": "Tabs", "reason": "x"}, "None"]}
    )
    question = await desk.get(interrupt.question_ids[0])
    assert question.form == Choice.of(
        Option(id="Sidebar", **side), Option(id="Tabs", label="Tabs"), "None", allow_other=True
    )
    [call] = client_message(question)["tool_calls"]
    drawing = json.loads(call["function"]["arguments"])
    assert drawing["options"] == ["Sidebar", "Tabs", "None"]
    assert drawing["optionDetails"][0] == {name: text for name, text in side.items() if name != "label"}
    assert drawing["originalToolCall"]["args"]["choices"] == [side, "Tabs", "None"]


async def test_a_model_that_recommends_two_of_one_choice_is_told(tool: AskTool) -> None:
    both = [{"label": each, "recommended": True} for each in ("a", "b")]
    refused = await tool.start({"question": "Which?", "choices": both})
    assert isinstance(refused, ToolResult)
    assert "recommend at most one" in refused.content
