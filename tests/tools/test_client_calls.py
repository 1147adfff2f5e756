"""The two layers of a tool call: what a client draws, what it may submit, and what the model sees."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from openai.types.chat import ChatCompletionMessage

from handraise import (
    AlreadySettled,
    Approval,
    Confirm,
    Desk,
    InvalidAnswer,
    MultiChoice,
    PermissionDenied,
    QuestionNotFound,
    Status,
)
from handraise.events import EventKind
from handraise.testing import promise
from handraise.testing.contract import Backend
from handraise.tools import (
    Interrupt,
    ToolResultSubmission,
    clarify,
    client_message,
    filter_client_messages,
    human_intervention_request,
    pending_client_messages,
    submit_tool_result,
)

DEPLOY = {
    "prompt": "Which strategy?",
    "options": ["Blue-green", "Canary"],
    "context": {"from": "v1", "to": "v2"},
}


async def ask(desk: Desk, arguments: Any = DEPLOY, call_id: str | None = "call_1") -> str:
    """The id of the question behind a model's call."""
    interrupt = await human_intervention_request(desk, conversation="c").start(arguments, call_id=call_id)
    assert isinstance(interrupt, Interrupt)
    return interrupt.question_ids[0]


async def approval(desk: Desk, **options: Any) -> str:
    form = Approval.of("pay", {"amount": 40, "to": "A-17"}, editable=["amount"], **options)
    return (await desk.post("Pay?", form=form, conversation="c", tool_call="call_1")).id


def submission(tool_call_id: str, **changed: Any) -> dict[str, Any]:
    return {"agent": "agent", "tool_call_id": tool_call_id, "decision": "approve", **changed}


def arguments_in(message: dict[str, Any]) -> dict[str, Any]:
    arguments: dict[str, Any] = json.loads(message["tool_calls"][0]["function"]["arguments"])
    return arguments


class TestDrawing:
    async def test_a_question_is_a_clients_call_that_carries_the_models(self, desk: Desk) -> None:
        question = await desk.get(await ask(desk))
        message = client_message(question)
        hitl = f"hitl_{question.id}"
        assert arguments_in(message) == {
            "agent": question.asker,
            "originalToolCall": {"id": "call_1", "name": "human_intervention_request", "args": DEPLOY},
            "prompt": "Which strategy?",
            "options": ["Blue-green", "Canary"],
            "context": {"from": "v1", "to": "v2"},
            "kind": "choice",
            "allowOther": False,
        }
        del message["tool_calls"][0]["function"]["arguments"]
        assert message == {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": hitl, "type": "function", "function": {"name": "client.humanIntervention"}}
            ],
            "toolCallStatus": {hitl: {"complete": False}},
        }

    async def test_a_settled_question_is_complete_and_shows_the_choice(self, desk: Desk) -> None:
        question = await desk.answer(await ask(desk), "Canary", by="ana")
        assert question.outcome is not None
        assert client_message(question)["toolCallStatus"] == {
            f"hitl_{question.id}": {
                "complete": True,
                "result": {"choice": "Canary", "timestamp": question.outcome.at.isoformat()},
            }
        }

    async def test_a_question_that_ended_otherwise_is_complete_without_a_result(self, desk: Desk) -> None:
        question = await desk.decline(await ask(desk), by="ana")
        assert client_message(question)["toolCallStatus"] == {f"hitl_{question.id}": {"complete": True}}

    async def test_an_approval_has_its_own_call_and_options(self, desk: Desk) -> None:
        question = await desk.get(await approval(desk, scopes=["once", "session", "always"]))
        message = client_message(question)
        assert message["tool_calls"][0]["id"] == f"approval_{question.id}"
        assert message["tool_calls"][0]["function"]["name"] == "client.requestApproval"
        assert arguments_in(message) == {
            "agent": question.asker,
            "originalToolCall": {"id": "call_1", "name": "pay", "args": {"amount": 40, "to": "A-17"}},
            "prompt": "Pay?",
            "options": ["deny", "once", "session", "always"],
            "context": None,
            "kind": "approval",
            "editable": ["amount"],
            "rememberBy": None,
            "rememberFor": 30 * 86_400,
        }

    async def test_an_approval_for_once_offers_only_that(self, desk: Desk) -> None:
        message = client_message(await desk.get(await approval(desk)))
        assert arguments_in(message)["options"] == ["deny", "once"]

    @pytest.mark.parametrize(
        ("form", "shown"),
        [
            (Confirm(), {"options": ["yes", "no"], "kind": "confirm"}),
            (MultiChoice.of("a", "b", allow_other=True), {"options": ["a", "b"], "allowOther": True}),
            ({"type": "object", "properties": {"n": {"type": "integer"}}}, {"options": [], "kind": "form"}),
        ],
    )
    async def test_a_question_that_no_model_asked_can_be_drawn_too(
        self, desk: Desk, form: Any, shown: dict[str, Any]
    ) -> None:
        drawn = arguments_in(client_message(await desk.post("Well?", form=form, conversation="c")))
        assert drawn["originalToolCall"] is None
        assert drawn | shown == drawn

    async def test_a_clarification_carries_its_own_arguments(self, desk: Desk) -> None:
        asked = {"question": "Which?", "choices": ["a", "b"], "multi_select": True}
        interrupt = await clarify(desk, conversation="c").start(asked, call_id="call_1")
        assert isinstance(interrupt, Interrupt)
        drawn = arguments_in(client_message(await desk.get(interrupt.question_ids[0])))
        assert drawn["originalToolCall"] == {"id": "call_1", "name": "clarify", "args": asked}

    async def test_the_askers_state_is_not_drawn(self, desk: Desk) -> None:
        question = await desk.post("Well?", state={"token": "secret"}, conversation="c")
        assert "secret" not in json.dumps(client_message(question))

    @promise("P1")
    async def test_what_is_pending_is_drawn_again_after_a_restart(
        self, backend: Backend, workspace: str
    ) -> None:
        async with backend.open(workspace=workspace) as desk:
            first = await ask(desk)
            second = await approval(desk)
            answered = await desk.post("Done?", conversation="c")
            await desk.answer(answered.id, "yes", by="ana")
            await desk.post("Elsewhere?", conversation="d")
        async with backend.open(workspace=workspace) as desk:
            drawn = await pending_client_messages(desk, "c")
            assert drawn == [client_message(await desk.get(each)) for each in (first, second)]

    async def test_everything_pending_is_drawn_however_much_it_is(self, desk: Desk) -> None:
        for number in range(120):
            await desk.post(f"{number}?", conversation="c")
        assert len(await pending_client_messages(desk, "c")) == 120


class TestSubmitting:
    @promise("P2")
    async def test_the_chosen_text_goes_back_under_the_models_own_id(
        self, backend: Backend, workspace: str
    ) -> None:
        async with backend.open(workspace=workspace) as desk:
            question_id = await ask(desk)
        async with backend.open(workspace=workspace) as desk:
            message = await submit_tool_result(
                desk, submission(f"hitl_{question_id}", choice="Canary"), by="ana"
            )
            assert message == {"role": "tool", "tool_call_id": "call_1", "content": "Canary"}
            assert (await desk.get(question_id)).status is Status.ANSWERED

    async def test_a_client_may_write_names_in_camel_case_and_send_more_than_is_read(
        self, desk: Desk
    ) -> None:
        given = {
            "agentId": "agent",
            "tool_call_id": f"hitl_{await ask(desk)}",
            "decision": "approve",
            "scope": "once",
            "toolName": "client.humanIntervention",
            "toolArgs": {"options": ["Yolo"], "originalToolCall": {"id": "call_9"}},
            "options": ["Yolo"],
            "choice": "Canary",
        }
        message = await submit_tool_result(desk, given, by="ana")
        assert message == {"role": "tool", "tool_call_id": "call_1", "content": "Canary"}

    async def test_options_that_the_client_sent_along_do_not_count(self, desk: Desk) -> None:
        question_id = await ask(desk)
        forged = submission(
            f"hitl_{question_id}", choice="Yolo", options=["Yolo"], toolArgs={"options": ["Yolo"]}
        )
        with pytest.raises(InvalidAnswer, match="“Yolo” is not one of the options: Blue-green, Canary"):
            await submit_tool_result(desk, forged, by="ana")
        question = await desk.get(question_id)
        assert (question.status, question.attempts) == (Status.PENDING, 1)

    @pytest.mark.parametrize(
        ("changed", "path"),
        [
            ({}, "choice"),
            ({"choice": None}, "choice"),
            ({"choice": "  "}, ""),
            ({"choice": 1}, ""),
            ({"choice": "Canary", "scope": "always"}, "scope"),
            ({"choice": "Canary", "scope": "for ever"}, "scope"),
            ({"choice": "Canary", "tool_name": "client.requestApproval"}, "tool_name"),
            ({"choice": "Canary", "tool_name": "shell"}, "tool_name"),
            ({"choice": "Canary", "tool_name": "human_intervention_request"}, "tool_name"),
            ({"choice": "Canary", "arguments": {}}, "arguments"),
            ({"choice": "Canary", "decision": "deny"}, "choice"),
            ({"choice": "Canary", "decision": "send_back", "reason": "Why?"}, "choice"),
            ({"decision": "send_back", "reason": "Why?", "arguments": {}}, "arguments"),
            ({"decision": "send_back", "reason": "Why?", "scope": "always"}, "scope"),
            ({"decision": "send_back"}, "reason"),
            ({"decision": "send_back", "reason": " "}, "reason"),
            ({"choice": "Canary", "decision": "maybe"}, "decision"),
            ({"choice": "Canary", "decision": None}, "decision"),
            ({"choice": "Canary", "agent": None}, "agent"),
        ],
    )
    async def test_what_contradicts_the_question_is_refused_with_its_place(
        self, desk: Desk, changed: dict[str, Any], path: str
    ) -> None:
        question_id = await ask(desk)
        with pytest.raises(InvalidAnswer) as refusal:
            await submit_tool_result(desk, submission(f"hitl_{question_id}", **changed), by="ana")
        assert [each.path for each in refusal.value.problems] == [path]
        assert (await desk.get(question_id)).status is Status.PENDING

    @promise("P11")
    @pytest.mark.parametrize("decision", ["approve", "deny", "send_back"])
    async def test_a_client_decides_nothing_of_high_risk(self, desk: Desk, decision: str) -> None:
        question = await desk.post("Pay?", form=Approval.of("pay", risk="high"), conversation="c")
        given = {"agent": "agent", "tool_call_id": f"approval_{question.id}", "decision": decision}
        given["reason"] = "Not today."
        with pytest.raises(PermissionDenied, match="of high risk"):
            await submit_tool_result(desk, given, by="ana")
        assert await desk.get(question.id) == question

    async def test_a_submission_that_is_none_is_refused(self, desk: Desk) -> None:
        junk: Any
        for junk in ({}, [], None, "hitl_1", {"agent": "agent"}):
            with pytest.raises(InvalidAnswer):
                await submit_tool_result(desk, junk, by="ana")

    @promise("P8")
    async def test_a_call_must_belong_to_the_agent_the_conversation_and_the_workspace(
        self, backend: Backend, workspace: str
    ) -> None:
        async with backend.open(workspace=workspace) as desk:
            question_id = await ask(desk)
            fine = submission(f"hitl_{question_id}", choice="Canary", conversation="c")
            for wrong in (
                {"agent": "other"},
                {"conversation": "d"},
                {"tool_call_id": "hitl_unknown"},
                {"tool_call_id": f"approval_{question_id}"},
                {"tool_call_id": question_id},
                {"tool_call_id": "call_1"},
                {"tool_call_id": "hitl_\x00"},
            ):
                with pytest.raises(QuestionNotFound):
                    await submit_tool_result(desk, {**fine, **wrong}, by="ana")
            with pytest.raises(QuestionNotFound):
                await submit_tool_result(desk.scoped(f"{workspace}-2"), fine, by="ana")
            assert await submit_tool_result(desk, fine, by="ana") is not None

    async def test_a_settled_call_is_refused_and_the_first_answer_kept(self, desk: Desk) -> None:
        question_id = await ask(desk)
        await submit_tool_result(desk, submission(f"hitl_{question_id}", choice="Canary"), by="ana")
        with pytest.raises(AlreadySettled):
            await submit_tool_result(desk, submission(f"hitl_{question_id}", choice="Blue-green"), by="bob")

    async def test_whoever_asks_cannot_answer_this_way_either(self, desk: Desk) -> None:
        with pytest.raises(PermissionDenied):
            await submit_tool_result(desk, submission(f"hitl_{await ask(desk)}", choice="Canary"), by="agent")

    async def test_a_person_may_refuse_to_answer(self, desk: Desk) -> None:
        question_id = await ask(desk)
        given = submission(f"hitl_{question_id}", decision="deny", reason="not mine")
        message = await submit_tool_result(desk, given, by="ana")
        assert message is not None
        assert json.loads(message["content"]) == {
            "status": "declined",
            "question_id": question_id,
            "by": "ana",
            "reason": "not mine",
        }

    async def test_the_history_has_the_whole_record(self, desk: Desk) -> None:
        question_id = await ask(desk)
        await submit_tool_result(desk, submission(f"hitl_{question_id}", choice="canary"), by="ana")
        event = (await desk.history(question_id))[-1]
        assert (event.kind, event.by, event.channel) == (EventKind.ANSWERED, "ana", "client")
        assert event.at is not None
        assert event.data["value"] == "Canary"
        assert event.data["evidence"] == "client-asserted"
        assert event.data["details"] == {
            "tool_call_id": f"hitl_{question_id}",
            "decision": "approve",
            "scope": "once",
            "tool": "human_intervention_request",
            "arguments": DEPLOY,
        }

    async def test_the_history_has_long_arguments_too(self, desk: Desk) -> None:
        arguments = {**DEPLOY, "context": {"log": "x" * 60_000}}
        question_id = await ask(desk, arguments)
        await submit_tool_result(desk, submission(f"hitl_{question_id}", choice="Canary"), by="ana")
        assert (await desk.history(question_id))[-1].data["details"]["arguments"] == arguments

    async def test_nothing_goes_to_the_model_while_more_people_must_agree(self, desk: Desk) -> None:
        question = await desk.post("Sure?", form=Confirm(), quorum=2, tool_call="call_1")
        given = ToolResultSubmission.model_validate(submission(f"hitl_{question.id}", choice="yes"))
        assert await submit_tool_result(desk, given, by="ana") is None
        message = await submit_tool_result(desk, given, by="bob")
        assert message == {"role": "tool", "tool_call_id": "call_1", "content": "yes"}

    async def test_one_question_of_a_batch_is_not_the_calls_result(self, desk: Desk) -> None:
        tool = clarify(desk, conversation="c")
        interrupt = await tool.start({"questions": ["Why?", "When?"]}, call_id="call_1")
        assert isinstance(interrupt, Interrupt)
        for question_id in interrupt.question_ids:
            given = submission(f"hitl_{question_id}", choice="well")
            assert await submit_tool_result(desk, given, by="ana") is None
        result = await tool.resume(interrupt.question_ids)
        assert [each.text for each in result.responses] == ["well", "well"]

    async def test_a_question_that_no_model_asked_has_nobody_to_send_a_result_to(self, desk: Desk) -> None:
        question = await desk.post("Well?")
        given = submission(f"hitl_{question.id}", choice="fine")
        assert await submit_tool_result(desk, given, by="ana") is None
        assert (await desk.get(question.id)).status is Status.ANSWERED


class TestApproving:
    @pytest.mark.parametrize(
        ("given", "decided"),
        [
            ({"decision": "approve"}, {"decision": "approve"}),
            ({"decision": "approve", "choice": "once"}, {"decision": "approve"}),
            ({"decision": "approve", "scope": "session"}, {"decision": "approve", "scope": "session"}),
            (
                {"decision": "approve", "scope": "always", "choice": "always"},
                {"decision": "approve", "scope": "always"},
            ),
            (
                {"decision": "deny", "reason": "too much", "choice": "deny"},
                {"decision": "deny", "reason": "too much"},
            ),
            (
                {"decision": "approve", "editedArguments": {"amount": 30}},
                {"decision": "approve", "arguments": {"amount": 30, "to": "A-17"}},
            ),
        ],
    )
    async def test_a_decision_is_recorded_and_its_executor_speaks_to_the_model(
        self, desk: Desk, given: dict[str, Any], decided: dict[str, Any]
    ) -> None:
        question_id = await approval(desk, scopes=["once", "session", "always"])
        given = submission(f"approval_{question_id}", tool_name="client.requestApproval", **given)
        assert await submit_tool_result(desk, given, by="ana") is None
        [*_, event] = await desk.history(question_id)
        value = event.data["value"]
        del value["digest"]
        assert value == decided

    @pytest.mark.parametrize(
        "given",
        [
            {"decision": "approve", "choice": "deny"},
            {"decision": "approve", "choice": "always"},
            {"decision": "deny", "choice": "once"},
            {"decision": "deny", "scope": "always"},
            {"decision": "approve", "arguments": {"to": "B-1"}},
            {"decision": "approve", "scope": "session"},
            {"decision": "once"},
            {"choice": "once", "decision": None},
        ],
    )
    @promise("P11")
    async def test_a_decision_that_is_not_plain_is_no_approval(
        self, desk: Desk, given: dict[str, Any]
    ) -> None:
        question_id = await approval(desk)
        with pytest.raises(InvalidAnswer):
            await submit_tool_result(desk, submission(f"approval_{question_id}", **given), by="ana")
        assert (await desk.get(question_id)).status is Status.PENDING

    async def test_a_working_directory_from_a_client_counts_for_nothing(self, desk: Desk) -> None:
        question_id = await approval(desk)
        stored = (await desk.get(question_id)).form
        given = {**submission(f"approval_{question_id}"), "workingDirectory": "/somewhere/else"}
        await submit_tool_result(desk, given, by="ana")
        assert isinstance(stored, Approval)
        assert await desk.consume_approval(question_id) == stored.action

    async def test_an_unlimited_scope_is_refused(self, desk: Desk) -> None:
        question_id = await approval(desk)
        with pytest.raises(InvalidAnswer, match="scope"):
            await submit_tool_result(
                desk, {**submission(f"approval_{question_id}"), "scope": "unlimited"}, by="ana"
            )
        assert (await desk.get(question_id)).outcome is None

    async def test_an_approval_cannot_be_had_under_the_other_prefix(self, desk: Desk) -> None:
        question_id = await approval(desk)
        with pytest.raises(QuestionNotFound):
            await submit_tool_result(desk, submission(f"hitl_{question_id}", choice="approve"), by="ana")


def call(call_id: str, name: str = "shell") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}


def turn(*calls: dict[str, Any], content: str | None = None) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def result(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "done"}


USER = {"role": "user", "content": "Deploy."}
CLIENT = call("hitl_1", "client.humanIntervention")


class TestFiltering:
    def test_the_clients_calls_and_results_are_not_for_the_model(self) -> None:
        plain = [USER, turn(call("call_1"), call("call_2")), result("call_2"), result("call_1")]
        woven = [
            *plain[:3],
            {**turn(CLIENT, content=""), "toolCallStatus": {"hitl_1": {"complete": True}}},
            result("hitl_1"),
            turn(call("approval_2", "client.requestApproval")),
            result("approval_2"),
            plain[3],
        ]
        assert filter_client_messages(woven) == plain

    def test_siblings_in_the_same_turn_are_left_alone(self) -> None:
        filtered = filter_client_messages(
            [USER, turn(call("call_1"), CLIENT, content="Let me see."), result("hitl_1"), result("call_1")]
        )
        assert filtered == [USER, turn(call("call_1"), content="Let me see."), result("call_1")]

    def test_a_turn_that_says_something_stays_without_its_calls(self) -> None:
        filtered = filter_client_messages([turn(CLIENT, content="Let me ask.")])
        assert filtered == [{"role": "assistant", "content": "Let me ask."}]

    def test_a_call_that_is_still_open_stays_open(self) -> None:
        plain = [USER, turn(call("call_1"))]
        assert filter_client_messages([*plain, turn(CLIENT)]) == plain

    def test_a_result_whose_call_is_gone_goes_too(self) -> None:
        client = call("abc", "client.custom")
        assert filter_client_messages([USER, turn(client), result("abc"), result("nobody")]) == [USER]

    def test_completion_statuses_are_not_for_the_model(self) -> None:
        status = {"call_1": {"complete": True}}
        messages = [{**turn(call("call_1")), "toolCallStatus": status}, result("call_1")]
        assert filter_client_messages(messages) == [turn(call("call_1")), result("call_1")]

    def test_untouched_messages_are_the_same_objects_and_nothing_given_is_changed(self) -> None:
        messages = [USER, turn(call("call_1"), CLIENT), result("call_1"), result("hitl_1")]
        before = copy.deepcopy(messages)
        filtered = filter_client_messages(messages)
        assert filtered[0] is messages[0]
        assert filtered[2] is messages[2]
        assert messages == before

    def test_a_message_object_of_the_openai_client_keeps_its_results(self) -> None:
        message = ChatCompletionMessage.model_validate(turn(call("call_1")))
        messages = [USER, message, result("call_1")]
        assert filter_client_messages(messages) == messages

    def test_a_history_of_anthropic_is_filtered_by_its_blocks(self) -> None:
        def use(call_id: str, name: str = "shell") -> dict[str, Any]:
            return {"type": "tool_use", "id": call_id, "name": name, "input": {}}

        def done(call_id: str) -> dict[str, Any]:
            return {"type": "tool_result", "tool_use_id": call_id, "content": "done"}

        words = {"type": "text", "text": "Let me see."}
        plain = [
            USER,
            {"role": "assistant", "content": [words, use("toolu_1")]},
            {"role": "user", "content": [done("toolu_1"), words]},
        ]
        woven = [
            USER,
            {
                "role": "assistant",
                "content": [words, use("toolu_1"), use("hitl_1", "client.humanIntervention")],
            },
            {"role": "user", "content": [done("hitl_1"), done("toolu_1"), done("nobody"), words]},
            {"role": "assistant", "content": [use("custom", "client.custom")]},
            {"role": "user", "content": [done("custom")]},
            {"role": "user", "content": [done("approval_2")]},
        ]
        before = copy.deepcopy(woven)
        filtered = filter_client_messages(woven)
        assert filtered == plain == filter_client_messages(filtered)
        assert (woven, filtered[0] is USER) == (before, True)

    def test_a_history_of_responses_is_filtered_by_its_items(self, caplog: pytest.LogCaptureFixture) -> None:
        def made(call_id: str, name: str = "shell") -> dict[str, Any]:
            return {"type": "function_call", "call_id": call_id, "name": name, "arguments": "{}"}

        def done(call_id: str) -> dict[str, Any]:
            return {"type": "function_call_output", "call_id": call_id, "output": "done"}

        # The call of an output may be in the response before, which the API keeps.
        plain = [USER, done("call_0"), made("call_1"), done("call_1")]
        woven = [
            *plain[:3],
            made("hitl_1", "client.humanIntervention"),
            made("custom", "client.custom"),
            done("custom"),
            done("hitl_1"),
            plain[3],
            done("approval_2"),
        ]
        with caplog.at_level("DEBUG", logger="handraise.tools"):
            assert filter_client_messages(woven) == plain
        assert "5 of 9 messages are the client's own" in caplog.text

    @pytest.mark.parametrize(
        "junk", [None, 5, "text", [], {}, {"role": "assistant", "tool_calls": 5}, {"tool_calls": [None, 5]}]
    )
    def test_what_is_no_message_passes_through(self, junk: Any) -> None:
        assert filter_client_messages([junk]) == [junk]
