"""The memory store: questions, grants and events in dictionaries and a list."""

from __future__ import annotations

import bisect
import itertools
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from handraise.backends.memory.clock import now_by
from handraise.backends.pagination import endings_page, paged, read_cursor, search_page, settled_page
from handraise.model.agreement import newly_asked
from handraise.model.callbacks import Callback
from handraise.model.errors import PolicyChanged, QuotaExceeded, Stopped
from handraise.model.events import SETTLING, Event, EventKind
from handraise.model.forms import Approval, form_to_json
from handraise.model.grants import Grant
from handraise.model.json_values import Json
from handraise.model.lifecycle import (
    OF_ASKERS,
    ORPHAN_RECORD,
    VOTES,
    Move,
    NewGrant,
    already_replaced,
    beat,
    close_orphan,
    end_as,
    expire,
    is_open,
    is_shared,
    next_step,
    same_question,
    shared_record,
    transition,
    withdraw_move,
)
from handraise.model.outcomes import Answered, Outcome, Status
from handraise.model.pending_views import (
    VIEWS,
    Order,
    PendingFilters,
    ViewCounts,
    counted_views,
    fits,
    rank_of,
)
from handraise.model.people import (
    Responder,
    backing,
    may_respond,
    may_see,
    may_take_back,
    still_may_respond,
)
from handraise.model.questions import Draft, Question, Ref, Vote, posted
from handraise.model.receipts import UsableApproval
from handraise.model.replay import says_approved
from handraise.model.reports import report_of
from handraise.model.rulings import Ruling
from handraise.model.seals import SALT
from handraise.model.search_words import SearchQuery, has_words, indexed_words
from handraise.model.settled_rows import settled_row
from handraise.model.standing_answers import StandingAnswer
from handraise.model.statistics import ending_of
from handraise.model.stops import Stop
from handraise.model.urgency import likeness_of, soon_at, urgency_of
from handraise.model.workspace_events import Change, WorkspaceEvent
from handraise.ports import (
    AGES,
    MAX_EVENTS_SCANNED,
    Clock,
    Durability,
    Endings,
    Filter,
    IndexBatch,
    IndexEntry,
    Inserted,
    QueueStats,
    SearchPage,
    SettledPage,
    SettledRows,
    Waiting,
    WaitingPage,
    WorkspaceEventSearch,
)
from handraise.ports.settled_filter import SettledFilter

_ENDINGS = frozenset(EventKind(status.value) for status in Status if status is not Status.PENDING)

_Right = tuple[Responder, bool | None]
"""Who voted or gave a grant, and what the directory said about that."""


class _Ballot(NamedTuple):
    """By what right a vote was given, and how many messages it covers; None if that does not matter."""

    right: _Right
    seen: int | None


class MemoryStore:
    """Questions in dictionaries. No method awaits anything, so each is atomic on the event loop."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock
        self._questions: dict[Ref, Question] = {}
        self._keys: dict[tuple[str, str, str], Ref] = {}
        self._pending: dict[str, list[str]] = {}
        self._grants: dict[Ref, Grant] = {}
        self._joined: dict[Ref, list[str]] = {}
        self._sending: dict[Ref, datetime] = {}
        self._events: list[Event] = []
        self._changes: list[WorkspaceEvent] = []
        self._numbers = 0
        self.tell: Callable[[Event], None] = lambda _: None
        self.removed: Callable[[Ref], None] = lambda _: None
        self.add_callback: Callable[[Question, Callback], None] = lambda _, __: None
        self.keeps: Callable[[str, timedelta | None], timedelta | None] = lambda _, keep: keep
        self.may_go: Callable[[Ref], bool] = lambda _: True
        self.groups_known: Callable[[str, str], frozenset[str] | None] = lambda _, __: None
        self.is_administrator: Callable[[str, str], bool] = lambda _, __: False
        self.is_disabled: Callable[[str, str], bool] = lambda _, __: False
        self.decides: Callable[[str, Ruling | None], bool] = lambda _, __: True
        self.checked: Callable[[Ref, str | None, str], None] = lambda _, __, ___: None
        self.stop_for: Callable[[Draft | Question], Stop | None] = lambda _: None
        self.erase_from_policies: Callable[[str, str], None] = lambda _workspace, _person: None
        self.quota_of: Callable[[Draft, int | None], int | None] = lambda _, default: default
        self.stands: Callable[[Draft], bool] = lambda _: True
        self.spot_checked: Callable[[Question, Move], None] = lambda _, __: None
        self.standing_answers: dict[Ref, StandingAnswer] = {}
        self._voters: dict[Ref, dict[str, _Ballot]] = {}
        self._givers: dict[Ref, _Right] = {}

    async def insert(self, drafts: Sequence[Draft], *, quota: int | None = None) -> Sequence[Inserted]:
        """Register drafts; see the port."""
        return [self._insert(draft, quota) for draft in drafts]

    async def settle(self, moves: Sequence[Move]) -> Sequence[Question | None]:
        """Make moves; see the port."""
        results: list[Question | None] = []
        for move in moves:
            question = self._questions.get(move.question.ref)
            if question is None or not self._holds(question, move):
                results.append(None)
                continue
            if move.approves and self.stop_for(question):
                results.append(None)
                continue
            if move.kind not in OF_ASKERS and self.is_disabled(question.workspace, move.by):
                results.append(None)
                continue
            done = transition(
                question,
                move,
                self._now(),
                counts=partial(self._counts, question),
                groups_of=partial(self._groups_of, move),
            )
            if done is None:
                results.append(None)
                continue
            data = move.record
            if done[0].votes:
                voters = self._voters.setdefault(question.ref, {})
                if move.kind in VOTES:
                    voters[move.by] = _Ballot(self._right(question, move.responder), move.seen)
                uncounted = sorted(voters.keys() - {vote.by for vote in done[0].votes})
                if done[1] is EventKind.VOTED and uncounted:
                    data = {**data, "uncounted": uncounted}
                if done[1] is EventKind.VOTED and (asked := newly_asked(done[0], question.stage)):
                    data = {**data, "to": list(asked)}
            results.append(self._keep(*done, by=move.by, channel=move.channel, data=data))
            if move.new_grant is not None and done[0].status is Status.ANSWERED:
                self._grant(move, move.new_grant)
            if move.negative and done[0].status is not Status.PENDING and question.ruling is not None:
                self.checked(question.ref, question.ruling.checked, move.by)
            if done[0].status is not Status.PENDING:
                self.spot_checked(done[0], move)
        return results

    async def read(self, refs: Sequence[Ref]) -> Sequence[Question | None]:
        """Questions by their places; see the port."""
        return [self._seen(ref) for ref in refs]

    async def followers(self, ref: Ref, *, limit: int) -> Sequence[Question]:
        """Questions that follow one; see the port."""
        found = (self._seen(each.ref) for each in self._following(ref)[:limit])
        return [each for each in found if each is not None]

    async def outcomes(self, refs: Collection[Ref]) -> dict[Ref, Outcome | None]:
        """The outcomes of what is settled; see the port."""
        found = {ref: self._questions.get(ref) for ref in refs}
        return {
            ref: question.outcome if question else None
            for ref, question in found.items()
            if question is None or question.outcome is not None
        }

    async def find_by_key(self, workspace: str, owner: str, key: str) -> Question | None:
        """The question with a key; see the port."""
        ref = self._keys.get((workspace, owner, key))
        return self._seen(ref) if ref else None

    async def join(self, ref: Ref, *, by: str, key: str) -> bool:
        """Have another key stand for a question; see the port."""
        question, place = self._questions.get(ref), (ref.workspace, by, key)
        if question is None or question.asker != by or question.outcome or place in self._keys:
            return False
        self._keys[place] = ref
        self._joined.setdefault(ref, []).append(key)
        self._log(ref, EventKind.JOINED, by=by, data={"key": key})
        return True

    async def pending(self, where: Filter, *, after: str | None, limit: int) -> Sequence[Question]:
        """A page of pending questions; see the port."""
        ids = self._pending.get(where.workspace, [])
        page: list[Question] = []
        for question_id in ids[bisect.bisect_right(ids, after or "") :]:
            question = self._seen(Ref(where.workspace, question_id))
            if question and self._is_in_inbox(question, where):
                page.append(question)
                if len(page) == limit:
                    break
        return page

    async def by_urgency(
        self, where: Filter, *, after: str | None, limit: int, order: Order = "urgency"
    ) -> WaitingPage:
        """Places of pending questions, most urgent first; see the port."""
        cursor = read_cursor(after)
        soon = soon_at(self._now()) if cursor is None else cursor.soon
        if where.filters.view == "snoozed":
            where = replace(where, aside=True)
        found = [
            Waiting(
                urgency_of(each),
                each.id,
                likeness_of(each, form_to_json(each.form)),
                each.asker,
                each.conversation,
            )
            for each in self._in_view(where)
        ]
        if order == "newest":
            found = [each for each in reversed(found) if cursor is None or each.id < cursor.id]
        else:
            begin = (-1, "") if cursor is None else (cursor.rank, cursor.id)
            placed = sorted(((rank_of(each.urgency, order, soon), each.id), each) for each in found)
            found = [each for place, each in placed if place > begin]
        return paged(found, limit, order, soon)

    async def count_views(self, workspace: str, recipient: Responder) -> ViewCounts:
        """How many questions are in each view; see the port."""
        numbers = {"waiting": len(self._in_view(Filter(workspace=workspace, recipient=recipient)))}
        for name in VIEWS:
            where = Filter(
                workspace=workspace,
                recipient=recipient,
                aside=name == "snoozed",
                filters=PendingFilters(view=name),
            )
            numbers[name] = len(self._in_view(where))
        return counted_views(numbers, more=False)

    def _in_view(self, where: Filter) -> list[Question]:
        """The pending questions that a list has."""
        person, now = None if where.recipient is None else where.recipient.id, self._now()
        found = (self._seen(Ref(where.workspace, each)) for each in self._pending.get(where.workspace, []))
        return [
            each
            for each in found
            if each and self._is_in_inbox(each, where) and fits(each, where.filters, person, now)
        ]

    async def settled(self, where: Filter, *, after: str | None, limit: int) -> SettledPage:
        """A page of settled questions; see the port."""
        looked, more = self._look_back(where.workspace, after, MAX_EVENTS_SCANNED)
        page: list[tuple[str, Question]] = []
        for event in looked:
            question = self._ended_by(event)
            if question and _fits(question, where, may_see) and where.ending.fits(question):
                page.append((event.cursor, question))
                if len(page) > limit:
                    break
        return settled_page(page, looked[-1].cursor if more else None, limit)

    async def settled_rows(
        self,
        workspace: str,
        *,
        since: datetime | None,
        until: datetime | None,
        after: str | None,
        limit: int,
    ) -> SettledRows:
        """Settled questions for an export; see the port."""
        ending = SettledFilter(since=since, until=until)
        start = 0 if after is None else self._place(_number(after))
        ahead = (event for event in self._events[start:] if event.workspace == workspace)
        walked = list(itertools.islice(ahead, limit))
        ended = (
            question for event in walked if (question := self._ended_by(event)) and ending.fits(question)
        )
        rows = [row for question in ended if (row := settled_row(question))]
        return SettledRows(rows, walked[-1].cursor if len(walked) == limit else None)

    async def search(self, where: Filter, query: SearchQuery, *, after: str | None, limit: int) -> SearchPage:
        """Questions with these words; see the port."""
        ids = sorted((ref.id for ref in self._questions if ref.workspace == where.workspace), reverse=True)
        found: list[Question] = []
        for question_id in ids:
            question = self._questions[Ref(where.workspace, question_id)]
            if (after is not None and question_id >= after) or not _fits(question, where, may_see):
                continue
            if has_words(indexed_words(question), query):
                found.append(question)
                if len(found) > limit:
                    break
        return search_page(found, None, limit)

    async def unindexed(self, *, limit: int) -> Sequence[str]:  # noqa: ARG002 -- there is no index
        """There is no index: a search reads all questions."""
        return []

    async def next_to_index(self, workspace: str, *, limit: int) -> IndexBatch:  # noqa: ARG002 -- there is no index
        """There is no index: a search reads all questions."""
        return IndexBatch((), None, None)

    async def put_in_index(
        self,
        workspace: str,  # noqa: ARG002 -- there is no index
        entries: Sequence[IndexEntry],  # noqa: ARG002 -- there is no index
        *,
        after: str | None,  # noqa: ARG002 -- there is no index
        cursor: str | None,  # noqa: ARG002 -- there is no index
    ) -> bool:
        """There is no index."""
        return True

    async def endings(self, workspace: str, *, since: datetime, limit: int) -> Endings:
        """How questions ended; see the port."""
        looked, _ = self._look_back(workspace, None, len(self._events))
        ended = (self._ended_by(event) for event in looked if event.at >= since)
        found = (ending_of(question) for question in ended if question)
        return endings_page([ending for ending in found if ending], since=since, limit=limit)

    async def run_due(
        self,
        *,
        limit: int,  # noqa: ARG002 -- there are no locks to keep short
        workspace: str | None = None,
    ) -> Sequence[Ref]:
        """Do what is due; see the port."""
        settled = []
        for place in list(self._pending) if workspace is None else [workspace]:
            for question_id in list(self._pending.get(place, [])):
                question = self._questions[Ref(place, question_id)]
                while done := next_step(question, self._now()):
                    step = question.next_step if done[0].outcome is None else question.steps[-1]
                    data = {"to": list(step.to)} if step.do == "escalate" else step.record or None
                    question = self._keep(*done, data=data)
                if closed := close_orphan(question, self._now()):
                    record = dict(ORPHAN_RECORD)
                    question = self._keep(*closed, by=record["by"], data=record)
                if question.status is not Status.PENDING:
                    settled.append(question.ref)
        return settled

    async def beat(self, refs: Sequence[Ref], *, by: str) -> Mapping[Ref, float]:
        """Store that an asker still waits; see the port."""
        found: dict[Ref, float] = {}
        for ref in refs:
            question = self._questions.get(ref)
            heard = None if question is None else beat(question, by, self._now())
            if heard is not None and heard.heartbeat is not None:
                self._questions[ref] = heard
                found[ref] = heard.heartbeat
        return found

    async def expire_older(
        self, workspace: str, asker: str, max_age: timedelta, *, limit: int
    ) -> Sequence[Ref]:
        """Expire what is too old; see the port."""
        now = self._now()
        old = [each for each in self._pending_of(workspace, asker) if each.asked_at < now - max_age][:limit]
        # Each is read again: it may lead its topic since the one before it expired.
        return [self._keep(*expire(self._questions[each.ref], now)).ref for each in old]

    async def count_pending(self, workspace: str, asker: str) -> int:
        """How many are pending; see the port."""
        return len(self._pending_of(workspace, asker))

    async def covering_stop(self, question: Question) -> Stop | None:
        """The stop that covers a question; see the port."""
        return self.stop_for(question)

    async def consume(
        self, ref: Ref, *, digest: str, by: str, request: str, decided_by: Ruling | None = None
    ) -> bool:
        """Use up an approval; see the port."""
        question = self._questions.get(ref)
        if question is None or question.asker != by or self.stop_for(question):
            return False
        used = {"digest": digest, "request": request}
        if question.consumed_at is not None:
            return any(
                each.kind == EventKind.CONSUMED and each.data == used for each in await self.history(ref)
            )
        if not await self._is_usable(question, digest, decided_by):
            return False
        self._questions[ref] = replace(question, consumed_at=self._now())
        self._log(ref, EventKind.CONSUMED, by=by, data=used)
        return True

    async def find_usable(
        self, ref: Ref, *, digest: str, by: str, decided_by: Ruling | None = None
    ) -> UsableApproval | None:
        """An approval that could be used up; see the port."""
        question = self._questions.get(ref)
        if question is None or question.asker != by or self.stop_for(question) or question.consumed_at:
            return None
        if not await self._is_usable(question, digest, decided_by):
            return None
        return UsableApproval(self._now(), min(self._ends(question), default=None))

    async def _is_usable(self, question: Question, digest: str, decided_by: Ruling | None) -> bool:
        """Whether nothing but an earlier use or a stop keeps an approval from being used."""
        outcome = question.outcome
        if not isinstance(outcome, Answered) or not question.decision or outcome.value["digest"] != digest:
            return False
        if question.taken_back_at is not None or not self._is_good(question, outcome):
            return False
        if outcome.source == "policy" and not (decided_by and self.decides(question.workspace, decided_by)):
            return False
        return says_approved(await self.history(question.ref), digest)

    async def claim_sending(self, ref: Ref, *, by: str, lease: timedelta) -> bool:
        """Claim the task of showing a question; see the port."""
        question, now = self._to_be_sent(ref, by), self._now()
        if question is None or self._sending.get(ref, now) > now:
            return False
        self._sending[ref] = now + lease
        return True

    async def mark_sent(self, ref: Ref, *, by: str, channel: str | None) -> bool:
        """Record that a question was shown; see the port."""
        question = self._to_be_sent(ref, by)
        if question is None:
            return False
        self._sending.pop(ref, None)
        self._keep(replace(question, sent_at=self._now()), EventKind.SENT, by=by, channel=channel)
        return True

    async def take_back(self, ref: Ref, *, by: str, reason: str | None) -> bool:
        """Take back an approval; see the port."""
        question = self._questions.get(ref)
        if question is None or not question.decision or question.consumed_at or question.taken_back_at:
            return False
        if not may_take_back(question, by, administrator=self.is_administrator(ref.workspace, by)):
            return False
        self._questions[ref] = replace(question, taken_back_at=self._now())
        self._log(ref, EventKind.TAKEN_BACK, by=by, data=None if reason is None else {"reason": reason})
        return True

    async def report(self, ref: Ref, *, by: str, record: dict[str, Json]) -> bool:
        """Record what came of an answer; see the port."""
        question, now = self._questions.get(ref), self._now()
        if question is None or question.asker != by or question.status is not Status.ANSWERED:
            return False
        if question.report is not None or (isinstance(question.form, Approval) and not question.consumed_at):
            return False
        self._questions[ref] = replace(question, report=report_of(now, record))
        self._log(ref, EventKind.REPORTED, by=by, data=record)
        return True

    async def tidy(
        self,
        *,
        rest: timedelta,  # noqa: ARG002 -- there is no other place
        keep: timedelta | None,
        limit: int,
    ) -> int:
        """Remove what is settled; see the port."""
        now = self._now()
        remembered: list[Grant | StandingAnswer] = [*self._grants.values(), *self.standing_answers.values()]
        kept = {
            Ref(each.workspace, each.question_id)
            for each in remembered
            if each.revoked_at is None and each.expires_at > now
        }
        old = (
            ref
            for ref, each in self._questions.items()
            if each.outcome
            and (keeps := self.keeps(ref.workspace, keep)) is not None
            and each.outcome.at < now - keeps
        )
        gone = set(itertools.islice((ref for ref in old if ref not in kept and self.may_go(ref)), limit))
        self._remove(gone)
        return len(gone)

    def erase(self, refs: Collection[Ref]) -> None:
        """Remove questions with their events, grants and standing answers, for the ledger."""
        self.standing_answers = {
            place: standing
            for place, standing in self.standing_answers.items()
            if Ref(standing.workspace, standing.question_id) not in refs
        }
        self._grants = {
            place: grant
            for place, grant in self._grants.items()
            if Ref(grant.workspace, grant.question_id) not in refs
        }
        self._remove(set(refs))
        for ref in sorted(refs):
            self._open_next(ref, self._now())

    def _remove(self, gone: set[Ref]) -> None:
        for ref in gone:
            self.removed(ref)
            self._sending.pop(ref, None)
            question = self._questions.pop(ref)
            self._voters.pop(ref, None)
            if question.key:
                del self._keys[ref.workspace, question.key_owner, question.key]
            for key in self._joined.pop(ref, ()):
                del self._keys[ref.workspace, question.asker, key]
            if question.status is Status.PENDING:
                self._pending[ref.workspace].remove(ref.id)
        if gone:
            self._events = [
                each for each in self._events if Ref(each.workspace, each.question_id) not in gone
            ]

    async def find_grant(self, question: Question) -> Grant | None:
        """The grant that holds; see the port."""
        form = question.form
        if not isinstance(form, Approval):
            return None
        about = (question.asker, form.action.tool, form.grant_digest(form.action, question.recipients))
        fitting = (
            grant
            for grant in self._grants.values()
            if (grant.asker, grant.tool, grant.digest) == about
            and grant.scope in form.scopes
            and self._answers(grant, question)
        )
        return max(fitting, key=lambda grant: grant.expires_at, default=None)

    async def grants(self, workspace: str, *, after: str | None, limit: int) -> Sequence[Grant]:
        """All grants; see the port."""
        ids = sorted(ref.id for ref in self._grants if ref.workspace == workspace and ref.id > (after or ""))
        return [self._grants[Ref(workspace, each)] for each in ids[:limit]]

    async def revoke(self, workspace: str, grant_id: str, *, by: str) -> Grant | None:
        """End a grant; see the port."""
        grant = self._grants.get(Ref(workspace, grant_id))
        if grant is None or grant.revoked_at is not None:
            return grant
        ended = replace(grant, revoked_at=self._now(), revoked_by=by)
        self._grants[Ref(workspace, grant_id)] = ended
        question_ref = Ref(workspace, grant.question_id)
        self._log(question_ref, EventKind.REVOKED, by=by, data={"grant": grant_id})
        return ended

    async def history(self, ref: Ref) -> Sequence[Event]:
        """One question's events; see the port."""
        return [event for event in self._events if Ref(event.workspace, event.question_id) == ref]

    async def histories(
        self, workspace: str, question_ids: Collection[str], *, kinds: Collection[EventKind], limit: int
    ) -> Sequence[Event]:
        """Several questions' events; see the port."""
        found = [
            event
            for event in self._events
            if event.workspace == workspace and event.question_id in question_ids and event.kind in kinds
        ]
        return found[-limit:]

    async def feed(self, workspace: str, *, after: str | None, limit: int) -> Sequence[Event]:
        """A workspace's events; see the port."""
        start = self._place(_number(after)) if after else 0
        return [event for event in self._events[start:] if event.workspace == workspace][:limit]

    async def trail(
        self, workspace: str, *, after: str | None, limit: int
    ) -> Sequence[Event | WorkspaceEvent]:
        """All events that are to be sealed; see the port."""
        start = _number(after) if after else 0
        return [each for each in self.trail_of(workspace) if int(each.cursor) > start][:limit]

    async def workspace_events(
        self, workspace: str, *, after: str | None, limit: int
    ) -> Sequence[WorkspaceEvent]:
        """Events that are not about a question; see the port."""
        start = _number(after) if after else 0
        found = (each for each in self._changes if each.workspace == workspace)
        return [each for each in found if int(each.cursor) > start][:limit]

    async def search_workspace_events(
        self, workspace: str, search: WorkspaceEventSearch, *, before: str | None, limit: int
    ) -> Sequence[WorkspaceEvent]:
        """The newest events that are searched for; see the port."""
        end = _number(before) if before else self._numbers + 1
        found = [
            each
            for each in reversed(self._changes)
            if each.workspace == workspace
            and int(each.cursor) < end
            and (search.person is None or each.concerns(search.person))
            and search.kind in (None, each.kind.value)
            and (search.since is None or each.at >= search.since)
            and (search.until is None or each.at < search.until)
        ]
        return found[:limit]

    async def feed_end(self, workspace: str) -> str:  # noqa: ARG002 -- cursors count the events of all
        """Where a workspace's events end now; see the port."""
        return str(self._numbers)

    async def settled_since(
        self, workspace: str, mark: str | None, *, limit: int
    ) -> tuple[Sequence[str], str | None]:
        """What was settled lately; see the port."""
        now = str(self._numbers)
        if mark is None:
            return [], now
        ids = [
            event.question_id
            for event in self._events[self._place(_number(mark)) :]
            if event.workspace == workspace and event.kind in SETTLING
        ]
        return ids[:limit], now if len(ids) <= limit else None

    async def queue_stats(self, workspace: str | None = None, *, quota: int | None = None) -> QueueStats:
        """How many questions wait; see the port. Deliveries are not known here."""
        now = self._now()
        places = self._pending if workspace is None else [workspace]
        pending = [
            self._questions[Ref(place, each)] for place in places for each in self._pending.get(place, ())
        ]
        ages = [(now - question.asked_at).total_seconds() for question in pending]
        askers = Counter((question.workspace, question.asker) for question in pending)
        return QueueStats(
            pending={most: sum(age <= most for age in ages) for most in AGES},
            deliveries={},
            askers_at_quota=0
            if quota is None or workspace is not None
            else sum(number >= quota for number in askers.values()),
        )

    async def durability(self) -> Durability:
        """What an acknowledged write survives; see the port."""
        return Durability(survives="nothing: it ends with the process", settings={})

    @property
    def all_events(self) -> Sequence[Event]:
        """The events of all workspaces, for the ledger."""
        return self._events

    @property
    def all_changes(self) -> Sequence[WorkspaceEvent]:
        """The events of all workspaces that are not about a question, for the ledger."""
        return self._changes

    def trail_of(self, workspace: str) -> list[Event | WorkspaceEvent]:
        """All events of a workspace in their order, for the ledger."""
        both: list[Event | WorkspaceEvent] = [*self._events, *self._changes]
        return sorted(
            (each for each in both if each.workspace == workspace), key=lambda each: int(each.cursor)
        )

    def note(self, workspace: str, change: Change | None) -> None:
        """Store an event of a workspace, for the directory and the outbox; do nothing if it is None."""
        if change is not None:
            self._numbers += 1
            self._changes.append(
                WorkspaceEvent(
                    cursor=str(self._numbers),
                    workspace=workspace,
                    kind=change.kind,
                    at=self._now(),
                    by=change.by,
                    data=change.stored(os.urandom(SALT)),
                )
            )

    def drop_changes(self, gone: Collection[WorkspaceEvent]) -> None:
        """Remove events of workspaces, for the ledger."""
        cursors = {each.cursor for each in gone}
        self._changes = [each for each in self._changes if each.cursor not in cursors]

    @property
    def all_questions(self) -> Mapping[Ref, Question]:
        """The questions of all workspaces, for the ledger."""
        return self._questions

    def replace_grants(self, change: Callable[[Grant], Grant]) -> None:
        """Change grants, for the ledger."""
        self._grants = {place: change(grant) for place, grant in self._grants.items()}

    def give_right(self, place: Ref, question: Question, responder: Responder) -> None:
        """Remember by what right a person answered, for a standing answer with this place."""
        self._givers[place] = self._right(question, responder)

    def still_may(self, question: Question, place: Ref) -> bool:
        """Whether the giver of this standing answer may answer a question now."""
        return self._still_may(question, self._givers[place])

    def log(self, ref: Ref, kind: EventKind, *, by: str, data: dict[str, Json]) -> None:
        """One line of a question's history, for standing answers."""
        self._log(ref, kind, by=by, data=data)

    def peek(self, ref: Ref) -> Question | None:
        """A question in its present state, for the outbox."""
        return self._questions.get(ref)

    def mark_reached(self, ref: Ref) -> None:
        """Record that somebody has been told about a question after all."""
        question = self._questions.get(ref)
        if question is not None and question.unreached_at is not None:
            self._questions[ref] = replace(question, unreached_at=None)

    def mark_unreached(self, ref: Ref) -> bool:
        """Record that nobody can be told about a question; False if it has ended or this is already recorded."""
        question = self._questions.get(ref)
        if question is None or question.status is not Status.PENDING or question.unreached_at is not None:
            return False
        self._keep(replace(question, unreached_at=self._now()), EventKind.UNREACHED)
        return True

    def _look_back(self, workspace: str, after: str | None, count: int) -> tuple[list[Event], bool]:
        """The last events of a workspace before a cursor, newest first, and whether there may be more."""
        end = len(self._events) if after is None else self._place(_number(after) - 1)
        back = (event for event in reversed(self._events[:end]) if event.workspace == workspace)
        looked = list(itertools.islice(back, count))
        return looked, len(looked) == count

    def _place(self, number: int) -> int:
        """How many events there are up to this number."""
        return bisect.bisect_right(self._events, number, key=lambda event: int(event.cursor))

    def _ended_by(self, event: Event) -> Question | None:
        """The question that an event ended, or None if it ended none."""
        return (
            self._questions.get(Ref(event.workspace, event.question_id)) if event.kind in _ENDINGS else None
        )

    def _is_in_inbox(self, question: Question, where: Filter) -> bool:
        """Whether a question is on a page of pending ones: a person's inbox leaves out what they set aside."""
        if not _fits(question, where, may_respond):
            return False
        if where.recipient is not None and question.follows is not None:
            return False
        if where.recipient is None:
            return True
        if where.by_name and not question.audience:
            return False
        return question.is_aside(where.recipient.id, self._now()) == where.aside

    def count_waiting_checks(self, workspace: str, rule: str) -> int:
        """How many pending questions are spot checks of this rule."""
        questions = (self._questions[Ref(workspace, each)] for each in self._pending.get(workspace, []))
        return sum(each.ruling is not None and each.ruling.checked == rule for each in questions)

    def _pending_of(self, workspace: str, asker: str) -> list[Question]:
        questions = (self._questions[Ref(workspace, each)] for each in self._pending.get(workspace, []))
        return [question for question in questions if question.asker == asker]

    def _to_be_sent(self, ref: Ref, by: str) -> Question | None:
        """A question that its asker may still show in a chat."""
        question = self._questions.get(ref)
        if question is None or question.asker != by or question.sent_at is not None:
            return None
        return question if is_open(question, self._now()) else None

    def _insert(self, draft: Draft, quota: int | None) -> Inserted:
        known = self._keys.get((draft.workspace, draft.key_owner, draft.key)) if draft.key else None
        stored = self._seen(known or draft.ref)
        if stored is not None:
            return same_question(draft, stored)
        old = self._questions.get(Ref(draft.workspace, draft.replaces or ""))
        if refused := already_replaced(draft, old):
            return refused
        if stop := self.stop_for(draft):
            return Stopped(stop)
        if not self.decides(draft.workspace, draft.ruling) or not self.stands(draft):
            return PolicyChanged(draft.workspace)
        question = posted(draft, self._now(), follows=self._followed(draft))
        is_pending = question.status is Status.PENDING
        quota = self.quota_of(draft, quota)
        if is_pending and quota is not None and len(self._pending_of(draft.workspace, draft.asker)) >= quota:
            return QuotaExceeded(draft.asker, draft.workspace, quota)
        if draft.key:
            self._keys[draft.workspace, draft.key_owner, draft.key] = draft.ref
        bisect.insort(self._pending.setdefault(draft.workspace, []), draft.id)
        if draft.callback is not None:
            self.add_callback(question, draft.callback)
        asked = replace(question, status=Status.PENDING, outcome=None)
        self._keep(
            asked, EventKind.ASKED, by=draft.asker, data={"to": list(draft.added)} if draft.added else None
        )
        self._replace(draft)
        if is_pending or draft.ruling is None or draft.ruling.ending is None:
            return asked
        record = draft.ruling.ending.record
        return self._keep(question, EventKind(question.status.value), by=record.get("by"), data=record)

    def _replace(self, draft: Draft) -> None:
        """Withdraw the question that a new one replaces, if it is open; and keep which one that is."""
        old = self._questions.get(Ref(draft.workspace, draft.replaces or ""))
        if old is None or old.asker != draft.asker or old.replaced_by is not None:
            return
        move = withdraw_move(old, draft.asker, replaced_by=draft.id)
        if done := transition(old, move, self._now()):
            self._keep(replace(done[0], replaced_by=draft.id), done[1], by=draft.asker, data=move.record)
            return
        self._questions[old.ref] = replace(old, replaced_by=draft.id)
        self._log(old.ref, EventKind.REPLACED, by=draft.asker, data={"replaced_by": draft.id})

    def _keep(
        self,
        question: Question,
        kind: EventKind,
        *,
        by: str | None = None,
        channel: str | None = None,
        data: Json = None,
    ) -> Question:
        """Store the question in its new state, with its one event."""
        self._questions[question.ref] = question
        if question.status is not Status.PENDING:
            self._pending[question.workspace].remove(question.id)
        at = question.outcome.at if question.outcome else None
        self._log(question.ref, kind, by=by, channel=channel, data=data, at=at)
        if question.outcome and question.topic_key and not question.follows:
            self._end_followers(question, question.outcome, data)
        return question

    def _followed(self, draft: Draft) -> str | None:
        """The pending question with the same topic that a new one follows, if any."""
        if draft.topic_key is None or (draft.ruling is not None and draft.ruling.ending is not None):
            return None
        pending = (
            self._questions[Ref(draft.workspace, each)] for each in self._pending.get(draft.workspace, ())
        )
        found = (each for each in pending if each.follows is None and each.topic_key == draft.topic_key)
        return next((each.id for each in found), None)

    def _following(self, ref: Ref) -> list[Question]:
        pending = (self._questions[Ref(ref.workspace, each)] for each in self._pending.get(ref.workspace, ()))
        return [each for each in pending if each.follows == ref.id]

    def _end_followers(self, ended: Question, outcome: Outcome, data: Json) -> None:
        """End the questions that follow one that has ended, if a person has decided; else ask the oldest of them."""
        if is_shared(outcome):
            record = shared_record(ended, data)
            for each in self._following(ended.ref):
                if done := end_as(each, ended, record):
                    self._keep(*done, by=record.get("by"), channel=record.get("channel"), data=record)
        self._open_next(ended.ref, outcome.at)

    def _open_next(self, ended: Ref, at: datetime) -> None:
        """Ask the oldest of the questions that follow one that is over; the others follow that one."""
        following = self._following(ended)
        for each in following:
            followed = None if each is following[0] else following[0].id
            self._questions[each.ref] = replace(each, follows=followed)
        if following:
            self._log(following[0].ref, EventKind.OPENED, at=at)

    def _log(
        self,
        ref: Ref,
        kind: EventKind,
        *,
        by: str | None = None,
        channel: str | None = None,
        data: Json = None,
        at: datetime | None = None,
    ) -> None:
        self._numbers += 1
        event = Event(
            cursor=str(self._numbers),
            workspace=ref.workspace,
            question_id=ref.id,
            kind=kind,
            at=at or self._now(),
            by=by,
            channel=channel,
            data=data,
        )
        self._events.append(event)
        self.tell(event)

    def _holds(self, question: Question, move: Move) -> bool:
        if move.kind != "grant":
            return True
        grant = self._grants.get(Ref(question.workspace, move.grant_id or ""))
        return grant is not None and self._answers(grant, question)

    def _is_good(self, question: Question, outcome: Answered) -> bool:
        """Whether an approval is still valid, and also the grant that it came from, if any."""
        form = question.form
        good_for = form.valid_for if isinstance(form, Approval) else None
        if good_for is not None and outcome.at + timedelta(seconds=good_for) <= self._now():
            return False
        if outcome.source != "grant":
            return True
        grant = self._grant_of(question)
        return grant is not None and self._answers(grant, question)

    def _ends(self, question: Question) -> Iterator[datetime]:
        """When an approval and the grant that it came from end by themselves."""
        form, outcome = question.form, question.outcome
        if isinstance(form, Approval) and isinstance(outcome, Answered):
            if form.valid_for is not None:
                yield outcome.at + timedelta(seconds=form.valid_for)
            if outcome.source == "grant" and (grant := self._grant_of(question)) is not None:
                yield grant.expires_at

    def _grant_of(self, question: Question) -> Grant | None:
        (event,) = [each for each in self._events if self._is_answer(each, question.ref)]
        return self._grants.get(Ref(question.workspace, event.data["grant"]))

    def _is_answer(self, event: Event, ref: Ref) -> bool:
        return event.kind is EventKind.ANSWERED and Ref(event.workspace, event.question_id) == ref

    def _answers(self, grant: Grant, question: Question) -> bool:
        """Whether a grant is valid in a question's workspace and conversation, and its giver may answer it."""
        if grant.workspace != question.workspace or not grant.holds(self._now(), question.conversation):
            return False
        return self._still_may(question, self._givers[Ref(grant.workspace, grant.id)])

    def _counts(self, question: Question, vote: Vote) -> bool:
        """Whether the vote of somebody else still counts. An approval from before the asker's last reply does not."""
        given = self._voters[question.ref][vote.by]
        if given.seen is not None and given.seen < question.replied:
            return False
        return self._still_may(question, given.right)

    def _groups_of(self, move: Move, person: str) -> Collection[str]:
        """The groups of a voter: those in the directory, or if it does not know them, those that were vouched for."""
        ref = move.question.ref
        known = self.groups_known(ref.workspace, person)
        given = move.responder if person == move.by else self._voters[ref][person].right[0]
        return given.groups if known is None else known

    def _right(self, question: Question, responder: Responder) -> _Right:
        return responder, backing(question, responder.id, self.groups_known(question.workspace, responder.id))

    def _still_may(self, question: Question, right: _Right) -> bool:
        given, backed = right
        if self.is_disabled(question.workspace, given.id):
            return False
        return still_may_respond(
            question, given, backed=backed, known=self.groups_known(question.workspace, given.id)
        )

    def _grant(self, move: Move, new_grant: NewGrant) -> None:
        now, question = self._now(), move.question
        ends = now + new_grant.lasts
        self._givers[Ref(question.workspace, new_grant.id)] = self._right(question, move.responder)
        self._grants[Ref(question.workspace, new_grant.id)] = Grant(
            id=new_grant.id,
            workspace=question.workspace,
            asker=question.asker,
            tool=new_grant.tool,
            digest=new_grant.digest,
            scope=new_grant.scope,
            conversation=question.conversation,
            granted_by=move.by,
            question_id=question.id,
            created_at=now,
            expires_at=min(ends, new_grant.until) if new_grant.until else ends,
        )

    def _seen(self, ref: Ref) -> Question | None:
        question = self._questions.get(ref)
        if question is None or question.due_at is None:
            return question
        return replace(question, overdue=question.due_at <= self._now())

    def _now(self) -> datetime:
        return now_by(self._clock)


def _fits(question: Question, where: Filter, concerns: Callable[[Question, Responder], bool]) -> bool:
    return (
        (where.conversation is None or question.conversation == where.conversation)
        and (where.asker is None or question.asker == where.asker)
        and (where.recipient is None or concerns(question, where.recipient))
    )


def _number(cursor: str) -> int:
    """The number of the event at a cursor."""
    if not (cursor.isascii() and cursor.isdecimal()):
        raise ValueError(f"{cursor[:100]!r} is not a cursor of this store")
    return int(cursor)
