"""The desk on a store: read this file from top to bottom to follow a question from `post` to its wait."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar, Unpack
from urllib.parse import quote

from handraise.desk.answer_each import answer_each, answer_one
from handraise.desk.engine import Engine
from handraise.desk.search_indexer import SearchIndexer
from handraise.desk.working_timeline import with_working_time
from handraise.model.attachments import Attachment, attached_in, plain_value
from handraise.model.bulk_answers import BulkItem, BulkResult
from handraise.model.drafting import Limits, QuestionOptions, check_key
from handraise.model.durations import Span
from handraise.model.errors import (
    AlreadyConsumed,
    AlreadyReported,
    AlreadySettled,
    AlreadyTaken,
    ApprovalLapsed,
    ApprovalTakenBack,
    AttachmentNotFound,
    CannotAskBack,
    CannotShare,
    GrantNotFound,
    InvalidAnswer,
    InvalidMessage,
    KeyConflict,
    NoReceiptKey,
    NotApproved,
    NothingToReply,
    NothingToReport,
    PermissionDenied,
    PolicyChanged,
    QuestionNotFound,
    QuotaExceeded,
    ReceiptRefused,
    Stopped,
    StoreUnavailable,
    ThreadMoved,
)
from handraise.model.events import Event
from handraise.model.evidence import check_evidence
from handraise.model.forms import Action, Approval, takes_files
from handraise.model.grants import Grant
from handraise.model.json_values import JsonValue, text_problem
from handraise.model.lifecycle import (
    VOTES,
    Move,
    admin_withdraw_move,
    answer_move,
    ask_back_move,
    attempt_move,
    bring_in_move,
    decline_move,
    grant_move,
    is_denial,
    note_move,
    put_back_move,
    reply_move,
    same_question,
    send_back_move,
    set_aside_move,
    take_move,
    wants_grant,
    withdraw_move,
)
from handraise.model.outcomes import Answered, Outcome
from handraise.model.pending_views import NO_FILTERS, Order, PendingFilters, ViewCounts, check_filters
from handraise.model.people import Responder, check_may_respond, may_respond, responder_of
from handraise.model.problems import HandraiseError, InvalidQuestion, Problem
from handraise.model.provenance import (
    UNKNOWN,
    Provenance,
    check_problems,
    check_provenance,
    check_reason,
    check_texts,
    keepable,
)
from handraise.model.questions import Draft, Question, Ref, changed, redrafted
from handraise.model.receipts import RECEIPT_USE, Receipt, receipt_of
from handraise.model.replay import says_approved
from handraise.model.report_validation import check_report
from handraise.model.search_words import query_of
from handraise.model.sharing_rules import check_aside, check_people
from handraise.model.thread_messages import attached_to, check_attachments, check_message, check_room
from handraise.model.validation import check_answer
from handraise.ports import Durability, Filter, IdFactory, Inserted, Recovered, WaitingPage
from handraise.ports.desk import (
    PAGE,
    SENDING_LEASE,
    Close,
    Desk,
    Page,
    check_bulk_items,
    check_lease,
    check_limit,
    check_max_age,
)
from handraise.ports.files import owner_of_asker, owner_of_person

T = TypeVar("T")

_SHORT_PATIENCE = 0.5
_PATIENCE = 10.0
_PAST = Problem("until", "is in the past: give a time in the future, or leave it out")
_RECOVER = 500
_WITHDRAWN_AT_ONCE = 200
_FOLLOWERS = 1_000
"""How many waits of equal questions are woken at once; the others find out by themselves."""
_INDEXED_BEFORE_A_SEARCH = 5
"""How many batches of events are put into the search index before a search. A server does it in the background too."""


class LocalDesk(Desk):
    """The verbs, on a store that this process can reach. `Desk` says what each promises."""

    def __init__(
        self,
        engine: Engine,
        *,
        workspace: str,
        asker: str,
        new_id: IdFactory,
        limits: Limits,
        close: Close | None = None,
    ) -> None:
        super().__init__(workspace=workspace, asker=asker, new_id=new_id, limits=limits, close=close)
        self._shared = engine

    @property
    def _engine(self) -> Engine:
        """The engine, after checking that this is the process and event loop where the desk was opened."""
        self._shared.opened_in.check()
        return self._shared

    def scoped(
        self, workspace: str | None = None, *, asker: str | None = None, new_id: IdFactory | None = None
    ) -> LocalDesk:
        """See `Desk.scoped`; `new_id` makes the ids of questions that are posted there."""
        return LocalDesk(
            self._shared,
            workspace=self._workspace if workspace is None else workspace,
            asker=self._asker if asker is None else asker,
            new_id=new_id or self._new_id,
            limits=self._limits,
            close=self._close,
        )

    async def post(self, prompt: str, **options: Unpack[QuestionOptions]) -> Question:
        """See `Desk.post`."""
        draft = self._draft(prompt, options)
        if options.get("check_recipients", True):
            await self._check_recipients(draft)
        if draft.replaces is not None:
            await self._check_replaced(draft, draft.replaces)
        if draft.attachments:
            await self._refer_draft(draft)
        result = await self._insert(draft)
        if isinstance(result, QuotaExceeded) and await self.run_due():  # some of them were past their expiry
            result = await self._insert(draft)
        if isinstance(result, KeyConflict) and options.get("if_exists") == "keep":
            result = result.existing or result
        if not isinstance(result, Question):
            raise result
        if result.overdue:
            return await self.get(result.id)
        if result.replaces is not None:
            await self._engine.notify_settled([Ref(self._workspace, result.replaces)])
            if result.follows is not None:  # perhaps the question that it replaces
                result = await self.get(result.id)
        self._engine.remember(result)
        self._engine.notify_feed(self._workspace)
        return self._with_url(result)

    async def _check_replaced(self, draft: Draft, replaced: str) -> None:
        """Raise `InvalidQuestion` unless this asker can replace that question, or did so before with this draft."""
        try:
            question = await self._own_question(replaced, "only the asker can replace it")
        except (QuestionNotFound, PermissionDenied):
            raise InvalidQuestion([Problem("replaces", "you have no question with this id")]) from None
        if question.replaced_by in (None, draft.id):
            return
        if draft.key is None or await self._by_key(draft.key) is None:
            why = f"that question is replaced by {question.replaced_by!r} already: replace that one"
            raise InvalidQuestion([Problem("replaces", why)])

    async def _insert(self, draft: Draft) -> Inserted:
        """Let the policy decide, and register the question; decide again if the policy has changed meanwhile."""
        engine, until = self._engine, time.monotonic() + _PATIENCE
        is_refused = False
        while True:
            try:
                decided = await with_working_time(await engine.policies.apply(draft), engine.recipients)
            except InvalidQuestion:
                stored = await engine.read(draft.ref) or (draft.key and await self._by_key(draft.key))
                if stored:
                    return same_question(draft, stored)
                if is_refused:
                    raise
                is_refused = True  # perhaps by an older version of the policy
                engine.policies.forget(draft.workspace)
                continue
            if added := await self._deputies(decided):
                decided = redrafted(decided, added=added)
            result = await engine.insert.submit(decided)
            if not isinstance(result, PolicyChanged) or time.monotonic() > until:
                return result
            engine.policies.forget(draft.workspace, decided.ruling.version if decided.ruling else 0)

    async def _deputies(self, decided: Draft) -> tuple[str, ...]:
        """Who answers for recipients who are away, after the policy has decided about the question."""
        known = self._engine.recipients
        return () if known is None else await known.deputies_of(decided)

    async def _check_recipients(self, draft: Draft) -> None:
        """Raise `InvalidQuestion` if the directory does not know a recipient, unless it was already asked."""
        known = self._engine.recipients
        if known is None or not (draft.recipients or draft.steps):
            return
        problems = await known.problems(draft)
        if not problems or await self._engine.read(draft.ref):
            return
        if draft.key is None or await self._by_key(draft.key) is None:
            raise InvalidQuestion(problems)

    async def _refer_draft(self, draft: Draft) -> None:
        """Let a question refer to its files before it is stored, unless it was already asked."""
        if draft.key is not None and await self._by_key(draft.key):
            return
        if problem := await self._refer(draft.ref, draft.attachments, owner_of_asker(self._asker)):
            raise InvalidQuestion([Problem("attachments", problem.message)])

    async def _refer_reply(self, ref: Ref, attachments: Sequence[Attachment]) -> None:
        if problem := await self._refer(ref, attachments, owner_of_asker(self._asker)):
            raise InvalidMessage([Problem("attachments", problem.message)])

    async def _refer(self, ref: Ref, attachments: Sequence[Attachment], owner: str) -> Problem | None:
        return await self._engine.attachments.refer(ref, attachments, owner=owner, limits=self._limits)

    async def _refer_answer(self, question: Question, value: JsonValue, responder: Responder) -> None:
        """Let a question refer to the files in a checked answer. Only who uploaded a file can answer with it."""
        if not takes_files(question.form) or not (files := attached_in(value)):
            return
        if problem := await self._refer(question.ref, files, owner_of_person(responder.id)):
            raise InvalidAnswer([problem])

    async def _store_attachment(
        self, attachment: Attachment, data: bytes, by: str | Responder | None
    ) -> None:
        await self.store_attachment(attachment, data, by)

    async def store_attachment(self, attachment: Attachment, data: bytes, by: str | Responder | None) -> None:
        """Store bytes whose description was checked, for the asker or for a person; `attach` does both."""
        owner = owner_of_asker(self._asker) if by is None else owner_of_person(responder_of(by).id)
        await self._engine.attachments.store(
            self._workspace, attachment, data, owner=owner, limits=self._limits
        )

    async def read_attachment(self, question_id: str, digest: str) -> bytes:
        """See `Desk.read_attachment`."""
        question = await self.get(question_id)
        if not any(each.digest == digest for each in attached_to(question, await self.history(question_id))):
            raise AttachmentNotFound(str(digest), question_id)
        return await self._engine.attachments.read(question.ref, digest)

    def _outcome_of(self, ref: Ref, *, timeout: float | None) -> Awaitable[Outcome]:
        return self._engine.waiters.outcome_of(ref, timeout=timeout)

    async def _first_of(self, refs: Sequence[Ref], *, timeout: float | None) -> tuple[str, Outcome]:
        ref, outcome = await self._engine.waiters.first_of(refs, timeout=timeout)
        return ref.id, outcome

    async def answer(
        self,
        question_id: str,
        value: JsonValue,
        *,
        by: str | Responder,
        provenance: Provenance | None = None,
    ) -> Question:
        """See `Desk.answer`."""
        value = plain_value(value)
        provenance = provenance or UNKNOWN
        question, responder = await self._answerable(question_id, by, provenance.evidence)
        check_provenance(self._limits, provenance)
        try:
            canonical = check_answer(question.form, value)
            await self._refer_answer(question, canonical, responder)
        except InvalidAnswer as misfit:
            kept = keepable(self._limits, value)
            tried = await self._move(
                attempt_move(question, responder, kept, misfit.problems, provenance=provenance)
            )
            raise InvalidAnswer(misfit.problems, outcome=tried.outcome) from None
        refuses = is_denial(question.form, canonical)
        check_evidence(question, responder, provenance.evidence, refuses=refuses)
        move = answer_move(
            question,
            responder,
            canonical,
            provenance=provenance,
            grant_id=self._new_id() if wants_grant(question.form, canonical) else None,
        )
        try:
            return await self._move(move)
        except InvalidAnswer as past:
            tried = await self._move(
                attempt_move(question, responder, canonical, past.problems, provenance=provenance)
            )
            raise InvalidAnswer(past.problems, outcome=tried.outcome) from None

    async def reject_answer(
        self,
        question_id: str,
        value: JsonValue,
        problems: Sequence[Problem],
        *,
        by: str | Responder,
        provenance: Provenance | None = None,
    ) -> Question:
        """See `Desk.reject_answer`."""
        provenance = provenance or UNKNOWN
        question, responder = await self._answerable(question_id, by)
        check_problems(self._limits, problems, provenance)
        return await self._move(
            attempt_move(question, responder, keepable(self._limits, value), problems, provenance=provenance)
        )

    async def decline(
        self,
        question_id: str,
        *,
        by: str | Responder,
        reason: str | None = None,
        provenance: Provenance | None = None,
    ) -> Question:
        """See `Desk.decline`."""
        provenance = provenance or UNKNOWN
        question, responder = await self._answerable(question_id, by, provenance.evidence)
        check_provenance(self._limits, provenance, reason=reason)
        return await self._move(decline_move(question, responder, reason=reason, provenance=provenance))

    async def send_back(
        self,
        question_id: str,
        *,
        by: str | Responder,
        reason: str,
        provenance: Provenance | None = None,
    ) -> Question:
        """See `Desk.send_back`."""
        check_reason(reason)
        provenance = provenance or UNKNOWN
        question, responder = await self._answerable(question_id, by, provenance.evidence)
        check_provenance(self._limits, provenance, reason=reason)
        return await self._move(send_back_move(question, responder, reason=reason, provenance=provenance))

    async def answer_all(self, items: Sequence[BulkItem], *, by: str | Responder) -> Sequence[BulkResult]:
        """See `Desk.answer_all`."""
        self._shared.opened_in.check()
        check_bulk_items(items)
        responder_of(by)
        return await answer_each(items, partial(answer_one, self, by=by))

    async def withdraw(
        self, question_id: str, *, reason: str | None = None, by: str | Responder | None = None
    ) -> Question:
        """See `Desk.withdraw`."""
        if by is not None:
            question = await self._pending_question(question_id)
            check_texts(self._limits, reason=reason)
            return await self._move(admin_withdraw_move(question, responder_of(by), reason=reason))
        question = await self._own_question(question_id, "only the asker can withdraw")
        if question.outcome is not None:
            raise AlreadySettled(question_id, question.outcome)
        check_texts(self._limits, reason=reason)
        return await self._move(withdraw_move(question, self._asker, reason=reason))

    async def withdraw_all(self, asker: str, *, by: str | Responder, reason: str | None = None) -> int:
        """See `Desk.withdraw_all`."""
        check_texts(self._limits, reason=reason)
        responder, withdrawn, after = responder_of(by), 0, None
        while True:
            page = await self.list_pending(asker=asker, after=after, limit=_WITHDRAWN_AT_ONCE)
            moves = [admin_withdraw_move(question, responder, reason=reason) for question in page]
            moved = await asyncio.gather(*map(self._engine.settle, moves))
            withdrawn += sum(self._notify_moved(each) is not None for each in moved)
            if (after := page.next) is None:
                return withdrawn

    async def apply_grant(self, question_id: str) -> Question | None:
        """See `Desk.apply_grant`."""
        question = await self._own_question(question_id, "only the asker can use a grant")
        if question.outcome is not None:
            return question
        if not isinstance(question.form, Approval) or question.evidence == "passkey":
            return None
        grant = await self._engine.store.find_grant(question)
        if grant is None:
            return None
        moved = self._notify_moved(await self._engine.settle(grant_move(question, grant)))
        if moved is None:  # somebody was first, or the grant is no longer valid
            question = await self.get(question_id)
            if question.outcome is None:
                await self._check_stops(question)
                return None
            return question
        return moved

    async def consume_approval(self, question_id: str, *, request: str | None = None) -> Action:
        """See `Desk.consume_approval`."""
        check_texts(self._limits, request=request)
        question, action = await self._approved(question_id)
        # Not from the id factory, which a caller may choose: two requests must never have the same id.
        request = uuid.uuid4().hex if request is None else request
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
        """Use up the approval of a verified receipt of this asker, as `consume_approval` does with `use_id` as its request."""
        question, action = await self._approved(receipt.question_id)
        if action.digest != receipt.digest:
            raise ReceiptRefused("another action was approved")
        find = partial(self._engine.store.find_usable, question.ref, digest=action.digest, by=self._asker)
        approval = await self._while_allowed(question, find)
        # If it is used already, this may be the same use again, which is answered as before.
        if approval is not None and receipt.expires_at <= approval.now:
            raise ReceiptRefused("it has expired. The agent can get a new one")
        await self.consume_approval(question.id, request=f"{RECEIPT_USE}{use_id}")

    async def _approved(self, question_id: str) -> tuple[Question, Action]:
        """Return this asker's question and its approved action; raises `NotApproved` if there is none."""
        question = await self._own_question(question_id, "only the asker can execute the action")
        decision = question.decision
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

    async def claim_sending(self, question_id: str, *, lease: Span = SENDING_LEASE) -> bool:
        """See `Desk.claim_sending`."""
        length = check_lease(lease)
        question = await self._own_question(question_id, "only the asker can send it")
        return await self._engine.store.claim_sending(question.ref, by=self._asker, lease=length)

    async def mark_sent(self, question_id: str, *, channel: str | None = None) -> Question:
        """See `Desk.mark_sent`."""
        check_texts(self._limits, channel=channel)
        question = await self._own_question(question_id, "only the asker can mark it as sent")
        if await self._engine.store.mark_sent(question.ref, by=self._asker, channel=channel):
            self._engine.notify_feed(self._workspace)
        return await self.get(question_id)

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
            raise AlreadyConsumed(question_id)
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

    async def ask_back(
        self,
        question_id: str,
        text: str,
        *,
        by: str | Responder,
        provenance: Provenance | None = None,
    ) -> Question:
        """See `Desk.ask_back`."""
        question, responder = await self._writable(question_id, text, by, provenance)
        if question.replies is None:
            await self._pending_question(question_id)  # what this process remembers may have ended
            raise CannotAskBack(question_id)
        return await self._move(ask_back_move(question, responder, text, provenance=provenance or UNKNOWN))

    async def note(
        self,
        question_id: str,
        text: str,
        *,
        by: str | Responder,
        provenance: Provenance | None = None,
    ) -> Question:
        """See `Desk.note`."""
        question, responder = await self._writable(question_id, text, by, provenance)
        return await self._move(note_move(question, responder, text, provenance=provenance or UNKNOWN))

    async def _writable(
        self, question_id: str, text: str, by: str | Responder, provenance: Provenance | None
    ) -> tuple[Question, Responder]:
        """Return the pending question and the person, if that person may write this about it: who may answer may write."""
        check_message(self._limits, text)
        provenance = provenance or UNKNOWN
        check_provenance(self._limits, provenance)
        question, responder = await self._answerable(question_id, by, provenance.evidence)
        check_room(question)
        return question, responder

    async def take(
        self, question_id: str, *, by: str | Responder, provenance: Provenance | None = None
    ) -> Question:
        """See `Desk.take`."""
        question, responder = await self._shareable(question_id, by, provenance)
        return await self._move(take_move(question, responder, provenance=provenance or UNKNOWN))

    async def release(
        self, question_id: str, *, by: str | Responder, provenance: Provenance | None = None
    ) -> Question:
        """See `Desk.release`."""
        question, responder = await self._shareable(question_id, by, provenance)
        return await self._move(
            take_move(question, responder, release=True, provenance=provenance or UNKNOWN)
        )

    async def bring_in(
        self,
        question_id: str,
        people: Sequence[str],
        *,
        by: str | Responder,
        reason: str | None = None,
        provenance: Provenance | None = None,
    ) -> Question:
        """See `Desk.bring_in`."""
        return await self._bring_in(question_id, people, by, reason, provenance, leave=False)

    async def hand_over(
        self,
        question_id: str,
        people: Sequence[str],
        *,
        by: str | Responder,
        reason: str | None = None,
        provenance: Provenance | None = None,
    ) -> Question:
        """See `Desk.hand_over`."""
        return await self._bring_in(question_id, people, by, reason, provenance, leave=True)

    async def _bring_in(
        self,
        question_id: str,
        people: Sequence[str],
        by: str | Responder,
        reason: str | None,
        provenance: Provenance | None,
        *,
        leave: bool,
    ) -> Question:
        check_texts(self._limits, reason=reason)
        question, responder = await self._shareable(question_id, by, provenance)
        check_people(question, people, self._limits, leave=leave)
        if self._engine.recipients is not None:
            named = [(f"people[{place}]", name) for place, name in enumerate(people)]
            if problems := await self._engine.recipients.unknown(self._workspace, named):
                raise CannotShare(problems)
        move = bring_in_move(
            question,
            responder,
            tuple(dict.fromkeys(people)),
            leave=leave,
            reason=reason,
            provenance=provenance or UNKNOWN,
        )
        return await self._move(move)

    async def set_aside(
        self,
        question_id: str,
        *,
        by: str | Responder,
        until: datetime | None = None,
        provenance: Provenance | None = None,
    ) -> Question:
        """See `Desk.set_aside`."""
        question, responder = await self._shareable(question_id, by, provenance)
        check_aside(question, responder.id, until)
        return await self._move(
            set_aside_move(question, responder, until=until, provenance=provenance or UNKNOWN)
        )

    async def put_back(
        self, question_id: str, *, by: str | Responder, provenance: Provenance | None = None
    ) -> Question:
        """See `Desk.put_back`."""
        question, responder = await self._shareable(question_id, by, provenance)
        return await self._move(put_back_move(question, responder, provenance=provenance or UNKNOWN))

    async def _shareable(
        self, question_id: str, by: str | Responder, provenance: Provenance | None
    ) -> tuple[Question, Responder]:
        """Return the pending question and the person, if that person may share it: who may answer may share."""
        provenance = provenance or UNKNOWN
        check_provenance(self._limits, provenance)
        return await self._answerable(question_id, by, provenance.evidence)

    async def reply(
        self,
        question_id: str,
        text: str,
        *,
        to: int | None = None,
        attachments: Sequence[Attachment] = (),
    ) -> Question:
        """See `Desk.reply`."""
        check_message(self._limits, text)
        check_attachments(self._limits, attachments)
        question = await self._own_question(question_id, "only the asker can reply")
        if question.outcome is not None:
            raise AlreadySettled(question_id, question.outcome)
        check_room(question)
        if attachments:
            await self._refer_reply(question.ref, attachments)
        seen = question.thread if to is None else to
        return await self._move(reply_move(question, self._asker, text, to=seen, attachments=attachments))

    async def _changes_of(self, question_id: str) -> AsyncGenerator[None, None]:
        self._ref(question_id)
        end = await self._engine.store.feed_end(self._workspace)
        yield
        async with aclosing(self.follow_pages(after=end)) as pages:
            async for page in pages:
                if any(event.question_id == question_id for event in page):
                    yield

    async def list_grants(self, *, after: str | None = None, limit: int = PAGE) -> Page[Grant]:
        """See `Desk.list_grants`."""
        check_limit(limit)
        grants = await self._engine.store.grants(self._workspace, after=after, limit=limit)
        return Page(grants, grants[-1].id if len(grants) == limit else None)

    async def revoke_grant(self, grant_id: str, *, by: str) -> Grant:
        """See `Desk.revoke_grant`."""
        responder = responder_of(by)
        found = None
        if not text_problem(grant_id):
            found = await self._engine.store.revoke(self._workspace, grant_id, by=responder.id)
        if found is None:
            raise GrantNotFound(grant_id, self._workspace)
        self._engine.notify_feed(self._workspace)
        return found

    async def get(self, question_id: str) -> Question:
        """See `Desk.get`."""
        ref = self._ref(question_id)
        found = await self._after_due_steps(lambda: self._engine.read(ref), lambda found: [found])
        if found is None:
            raise QuestionNotFound(question_id, self._workspace)
        self._engine.remember(found)
        return self._with_url(found)

    async def find_by_key(self, key: str) -> Question | None:
        """See `Desk.find_by_key`."""
        if text_problem(key):
            return None
        found = await self._after_due_steps(lambda: self._by_key(key), lambda found: [found])
        return None if found is None else self._with_url(found)

    async def join(self, question_id: str, *, key: str) -> Question:
        """See `Desk.join`."""
        check_key(key, self._limits)
        question = await self._own_question(question_id, "only the asker can join it")
        if await self._engine.store.join(question.ref, by=self._asker, key=key):
            self._engine.notify_feed(self._workspace)
        if found := await self.find_by_key(key):
            return found
        return await self._pending_question(question_id)

    async def _by_key(self, key: str) -> Question | None:
        store = self._engine.store
        if own := await store.find_by_key(self._workspace, self._asker, key):
            return own
        shared = await store.find_by_key(self._workspace, "", key)
        return shared if shared is not None and shared.asker == self._asker else None

    async def list_pending(
        self,
        *,
        conversation: str | None = None,
        recipient: str | Responder | None = None,
        asker: str | None = None,
        aside: bool = False,
        filters: PendingFilters | None = None,
        order: Order = "age",
        after: str | None = None,
        limit: int = PAGE,
    ) -> Page[Question]:
        """See `Desk.list_pending`."""
        check_limit(limit)
        if any(map(text_problem, filter(None, (conversation, asker, after)))):
            return Page([], None)
        if order != "age" or (filters is not None and filters.any):
            waiting = await self.by_urgency(
                conversation=conversation,
                recipient=recipient,
                asker=asker,
                aside=aside,
                filters=filters,
                order=order,
                after=after,
                limit=limit,
            )
            return Page(await self.still_pending([each.id for each in waiting.places]), waiting.after)
        where = await self._filter(conversation, recipient, asker, aside=aside)
        if recipient is not None and after is None:
            await self.run_due()  # a due escalation counts, even if no process has done it yet
        questions = await self._after_due_steps(
            lambda: self._engine.store.pending(where, after=after, limit=limit + 1),
            lambda page: page,
        )
        page = questions[:limit]
        self._engine.remember_page(page)
        return Page(
            [self._with_url(each) for each in page], page[-1].id if page and len(questions) > limit else None
        )

    async def by_urgency(
        self,
        *,
        conversation: str | None = None,
        recipient: str | Responder | None = None,
        asker: str | None = None,
        aside: bool = False,
        filters: PendingFilters | None = None,
        order: Order = "urgency",
        after: str | None = None,
        limit: int = PAGE,
    ) -> WaitingPage:
        """The ranks of pending questions, most urgent first, without reading them; see `Store.by_urgency`."""
        filters = filters or NO_FILTERS
        check_filters(filters, has_person=recipient is not None)
        if any(map(text_problem, filter(None, (conversation, asker, after, filters.tool)))):
            return WaitingPage([], None)
        where = replace(await self._filter(conversation, recipient, asker, aside=aside), filters=filters)
        if recipient is not None and after is None:
            await self.run_due()
        return await self._engine.store.by_urgency(where, after=after, limit=limit, order=order)

    async def count_views(self, recipient: str | Responder) -> ViewCounts:
        """See `Desk.count_views`."""
        return await self._engine.store.count_views(self._workspace, await self._with_groups(recipient))

    async def still_pending(self, question_ids: Sequence[str]) -> Sequence[Question]:
        """The questions among these that are pending, in the same order."""
        refs = [self._ref(each) for each in question_ids]
        found = await self._after_due_steps(
            lambda: asyncio.gather(*map(self._engine.read, refs)),
            lambda found: found,
        )
        pending = [each for each in found if each is not None and each.outcome is None]
        self._engine.remember_page(pending)
        return pending

    async def list_settled(
        self,
        *,
        conversation: str | None = None,
        recipient: str | Responder | None = None,
        asker: str | None = None,
        after: str | None = None,
        limit: int = PAGE,
    ) -> Page[Question]:
        """See `Desk.list_settled`."""
        check_limit(limit)
        if any(map(text_problem, filter(None, (conversation, asker)))):
            return Page([], None)
        where = await self._filter(conversation, recipient, asker)
        if after is None:
            await self.run_due()  # an expired question is settled, even if no process has noticed yet
        page = await self._engine.store.settled(where, after=after, limit=limit)
        return Page([self._with_url(each) for each in page.questions], page.after)

    async def search(
        self,
        text: str,
        *,
        conversation: str | None = None,
        recipient: str | Responder | None = None,
        asker: str | None = None,
        after: str | None = None,
        limit: int = PAGE,
    ) -> Page[Question]:
        """See `Desk.search`."""
        check_limit(limit)
        query = query_of(text)
        if query is None or any(map(text_problem, filter(None, (conversation, asker, after)))):
            return Page([], None)
        where = await self._filter(conversation, recipient, asker)
        if after is None:
            await self.run_due()  # an expired question is settled, even if no process has noticed yet
            await SearchIndexer(self._engine.store).catch_up(
                self._workspace, batches=_INDEXED_BEFORE_A_SEARCH
            )
        page = await self._engine.store.search(where, query, after=after, limit=limit)
        return Page([self._with_url(each) for each in page.questions], page.after)

    async def list_followers(self, question_id: str, *, limit: int = PAGE) -> Sequence[Question]:
        """See `Desk.list_followers`."""
        check_limit(limit)
        found = await self._engine.store.followers((await self.get(question_id)).ref, limit=limit)
        return [self._with_url(each) for each in found]

    async def history(self, question_id: str) -> Sequence[Event]:
        """See `Desk.history`."""
        events = await self._engine.store.history(self._ref(question_id))
        if not events:
            raise QuestionNotFound(question_id, self._workspace)
        return events

    async def feed(self, *, after: str | None = None, limit: int = 500) -> Page[Event]:
        """See `Desk.feed`."""
        check_limit(limit)
        events = await self._engine.store.feed(self._workspace, after=after, limit=limit)
        return Page(events, events[-1].cursor if events else after or None)

    async def follow(self, *, after: str | None = None) -> AsyncGenerator[Event, None]:
        """See `Desk.follow`."""
        async with aclosing(self.follow_pages(after=after)) as pages:
            async for page in pages:
                for event in page:
                    yield event

    def follow_pages(self, *, after: str | None = None) -> AsyncGenerator[Sequence[Event], None]:
        """The events of `follow`, in lists."""
        return self._engine.feeds.follow(self._workspace, after=after)

    async def run_due(self) -> int:
        """See `Desk.run_due`."""
        return await self._engine.run_due(self._workspace)

    async def run_maintenance(self) -> int:
        """Do the due steps of every workspace's timelines; return how many questions they settled."""
        return await self._engine.run_maintenance()

    async def _recover(self, max_age: timedelta) -> Recovered:
        check_max_age(max_age)
        expired = 0
        store = self._engine.store
        await self.run_due()
        while refs := await store.expire_older(self._workspace, self._asker, max_age, limit=_RECOVER):
            expired += len(refs)
            await self._engine.notify_settled(refs)
        return Recovered(expired=expired, live=await store.count_pending(self._workspace, self._asker))

    async def durability(self) -> Durability:
        """See `Desk.durability`."""
        return await self._engine.store.durability()

    async def _filter(
        self,
        conversation: str | None,
        recipient: str | Responder | None,
        asker: str | None,
        *,
        aside: bool = False,
    ) -> Filter:
        return Filter(
            workspace=self._workspace,
            conversation=conversation,
            recipient=None if recipient is None else await self._with_groups(recipient),
            asker=asker,
            aside=aside,
        )

    async def _with_groups(self, by: str | Responder) -> Responder:
        """Return the person, with their groups from the directory unless the caller gave them."""
        responder, directory = responder_of(by), self._engine.directory
        if not isinstance(by, str) or directory is None:
            return responder
        person = await directory.find_person(self._workspace, responder.id)
        return responder if person is None else person.responder

    async def _own_question(self, question_id: str, reason: str) -> Question:
        """Return this asker's question. Another asker's is not found, on every desk, unless it is shared."""
        question = await self.get(question_id)
        if question.asker == self._asker:
            return question
        if question.shared:
            raise PermissionDenied(self._asker, reason)
        raise QuestionNotFound(question_id, self._workspace, self._asker)

    async def _pending_question(self, question_id: str) -> Question:
        question = await self.get(question_id)
        if question.outcome is not None:
            raise AlreadySettled(question_id, question.outcome)
        return question

    async def _answerable(
        self, question_id: str, by: str | Responder, evidence: str | None = None
    ) -> tuple[Question, Responder]:
        """Return the pending question and the person, if that person may answer it with this evidence."""
        responder = responder_of(by)
        question = self._engine.recall(self._ref(question_id))
        if question is None or not may_respond(question, responder):
            question, responder = await self.get(question_id), await self._with_groups(by)
            check_may_respond(question, responder)
            if question.outcome is not None:
                raise AlreadySettled(question_id, question.outcome)
        check_evidence(question, responder, evidence, refuses=True)  # what it takes to answer at all
        return question, responder

    async def _move(self, move: Move) -> Question:
        """Let the store decide; then notify waits, or find out why the move was refused.

        If the question changed meanwhile, as steps that come due can put its expiry off, this tries again. Only the
        store's clock says whether the end of a new grant is past: that is the reason if the question has not changed.
        """
        ends = move.new_grant is not None and move.new_grant.until is not None
        followers = await self._followers(move)
        began, pause, steps_before = time.monotonic(), 0.0, None
        while (moved := self._notify_moved(await self._engine.settle.submit(move))) is None:
            question = await self._pending_question(move.question.id)
            if move.kind == "reply" and not question.asked_back:
                raise NothingToReply(question.id)
            if move.kind not in ("withdraw", "withdraw_for", "reply"):
                check_may_respond(question, move.responder)
            if move.kind in ("release", "put_back"):
                return question
            if move.kind == "take" and question.taken_by not in (None, move.by):
                raise AlreadyTaken(question.id, taken_by=question.taken_by, until=question.taken_until)
            if move.kind == "answer" and move.seen is not None and move.seen != question.thread:
                raise ThreadMoved(question.id, seen=move.seen, thread=question.thread)
            if move.approves:
                await self._check_stops(question)
            steps = None if question.overdue else question.steps_taken
            if ends and steps is not None and steps == steps_before:
                raise InvalidAnswer([_PAST])
            if time.monotonic() - began > _PATIENCE:
                raise StoreUnavailable(f"Question {question.id!r} kept changing meanwhile. Try again.")
            await asyncio.sleep(pause)
            pause = min(0.2, pause * 2 + 0.005)
            move, steps_before = replace(move, question=question), steps
        if moved.outcome is not None:
            await self._engine.notify_settled(followers)
        return moved

    async def _followers(self, move: Move) -> Sequence[Ref]:
        """The questions that end with this one, if it ends. A wait for one that comes later finds out by itself."""
        if move.question.topic is None or move.kind not in VOTES:
            return ()
        return [each.ref for each in await self._engine.store.followers(move.question.ref, limit=_FOLLOWERS)]

    async def _check_stops(self, question: Question) -> None:
        """Raise `Stopped` if a stop covers a question, which is why the store refused something."""
        if stop := await self._engine.store.covering_stop(question):
            raise Stopped(stop)

    def _notify_moved(self, moved: Question | None) -> Question | None:
        """Notify waits and followers of a moved question; return it with its URL."""
        if moved is None:
            return None
        self._engine.remember(moved)
        self._engine.notify_feed(self._workspace)
        if moved.outcome is not None:
            ref = moved.ref
            self._engine.waiters.resolve(ref, moved.outcome)
            self._engine.hints.add(ref)
        return self._with_url(moved)

    def _with_url(self, question: Question) -> Question:
        """Return the question with the URL of its page, if a server's address is known."""
        base = self._shared.public_url
        return question if base is None else changed(question, url=f"{base}/questions/{quote(question.id)}")

    async def _after_due_steps(
        self, load: Callable[[], Awaitable[T]], questions: Callable[[T], Iterable[Question | None]]
    ) -> T:
        """Return what `load` returns, after doing the due steps of its questions' timelines.

        Another process may have locked a question. This waits for an expiry; for a reminder or an escalation only briefly.
        """
        began, pause = time.monotonic(), 0.0
        while True:
            found = await load()
            due = [each for each in questions(found) if each is not None and each.overdue]
            if not due:
                return found
            waited = time.monotonic() - began
            if not any(each.next_step.ends for each in due) and waited > _SHORT_PATIENCE:
                return found
            if waited > _PATIENCE:
                raise StoreUnavailable("A question that has expired is locked by another process. Try again.")
            await asyncio.sleep(pause)
            pause = min(0.2, pause * 2 + 0.005)
            await self.run_due()


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
        return AlreadyConsumed(question.id)
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
