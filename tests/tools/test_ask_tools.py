"""A model asks: what is asked, what comes back, and what never happens."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from handraise import (
    Choice,
    Desk,
    InvalidQuestion,
    MultiChoice,
    Open,
    Page,
    Question,
    QuestionNotFound,
    Status,
)
from handraise.testing import ManualClock, promise
from handraise.testing.contract import Backend, MemoryBackend
from handraise.tools import (
    AskEvent,
    AskTool,
    Interrupt,
    ToolResult,
    ask_clarifying_question,
    clarify,
    human_intervention_request,
    preset_tools,
)

SOON = 10.0
DEPLOY = {"prompt": "Which strategy?", "options": ["Blue-green", "Canary"]}


async def pending(desk: Desk, count: int = 1) -> list[Question]:
    """The pending questions, once there are as many."""
    async with asyncio.timeout(SOON):
        while len(found := (await desk.list_pending()).items) != count:
            await asyncio.sleep(0.005)
    return list(found)


async def after(call: Awaitable[ToolResult], then: Awaitable[Any]) -> ToolResult:
    """The result of a call while something else happens."""
    async with asyncio.timeout(SOON):
        result, _ = await asyncio.gather(call, then)
    return result


async def answer(desk: Desk, *values: Any) -> None:
    for question, value in zip(await pending(desk, len(values)), values, strict=True):
        await desk.answer(question.id, value, by="ana")


async def started(tool: AskTool, arguments: Any, call_id: str | None = None) -> Interrupt:
    interrupt = await tool.start(arguments, call_id=call_id)
    assert isinstance(interrupt, Interrupt), interrupt
    return interrupt


async def question_of(desk: Desk, tool: AskTool, arguments: Any) -> Question:
    return await desk.get((await started(tool, arguments)).question_ids[0])


@pytest.fixture
def hir(desk: Desk) -> AskTool:
    return human_intervention_request(desk, conversation="c")


@pytest.fixture
def clarifying(desk: Desk) -> AskTool:
    return clarify(desk, conversation="c")


class TestWhatIsAsked:
    async def test_an_intervention_is_a_choice_between_its_options(self, desk: Desk, hir: AskTool) -> None:
        question = await question_of(desk, hir, {**DEPLOY, "context": {"from": "v1"}})
        assert question.prompt == "Which strategy?"
        assert question.form == Choice.of("Blue-green", "Canary")
        assert question.context == {"from": "v1"}
        assert question.conversation == "c"
        assert question.asker == "agent"

    async def test_arguments_may_be_the_json_text_that_the_model_sent(self, desk: Desk, hir: AskTool) -> None:
        assert (await question_of(desk, hir, json.dumps(DEPLOY))).form == Choice.of("Blue-green", "Canary")

    async def test_a_clarification_without_choices_is_open(self, desk: Desk, clarifying: AskTool) -> None:
        empty: Any = {"question": "Why?", "choices": [], "questions": None, "multi_select": False}
        for arguments in ({"question": "Why?"}, empty):
            assert (await question_of(desk, clarifying, arguments)).form == Open()

    async def test_a_clarification_with_choices_also_takes_an_answer_of_ones_own(
        self, desk: Desk, clarifying: AskTool
    ) -> None:
        question = await question_of(desk, clarifying, {"question": "Which?", "choices": ["a", "b"]})
        assert question.form == Choice.of("a", "b", allow_other=True)

    async def test_several_choices_may_be_selected_where_the_model_says_so(
        self, desk: Desk, clarifying: AskTool
    ) -> None:
        arguments = {"question": "Which?", "choices": ["a", "b"], "multi_select": True}
        assert (await question_of(desk, clarifying, arguments)).form == MultiChoice.of(
            "a", "b", allow_other=True
        )

    async def test_choices_are_coerced_first(self, desk: Desk, clarifying: AskTool) -> None:
        raw = json.dumps([{"description": "Red"}, " Blue ", {"name": "x"}, "blue"])
        question = await question_of(desk, clarifying, {"question": "Which?", "choices": raw})
        assert question.form == Choice.of("Red", "Blue", allow_other=True)

    async def test_a_clarifying_question_is_open_and_says_why(self, desk: Desk) -> None:
        tool = ask_clarifying_question(desk, conversation="c")
        question = await question_of(desk, tool, {"question": "Which file?", "context": "There are two."})
        assert (question.prompt, question.form, question.context) == ("Which file?", Open(), "There are two.")

    async def test_only_clarify_expires_by_itself(self, desk: Desk) -> None:
        for tool, arguments, wanted in zip(
            preset_tools(desk, conversation="c"),
            ({"question": "a?"}, {"question": "b?"}, DEPLOY),
            (timedelta(seconds=600), None, None),
            strict=True,
        ):
            question = await question_of(desk, tool, arguments)
            assert (question.timeline and question.timeline.expire) == wanted

    async def test_clarify_waits_for_ever_where_it_is_told_to(self, desk: Desk) -> None:
        tool = clarify(desk, conversation="c", expires_in=None)
        assert (await question_of(desk, tool, {"question": "Why?"})).expires_at is None

    async def test_recipients_are_passed_on(self, desk: Desk) -> None:
        tool = human_intervention_request(desk, conversation="c", recipients=["ana"])
        assert (await question_of(desk, tool, DEPLOY)).recipients == ("ana",)

    async def test_the_record_keeps_the_call_that_asked(self, desk: Desk, hir: AskTool) -> None:
        question = await desk.get((await started(hir, DEPLOY, "call_1")).question_ids[0])
        assert question.tool_call == "call_1"
        assert question.state["tool"] == "human_intervention_request"
        assert question.state["call_id"] == "call_1"


class TestWhatCannotBeAsked:
    @pytest.mark.parametrize(
        ("arguments", "path", "message"),
        [
            ("{", "", "expected one JSON object with the parameters by name"),
            ("[]", "", "expected one JSON object with the parameters by name"),
            ("", "", "expected one JSON object with the parameters by name"),
            ("[" * 100_000, "", "expected one JSON object with the parameters by name"),
            ({}, "", "give either question or questions"),
            ({"question": 5}, "question", "Input should be a valid string"),
            ({"question": " "}, "question", "String should have at least 1 character"),
            ({"question": "a\x00"}, "question", "contains a NUL character"),
            ({"question": "a", "options": ["b"]}, "options", "there is no such parameter; leave it out"),
            (
                {"question": "a", "choices": list("abcde")},
                "choices",
                "at most 4 choices are possible, not 5; offer fewer",
            ),
            (
                {"question": "a", "choices": [{"value": 1}]},
                "choices",
                "none of these has a readable label; send a list of short texts",
            ),
            (
                {"question": "a", "choices": [{"id": "b", "label": "a"}, "b"]},
                "choices",
                "the label 'b' is the id of another choice; leave the ids out",
            ),
            (
                {"question": "a", "choices": '["\\ud800"]'},
                "choices",
                "has a text that cannot be kept; send plain characters",
            ),
            (
                {"question": "a", "choices": [10**5_000]},
                "choices[0]",
                "is a whole number beyond 2^53, which some programs read inexactly: write it as text",
            ),
            (
                {"questions": '["\\ud800"]'},
                "questions",
                "is not JSON that can be kept; send a list of questions",
            ),
            ({"question": "a", "multi_select": True}, "", "multi_select needs choices to select from"),
            (
                {"questions": ["a", "b", "c", "d", "e", "f"]},
                "questions",
                "at most 5 questions are possible, not 6; ask fewer at once",
            ),
            ({"questions": [{"choices": ["a"]}]}, "questions[0].question", "is required"),
            ({"questions": [{"question": "a", "id": {}}]}, "questions[0].id", "expected a short text"),
            ({"question": "a", "questions": ["b"]}, "", "give either question or questions"),
            (
                {"questions": ["a"], "choices": ["b"]},
                "",
                "choices belong in each of the questions",
            ),
            (
                {"question": "a" * 10_001},
                "question",
                "has 10001 characters, but only 10000 are possible",
            ),
            (
                {"questions": ["a", {"question": "b", "choices": ["c" * 501]}]},
                "questions[1].choices[0].id",
                "has 501 characters, but only 500 are possible",
            ),
        ],
    )
    async def test_junk_is_a_result_that_says_where_and_what(
        self, desk: Desk, clarifying: AskTool, arguments: Any, path: str, message: str
    ) -> None:
        for result in (await clarifying.execute(arguments), await clarifying.start(arguments, call_id="c1")):
            assert isinstance(result, ToolResult)
            assert result.status == "invalid"
            assert (path, message) in [(each.path, each.message) for each in result.problems]
        assert (await desk.list_pending()).items == []

    async def test_every_problem_is_told_at_once(self, clarifying: AskTool) -> None:
        result = await clarifying.execute({"questions": [{"question": ""}, {"question": "a", "x": 1}, 5]})
        assert [each.path for each in result.problems] == [
            "questions[0].question",
            "questions[1].x",
            "questions[2]",
        ]

    async def test_an_intervention_needs_options(self, hir: AskTool) -> None:
        assert [each.path for each in (await hir.execute({"prompt": "a"})).problems] == ["options"]
        assert [each.path for each in (await hir.execute({"prompt": "a", "options": []})).problems] == [
            "options"
        ]

    async def test_too_many_options_are_refused_by_the_desk_and_never_cut(self, hir: AskTool) -> None:
        result = await hir.execute({"prompt": "a", "options": [str(each) for each in range(21)]})
        assert [str(each) for each in result.problems] == ["options: at most 20 options are possible, not 21"]

    async def test_the_model_reads_what_to_do(self, clarifying: AskTool) -> None:
        assert json.loads((await clarifying.execute("{}")).content) == {
            "status": "invalid",
            "reason": "Nobody was asked. Correct these problems and call clarify again.",
            "problems": [{"path": "", "message": "give either question or questions"}],
        }

    async def test_a_call_id_that_cannot_be_kept_is_refused(self, hir: AskTool) -> None:
        for call_id in ("a" * 201, "\x00", "\ud800", "  "):
            result = await hir.execute(DEPLOY, call_id=call_id)
            assert (result.status, result.problems[0].path) == ("invalid", "call_id")

    async def test_a_batch_with_one_bad_question_leaves_none_pending(
        self, desk: Desk, clarifying: AskTool
    ) -> None:
        result = await clarifying.execute({"questions": ["fine?", "a" * 10_001]})
        assert result.status == "invalid"
        assert (await desk.list_pending()).items == []

    async def test_the_programs_own_mistake_is_raised_and_not_blamed_on_the_model(self, desk: Desk) -> None:
        tool = human_intervention_request(desk, conversation="c", recipients=["agent"])
        with pytest.raises(InvalidQuestion, match="the asker cannot answer"):
            await tool.execute(DEPLOY)


class TestWhatComesBack:
    async def test_an_answer_with_its_value_its_text_and_its_source(self, desk: Desk, hir: AskTool) -> None:
        options = [{"id": "bg", "label": "Blue-green"}, "Canary"]
        result = await after(
            hir.execute({"prompt": "Which?", "options": options}, call_id="call_1"), answer(desk, "bg")
        )
        assert (result.status, result.value, result.text) == ("answered", "bg", "Blue-green")
        assert (result.source, result.by) == ("person", "ana")

    async def test_an_answer_that_does_not_fit_keeps_the_call_waiting(self, desk: Desk, hir: AskTool) -> None:
        async def person() -> None:
            [question] = await pending(desk)
            with pytest.raises(ValueError, match="not one of the options"):
                await desk.answer(question.id, "Yolo", by="ana")
            await desk.answer(question.id, "Canary", by="ana")

        assert (await after(hir.execute(DEPLOY), person())).text == "Canary"

    async def test_a_refusal_is_declined(self, desk: Desk, hir: AskTool) -> None:
        async def person() -> None:
            await desk.decline((await pending(desk))[0].id, by="ana", reason="not mine")

        result = await after(hir.execute(DEPLOY), person())
        assert (result.status, result.by, result.reason) == ("declined", "ana", "not mine")

    @promise("P10", "P13")
    async def test_a_clarification_expires_instead_of_hanging(
        self, desk: Desk, clarifying: AskTool, clock: ManualClock
    ) -> None:
        async def time_passes() -> None:
            await pending(desk)
            clock.advance(timedelta(seconds=601))

        result = await after(clarifying.execute({"question": "Why?"}), time_passes())
        assert (result.status, result.value, result.source) == ("expired", None, None)

    async def test_a_withdrawn_question_says_so(self, desk: Desk, hir: AskTool) -> None:
        async def asker() -> None:
            await desk.withdraw((await pending(desk))[0].id, reason="changed my mind")

        result = await after(hir.execute(DEPLOY), asker())
        assert (result.status, result.reason) == ("withdrawn", "changed my mind")

    async def test_a_cancelled_call_leaves_its_question_pending(self, desk: Desk, hir: AskTool) -> None:
        call = asyncio.create_task(hir.execute(DEPLOY, call_id="call_1"))
        [question] = await pending(desk)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await desk.answer(question.id, "Canary", by="ana")
        assert (await hir.execute(DEPLOY, call_id="call_1")).text == "Canary"


class TestBatches:
    async def test_answers_come_back_for_each_question_by_our_own_ids(
        self, desk: Desk, clarifying: AskTool
    ) -> None:
        batch = {
            "questions": [
                {"id": "x", "question": "Which?", "choices": ["a", "b"], "multi_select": True},
                {"id": "x", "question": "Why?"},
                "When?",
            ]
        }
        result = await after(
            clarifying.execute(batch, call_id="call_1"), answer(desk, ["b", "a"], "because", "now")
        )
        assert result.status == "answered"
        assert [(each.question, each.echo, each.value, each.text) for each in result.responses] == [
            ("Which?", "x", ["a", "b"], "a, b"),
            ("Why?", "x", "because", "because"),
            ("When?", None, "now", "now"),
        ]
        assert len({each.question_id for each in result.responses}) == 3

    async def test_one_that_expires_does_not_lose_the_answers_of_the_others(
        self, desk: Desk, clarifying: AskTool, clock: ManualClock
    ) -> None:
        async def person() -> None:
            first, _ = await pending(desk, 2)
            await desk.answer(first.id, "because", by="ana")
            clock.advance(timedelta(seconds=601))

        result = await after(clarifying.execute({"questions": ["Why?", "When?"]}), person())
        assert result.status == "expired"
        assert [(each.status, each.value) for each in result.responses] == [
            ("answered", "because"),
            ("expired", None),
        ]

    async def test_a_batch_may_come_as_its_json_text(self, desk: Desk, clarifying: AskTool) -> None:
        result = await after(clarifying.execute({"questions": '["Why?", "When?"]'}), answer(desk, "a", "b"))
        assert [each.question for each in result.responses] == ["Why?", "When?"]

    async def test_a_batch_of_one_is_a_batch(self, desk: Desk, clarifying: AskTool) -> None:
        result = await after(clarifying.execute({"questions": ["Why?"]}), answer(desk, "because"))
        assert [each.value for each in result.responses] == ["because"]

    async def test_a_batch_executed_again_asks_nothing_twice(self, desk: Desk, clarifying: AskTool) -> None:
        batch = {"questions": [{"question": "Why?", "id": 7}, "When?"]}
        interrupt = await started(clarifying, batch, "call_1")
        await answer(desk, "because", "now")
        result = await clarifying.execute(batch, call_id="call_1")
        assert tuple(each.question_id for each in result.responses) == interrupt.question_ids
        assert await clarifying.resume(interrupt.question_ids) == result

    async def test_the_same_question_twice_in_a_batch_is_asked_once(
        self, desk: Desk, clarifying: AskTool
    ) -> None:
        result = await after(
            clarifying.execute({"questions": ["Why?", "Why?"]}, call_id="call_1"), answer(desk, "because")
        )
        assert [each.value for each in result.responses] == ["because", "because"]


class TestInterrupts:
    async def test_it_carries_what_to_show_and_the_way_back(self, desk: Desk, hir: AskTool) -> None:
        interrupt = await started(hir, {**DEPLOY, "context": {"from": "v1"}}, "call_1")
        [question] = await pending(desk)
        assert (interrupt.tool, interrupt.conversation, interrupt.call_id) == (
            "human_intervention_request",
            "c",
            "call_1",
        )
        assert interrupt.question_ids == (question.id,)
        assert interrupt.events == (
            AskEvent(
                question_id=question.id,
                agent=question.asker,
                prompt="Which strategy?",
                options=Choice.of("Blue-green", "Canary").options,
                context={"from": "v1"},
                kind="choice",
                tool="human_intervention_request",
                conversation="c",
                call_id="call_1",
            ),
        )

    async def test_it_can_be_raised_and_sent_to_another_process(self, hir: AskTool) -> None:
        interrupt = await started(hir, DEPLOY, "call_1")
        with pytest.raises(Interrupt, match="resume it with these ids"):
            raise interrupt
        copy = pickle.loads(pickle.dumps(interrupt))  # noqa: S301 -- our own bytes
        assert copy.events == interrupt.events
        assert (copy.tool, copy.conversation, copy.call_id) == (hir.spec.name, "c", "call_1")

    @promise("P1", "P3", "P4")
    async def test_another_process_can_answer_and_a_third_can_resume(
        self, backend: Backend, workspace: str
    ) -> None:
        async with backend.open(workspace=workspace) as desk:
            interrupt = await started(human_intervention_request(desk, conversation="c"), DEPLOY, "call_1")
        async with backend.open(workspace=workspace) as desk:
            await desk.answer(interrupt.question_ids[0], "Canary", by="ana")
        async with backend.open(workspace=workspace) as desk:
            tool = human_intervention_request(desk, conversation="c")
            assert (await tool.resume(interrupt.question_ids)).text == "Canary"

    async def test_resuming_too_early_changes_nothing(self, desk: Desk, hir: AskTool) -> None:
        interrupt = await started(hir, DEPLOY)
        assert (await hir.resume(interrupt.question_ids, timeout=0.01)).status == "still_pending"
        assert (await desk.get(interrupt.question_ids[0])).status is Status.PENDING

    async def test_a_batch_says_which_are_still_pending(self, desk: Desk, clarifying: AskTool) -> None:
        interrupt = await started(clarifying, {"questions": ["Why?", "When?"]})
        await desk.answer(interrupt.question_ids[1], "now", by="ana")
        result = await clarifying.resume(interrupt.question_ids, timeout=0.01)
        assert [each.status for each in result.responses] == ["still_pending", "answered"]
        assert result.status == "still_pending"

    async def test_a_question_of_another_conversation_cannot_be_resumed(
        self, desk: Desk, hir: AskTool
    ) -> None:
        interrupt = await started(hir, DEPLOY)
        for other in (desk, desk.scoped(asker="other"), desk.scoped("elsewhere")):
            tool = human_intervention_request(other, conversation="d")
            with pytest.raises(QuestionNotFound):
                await tool.resume(interrupt.question_ids)


class TestEmitting:
    @promise("P5")
    async def test_people_are_shown_what_is_stored(self, desk: Desk) -> None:
        shown: list[tuple[AskEvent, Question]] = []

        async def emit(event: AskEvent) -> None:
            shown.append((event, await desk.get(event.question_id)))

        interrupt = await started(human_intervention_request(desk, conversation="c", emit=emit), DEPLOY, "1")
        assert [event for event, _ in shown] == list(interrupt.events)
        assert [stored.status for _, stored in shown] == ["pending"]

    async def test_a_plain_function_can_show_it_too(self, desk: Desk) -> None:
        shown: list[AskEvent] = []
        await started(clarify(desk, conversation="c", emit=shown.append), {"questions": ["a?", "b?"]})
        assert [event.prompt for event in shown] == ["a?", "b?"]

    @promise("P13")
    async def test_what_cannot_be_shown_is_withdrawn_and_reported_as_undelivered(
        self, desk: Desk, caplog: pytest.LogCaptureFixture
    ) -> None:
        def emit(_: AskEvent) -> None:
            raise ConnectionResetError("the stream is gone")

        tool = human_intervention_request(desk, conversation="c", emit=emit)
        for result in (
            await tool.execute(DEPLOY, call_id="call_1"),
            await tool.execute(DEPLOY, call_id="call_1"),
            await tool.start(DEPLOY),
        ):
            assert isinstance(result, ToolResult)
            assert (result.status, result.reason) == ("undelivered", "undelivered: ConnectionResetError")
            assert result.question_id is not None
            assert (await desk.get(result.question_id)).status is Status.WITHDRAWN
        assert "could not show its question" in caplog.text

    async def test_a_batch_that_is_shown_in_part_is_taken_back_whole(self, desk: Desk) -> None:
        shown: list[AskEvent] = []

        async def emit(event: AskEvent) -> None:
            if shown:
                raise RuntimeError
            shown.append(event)
            await desk.answer(event.question_id, "quick", by="ana")

        result = await clarify(desk, conversation="c", emit=emit).execute({"questions": ["a?", "b?", "c?"]})
        assert [(each.status, each.value) for each in result.responses] == [
            ("answered", "quick"),
            ("undelivered", None),
            ("undelivered", None),
        ]
        assert (await desk.list_pending()).items == []

    async def test_an_answer_that_came_before_the_showing_failed_counts(self, desk: Desk) -> None:
        async def emit(event: AskEvent) -> None:
            await desk.answer(event.question_id, "Canary", by="ana")
            raise RuntimeError

        result = await human_intervention_request(desk, conversation="c", emit=emit).execute(DEPLOY)
        assert (result.status, result.text) == ("answered", "Canary")

    async def test_a_call_that_joined_anothers_question_does_not_take_it_away(self, desk: Desk) -> None:
        interrupt = await started(human_intervention_request(desk, conversation="c"), DEPLOY, "call_1")

        def emit(_: AskEvent) -> None:
            raise RuntimeError

        tool = human_intervention_request(desk, conversation="c", emit=emit)
        for call_id in ("call_2", None):
            result = await tool.execute(DEPLOY, call_id=call_id)
            assert (result.status, result.question_id) == ("undelivered", interrupt.question_ids[0])
        assert (await desk.get(interrupt.question_ids[0])).status is Status.PENDING

    async def test_a_call_made_again_shows_the_same_question_again(self, desk: Desk) -> None:
        shown: list[AskEvent] = []
        tool = human_intervention_request(desk, conversation="c", emit=shown.append)
        first = await started(tool, DEPLOY, "call_1")
        again = await started(tool, DEPLOY, "call_1")
        assert first.question_ids == again.question_ids == tuple({each.question_id for each in shown})
        assert len(shown) == 2

    async def test_a_settled_question_is_not_shown_again(self, desk: Desk) -> None:
        shown: list[AskEvent] = []
        tool = human_intervention_request(desk, conversation="c", emit=shown.append)
        await started(tool, DEPLOY, "call_1")
        await answer(desk, "Canary")
        assert (await tool.execute(DEPLOY, call_id="call_1")).text == "Canary"
        assert len(shown) == 1


def blind(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A desk as of a process that looked before any of the others had posted."""
    early = desk.scoped()

    async def find_by_key(_: str) -> None:
        return None

    async def nothing_pending(**_: Any) -> Page[Question]:
        return Page([], None)

    monkeypatch.setattr(early, "find_by_key", find_by_key)
    monkeypatch.setattr(early, "list_pending", nothing_pending)
    return early


CALL_IDS = pytest.mark.parametrize(
    "call_id",
    [lambda _: None, lambda number: f"call_{number}"],
    ids=["without a call id", "with call ids"],
)
CallId = Callable[[int], str | None]


class TestAskingAgain:
    @promise("P9")
    async def test_a_restarted_loop_gets_the_same_question_answered_or_not(
        self, backend: Backend, workspace: str
    ) -> None:
        ids = set()
        for _ in range(2):
            async with backend.open(workspace=workspace) as desk:
                tool = human_intervention_request(desk, conversation="c")
                ids |= {*(await started(tool, DEPLOY, "call_1")).question_ids}
        async with backend.open(workspace=workspace) as desk:
            await answer(desk, "Canary")
            tool = human_intervention_request(desk, conversation="c")
            result = await tool.execute(json.dumps(DEPLOY), call_id="call_1")
        assert (ids, result.text) == ({result.question_id}, "Canary")

    async def test_a_restarted_loop_that_is_set_up_otherwise_keeps_the_question_as_it_was_asked(
        self, desk: Desk
    ) -> None:
        first = await started(clarify(desk, conversation="c"), {"question": "Why?"}, "call_1")
        patient = clarify(desk, conversation="c", expires_in=None)
        again = await started(patient, {"question": "Why?"}, "call_1")
        assert first.question_ids == again.question_ids

    @CALL_IDS
    async def test_an_equal_question_that_is_pending_is_joined(
        self, backend: Backend, workspace: str, call_id: CallId
    ) -> None:
        async with backend.open(workspace=workspace) as desk:
            tool = human_intervention_request(desk, conversation="c")
            calls = await asyncio.gather(*(started(tool, DEPLOY, call_id(number)) for number in range(5)))
            await answer(desk, "Canary")
            results = await asyncio.gather(*(tool.resume(call.question_ids, timeout=SOON) for call in calls))
        assert len({call.question_ids for call in calls}) == 1
        assert {each.text for each in results} == {"Canary"}

    async def test_two_calls_of_one_question_wait_together(self, desk: Desk) -> None:
        shown: list[AskEvent] = []
        tool = human_intervention_request(desk, conversation="c", emit=shown.append)

        async def person() -> None:
            while len(shown) < 2:
                await asyncio.sleep(0)
            await answer(desk, "Canary")

        async with asyncio.timeout(SOON):
            one, two, _ = await asyncio.gather(
                tool.execute(DEPLOY, call_id="call_1"), tool.execute(DEPLOY, call_id="call_2"), person()
            )
        assert one == two

    async def test_a_call_that_joined_a_question_has_it_for_ever(
        self, backend: Backend, workspace: str
    ) -> None:
        async with backend.open(workspace=workspace) as desk:
            tool = human_intervention_request(desk, conversation="c")
            first, joined = await started(tool, DEPLOY, "call_1"), await started(tool, DEPLOY, "call_2")
            assert first.question_ids == joined.question_ids
            await answer(desk, "Blue-green")
        async with backend.open(workspace=workspace) as desk, asyncio.timeout(SOON):
            tool = human_intervention_request(desk, conversation="c")
            assert (await tool.execute(DEPLOY, call_id="call_2")).text == "Blue-green"
            assert not (await desk.list_pending()).items

    async def test_a_call_id_counts_within_its_run(
        self, desk: Desk, caplog: pytest.LogCaptureFixture
    ) -> None:
        ids: list[str] = []
        for run in ("Monday", "Friday"):
            tool = human_intervention_request(desk, conversation="c", run=run)
            ids += (await started(tool, DEPLOY, "call_0")).question_ids
            await answer(desk, "Canary")
        monday = human_intervention_request(desk, conversation="c", run="Monday")
        again = await monday.start(DEPLOY, call_id="call_0")
        assert isinstance(again, ToolResult)
        assert again.question_id == ids[0] != ids[1]
        assert caplog.text == ""

    @pytest.mark.parametrize(
        ("call_id", "warned"),
        [("call_0", True), ("functions.ask:1", True), ("7", True), ("call_x9Zk21", False)],
    )
    async def test_an_answer_that_a_numbered_call_gets_again_is_warned_of(
        self, desk: Desk, hir: AskTool, caplog: pytest.LogCaptureFixture, *, call_id: str, warned: bool
    ) -> None:
        await started(hir, DEPLOY, call_id)
        await answer(desk, "Canary")
        assert caplog.text == ""
        assert (await hir.execute(DEPLOY, call_id=call_id)).text == "Canary"
        assert ("give the tool run=" in caplog.text) is warned

    @CALL_IDS
    async def test_asking_again_after_it_is_settled_asks_again(
        self, backend: Backend, workspace: str, call_id: CallId
    ) -> None:
        async with backend.open(workspace=workspace) as desk:
            tool = human_intervention_request(desk, conversation="c")
            ids: list[str] = []
            for number in range(5):
                ids += (await started(tool, DEPLOY, call_id(number))).question_ids
                await answer(desk, "Canary")
        assert len(set(ids)) == 5

    async def test_calls_with_and_without_an_id_join_each_other(self, desk: Desk, hir: AskTool) -> None:
        with_id = await started(hir, DEPLOY, "call_1")
        without = await started(hir, DEPLOY)
        assert with_id.question_ids == without.question_ids
        await answer(desk, "Canary")
        without = await started(hir, DEPLOY)
        assert (await started(hir, DEPLOY, "call_2")).question_ids == without.question_ids

    async def test_an_equal_question_is_found_among_many(self, desk: Desk, hir: AskTool) -> None:
        for number in range(60):
            await desk.post(f"{number}?", conversation="c")
        first = await started(hir, DEPLOY, "call_1")
        assert (await started(hir, DEPLOY, "call_2")).question_ids == first.question_ids

    @pytest.mark.parametrize(
        "changed",
        [
            {"prompt": "Which one?"},
            {"options": ["Blue-green", "Canary", "Rolling"]},
            {"context": {"service": "payments"}},
        ],
    )
    async def test_a_question_that_differs_is_another_one(
        self, hir: AskTool, changed: dict[str, Any]
    ) -> None:
        first = await started(hir, DEPLOY, "call_1")
        assert (await started(hir, {**DEPLOY, **changed}, "call_2")).question_ids != first.question_ids
        assert (await started(hir, {**DEPLOY, **changed})).question_ids != first.question_ids
        assert (await started(hir, {**DEPLOY, **changed}, "call_1")).question_ids != first.question_ids

    @CALL_IDS
    @promise("P8")
    async def test_never_across_tools_conversations_askers_or_workspaces(
        self, desk: Desk, call_id: CallId
    ) -> None:
        ask = {"question": "Why?"}
        tools = [
            clarify(desk, conversation="c"),
            clarify(desk, conversation="d"),
            clarify(desk.scoped(asker="other"), conversation="c"),
            clarify(desk.scoped("elsewhere"), conversation="c"),
            ask_clarifying_question(desk, conversation="c"),
        ]
        ids = [(await started(tool, ask, call_id(1))).question_ids for tool in tools]
        assert len(set(ids)) == len(tools)

    async def test_two_processes_that_ask_the_same_at_once_ask_once(
        self, backend: Backend, workspace: str
    ) -> None:
        async with backend.open(workspace=workspace) as one, backend.open(workspace=workspace) as two:
            tools = [human_intervention_request(desk, conversation="c") for desk in (one, two)]
            for _ in range(3):
                both = await asyncio.gather(*(started(tool, DEPLOY) for tool in tools))
                assert len({each.question_ids for each in both}) == 1
                await answer(one, "Canary")

    @pytest.mark.parametrize("shared", [False, True])
    async def test_a_key_that_somebody_else_has_taken_does_not_stop_a_call(self, *, shared: bool) -> None:
        async with MemoryBackend().open() as desk:
            tool = human_intervention_request(desk, conversation="c")
            first = await desk.get((await started(tool, DEPLOY)).question_ids[0])
            await answer(desk, "Canary")
            assert first.key is not None
            taken = first.key.removesuffix(":1") + ":2"
            await desk.scoped(asker="mallory").post("Mine", key=taken, shared=shared)
            second = await desk.get((await started(tool, DEPLOY)).question_ids[0])
            assert (second.asker, second.key) == ("agent", taken)

    @CALL_IDS
    async def test_a_process_that_looked_too_early_gets_the_same_question(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch, call_id: CallId
    ) -> None:
        first = await started(clarify(desk, conversation="c"), {"question": "Why?"}, call_id(1))
        patient = clarify(blind(desk, monkeypatch), conversation="c", expires_in=None)
        assert (await started(patient, {"question": "Why?"}, call_id(1))).question_ids == first.question_ids

    async def test_a_key_that_somebody_takes_meanwhile_does_not_stop_a_call(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        elsewhere = human_intervention_request(desk.scoped("elsewhere"), conversation="c")
        key = (await question_of(desk.scoped("elsewhere"), elsewhere, DEPLOY)).key
        assert key is not None
        await desk.scoped(asker="mallory").post("Mine", key=key)
        tool = human_intervention_request(blind(desk, monkeypatch), conversation="c")
        assert (await question_of(desk, tool, DEPLOY)).key == key

    async def test_long_names_make_keys_that_fit(self, desk: Desk) -> None:
        tool = human_intervention_request(desk, conversation="c" * 200)
        question = await desk.get((await started(tool, DEPLOY, "i" * 200)).question_ids[0])
        assert question.key is not None
        assert len(question.key) <= 200


async def test_a_call_that_was_answered_already_has_its_result_and_no_interrupt(
    desk: Desk, hir: AskTool
) -> None:
    await started(hir, DEPLOY, "call_1")
    (question,) = await pending(desk)
    await desk.answer(question.id, "Canary", by="ana")
    again = await hir.start(DEPLOY, call_id="call_1")
    assert isinstance(again, ToolResult)
    assert again.status == "answered"
