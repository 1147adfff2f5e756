"""Asking: what can be posted, what is refused, and keys."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Literal

import pytest

from handraise import (
    Approval,
    Choice,
    Confirm,
    Desk,
    Escalation,
    Field,
    Form,
    InvalidQuestion,
    KeyConflict,
    MultiChoice,
    Open,
    Option,
    PermissionDenied,
    Timeline,
)
from handraise.desks import counted_ids
from handraise.errors import AnswerTypeMismatch
from handraise.forms import AnyForm
from handraise.questions import Limits, QuestionOptions
from handraise.testing.clock import ManualClock
from handraise.testing.contract.backend import SOON, Backend, ContractFixtures, fed
from handraise.testing.promises import promise

FORMS: dict[str, AnyForm] = {
    "choice": Choice.of("Blue-green", "Canary"),
    "choice with descriptions": Choice.of(Option(id="bg", label="Blue-green", description="Two fleets")),
    "choice with other": Choice.of("a", "b", allow_other=True),
    "multi_choice": MultiChoice.of("a", "b", "c", at_least=1, at_most=2),
    "open": Open(),
    "open integer": Open(type="integer", minimum=1, maximum=9),
    "open pattern": Open(pattern=r"^\d{5}$"),
    "confirm": Confirm(),
    "form": Form(
        fields=(
            Field(name="size", form=Open(type="integer")),
            Field(name="color", form=Choice.of("red", "blue"), required=False, default="red"),
        )
    ),
    "approval": Approval.of("pay", {"amount": 12.5, "to": {"name": "Zoë"}}, editable=["amount"]),
    "approval of low risk": Approval.of("read", {"path": "/"}, risk="low"),
}

UNASKABLE: dict[str, tuple[str, QuestionOptions]] = {
    "an empty prompt": ("", {}),
    "a blank prompt": (" \n", {}),
    "a prompt with a NUL": ("a\x00b", {}),
    "a prompt with half a surrogate": ("a\ud800b", {}),
    "a prompt that is too long": ("x" * 10_001, {}),
    "no option": ("Which?", {"choices": []}),
    "an empty label": ("Which?", {"choices": ["a", " "]}),
    "two options with one id": ("Which?", {"choices": ["a", "a"]}),
    "two options that read alike": ("Which?", {"choices": ["Yes", "yes"]}),
    "a label that is the id of another option": (
        "Which?",
        {"form": Choice.of(Option(id="b", label="a"), Option(id="a", label="b"))},
    ),
    "more options than the limit": ("Which?", {"choices": [str(n) for n in range(21)]}),
    "choices and a form": ("Which?", {"choices": ["a"], "form": Confirm()}),
    "bounds nobody can meet": ("Which?", {"form": MultiChoice.of("a", at_least=2)}),
    "a pattern with look-ahead": ("Which?", {"form": Open(pattern="(?=a)b")}),
    "a pattern that explodes": ("Which?", {"form": Open(pattern="(a{1000}){1000}")}),
    "a form without fields": ("Which?", {"form": Form(fields=())}),
    "a nested schema": (
        "Which?",
        {"form": {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}}},
    ),
    "a remote reference": (
        "Which?",
        {"form": {"type": "object", "properties": {"a": {"$ref": "https://example.com/x"}}}},
    ),
    "a secret": (
        "Which?",
        {"form": {"type": "object", "properties": {"a": {"type": "string", "format": "password"}}}},
    ),
    "a digest of another action": (
        "Pay?",
        {"form": Approval.of("pay", {"amount": 1}).model_copy(update={"digest": "0" * 64})},
    ),
    "an edit of an unknown argument": ("Pay?", {"form": Approval.of("pay", {}, editable=["amount"])}),
    "an editable argument that begins with something else": (
        "Pay?",
        {
            "form": Approval.of(
                "pay",
                {"amount": 10},
                editable=[Field(name="amount", form=Open(type="integer"), default=1_000_000)],
            )
        },
    ),
    "context that is too deep": ("Which?", {"context": [[[[[[[[[["x"]]]]]]]]]]}),
    "context that is too large": ("Which?", {"context": "x" * 70_000}),
    "context that is not JSON": ("Which?", {"context": {"when": timedelta(1)}}),
    "a NaN in the state": ("Which?", {"state": float("nan")}),
    "a whole number that others read as another": ("Which?", {"state": {"id": 2**53}}),
    "anyone as a name": ("Which?", {"recipients": ["*"]}),
    "nobody to answer": ("Which?", {"recipients": ["agent"]}),
    "fewer people than are needed": ("Which?", {"recipients": ["ana"], "quorum": 2}),
    "need of nobody": ("Which?", {"quorum": 0}),
    "no attempt": ("Which?", {"max_attempts": 0}),
    "an expiry in the past": ("Which?", {"expires_in": 0}),
    "an undo of more than a minute": ("Which?", {"undo_for": 60.1}),
    "an undo of less than nothing": ("Which?", {"undo_for": timedelta(seconds=-1)}),
    "an undo that is no number": ("Which?", {"undo_for": float("nan")}),
    "an undo that no clock knows": ("Which?", {"undo_for": 10**400}),
    "an approval that is good for no time": ("Pay?", {"form": Approval.of("pay", valid_for=0)}),
    "an action of high risk to be remembered": (
        "Pay?",
        {"form": Approval.of("pay", risk="high").model_copy(update={"scopes": ("once", "always")})},
    ),
    "a step behind the end": (
        "Which?",
        {"timeline": Timeline(remind=(timedelta(hours=2),), expire=timedelta(hours=1))},
    ),
    "an escalation to nobody": (
        "Which?",
        {"timeline": Timeline(escalate=(Escalation(after=timedelta(hours=1), to=()),))},
    ),
    "an escalation to the asker": (
        "Which?",
        {
            "recipients": ["ana"],
            "timeline": Timeline(escalate=(Escalation(after=timedelta(hours=1), to=("agent",)),)),
        },
    ),
    "a default without an end": ("Which?", {"choices": ["a"], "timeline": Timeline(default="a")}),
    "a default that does not fit": (
        "Which?",
        {"choices": ["a"], "timeline": Timeline(expire=timedelta(hours=1), default="b")},
    ),
    "a default for an approval": (
        "Pay?",
        {
            "form": Approval.of("pay"),
            "timeline": Timeline(expire=timedelta(hours=1), default={"decision": "approve"}),
        },
    ),
}


class AskCases(ContractFixtures):
    """Questions are stored as they were posted, once, or not at all."""

    async def test_questions_that_have_little_in_common_are_kept_as_they_were_posted_together(
        self, backend: Backend, desk: Desk, clock: ManualClock, workspace: str
    ) -> None:
        several: list[QuestionOptions] = [
            {},
            {"choices": ["a", "b"], "context": 0, "state": ""},
            {"form": Confirm(), "recipients": ["ana", "group:ops"], "quorum": 2, "veto": True},
            {"key": "k", "conversation": "c", "tool_call": "t", "max_attempts": 3, "undo_for": 5},
            {"key": "s", "shared": True, "expires_in": 60, "heartbeat": 60, "replies": "program"},
            {
                "timeline": Timeline(remind=[10], escalate=[Escalation(after=20, to=["bob"])]),
                "recipients": ["ana"],
            },
            {"topic": "vat-rate", "trace": "00-1-2-01"},
            {"form": Approval.of("pay", {"amount": 1})},
            {},
        ]
        posted = await asyncio.gather(*(desk.post("Which?", **options) for options in several))
        async with backend.open(clock=clock, workspace=workspace) as another:
            assert await asyncio.gather(*(another.get(question.id) for question in posted)) == posted

    @promise("P1")
    @pytest.mark.parametrize("kind", FORMS)
    async def test_a_posted_question_is_there_for_everybody(
        self, backend: Backend, clock: ManualClock, workspace: str, kind: str
    ) -> None:
        async with backend.open(clock=clock, workspace=workspace) as desk:
            posted = await desk.post(
                "What now? Ünïcode ✋", form=FORMS[kind], context={"a": [1, None, "ü"]}, state={"step": 7}
            )
        async with backend.open(clock=clock, workspace=workspace) as another:
            read = await another.get(posted.id)
        assert read == posted
        assert read.form == FORMS[kind]
        assert (read.prompt, read.context, read.state) == (
            "What now? Ünïcode ✋",
            {"a": [1, None, "ü"]},
            {"step": 7},
        )
        assert read.status == "pending"
        assert read.asked_at == clock.now()

    @promise("P1")
    async def test_everything_said_about_a_question_is_kept(self, desk: Desk) -> None:
        timeline = Timeline(
            remind=(timedelta(minutes=5),),
            escalate=(Escalation(after=timedelta(hours=1), to=("group:leads", "zoe")),),
            expire=timedelta(days=1),
            default="b",
        )
        posted = await desk.post(
            "Which?",
            choices=["a", "b"],
            key="k",
            conversation="c",
            tool_call="call_1",
            trace="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            recipients=["ana", "group:ops"],
            quorum=2,
            veto=True,
            max_attempts=3,
            undo_for=2.5,
            timeline=timeline,
        )
        read = await desk.get(posted.id)
        assert read == posted
        assert (read.key, read.conversation, read.tool_call) == ("k", "c", "call_1")
        assert read.trace == posted.trace == "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        assert (read.recipients, read.quorum, read.veto, read.max_attempts) == (
            ("ana", "group:ops"),
            2,
            True,
            3,
        )
        assert read.undo_for == 2.5
        assert read.timeline == timeline
        assert read.expires_at == read.asked_at + timedelta(days=1)

    @pytest.mark.parametrize(
        ("given", "kept"), [(None, 0.0), (0, 0.0), (timedelta(seconds=5), 5.0), (60, 60.0)]
    )
    async def test_the_time_to_undo_is_kept_in_seconds(
        self, desk: Desk, given: float | timedelta | None, kept: float
    ) -> None:
        options: QuestionOptions = {} if given is None else {"undo_for": given}
        posted = await desk.post("Which?", **options)
        assert (posted.undo_for, (await desk.get(posted.id)).undo_for) == (kept, kept)
        assert (await desk.answer(posted.id, "a", by="ana")).undo_for == kept

    @pytest.mark.parametrize("what", UNASKABLE)
    async def test_what_cannot_be_asked_fails_at_once_and_registers_nothing(
        self, desk: Desk, what: str
    ) -> None:
        prompt, options = UNASKABLE[what]
        with pytest.raises(InvalidQuestion) as refused:
            await desk.post(prompt, **options)
        assert refused.value.problems
        assert (await desk.list_pending()).items == []
        assert not await desk.feed()

    async def test_every_problem_is_told_not_only_the_first(self, desk: Desk) -> None:
        with pytest.raises(InvalidQuestion) as refused:
            await desk.post("", choices=["a", "a", ""], quorum=0)
        paths = {problem.path for problem in refused.value.problems}
        assert {"prompt", "quorum", "form.options[1].id", "form.options[2].label"} <= paths

    async def test_limits_can_be_set(self, backend: Backend, workspace: str) -> None:
        async with backend.open(workspace=workspace, limits=Limits(options=3)) as desk:
            await desk.post("Which?", choices=["a", "b", "c"])
            with pytest.raises(InvalidQuestion, match="at most 3 options"):
                await desk.post("Which?", choices=["a", "b", "c", "d"])

    async def test_ids_come_from_the_factory(self, backend: Backend, workspace: str) -> None:
        async with backend.open(workspace=workspace, new_id=counted_ids("clarify")) as desk:
            assert [(await desk.post("One?")).id, (await desk.post("Two?")).id] == ["clarify-1", "clarify-2"]

    async def test_a_factory_that_starts_again_finds_the_same_questions(
        self, backend: Backend, workspace: str
    ) -> None:
        async with backend.open(workspace=workspace, new_id=counted_ids()) as desk:
            first = await desk.post("One?")
        async with backend.open(workspace=workspace, new_id=counted_ids()) as replayed:
            assert await replayed.post("One?") == first
        async with backend.open(workspace=workspace, new_id=counted_ids()) as changed:
            with pytest.raises(KeyConflict):
                await changed.post("Another one?")

    @promise("P9")
    async def test_the_same_key_gives_the_same_question(self, desk: Desk) -> None:
        first = await desk.post("Which?", choices=["a", "b"], key="deploy-42")
        again = await desk.post("Which?", choices=["a", "b"], key="deploy-42")
        assert again == first
        assert len((await desk.list_pending()).items) == 1

    @promise("P9", "P3")
    async def test_the_same_key_finds_the_answer_given_meanwhile(
        self, backend: Backend, clock: ManualClock, workspace: str
    ) -> None:
        async with backend.open(clock=clock, workspace=workspace) as asker:
            question = await asker.post("Which?", choices=["a", "b"], key="deploy-42")
        async with backend.open(clock=clock, workspace=workspace) as person:
            await person.answer(question.id, "b", by="ana")
        async with backend.open(clock=clock, workspace=workspace) as restarted:
            assert await restarted.ask("Which?", choices=["a", "b"], key="deploy-42", timeout=5) == "b"

    @promise("P9")
    async def test_concurrent_posts_with_one_key_are_one_question(
        self, backend: Backend, clock: ManualClock, workspace: str
    ) -> None:
        async with (
            backend.open(clock=clock, workspace=workspace) as one,
            backend.open(clock=clock, workspace=workspace) as two,
        ):
            posted = await asyncio.gather(*(desk.post("Which?", key="k") for desk in (one, two) * 10))
            assert len({question.id for question in posted}) == 1
            assert len((await one.list_pending()).items) == 1
            assert [event.kind for event in await fed(one, 1)] == ["asked"]

    @promise("P9")
    @pytest.mark.parametrize(
        "changed",
        [
            {"choices": ["a", "c"]},
            {"choices": ["a", "b"], "recipients": ["ana"]},
            {"choices": ["a", "b"], "conversation": "other"},
            {"choices": ["a", "b"], "expires_in": 60},
            {"form": Confirm()},
        ],
        ids=" ".join,
    )
    async def test_the_same_key_for_another_question_shows_both(
        self, desk: Desk, changed: dict[str, Any]
    ) -> None:
        first = await desk.post("Which?", choices=["a", "b"], key="k")
        with pytest.raises(KeyConflict) as conflict:
            await desk.post("Which?", **{**changed, "key": "k"})
        assert conflict.value.existing == first
        (name,) = changed.keys() - {"choices"} or {"choices"}
        parts = {"choices": "form.options", "form": "form.kind", "expires_in": "timeline[0]"}
        part = parts.get(name, name)
        (found,) = [each for each in conflict.value.differences if each.field == part]
        assert f"{part}: stored {found.stored}, posted {found.posted}" in str(conflict.value)
        assert await desk.get(first.id) == first

    @promise("P9")
    async def test_a_reworded_question_finds_the_first_one_and_its_answer_where_that_will_do(
        self, desk: Desk
    ) -> None:
        first = await desk.post("Which?", choices=["1", "2"], key="k", recipients=["ana"], expires_in=3600)
        kept = await desk.post("Which one?", choices=["1", "2", "3"], key="k", if_exists="keep")
        assert kept == first
        await desk.answer(first.id, "2", by="ana")
        assert await desk.ask("Which one, please?", key="k", if_exists="keep", timeout=SOON) == "2"
        one_or_two: Any = Literal["1", "2"]
        three: Any = Literal["3"]
        assert await desk.ask("Which?", into=one_or_two, key="k", if_exists="keep", timeout=SOON) == "2"
        with pytest.raises(AnswerTypeMismatch):
            await desk.ask("Which?", into=three, key="k", if_exists="keep", timeout=SOON)
        with pytest.raises(InvalidQuestion, match="int cannot take the answer 'a'"):
            await desk.ask("Which?", choices=["a", "b"], into=int, key="new", timeout=0)
        assert await desk.find_by_key("new") is None
        with pytest.raises(KeyConflict) as conflict:
            await desk.post("W" * 200, choices=["1", "2"], key="k", recipients=["ana"], expires_in=3600)
        (only,) = conflict.value.differences
        assert (only.field, only.stored, len(only.posted)) == ("prompt", '"Which?"', 81)

    async def test_what_to_do_with_a_key_that_is_taken_needs_a_key_and_a_word_that_is_known(
        self, desk: Desk
    ) -> None:
        for options in ({"if_exists": "keep"}, {"key": "k", "if_exists": "replace"}):
            with pytest.raises(InvalidQuestion, match="if_exists"):
                await desk.post("Which?", **options)  # type: ignore[arg-type]  # on purpose

    @promise("P9")
    async def test_context_state_and_the_time_to_undo_may_differ_under_one_key(self, desk: Desk) -> None:
        first = await desk.post("Which?", key="k", context={"run": 1}, state={"run": 1})
        again = await desk.post("Which?", key="k", context={"run": 2}, state={"run": 2}, undo_for=5)
        assert again == first

    @promise("P9")
    async def test_a_key_is_its_askers_own(self, desk: Desk) -> None:
        other = desk.scoped(asker="another agent")
        mine = await desk.post("My secret plan?", key="invoice-42")
        assert await other.find_by_key("invoice-42") is None
        theirs = await other.post("Another one?", key="invoice-42")
        assert theirs.id != mine.id
        assert await desk.find_by_key("invoice-42") == mine
        assert await other.find_by_key("invoice-42") == theirs
        assert await other.post("Another one?", key="invoice-42") == theirs

    async def test_an_id_of_another_asker_is_refused_without_showing_it(
        self, backend: Backend, workspace: str
    ) -> None:
        async with backend.open(workspace=workspace, new_id=lambda: "the-id") as desk:
            await desk.post("My secret plan?")
        async with backend.open(workspace=workspace, new_id=lambda: "the-id", asker="another agent") as other:
            with pytest.raises(KeyConflict) as conflict:
                await other.post("My secret plan?")
        assert conflict.value.existing is None
        assert "secret" not in str(conflict.value)

    @promise("P9")
    async def test_askers_that_share_a_key_share_the_question(self, desk: Desk) -> None:
        other = desk.scoped(asker="another agent")
        first = await desk.post("Which?", choices=["a", "b"], key="k", shared=True, state="mine")
        found = await other.post("Which?", choices=["a", "b"], key="k", shared=True)
        assert (found.id, found.asker) == (first.id, "agent")
        assert await desk.find_by_key("k") == first
        assert await other.find_by_key("k") is None
        own = await other.post("Which?", choices=["a", "b"], key="k")
        assert own.id != first.id
        with pytest.raises(KeyConflict) as conflict:
            await other.post("Which one?", choices=["a", "b"], key="k", shared=True)
        assert [each.field for each in conflict.value.differences] == ["prompt"]
        with pytest.raises(PermissionDenied):
            await other.withdraw(first.id)
        await desk.answer(first.id, "b", by="ana")
        assert await other.ask("Which?", choices=["a", "b"], key="k", shared=True, timeout=SOON) == "b"

    async def test_askers_share_nothing_without_a_key(self, desk: Desk) -> None:
        with pytest.raises(InvalidQuestion, match="shared"):
            await desk.post("Which?", shared=True)

    async def test_without_a_key_equal_texts_are_two_questions(self, desk: Desk) -> None:
        one, two = await desk.post("Which?"), await desk.post("Which?")
        assert one.id != two.id
        await desk.answer(one.id, "this", by="ana")
        assert (await desk.get(two.id)).status == "pending"

    async def test_find_by_key(self, desk: Desk) -> None:
        question = await desk.post("Which?", key="k")
        assert await desk.find_by_key("k") == question
        assert await desk.find_by_key("another") is None

    async def test_one_bad_question_does_not_fail_its_neighbours(self, desk: Desk) -> None:
        await desk.post("Which?", key="k")
        results = await asyncio.gather(
            desk.post("One?"),
            desk.post("Conflicting?", key="k"),
            desk.post(""),
            desk.post("Two?"),
            return_exceptions=True,
        )
        assert [type(result).__name__ for result in results] == [
            "Question",
            "KeyConflict",
            "InvalidQuestion",
            "Question",
        ]
        assert {question.prompt for question in (await desk.list_pending()).items} == {
            "Which?",
            "One?",
            "Two?",
        }
