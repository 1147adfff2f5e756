"""Whatever a model emits and whatever a history holds: a typed result or a question, and a legal history."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from handraise import InvalidAnswer, QuestionNotFound, Status, open_desk
from handraise.tools import (
    Interrupt,
    ToolResult,
    ask_human,
    client_message,
    filter_client_messages,
    preset_tools,
    submit_tool_result,
)

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=8)
NAMES = st.sampled_from(
    [
        "question",
        "questions",
        "choices",
        "multi_select",
        "prompt",
        "options",
        "context",
        "id",
        "label",
        "text",
    ]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | ANY_TEXT
    | st.sampled_from(
        ["Which?", "true", '["a", "b"]', '[{"label": "\\ud800"}]', '["' + "9" * 5_000, "[1e999]"]
    )
    | st.binary(max_size=3)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=7) | st.dictionaries(NAMES | ANY_TEXT, inner, max_size=4) | st.tuples(inner)
    ),
    max_leaves=12,
)
NEARLY = st.fixed_dictionaries(
    {},
    optional={
        "question": st.just("Which?") | VALUES,
        "prompt": st.just("Which?") | VALUES,
        "questions": st.lists(st.dictionaries(NAMES, VALUES, max_size=3) | ANY_TEXT, max_size=7) | VALUES,
        "choices": st.lists(ANY_TEXT, max_size=6) | VALUES,
        "options": st.lists(ANY_TEXT, max_size=25) | VALUES,
        "multi_select": st.booleans() | VALUES,
        "context": VALUES,
    },
)


def jsonable(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


ARGUMENTS = (
    NEARLY
    | VALUES
    | ANY_TEXT
    # Python writes no number this long, so that Hypothesis must not see it before it is drawn.
    | st.dictionaries(NAMES, st.builds(lambda: [10**5_000]), max_size=2)
    | NEARLY.filter(jsonable).map(json.dumps)
    | st.sampled_from(["{" * 50_000, "[" * 50_000, "null", '{"question": "a", "question": "b"}', b"\xff"])
)
CALL_IDS = st.none() | st.sampled_from(["", "call_1", "a" * 300]) | ANY_TEXT


@given(arguments=ARGUMENTS, call_id=CALL_IDS, place=st.integers(0, 3))
def test_any_arguments_are_a_typed_error_or_a_valid_question(
    arguments: Any, call_id: str | None, place: int
) -> None:
    async def check() -> None:
        async with open_desk("memory:") as desk:
            tools = (*preset_tools(desk, conversation="c"), ask_human(desk, conversation="c"))
            tool = tools[place]
            begun = await tool.start(arguments, call_id=call_id)
            if isinstance(begun, Interrupt):
                for question_id in dict.fromkeys(begun.question_ids):
                    question = await desk.get(question_id)
                    assert question.status is Status.PENDING
                    json.loads(client_message(question)["tool_calls"][0]["function"]["arguments"])
                    await desk.withdraw(question_id)
            executed = await tool.execute(arguments, call_id=call_id or "call_0") if refused(begun) else begun
            if isinstance(executed, ToolResult):
                assert executed.status == "invalid"
                assert executed.problems
                assert json.loads(executed.content.encode())["problems"]
                assert (await desk.list_pending()).items == []

    asyncio.run(check())


def refused(begun: Interrupt | ToolResult) -> bool:
    """Executing what can be asked would wait for a person."""
    return isinstance(begun, ToolResult) and [each.path for each in begun.problems] != ["call_id"]


@given(st.dictionaries(st.sampled_from(["agent", "tool_call_id", "decision", "choice", "scope"]), VALUES))
def test_any_submission_is_refused_in_a_way_that_is_told(given: dict[str, Any]) -> None:
    async def check() -> None:
        async with open_desk("memory:", new_id=lambda: "1") as desk:
            await desk.post("Which?", choices=["a", "b"], tool_call="call_1")
            try:
                await submit_tool_result(
                    desk,
                    {"agent": "agent", "tool_call_id": "hitl_1", "decision": "approve", **given},
                    by="ana",
                )
            except (InvalidAnswer, QuestionNotFound):
                assert (await desk.get("1")).status is Status.PENDING

    asyncio.run(check())


IDS = st.sampled_from(["call_1", "call_2", "call_3", "hitl_1", "approval_2", "abc"])
CALLS = st.builds(
    lambda call_id, name: {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": "{}"},
    },
    IDS,
    st.sampled_from(["shell", "client.humanIntervention", "client.requestApproval", "clarify"]),
)
MESSAGES = st.one_of(
    st.builds(lambda text: {"role": "user", "content": text}, ANY_TEXT),
    st.builds(
        lambda calls, text: {"role": "assistant", "content": text, "tool_calls": calls},
        st.lists(CALLS, max_size=4),
        st.sampled_from([None, "", "Let me see."]),
    ),
    st.builds(lambda call_id: {"role": "tool", "tool_call_id": call_id, "content": "done"}, IDS),
)
JUNK_MESSAGES = st.dictionaries(
    st.sampled_from(["role", "content", "tool_calls", "tool_call_id", "function", "toolCallStatus"]),
    st.sampled_from(["tool", "assistant", "hitl_1", "call_1"]) | VALUES,
)


@given(st.lists(MESSAGES | JUNK_MESSAGES | VALUES, max_size=12))
def test_any_history_stays_legal_and_filtering_it_again_changes_nothing(messages: list[Any]) -> None:
    before = copy.deepcopy(messages)
    filtered = filter_client_messages(messages)
    assert repr(messages) == repr(before)
    assert repr(filter_client_messages(filtered)) == repr(filtered)
    open_calls: set[str] = set()
    for message in filtered:
        if not isinstance(message, dict):
            continue
        if message.get("role") == "tool":
            assert message["tool_call_id"] in open_calls
        calls = message.get("tool_calls")
        for each in calls if isinstance(calls, list) else ():
            if isinstance(each, dict) and isinstance(each.get("id"), str):
                assert not each["id"].startswith(("hitl_", "approval_"))
                open_calls.add(each["id"])
            function = each.get("function") if isinstance(each, dict) else None
            name = function.get("name") if isinstance(function, dict) else None
            assert not (isinstance(name, str) and name.startswith("client."))


@st.composite
def woven(draw: st.DrawFn) -> tuple[list[Any], list[Any]]:
    """A legal history of the model's own, and the same with a client's layer woven into it anywhere."""
    plain: list[Any] = []
    mixed: list[Any] = []
    fresh = iter(range(1_000))

    def client_call() -> dict[str, Any]:
        prefix, name = draw(
            st.sampled_from([("hitl_", "client.humanIntervention"), ("approval_", "client.requestApproval")])
        )
        return {
            "id": f"{prefix}{next(fresh)}",
            "type": "function",
            "function": {"name": name, "arguments": "{}"},
        }

    def weave() -> None:
        for _ in range(draw(st.integers(0, 2))):
            client = client_call()
            mixed.append({"role": "assistant", "content": "", "tool_calls": [client]})
            if draw(st.booleans()):
                mixed.append({"role": "tool", "tool_call_id": client["id"], "content": "Canary"})

    turns = draw(st.integers(0, 4))
    for number in range(turns):
        plain.append({"role": "user", "content": "Go on."})
        mixed.append(plain[-1])
        weave()
        calls = [
            {
                "id": f"call_{next(fresh)}",
                "type": "function",
                "function": {"name": "shell", "arguments": "{}"},
            }
            for _ in range(draw(st.integers(1, 3)))
        ]
        plain.append({"role": "assistant", "content": None, "tool_calls": calls})
        siblings = draw(st.permutations([*calls, *(client_call() for _ in range(draw(st.integers(0, 2))))]))
        ordered = [each for each in siblings if each in calls]
        plain[-1]["tool_calls"] = ordered
        mixed.append({**plain[-1], "tool_calls": siblings})
        weave()
        last = number == turns - 1
        for each in draw(st.permutations(ordered)):
            if last and draw(st.booleans()):
                continue
            plain.append({"role": "tool", "tool_call_id": each["id"], "content": "done"})
            mixed.append(plain[-1])
            weave()
    return plain, mixed


@given(woven())
def test_a_layer_woven_into_a_legal_history_comes_out_without_a_trace(
    histories: tuple[list[Any], list[Any]],
) -> None:
    plain, mixed = histories
    assert filter_client_messages(mixed) == plain
    assert filter_client_messages(plain) == plain
