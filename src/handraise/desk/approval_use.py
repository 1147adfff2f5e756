"""What comes of an approval on a local desk: it is used once, or taken back, and its result is reported."""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import replace

from handraise.desk.question_access import QuestionAccess
from handraise.model.approval_uses import Use, UseRefusal, UseRefused
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
    QuestionNotFound,
    ReceiptRefused,
    Stopped,
)
from handraise.model.forms import Action, Approval
from handraise.model.json_values import JsonValue
from handraise.model.outcomes import Answered
from handraise.model.people import Responder, responder_of
from handraise.model.problems import HandraiseError, Problem
from handraise.model.provenance import check_texts
from handraise.model.questions import Question
from handraise.model.receipts import (
    RECEIPT_USE,
    Receipt,
    UsableApproval,
    receipt_of,
    receipt_use_problem,
)
from handraise.model.report_validation import check_report


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
        await self._use(question, action, request)
        self._engine.notify_feed(self._workspace)
        return action

    async def receipt(self, question_id: str) -> str:
        """See `Desk.receipt`."""
        signer = self._engine.receipt_signer
        if signer is None:
            raise NoReceiptKey
        question, action = await self._approved(question_id)
        approval = await self._use(question, action, None)
        return signer.sign(receipt_of(question, await self.history(question_id), approval))

    async def use_receipt(self, receipt: Receipt, *, use_id: str) -> None:
        """Use up the approval of a verified receipt of this asker, as `consume_approval` does."""
        question, action = await self._approved(receipt.question_id)
        if action.digest != receipt.digest:
            raise ReceiptRefused("another action was approved")
        # If it is used already, this may be the same use again, which is answered as before.
        with suppress(AlreadyConsumed):
            approval = await self._use(question, action, None)
            if receipt.expires_at <= approval.now:
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

    async def _use(self, question: Question, action: Action, request: str | None) -> UsableApproval:
        """Use an approval up, or without a request only check that it can be; raises why it cannot."""
        consume, ref = self._engine.store.consume, question.ref
        use = Use(by=self._asker, digest=action.digest, request=request)
        if isinstance(question.outcome, Answered) and question.outcome.source == "policy":
            policies = self._engine.policies
            used = await consume(ref, replace(use, decided_by=await policies.still_allows(question)))
            if isinstance(used, UseRefused) and used.why is UseRefusal.POLICY_CHANGED:
                policies.forget(question.workspace)  # this process may have had an older version
                used = await consume(ref, replace(use, decided_by=await policies.still_allows(question)))
        else:
            used = await consume(ref, use)
        if used is None:
            raise QuestionNotFound(question.id, question.workspace)
        if isinstance(used, UseRefused):
            raise _error_of(used)
        return used

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


def _error_of(refused: UseRefused) -> HandraiseError:
    """Why the store did not let an approval be used."""
    question = refused.question
    match refused.why:
        case UseRefusal.STOPPED if refused.stop is not None:
            return Stopped(refused.stop)
        case UseRefusal.USED:
            return AlreadyConsumed(question.id, question.report)
        case UseRefusal.TAKEN_BACK:
            return ApprovalTakenBack(question.id, question.outcome, "it was taken back")
        case UseRefusal.HISTORY_DIFFERS:
            why = "its history does not say that this was approved: somebody changed the store"
            return NotApproved(question.id, question.outcome, why)
        case UseRefusal.LAPSED:
            why = "it was not used in time"
        case UseRefusal.GRANT_ENDED:
            why = "its grant has ended, or the person who gave the grant may no longer decide this"
        case UseRefusal.POLICY_CHANGED:
            why = "the policy no longer allows it"
        case _:
            return NotApproved(question.id, question.outcome, "the stored action is not the one approved")
    return ApprovalLapsed(question.id, question.outcome, f"{why}. Ask again")
