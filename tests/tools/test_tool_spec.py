"""What a model is told about a tool, in the shape that each API wants."""

from __future__ import annotations

import re
from typing import Any

import pytest
from openai.types.chat import ChatCompletionFunctionToolParam
from openai.types.responses import FunctionToolParam
from pydantic import ConfigDict, TypeAdapter, with_config

from handraise import Desk
from handraise.tools import ToolSpec, ask_human, find_tool, preset_tools

SPEC = ToolSpec("look_up", "Looks something up.", {"type": "object", "properties": {"q": {"type": "string"}}})


@pytest.fixture
def specs(desk: Desk) -> list[ToolSpec]:
    tools = (ask_human(desk, conversation="c"), *preset_tools(desk, conversation="c"))
    return [tool.spec for tool in tools]


def test_chat_completions_get_a_function_within_a_tool() -> None:
    assert SPEC.for_openai_chat() == {
        "type": "function",
        "function": {"name": "look_up", "description": "Looks something up.", "parameters": SPEC.parameters},
    }


def test_responses_get_a_flat_function_that_is_not_strict() -> None:
    assert SPEC.for_openai_responses() == {
        "type": "function",
        "name": "look_up",
        "description": "Looks something up.",
        "parameters": SPEC.parameters,
        "strict": False,
    }


def test_anthropic_gets_an_input_schema() -> None:
    assert SPEC.for_anthropic() == {
        "name": "look_up",
        "description": "Looks something up.",
        "input_schema": SPEC.parameters,
    }


def test_the_schemas_are_what_the_openai_client_takes(specs: list[ToolSpec]) -> None:
    chat: Any = with_config(ConfigDict(extra="forbid"))(ChatCompletionFunctionToolParam)
    responses: Any = with_config(ConfigDict(extra="forbid"))(FunctionToolParam)
    for spec in specs:
        TypeAdapter(chat).validate_python(spec.for_openai_chat())
        TypeAdapter(responses).validate_python(spec.for_openai_responses())


def test_every_tool_has_a_name_that_model_apis_take(specs: list[ToolSpec]) -> None:
    assert [spec.name for spec in specs] == [
        "ask_human",
        "clarify",
        "ask_clarifying_question",
        "human_intervention_request",
    ]
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", spec.name) for spec in specs)


@pytest.mark.parametrize("name", ["human_intervention.request", "", "a" * 65, "two words", "ü"])
def test_an_illegal_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="use 1 to 64 letters"):
        ToolSpec(name, "", {})


def test_what_is_given_out_can_be_changed_without_changing_the_spec() -> None:
    SPEC.for_openai_chat()["function"]["parameters"]["properties"].clear()
    SPEC.for_openai_responses()["parameters"].clear()
    SPEC.for_anthropic()["input_schema"].clear()
    assert SPEC.parameters == {"type": "object", "properties": {"q": {"type": "string"}}}


def test_the_dotted_name_is_understood_when_it_comes_in(desk: Desk) -> None:
    tools = preset_tools(desk, conversation="c")
    dotted = find_tool(tools, "human_intervention.request")
    assert dotted is not None
    assert dotted is find_tool(tools, "human_intervention_request")
    assert find_tool(tools, "clarify.request") is None
