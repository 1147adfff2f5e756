"""The desk on a store: read this file from top to bottom to follow a question from `post` to its wait.

How people share a question is in `sharing_verbs`, and what follows an approval is in `approval_use`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Unpack

from handraise.desk.answer_each import answer_each, answer_one
from handraise.desk.approval_use import ApprovalUse
from handraise.desk.question_access import PATIENCE
from handraise.desk.question_pages import number_within, read_in_parts
from handraise.desk.search_indexer import SearchIndexer
from handraise.desk.sharing_verbs import SharingVerbs
from handraise.desk.standing_verbs import StandingVerbs
from handraise.desk.working_timeline import with_working_time
from handraise.heartbeats import MOST_BEATS
from handraise.model.attachments import Attachment, plain_value
from handraise.model.bulk_answers import BulkItem, BulkResult
from handraise.model.call_hints import usage
from handraise.model.callbacks import Callback
from handraise.model.deliveries import CALLBACK_CHANNEL
from handraise.model.drafting import QuestionOptions, check_key
from handraise.model.durations import Span
from handraise.model.errors import (
    AlreadySettled,
    AttachmentNotFound,
    CannotAskBack,
    GrantNotFound,
    InvalidAnswer,
    KeyConflict,
    PermissionDenied,
    PolicyChanged,
    QuestionNotFound,
    QuotaExceeded,
    Stopped,
)
from handraise.model.events import Event
from handraise.model.evidence import check_evidence
from handraise.model.forms import Approval
from handraise.model.grants import Grant
from handraise.model.json_values import JsonValue, text_problem
from handraise.model.lifecycle import (
    admin_withdraw_move,
    already_replaced,
    answer_move,
    ask_back_move,
    attempt_move,
    decline_move,
    grant_move,
    is_denial,
    note_move,
    reply_move,
    same_question,
    send_back_move,
    wants_grant,
    withdraw_move,
)
from handraise.model.outcomes import Outcome
from handraise.model.pending_views import NO_FILTERS, Order, PendingFilters, ViewCounts, check_filters
from handraise.model.people import Responder, responder_of
from handraise.model.problems import InvalidQuestion, Problem
from handraise.model.provenance import (
    UNKNOWN,
    Provenance,
    check_problems,
    check_provenance,
    check_reason,
    check_texts,
    keepable,
)
from handraise.model.questions import Draft, Question, Ref, redrafted
from handraise.model.search_words import query_of
from handraise.model.thread_messages import attached_to, check_attachments, check_message, check_room
from handraise.model.validation import check_answer
from handraise.ports import Durability, Filter, IdFactory, Inserted, Recovered, WaitingPage
from handraise.ports.desk import (
    PAGE,
    SENDING_LEASE,
    Page,
    check_bulk_items,
    check_lease,
    check_limit,
    check_max_age,
)
from handraise.ports.files import owner_of_asker, owner_of_person
from handraise.ports.settled_filter import Ended, SettledFilter, settled_filter

_RECOVER = 500
_WITHDRAWN_AT_ONCE = 200
_NOTHING_TO_BEAT = nullcontext()
_NO_CALLBACKS = (
    "nobody here would call you back: post it through a server that has HANDRAISE_WEBHOOKS and HANDRAISE_CALLBACK_HOSTS, "
    "or wait for the answer"
)
_INDEXED_BEFORE_A_SEARCH = 5
"""How many batches of events are put into the search index before a search. A server does it in the background too."""


class LocalDesk(SharingVerbs, StandingVerbs, ApprovalUse):
    """The verbs, on a store that this process can reach. `Desk` says what each promises."""

    def scoped(
        self, workspace: str | None = None, *, asker: str | None = None, new_id: IdFactory | None = None
    ) -> LocalDesk:
        """See `Desk.scoped`; `new_id` makes the ids of questions that are posted there."""
        scoped = LocalDesk(
            self._shared,
            workspace=self._workspace if workspace is None else workspace,
            asker=self._asker if asker is None else asker,
            new_id=new_id or self._new_id,
            limits=self._limits,
            close=self._close,
        )
        scoped._address = self._address
        return scoped

    @usage('post("Which?", choices=["a", "b"])')
    async def post(self, prompt: str, **options: Unpack[QuestionOptions]) -> Question:
        """See `Desk.post`."""
        draft = self._draft(prompt, options)
        engine = self._engine
        if (draft.recipients or draft.steps) and options.get("check_recipients", True):
            await self._check_recipients(draft)
        if draft.replaces is not None:
            await self._check_replaced(draft, draft.replaces)
        if draft.attachments:
            await self._refer_draft(draft)
        if draft.callback is not None:
            await self._check_callback(draft, draft.callback)
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
        engine.remember(result)
        engine.notify_feed(self._workspace)
        if (
            result.heartbeat is not None and result.id != draft.id
        ):  # it was asked before, and its asker is back
            await self._beat([result.ref])
            return await self.get(result.id)
        return self._with_url(result)

    async def _check_callback(self, draft: Draft, callback: Callback) -> None:
        """Raise `InvalidQuestion` unless this process calls askers back there, or the question was posted before."""
        sender = self._engine.callback_senders.get(CALLBACK_CHANNEL)
        if sender is None:
            problem = Problem("callback", _NO_CALLBACKS)
        elif refused := sender.callback_problem(callback):
            problem = Problem("callback.url", refused)
        else:
            return
        if draft.key is None or await self._by_key(draft.key) is None:
            raise InvalidQuestion([problem])

    async def _check_replaced(self, draft: Draft, replaced: str) -> None:
        """Raise `InvalidQuestion` unless this asker can replace that question, or did so before with this draft."""
        try:
            question = await self._own_question(replaced, "only the asker can replace it")
        except (QuestionNotFound, PermissionDenied):
            raise InvalidQuestion([Problem("replaces", "you have no question with this id")]) from None
        refused = already_replaced(draft, question)
        if refused and (draft.key is None or await self._by_key(draft.key) is None):
            raise refused

    async def _insert(self, draft: Draft) -> Inserted:
        """Let the policy decide, and register the question; decide again if the policy has changed meanwhile."""
        engine, until = self._shared, time.monotonic() + PATIENCE
        is_refused = False
        while True:
            try:
                decided = await engine.policies.apply(draft)
                if decided.steps:
                    decided = await with_working_time(decided, engine.recipients)
            except InvalidQuestion:
                stored = await engine.read(draft.ref) or (draft.key and await self._by_key(draft.key))
                if stored:
                    return same_question(draft, stored)
                if is_refused:
                    raise
                is_refused = True  # perhaps by an older version of the policy
                engine.policies.forget(draft.workspace)
                continue
            if decided.recipients and (added := await self._deputies(decided)):
                decided = redrafted(decided, added=added)
            result = await engine.insert.submit(decided)
            if not isinstance(result, PolicyChanged) or time.monotonic() > until:
                return result
            engine.policies.forget(draft.workspace, decided.ruling.version if decided.ruling else 0)

    async def _deputies(self, decided: Draft) -> tuple[str, ...]:
        """Who answers for recipients who are away, after the policy has decided; nobody if it is answered already."""
        known, ruling = self._engine.recipients, decided.ruling
        if known is None or (ruling is not None and ruling.ending is not None):
            return ()
        return await known.deputies_of(decided)

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
        await self._engine.attachments.refer_draft(draft, self._limits)

    async def _store_attachment(
        self, attachment: Attachment, data: bytes, by: str | Responder | None
    ) -> None:
        owner = owner_of_asker(self._asker) if by is None else owner_of_person(responder_of(by).id)
        await self._engine.attachments.store(
            self._workspace, attachment, data, owner=owner, limits=self._limits
        )

    async def read_attachment(self, question_id: str, digest: str) -> bytes:
        """See `Desk.read_attachment`."""
        _, data = await self.open_attachment(await self.get(question_id), digest)
        return data

    async def open_attachment(self, question: Question, digest: str) -> tuple[Attachment, bytes]:
        """The description and the bytes of a file of a question that was read already."""
        found = await self.find_attachment(question, digest)
        return found, await self._engine.attachments.read(question.ref, digest)

    async def find_attachment(self, question: Question, digest: str) -> Attachment:
        """The description of a file of a question that was read already. Raises `AttachmentNotFound`."""
        for each in attached_to(question, await self.history(question.id)):
            if each.digest == digest:
                return each
        raise AttachmentNotFound(str(digest), question.id)

    async def beat(self, question_ids: Iterable[str]) -> dict[str, float]:
        """The same as `heartbeat`, but returns the heartbeats of those that were heard, in seconds, by their ids."""
        refs = [Ref(self._workspace, each) for each in question_ids if not text_problem(each)]
        return {ref.id: seconds for ref, seconds in (await self._beat(refs)).items()}

    async def _beat(self, refs: Sequence[Ref]) -> Mapping[Ref, float]:
        found: dict[Ref, float] = {}
        for start in range(0, len(refs), MOST_BEATS):
            found |= await self._engine.store.beat(refs[start : start + MOST_BEATS], by=self._asker)
        return found

    def _waiting_for(self, refs: Sequence[Ref]) -> AbstractContextManager[None]:
        engine = self._engine
        beating, known = [], {}
        for ref in refs:
            question = engine.recall(ref)
            if question is None or question.heartbeat is not None:
                beating.append(ref)
            if question is not None and question.heartbeat is not None:
                known[ref] = question.heartbeat
        return engine.heartbeats.waiting_for(beating, self._asker, known) if beating else _NOTHING_TO_BEAT

    def _outcome_of(self, ref: Ref, *, timeout: float | None) -> Awaitable[Outcome]:
        return self._engine.waiters.outcome_of(ref, timeout=timeout)

    async def _first_of(self, refs: Sequence[Ref], *, timeout: float | None) -> tuple[str, Outcome]:
        ref, outcome = await self._engine.waiters.first_of(refs, timeout=timeout)
        return ref.id, outcome

    @usage('answer(question.id, value, by="ana")')
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
            await self._shared.attachments.refer_answer(question, canonical, responder, self._limits)
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
        question, responder = await self._answerable(question_id, by, provenance.evidence)
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
            for each in moved:
                if isinstance(each, Question):
                    self._notify_moved(each)
                    withdrawn += 1
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
        moved = await self._engine.settle(grant_move(question, grant))
        if isinstance(moved, Question):
            return self._notify_moved(moved)
        if moved.stop is not None:
            raise Stopped(moved.stop)
        # Somebody was first, or the grant has ended.
        question = await self.get(question_id)
        return None if question.outcome is None else question

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
            await self._engine.attachments.refer_reply(question, attachments, self._limits)
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

    async def find_by_key(self, key: str) -> Question | None:
        """See `Desk.find_by_key`."""
        if text_problem(key):
            return None
        found = await self._after_due_steps(lambda: self._by_key(key), lambda found: [found])
        return None if found is None else self._with_url(await self._with_votes_told(found))

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
            look = partial(
                self.by_urgency,
                conversation=conversation,
                recipient=recipient,
                asker=asker,
                aside=aside,
                filters=filters,
                order=order,
                after=after,
            )
            waiting = await look(limit=limit)
            ids = [each.id for each in waiting.places]

            async def read_places(start: str | None, number: int) -> Page[Question]:
                end = int(start or 0) + number
                found = await self.still_pending(ids[end - number : end])
                return Page(found, str(end) if end < len(ids) else None)

            page = await read_in_parts(read_places, after=None, limit=limit)
            if page.next is not None:  # it ended early: its cursor is that of fewer places
                waiting = await look(limit=int(page.next))
            return Page(page.items, waiting.after)
        where = await self._filter(conversation, recipient, asker, aside=aside)
        if recipient is not None and after is None:
            await self.run_due()  # a due escalation counts, even if no process has done it yet

        async def read(after: str | None, number: int) -> Page[Question]:
            questions = await self._after_due_steps(
                lambda: self._engine.store.pending(where, after=after, limit=number + 1),
                lambda page: page,
            )
            page = questions[:number]
            return Page(page, page[-1].id if page and len(questions) > number else None)

        page = await read_in_parts(read, after=after, limit=limit)
        self._engine.remember_page(page.items)
        return Page([self._with_url(each) for each in page], page.next)

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
        since: datetime | None = None,
        until: datetime | None = None,
        outcome: Ended | None = None,
        by: str | None = None,
        after: str | None = None,
        limit: int = PAGE,
    ) -> Page[Question]:
        """See `Desk.list_settled`."""
        return await self.list_ended(
            settled_filter(since=since, until=until, outcome=outcome, by=by),
            conversation=conversation,
            recipient=recipient,
            asker=asker,
            after=after,
            limit=limit,
        )

    async def list_ended(
        self,
        ending: SettledFilter,
        *,
        conversation: str | None = None,
        recipient: str | Responder | None = None,
        asker: str | None = None,
        after: str | None = None,
        limit: int = PAGE,
    ) -> Page[Question]:
        """The settled questions that ended like this, as in `list_settled`."""
        check_limit(limit)
        if any(map(text_problem, filter(None, (conversation, asker, *ending.texts)))):
            return Page([], None)
        where = replace(await self._filter(conversation, recipient, asker), ending=ending)
        if after is None:
            await self.run_due()  # an expired question is settled, even if no process has noticed yet

        async def read(after: str | None, number: int) -> Page[Question]:
            page = await self._engine.store.settled(where, after=after, limit=number)
            return Page(page.questions, page.after)

        page = await read_in_parts(read, after=after, limit=limit)
        return Page([self._with_url(each) for each in page], page.next)

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

        async def read(after: str | None, number: int) -> Page[Question]:
            page = await self._engine.store.search(where, query, after=after, limit=number)
            return Page(page.questions, page.after)

        page = await read_in_parts(read, after=after, limit=limit)
        return Page([self._with_url(each) for each in page], page.next)

    async def list_followers(self, question_id: str, *, limit: int = PAGE) -> Sequence[Question]:
        """See `Desk.list_followers`."""
        check_limit(limit)
        found = await self._engine.store.followers((await self.get(question_id)).ref, limit=limit)
        return [self._with_url(each) for each in found[: number_within(found)]]

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
