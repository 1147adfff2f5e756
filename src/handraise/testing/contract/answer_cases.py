"""Answering: which answers fit, who may answer, and who was first."""

from __future__ import annotations

import asyncio
from datetime import date
from enum import Enum
from typing import Any

import pydantic
import pytest

from handraise import (
    AlreadySettled,
    Answered,
    Approval,
    Choice,
    Confirm,
    Decision,
    Declined,
    Desk,
    Exhausted,
    Field,
    Form,
    InvalidAnswer,
    InvalidQuestion,
    MultiChoice,
    NotApproved,
    Open,
    Option,
    PermissionDenied,
    Problem,
    QuestionNotFound,
    Responder,
    Withdrawn,
)
from handraise.errors import AnswerTypeMismatch
from handraise.model.answer_types import typed
from handraise.model.provenance import Provenance
from handraise.model.validation import check_answer
from handraise.testing.clock import ManualClock
from handraise.testing.contract.backend import REFUSED, SOON, Backend, ContractFixtures
from handraise.testing.promises import promise

_TITLED = Choice.of(Option(id="bg", label="Blue-green"), Option(id="2", label="Canary"))
_PAY = Approval.of("pay", {"amount": 10, "to": "ana"}, editable=["amount"])
_FORM = Form(
    fields=(
        Field(name="n", form=Open(type="integer", minimum=1)),
        Field(name="ok", form=Confirm()),
        Field(name="note", form=Open(), required=False),
    )
)

FITTING: list[tuple[str, Any, Any, Any]] = [
    ("an option's id", _TITLED, "bg", "bg"),
    ("an option's label", _TITLED, " blue-GREEN ", "bg"),
    ("other text", Choice.of("a", allow_other=True), {"other": " mine "}, {"other": "mine"}),
    ("options in any order", MultiChoice.of("a", "b", "c"), ["c", "A"], ["a", "c"]),
    ("no option at all", MultiChoice.of("a", "b", at_least=0), [], []),
    ("text", Open(), "no", "no"),
    ("text kept as typed", Open(), "  42\n", "  42\n"),
    ("an empty text where allowed", Open(min_length=0), "", ""),
    ("a pattern", Open(pattern=r"^\d{5}$"), "12345", "12345"),
    ("a number", Open(type="integer"), 42, 42),
    ("a number as text", Open(type="integer"), " 42 ", 42),
    ("a whole float", Open(type="integer"), 3.0, 3),
    ("a fraction", Open(type="number"), "2.5", 2.5),
    ("a date", Open(type="date"), "2026-11-15", "2026-11-15"),
    ("an instant", Open(type="datetime"), "2026-11-15T09:30Z", "2026-11-15T09:30:00+00:00"),
    ("an e-mail address", Open(type="email"), "ana@example.com", "ana@example.com"),
    ("yes", Confirm(), True, True),
    ("the word no", Confirm(), "No", False),
    ("a form", _FORM, {"n": "3", "ok": False}, {"n": 3, "ok": False}),
    ("a form with a note", _FORM, {"n": 3, "ok": True, "note": "x"}, {"n": 3, "ok": True, "note": "x"}),
    ("an approval", _PAY, "approve", {"decision": "approve", "digest": _PAY.digest}),
    (
        "a denial",
        _PAY,
        {"decision": "deny", "reason": "no"},
        {"decision": "deny", "digest": _PAY.digest, "reason": "no"},
    ),
    (
        "an edited approval",
        _PAY,
        {"decision": "approve", "arguments": {"amount": "7", "to": "ana"}},
        {
            "decision": "approve",
            "arguments": {"amount": 7, "to": "ana"},
            "digest": Approval.of("pay", {"amount": 7, "to": "ana"}).digest,
        },
    ),
]

MISFITS: list[tuple[str, Any, Any, set[str]]] = [
    ("an unknown option", _TITLED, "Yolo", {""}),
    ("a position", _TITLED, 0, {""}),
    ("nothing", _TITLED, None, {""}),
    ("other text where it is not allowed", _TITLED, {"other": "x"}, {""}),
    ("an empty other text", Choice.of("a", allow_other=True), {"other": " "}, {""}),
    ("one option instead of a list", MultiChoice.of("a"), "a", {""}),
    ("one unknown among the options", MultiChoice.of("a", "b"), ["a", "x"], {"[1]"}),
    ("an option twice", MultiChoice.of("a", "b"), ["a", "a"], {"[1]"}),
    ("too few options", MultiChoice.of("a", "b", at_least=2), ["a"], {""}),
    ("too many options", MultiChoice.of("a", "b", at_most=1), ["a", "b"], {""}),
    ("an empty text", Open(), " ", {""}),
    ("a text that is too long", Open(max_length=3), "abcd", {""}),
    ("a text that is too short", Open(min_length=3), "ab", {""}),
    ("a text with a NUL", Open(), "a\x00b", {""}),
    ("a text with half a surrogate", Open(), "a\udfffb", {""}),
    ("not the pattern", Open(pattern=r"^\d+$"), "12a", {""}),
    ("prose for a number", Open(type="integer"), "many", {""}),
    ("a fraction for a whole number", Open(type="integer"), 2.5, {""}),
    ("a whole number beyond 2^53", Open(type="integer"), "9007199254740992", {""}),
    ("yes for a number", Open(type="integer"), True, {""}),
    ("a number below the minimum", Open(type="number", minimum=1), 0.5, {""}),
    ("not a date", Open(type="date"), "tomorrow", {""}),
    ("an instant without an offset", Open(type="datetime"), "2026-11-15T09:30", {""}),
    ("not an e-mail address", Open(type="email"), "ana", {""}),
    ("maybe", Confirm(), "maybe", {""}),
    ("one for yes", Confirm(), 1, {""}),
    ("a text for a form", _FORM, "3", {""}),
    ("a name with a NUL", _FORM, {"a\x00": "b\x00"}, {""}),
    ("a name with half a surrogate", _FORM, {"a\udfff": {"b": "\x00"}}, {""}),
    ("several wrong fields", _FORM, {"n": 0, "note": 3, "x": 1}, {"n", "ok", "note", "x"}),
    ("a conditional approval", _PAY, "yes, but not in prod", {"decision"}),
    ("one for approve", _PAY, 1, {"decision"}),
    ("no decision", _PAY, {"reason": "x"}, {"decision"}),
    ("an approval of another action", _PAY, {"decision": "approve", "digest": "0" * 64}, {"digest"}),
    (
        "an edit of a frozen argument",
        _PAY,
        {"decision": "approve", "arguments": {"to": "eve"}},
        {"arguments.to"},
    ),
    ("a new argument", _PAY, {"decision": "approve", "arguments": {"cc": "eve"}}, {"arguments.cc"}),
    (
        "an edit that does not fit",
        _PAY,
        {"decision": "approve", "arguments": {"amount": "x"}},
        {"arguments.amount"},
    ),
    ("an edit while denying", _PAY, {"decision": "deny", "arguments": {"amount": 1}}, {"arguments"}),
]


class Strategy(Enum):
    """A choice as an asker's own type."""

    BLUE_GREEN = "blue-green"
    CANARY = "canary"


class Order(pydantic.BaseModel):
    """A form as an asker's own type."""

    number: int = pydantic.Field(ge=1)
    strategy: Strategy
    due: date | None = None


class Even(pydantic.BaseModel):
    """A type with a rule that no form can express."""

    number: int

    @pydantic.field_validator("number")
    @classmethod
    def _is_even(cls, number: int) -> int:
        if number % 2:
            raise ValueError("must be even")
        return number


class AnswerCases(ContractFixtures):
    """The first valid answer of somebody who may answer wins, and nothing else counts."""

    @promise("P2", "P13")
    @pytest.mark.parametrize(
        ("form", "value", "canonical"), [case[1:] for case in FITTING], ids=[c[0] for c in FITTING]
    )
    async def test_an_answer_that_fits_is_stored_in_canonical_form(
        self, desk: Desk, clock: ManualClock, form: Any, value: Any, canonical: Any
    ) -> None:
        question = await desk.post("What?", form=form)
        answered = await desk.answer(
            question.id, value, by="ana", provenance=Provenance(channel="web", evidence="session")
        )
        expected = Answered(
            value=canonical, at=clock.now(), by="ana", source="person", channel="web", evidence="session"
        )
        assert answered.outcome == expected
        assert await desk.get(question.id) == answered
        assert await desk.wait(question.id, timeout=SOON) == expected

    @promise("P12")
    @pytest.mark.parametrize(
        ("form", "value", "paths"), [case[1:] for case in MISFITS], ids=[c[0] for c in MISFITS]
    )
    async def test_an_answer_that_does_not_fit_leaves_it_pending_and_says_why(
        self, desk: Desk, form: Any, value: Any, paths: set[str]
    ) -> None:
        question = await desk.post("What?", form=form)
        with pytest.raises(InvalidAnswer) as misfit:
            await desk.answer(question.id, value, by="ana")
        assert {problem.path for problem in misfit.value.problems} == paths
        with pytest.raises(InvalidAnswer) as said:
            check_answer(form, value)
        assert misfit.value.problems == said.value.problems  # the same words on every desk
        assert misfit.value.outcome is None
        now = await desk.get(question.id)
        assert (now.status, now.attempts) == ("pending", 1)

    @promise("P3", "P12")
    async def test_a_long_answer_that_fits_is_taken_as_it_is(self, desk: Desk) -> None:
        question = await desk.post("Paste the log.", max_attempts=1)
        text = "ä" * 100_000
        answered = await desk.answer(question.id, text, by="ana")
        assert isinstance(answered.outcome, Answered)
        assert answered.outcome.value == text

    @promise("P12")
    async def test_a_form_too_large_for_a_server_fits_nowhere(self, desk: Desk) -> None:
        form = Form(fields=tuple(Field(name=f"part{n}", form=Open()) for n in range(6)))
        question = await desk.post("Paste the logs.", form=form)
        with pytest.raises(InvalidAnswer):
            await desk.answer(question.id, {f"part{n}": "x" * 90_000 for n in range(6)}, by="ana")
        assert (await desk.get(question.id)).attempts == 1

    @promise("P12")
    async def test_an_attempt_is_kept_with_its_reason(self, desk: Desk) -> None:
        question = await desk.post("Which?", choices=["a", "b"])
        with pytest.raises(InvalidAnswer):
            await desk.answer(question.id, "c", by="ana", provenance=Provenance(channel="slack"))
        attempt = (await desk.history(question.id))[-1]
        assert (attempt.kind, attempt.by, attempt.channel) == ("attempted", "ana", "slack")
        assert attempt.data["value"] == "c"
        assert "is not one of the options" in attempt.data["problems"][0]["message"]

    @promise("P12")
    async def test_a_corrected_answer_still_counts(self, desk: Desk) -> None:
        question = await desk.post("How many?", form=Open(type="integer"))
        for wrong in ("a few", "2 or 3"):
            with pytest.raises(InvalidAnswer):
                await desk.answer(question.id, wrong, by="ana")
        assert (await desk.answer(question.id, 3, by="ana")).status == "answered"
        assert (await desk.get(question.id)).attempts == 2

    @promise("P12", "P13")
    async def test_too_many_attempts_exhaust_it(self, desk: Desk, clock: ManualClock) -> None:
        question = await desk.post("Which?", choices=["a"], max_attempts=2)
        with pytest.raises(InvalidAnswer) as first:
            await desk.answer(question.id, "x", by="ana")
        assert first.value.outcome is None
        with pytest.raises(InvalidAnswer) as last:
            await desk.answer(question.id, "y", by="bob")
        assert last.value.outcome == Exhausted(at=clock.now(), by="bob")
        with pytest.raises(AlreadySettled):
            await desk.answer(question.id, "a", by="ana")
        assert await desk.wait(question.id, timeout=SOON) == Exhausted(at=clock.now(), by="bob")

    async def test_a_stranger_cannot_use_up_the_attempts(self, desk: Desk) -> None:
        question = await desk.post("Which?", choices=["a"], recipients=["ana"], max_attempts=1)
        with pytest.raises(PermissionDenied):
            await desk.answer(question.id, "x", by="eve")
        assert (await desk.get(question.id)).attempts == 0

    @promise("P12")
    async def test_an_answer_that_fits_can_still_be_kept_as_an_attempt(self, desk: Desk) -> None:
        question = await desk.post("Which order?", max_attempts=3)
        why = [Problem("", "there is no such order")]
        tried = await desk.reject_answer(
            question.id, "A-17", why, by="ana", provenance=Provenance(channel="chat")
        )
        assert (tried.status, tried.attempts) == ("pending", 1)
        assert await desk.get(question.id) == tried
        attempt = (await desk.history(question.id))[-1]
        assert (attempt.kind, attempt.by, attempt.channel) == ("attempted", "ana", "chat")
        assert attempt.data["value"] == "A-17"
        assert attempt.data["problems"] == [{"path": "", "message": "there is no such order"}]

    @promise("P11")
    async def test_an_attempt_counts_only_with_the_evidence_that_an_answer_needs(self, desk: Desk) -> None:
        form = Approval.of("wire", {"eur": 1}, risk="high")
        question = await desk.post("Pay?", form=form, max_attempts=1)
        weak = Provenance(evidence="client-asserted")
        with pytest.raises(PermissionDenied, match="only a program asserts"):
            await desk.reject_answer(question.id, "approve", [Problem("", "no")], by="ana", provenance=weak)
        assert await desk.get(question.id) == question

    @promise("P12", "P13")
    async def test_attempts_of_both_kinds_exhaust_it_together(self, desk: Desk, clock: ManualClock) -> None:
        question = await desk.post("Which?", choices=["a"], max_attempts=2)
        with pytest.raises(InvalidAnswer):
            await desk.answer(question.id, "x", by="ana")
        tried = await desk.reject_answer(question.id, "a", [Problem("", "sold out")], by="bob")
        assert tried.outcome == Exhausted(at=clock.now(), by="bob")
        assert await desk.wait(question.id, timeout=SOON) == tried.outcome
        with pytest.raises(AlreadySettled) as late:
            await desk.reject_answer(question.id, "a", [Problem("", "sold out")], by="ana")
        assert late.value.outcome == tried.outcome

    @pytest.mark.parametrize(
        ("by", "problems", "refusal"),
        [
            ("eve", ["sold out"], PermissionDenied),
            ("agent", ["sold out"], PermissionDenied),
            ("ana", [], ValueError),
            ("ana", ["a\x00b"], InvalidAnswer),
            ("ana", ["x" * 20_000], InvalidAnswer),
        ],
        ids=["a stranger", "the asker", "no problem", "a problem no store can keep", "a problem too long"],
    )
    async def test_a_refused_attempt_leaves_nothing(
        self, desk: Desk, by: str, problems: list[str], refusal: type[Exception]
    ) -> None:
        question = await desk.post("Which?", recipients=["ana"], max_attempts=1)
        with pytest.raises(refusal):
            await desk.reject_answer(question.id, "a", [Problem("", each) for each in problems], by=by)
        assert await desk.get(question.id) == question
        assert [event.kind for event in await desk.history(question.id)] == ["asked"]

    @promise("P2")
    async def test_a_second_answer_is_refused_and_the_first_is_kept(self, desk: Desk) -> None:
        question = await desk.post("Which?", choices=["a", "b"])
        first = await desk.answer(question.id, "a", by="ana")
        with pytest.raises(AlreadySettled) as late:
            await desk.answer(question.id, "b", by="bob")
        assert late.value.outcome == first.outcome
        assert (await desk.get(question.id)).outcome == first.outcome

    @promise("P2")
    async def test_of_many_racing_answers_one_wins_and_the_others_learn_which(
        self, backend: Backend, workspace: str
    ) -> None:
        async with backend.open(workspace=workspace) as one, backend.open(workspace=workspace) as two:
            question = await one.post("Which?", choices=[str(n) for n in range(20)])
            results = await asyncio.gather(
                *((one, two)[n % 2].answer(question.id, str(n), by=f"p{n}") for n in range(20)),
                return_exceptions=True,
            )
            winners = [result for result in results if not isinstance(result, BaseException)]
            losers = [result for result in results if isinstance(result, AlreadySettled)]
            assert (len(winners), len(losers)) == (1, 19)
            outcome = winners[0].outcome
            assert all(loser.outcome == outcome for loser in losers)
            assert (await one.get(question.id)).outcome == (await two.get(question.id)).outcome == outcome

    @promise("P2")
    async def test_answer_decline_and_withdraw_race_to_one_outcome(
        self, backend: Backend, workspace: str
    ) -> None:
        async with backend.open(workspace=workspace) as one, backend.open(workspace=workspace) as two:
            for _ in range(10):
                question = await one.post("Which?")
                results = await asyncio.gather(
                    one.answer(question.id, "x", by="ana"),
                    two.decline(question.id, by="bob"),
                    one.withdraw(question.id),
                    two.answer(question.id, "y", by="cy"),
                    return_exceptions=True,
                )
                winners = [result for result in results if not isinstance(result, BaseException)]
                assert len(winners) == 1
                settled = [event for event in await two.history(question.id) if event.kind != "asked"]
                assert len(settled) == 1
                assert all(
                    isinstance(loser, AlreadySettled) and loser.outcome == winners[0].outcome
                    for loser in results
                    if loser is not winners[0]
                )

    @promise("P6")
    async def test_nothing_moves_a_settled_question(self, desk: Desk) -> None:
        question = await desk.post("Which?", max_attempts=1)
        settled = await desk.answer(question.id, "a", by="ana")
        for verb in (
            desk.answer(question.id, "b", by="bob"),
            desk.answer(question.id, "", by="bob"),
            desk.decline(question.id, by="bob"),
            desk.withdraw(question.id),
        ):
            with pytest.raises(AlreadySettled):
                await verb
        await desk.run_due()
        assert await desk.get(question.id) == settled
        assert len(await desk.history(question.id)) == 2

    @promise("P13")
    async def test_a_person_can_decline(self, desk: Desk, clock: ManualClock) -> None:
        question = await desk.post("Which?")
        await desk.decline(
            question.id,
            by="ana",
            reason="not mine to say",
            provenance=Provenance(channel="web", evidence="session"),
        )
        outcome = await desk.wait(question.id, timeout=SOON)
        assert outcome == Declined(
            at=clock.now(), by="ana", reason="not mine to say", channel="web", evidence="session"
        )

    async def test_what_a_channel_wants_kept_is_in_the_history(self, desk: Desk) -> None:
        details = {"message": "1699.42", "clicks": [1, 2]}
        answered, declined = await desk.post("One?"), await desk.post("Two?")
        await desk.answer(answered.id, "a", by="ana", provenance=Provenance(details=details))
        await desk.decline(declined.id, by="ana", provenance=Provenance(details=details))
        for question in (answered, declined):
            assert (await desk.history(question.id))[-1].data["details"] == details

    @promise("P13")
    async def test_the_asker_can_withdraw(self, desk: Desk, clock: ManualClock) -> None:
        question = await desk.post("Which?")
        await desk.withdraw(question.id, reason="no longer needed")
        outcome = await desk.wait(question.id, timeout=SOON)
        assert outcome == Withdrawn(at=clock.now(), by="agent", reason="no longer needed")

    @promise("P7", "P13")
    async def test_an_administrator_can_withdraw_for_the_asker(self, desk: Desk, clock: ManualClock) -> None:
        question = await desk.post("Which?", recipients=["ana"])
        withdrawn = await desk.withdraw(question.id, by="root", reason="a runaway")
        assert withdrawn.outcome == Withdrawn(at=clock.now(), by="root", reason="a runaway")
        last = (await desk.history(question.id))[-1]
        assert (last.kind, last.by, last.data) == ("withdrawn", "root", {"by": "root", "reason": "a runaway"})
        with pytest.raises(AlreadySettled):
            await desk.withdraw(question.id, by="root")

    async def test_an_administrator_can_withdraw_everything_an_asker_has_pending(self, desk: Desk) -> None:
        answered, *pending = [await desk.post(f"Which {n}?") for n in range(4)]
        await desk.answer(answered.id, "a", by="ana")
        other = await desk.scoped(asker="other").post("Which?")
        assert await desk.withdraw_all("agent", by="root", reason="a runaway") == 3
        assert await desk.withdraw_all("agent", by="root") == 0
        for question in pending:
            assert str(await desk.wait(question.id, timeout=SOON)) == "withdrawn by root: a runaway"
        assert isinstance(await desk.wait(answered.id, timeout=SOON), Answered)
        assert (await desk.list_pending()).items == [other]

    async def test_nobody_else_can_withdraw(self, desk: Desk) -> None:
        question = await desk.post("Which?")
        with pytest.raises(REFUSED):
            await desk.scoped(asker="another agent").withdraw(question.id)
        assert (await desk.get(question.id)).status == "pending"

    @pytest.mark.parametrize("value", ["a", "not an option"])
    async def test_whoever_asks_cannot_answer(self, desk: Desk, value: str) -> None:
        question = await desk.post("Which?", choices=["a"], recipients=["ana", "agent"])
        with pytest.raises(PermissionDenied, match="the asker"):
            await desk.answer(question.id, value, by="agent")
        with pytest.raises(PermissionDenied):
            await desk.decline(question.id, by=Responder("agent", groups=frozenset({"ops"})))
        assert [event.kind for event in await desk.history(question.id)] == ["asked"]

    async def test_only_recipients_may_answer(self, desk: Desk) -> None:
        question = await desk.post("Which?", recipients=["ana", "group:ops"])
        for stranger in ("eve", Responder("eve", groups=frozenset({"dev"}))):
            with pytest.raises(PermissionDenied):
                await desk.answer(question.id, "x", by=stranger)
        ops = Responder("bob", groups=frozenset({"dev", "ops"}))
        assert (await desk.answer(question.id, "x", by=ops)).outcome is not None

    @pytest.mark.parametrize("name", ["", " ", "*", "group:ops", "a\x00", "\ud800", "x" * 201])
    async def test_a_name_that_is_no_person_cannot_answer(self, desk: Desk, name: str) -> None:
        question = await desk.post("Which?", recipients=["group:ops"])
        with pytest.raises(PermissionDenied):
            await desk.answer(question.id, "x", by=name)

    @promise("P8")
    async def test_an_unknown_question_cannot_be_answered(self, desk: Desk) -> None:
        question = await desk.post("Which?")
        for elsewhere in (desk.scoped("another workspace"), desk):
            with pytest.raises(QuestionNotFound):
                await elsewhere.answer(question.id + ("" if elsewhere is not desk else "x"), "x", by="ana")

    async def test_a_text_that_cannot_be_kept_fails_only_its_own_call(self, desk: Desk) -> None:
        questions = [await desk.post(f"Which {n}?") for n in range(4)]
        results = await asyncio.gather(
            desk.answer(questions[0].id, "a", by="ana"),
            desk.answer(questions[1].id, "a", by="ana", provenance=Provenance(channel="\x00")),
            desk.answer(questions[2].id, "a", by="ana", provenance=Provenance(evidence="\ud800")),
            desk.decline(questions[3].id, by="ana", reason="\x00"),
            desk.answer(questions[1].id, "a", by="ana", provenance=Provenance(details={"at": ["\x00"]})),
            desk.get("\x00"),
            return_exceptions=True,
        )
        assert [type(result).__name__ for result in results] == [
            "Question",
            "InvalidAnswer",
            "InvalidAnswer",
            "InvalidAnswer",
            "InvalidAnswer",
            "QuestionNotFound",
        ]
        for question in questions[1:]:
            assert await desk.get(question.id) == question

    @promise("P12")
    async def test_an_answer_too_large_to_keep_is_refused_and_only_counted(self, desk: Desk) -> None:
        question = await desk.post("Which?", choices=["a"])
        with pytest.raises(InvalidAnswer):
            await desk.answer(question.id, "x" * 1_000_000, by="ana")
        attempt = (await desk.history(question.id))[-1]
        assert attempt.kind == "attempted"
        assert len(str(attempt.data)) < 1_000

    @promise("P11")
    async def test_an_approval_is_true_only_where_it_was_approved(self, desk: Desk) -> None:
        for answer, approved in (("approve", True), ("deny", False), (True, True), (False, False)):
            question = await desk.post("Pay?", form=_PAY, key=f"pay {answer!r}")
            await desk.answer(question.id, answer, by="ana")
            decision = (await desk.get(question.id)).decision
            assert isinstance(decision, Decision)
            assert bool(decision) is approved
            assert decision.action == _PAY.action

    @promise("P11")
    async def test_an_edited_approval_gives_the_edited_action(self, desk: Desk) -> None:
        question = await desk.post("Pay?", form=_PAY, key="pay")
        await desk.answer(question.id, {"decision": "approve", "arguments": {"amount": 7}}, by="ana")
        decision = (await desk.get(question.id)).decision
        assert decision is not None
        assert decision.edited
        assert decision.action.arguments == {"amount": 7, "to": "ana"}

    @promise("P11")
    async def test_no_other_ending_of_an_approval_is_an_approval(self, desk: Desk) -> None:
        form = Approval.of("pay", {"amount": 1})
        declined = await desk.post("Pay?", form=form, key="declined")
        await desk.decline(declined.id, by="ana")
        withdrawn = await desk.post("Pay?", form=form, key="withdrawn")
        await desk.withdraw(withdrawn.id)
        for key in ("declined", "withdrawn"):
            with pytest.raises(NotApproved):
                await desk.request_approval(form, prompt="Pay?", key=key, timeout=SOON)
        assert (await desk.get(declined.id)).decision is None

    @promise("P11")
    async def test_ask_does_not_give_out_an_action_around_its_single_use(self, desk: Desk) -> None:
        with pytest.raises(InvalidQuestion, match=r"desk\.request_approval\(Approval\.of"):
            await desk.ask("Pay?", form=_PAY, key="pay", timeout=SOON)
        assert await desk.find_by_key("pay") is None

    @promise("P11")
    async def test_keeping_a_stored_question_does_not_give_out_another_action_or_one_twice(
        self, desk: Desk
    ) -> None:
        question = await desk.post("Pay?", form=_PAY, key="pay")
        await desk.answer(question.id, "approve", by="ana")
        with pytest.raises(InvalidQuestion, match=r"desk\.request_approval\(Approval\.of"):
            await desk.ask("Pay?", key="pay", if_exists="keep", timeout=SOON)
        with pytest.raises(InvalidQuestion, match="another action"):
            await desk.request_approval(
                Approval.of("pay", {"eur": 1_000}), key="pay", if_exists="keep", timeout=SOON
            )
        assert (await desk.get(question.id)).consumed_at is None
        assert (
            await desk.request_approval(_PAY, prompt="Pay now?", key="pay", if_exists="keep") == _PAY.action
        )

    async def test_ask_gives_the_askers_own_type(self, desk: Desk) -> None:
        async def answered(value: Any, into: type[Any]) -> Any:
            question = await desk.post("What?", form=typed(into).form, key=f"{into}")
            asking = asyncio.create_task(desk.ask("What?", into=into, timeout=SOON, key=f"{into}"))
            await desk.answer(question.id, value, by="ana")
            return await asking

        assert await answered("3", int) == 3
        assert await answered("yes", bool) is True
        assert await answered("canary", Strategy) is Strategy.CANARY
        assert await answered(["canary"], list[Strategy]) == [Strategy.CANARY]
        order = await answered({"number": 2, "strategy": "blue-green", "due": "2026-11-16"}, Order)
        assert order == Order(number=2, strategy=Strategy.BLUE_GREEN, due=date(2026, 11, 16))

    async def test_an_answer_that_fits_the_form_but_not_the_type_says_so(self, desk: Desk) -> None:
        question = await desk.post("Which?", form=Even, key="even")
        await desk.answer(question.id, {"number": 3}, by="ana")
        with pytest.raises(AnswerTypeMismatch, match="must be even"):
            await desk.ask("Which?", into=Even, key="even", timeout=SOON)

    async def test_an_answer_hides_itself_from_logs(self, desk: Desk) -> None:
        question = await desk.post("What is it?", context="hush", state="hush")
        answered = await desk.answer(question.id, "hunter2", by="ana")
        assert "hunter2" not in repr(answered)
        assert "hunter2" not in repr(await desk.history(question.id))
        assert "hush" not in repr(answered)
        assert "hunter2" in str(answered.outcome)
