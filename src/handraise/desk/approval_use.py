"""What comes of an approval on a local desk: it is used once, or taken back, and its result is reported."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from handraise.desk.question_access import QuestionAccess
from handraise.model.errors import (
    AlreadyConsumed,
    AlreadyReported,
    ApprovalLapsed,
    ApprovalTakenBack,
    InvalidAnswer,
    NoReceiptKey,
    NotApproved,
    NothingToReport,
    PermissionDenied,
    ReceiptRefused,
)
from handraise.model.events import Event
from handraise.model.forms import Action, Approval
from handraise.model.json_values import JsonValue
from handraise.model.outcomes import Answered
from handraise.model.people import Responder, responder_of
from handraise.model.problems import HandraiseError, Problem
from handraise.model.provenance import check_texts
from handraise.model.questions import Question
from handraise.model.receipts import RECEIPT_USE, Receipt, receipt_of, receipt_use_problem
from handraise.model.replay import says_approved
from handraise.model.report_validation import check_report

T = TypeVar("T")


class ApprovalUse(QuestionAccess):
    """The verbs for what follows an approval. `Desk` says what each promises."""

    async def consume_approval(self, question_id: str, *, request: str | None = None) -> Action:
        """See `Desk.consume_approval`."""
        check_texts(self._limits, request=request)
        if problem := receipt_use_problem(request or ""):
            raise InvalidAnswer([Problem("request", problem)])
        # Not from the id factory, which a caller may choose: two requests must never have the same id.
        return await self._consume(question_id, uuid.uuid4().hex if request is None else request)

    async def _consume(self, question_id: str, request: str) -> Action:
        question, action = await self._approved(question_id)
        consume = partial(
            self._engine.store.consume, question.ref, digest=action.digest, by=self._asker, request=request
        )
        if not await self._while_allowed(question, consume):
            raise await self._why_not_used(question, action)
        self._engine.notify_feed(self._workspace)
        return action

    async def receipt(self, question_id: str) -> str:
        """See `Desk.receipt`."""
        signer = self._engine.receipt_signer
        if signer is None:
            raise NoReceiptKey
        question, action = await self._approved(question_id)
        find = partial(self._engine.store.find_usable, question.ref, digest=action.digest, by=self._asker)
        approval = await self._while_allowed(question, find)
        if approval is None:
            raise await self._why_not_used(question, action)
        return signer.sign(receipt_of(question, await self.history(question_id), approval))

    async def use_receipt(self, receipt: Receipt, *, use_id: str) -> None:
        """Use up the approval of a verified receipt of this asker, as `consume_approval` does."""
        question, action = await self._approved(receipt.question_id)
        if action.digest != receipt.digest:
            raise ReceiptRefused("another action was approved")
        find = partial(self._engine.store.find_usable, question.ref, digest=action.digest, by=self._asker)
        approval = await self._while_allowed(question, find)
        # If it is used already, this may be the same use again, which is answered as before.
        if approval is not None and receipt.expires_at <= approval.now:
            raise ReceiptRefused("it has expired. The agent can get a new one")
        await self._consume(question.id, f"{RECEIPT_USE}{use_id}")

    async def _approved(self, question_id: str) -> tuple[Question, Action]:
        """Return this asker's question and its approved action; raises `NotApproved` if there is none."""
        question = await self._own_question(question_id, "only the asker can execute the action")
        decision = question.decision
        if not isinstance(question.form, Approval):
            raise NotApproved(question_id, question.outcome, "it asks for no approval, but for an answer")
        if decision is None or not isinstance(question.outcome, Answered):
            how = str(question.outcome or "nobody has decided yet")
            raise NotApproved(question_id, question.outcome, how)
        if not decision.approved:
            raise NotApproved(question_id, question.outcome, decision.reason or "it was denied")
        if decision.action.digest != question.outcome.value["digest"]:
            raise NotApproved(question_id, question.outcome, "the stored action is not the one approved")
        return question, decision.action

    async def _while_allowed(self, question: Question, call: Callable[..., Awaitable[T]]) -> T:
        """Call the store about an approval. If a rule gave it, the policy must still allow it."""
        if not isinstance(question.outcome, Answered) or question.outcome.source != "policy":
            return await call()
        policies = self._engine.policies
        if result := await call(decided_by=await policies.still_allows(question)):
            return result
        policies.forget(question.workspace)  # this process may have had an older version
        return await call(decided_by=await policies.still_allows(question))

    async def _why_not_used(self, question: Question, action: Action) -> HandraiseError:
        await self._check_stops(question)
        # If it is no longer stored, nobody has consumed it.
        stored, history = await self.get(question.id), await self.history(question.id)
        return _why_not_used(stored, history, action.digest)

    async def take_back(
        self, question_id: str, *, by: str | Responder, reason: str | None = None
    ) -> Question:
        """See `Desk.take_back`."""
        responder = responder_of(by)
        check_texts(self._limits, reason=reason)
        ref = self._ref(question_id)
        taken = await self._engine.store.take_back(ref, by=responder.id, reason=reason)
        question = await self.get(question_id)
        if taken:
            self._engine.notify_feed(self._workspace)
        if question.taken_back_at is not None:
            return question
        if not question.decision:
            raise NotApproved(question_id, question.outcome, "there is no approval to take back")
        if question.consumed_at is not None:
            raise AlreadyConsumed(question_id, question.report)
        raise PermissionDenied(
            responder.id, "only people who approved it, and administrators, can take it back"
        )

    async def report(
        self,
        question_id: str,
        *,
        ok: bool,
        text: str,
        link: str | None = None,
        details: JsonValue = None,
    ) -> Question:
        """See `Desk.report`."""
        record = check_report(self._limits, ok=ok, text=text, link=link, details=details)
        question = await self._own_question(question_id, "only the asker can report what came of it")
        if await self._engine.store.report(question.ref, by=self._asker, record=record):
            self._engine.notify_feed(self._workspace)
        question = await self.get(question_id)
        if question.report is None:
            raise NothingToReport(question_id, _why_nothing_came_of(question))
        if not question.report.says(record):
            raise AlreadyReported(question_id, question.report)
        return question


def _why_nothing_came_of(question: Question) -> str:
    if question.outcome is None:
        return "nobody has answered it yet"
    if not isinstance(question.outcome, Answered):
        return f"it was {question.status.value}"
    if question.decision:
        return "its approval has not been consumed"
    return "the action was denied"


def _why_not_used(question: Question, history: Sequence[Event], digest: str) -> HandraiseError:
    """Why the store did not return an action that was approved."""
    if question.consumed_at is not None:
        return AlreadyConsumed(question.id, question.report)
    if question.taken_back_at is not None:
        return ApprovalTakenBack(question.id, question.outcome, "it was taken back")
    if not says_approved(history, digest):
        why = "its history does not say that this was approved: somebody changed the store"
        return NotApproved(question.id, question.outcome, why)
    if isinstance(question.outcome, Answered) and question.outcome.source == "grant":
        why = "its grant has ended, or the person who gave the grant may no longer decide this"
    elif isinstance(question.outcome, Answered) and question.outcome.source == "policy":
        why = "the policy no longer allows it"
    else:
        why = "it was not used in time"
    return ApprovalLapsed(question.id, question.outcome, f"{why}. Ask again")
