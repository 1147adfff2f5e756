"""The memory store: questions, grants and events in dictionaries and a list."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from handraise.backends.memory.clock import now_by
from handraise.backends.walking import settled_page
from handraise.model.endings import Ending, ending_of
from handraise.model.errors import KeyConflict
from handraise.model.events import Event, EventKind
from handraise.model.grants import Grant
from handraise.model.json_values import Json
from handraise.model.lifecycle import Granting, Move, expire, next_step, transition
from handraise.model.outcomes import Answered, Outcome, Status
from handraise.model.people import Responder, may_respond, may_see
from handraise.model.questions import Draft, Question, Ref, posted, same_question
from handraise.ports import AGES, LOOKED_THROUGH, Clock, Durability, Filter, Pulse, SettledPage

_ENDINGS = frozenset(EventKind(status.value) for status in Status if status is not Status.PENDING)


class MemoryStore:
    """Questions in dictionaries. No method awaits anything, so each is atomic on the event loop."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock
        self._questions: dict[Ref, Question] = {}
        self._keys: dict[tuple[str, str], Ref] = {}
        self._pending: dict[str, list[str]] = {}
        self._grants: dict[Ref, Grant] = {}
        self._events: list[Event] = []
        self._numbers = 0
        self.tell: Callable[[Event], None] = lambda _: None
        self.removed: Callable[[Ref], None] = lambda _: None
        self.keeps: Callable[[str, timedelta | None], timedelta | None] = lambda _, keep: keep
        self.may_go: Callable[[Ref], bool] = lambda _: True

    async def insert(self, drafts: Sequence[Draft]) -> Sequence[Question | KeyConflict]:
        """Register drafts; see the port."""
        return [self._insert(draft) for draft in drafts]

    async def settle(self, moves: Sequence[Move]) -> Sequence[Question | None]:
        """Make moves; see the port."""
        results: list[Question | None] = []
        for move in moves:
            question = self._questions.get(move.question.ref)
            done = transition(question, move, self._now()) if question and self._holds(move) else None
            if done is None:
                results.append(None)
                continue
            results.append(self._keep(*done, by=move.by, channel=move.channel, data=move.record))
            if move.granting is not None and done[0].status is Status.ANSWERED:
                self._grant(move, move.granting)
        return results

    async def read(self, refs: Sequence[Ref]) -> Sequence[Question | None]:
        """Questions by their places; see the port."""
        return [self._seen(ref) for ref in refs]

    async def outcomes(self, refs: Collection[Ref]) -> dict[Ref, Outcome | None]:
        """The outcomes of what is settled; see the port."""
        found = {ref: self._questions.get(ref) for ref in refs}
        return {
            ref: question.outcome if question else None
            for ref, question in found.items()
            if question is None or question.outcome is not None
        }

    async def find_by_key(self, workspace: str, key: str) -> Question | None:
        """The question with a key; see the port."""
        ref = self._keys.get((workspace, key))
        return self._seen(ref) if ref else None

    async def pending(self, narrow: Filter, *, after: str | None, limit: int) -> Sequence[Question]:
        """A page of pending questions; see the port."""
        ids = self._pending.get(narrow.workspace, [])
        page: list[Question] = []
        for question_id in ids[bisect.bisect_right(ids, after or "") :]:
            question = self._seen(Ref(narrow.workspace, question_id))
            if question and _fits(question, narrow, may_respond):
                page.append(question)
                if len(page) == limit:
                    break
        return page

    async def settled(self, narrow: Filter, *, after: str | None, limit: int) -> SettledPage:
        """A page of settled questions; see the port."""
        looked, more = self._look_back(narrow.workspace, after, LOOKED_THROUGH)
        page: list[tuple[str, Question]] = []
        for event in looked:
            question = self._ended_by(event)
            if question and _fits(question, narrow, may_see):
                page.append((event.cursor, question))
                if len(page) > limit:
                    break
        return settled_page(page, looked[-1].cursor if more else None, limit)

    async def endings(self, workspace: str, *, since: datetime, limit: int) -> Sequence[Ending]:
        """How questions ended; see the port."""
        looked, _ = self._look_back(workspace, None, len(self._events))
        ended = (self._ended_by(event) for event in looked if event.at >= since)
        found = (ending_of(question) for question in ended if question)
        return [ending for ending in found if ending][:limit]

    async def sweep(
        self,
        *,
        limit: int,  # noqa: ARG002 -- there are no locks to keep short
        workspace: str | None = None,
    ) -> Sequence[Ref]:
        """Do due deeds; see the port."""
        settled = []
        for place in list(self._pending) if workspace is None else [workspace]:
            for question_id in list(self._pending.get(place, [])):
                question = self._questions[Ref(place, question_id)]
                while done := next_step(question, self._now()):
                    step = question.steps[question.steps_taken]
                    data = {"to": list(step.to)} if step.do == "escalate" else step.record or None
                    question = self._keep(*done, data=data)
                if question.status is not Status.PENDING:
                    settled.append(question.ref)
        return settled

    async def expire_older(
        self, workspace: str, asker: str, max_age: timedelta, *, limit: int
    ) -> Sequence[Ref]:
        """Expire what is too old; see the port."""
        now = self._now()
        old = [each for each in self._pending_of(workspace, asker) if each.asked_at < now - max_age][:limit]
        return [self._keep(*expire(question, now)).ref for question in old]

    async def count_pending(self, workspace: str, asker: str) -> int:
        """How many are pending; see the port."""
        return len(self._pending_of(workspace, asker))

    async def consume(self, ref: Ref, *, digest: str, by: str, request: str) -> bool:
        """Use up an approval; see the port."""
        question = self._questions.get(ref)
        if question is None or question.asker != by:
            return False
        used = {"digest": digest, "request": request}
        if question.consumed_at is not None:
            return any(
                each.kind == EventKind.CONSUMED and each.data == used for each in await self.history(ref)
            )
        outcome = question.outcome
        if not isinstance(outcome, Answered) or not question.decision or outcome.value["digest"] != digest:
            return False
        self._questions[ref] = replace(question, consumed_at=self._now())
        self._log(ref, EventKind.CONSUMED, by=by, data=used)
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
        kept = {
            Ref(grant.workspace, grant.question_id)
            for grant in self._grants.values()
            if grant.revoked_at is None and grant.expires_at > now
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
        """Take questions out, with their events and grants, for the ledger beside."""
        self._grants = {
            place: grant
            for place, grant in self._grants.items()
            if Ref(grant.workspace, grant.question_id) not in refs
        }
        self._remove(set(refs))

    def _remove(self, gone: set[Ref]) -> None:
        for ref in gone:
            self.removed(ref)
            question = self._questions.pop(ref)
            if question.key:
                del self._keys[ref.workspace, question.key]
            if question.status is Status.PENDING:
                self._pending[ref.workspace].remove(ref.id)
        if gone:
            self._events = [
                each for each in self._events if Ref(each.workspace, each.question_id) not in gone
            ]

    async def find_grant(
        self, workspace: str, *, asker: str, tool: str, digest: str, conversation: str | None
    ) -> Grant | None:
        """The grant that holds; see the port."""
        fitting = (
            grant
            for grant in self._grants.values()
            if (grant.workspace, grant.asker, grant.tool, grant.digest) == (workspace, asker, tool, digest)
            and grant.holds(self._now(), conversation)
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

    async def feed(self, workspace: str, *, after: str | None, limit: int) -> Sequence[Event]:
        """A workspace's events; see the port."""
        start = self._place(_number(after)) if after else 0
        return [event for event in self._events[start:] if event.workspace == workspace][:limit]

    async def feed_end(self, workspace: str) -> str:  # noqa: ARG002 -- cursors count the events of all
        """Where a workspace's events end now; see the port."""
        return str(self._numbers)

    async def pulse(self, workspace: str | None = None) -> Pulse:
        """How much waits; see the port."""
        now = self._now()
        places = self._pending if workspace is None else [workspace]
        pending = [
            self._questions[Ref(place, each)] for place in places for each in self._pending.get(place, ())
        ]
        ages = [(now - question.asked_at).total_seconds() for question in pending]
        return Pulse(pending={most: sum(age <= most for age in ages) for most in AGES}, deliveries={})

    async def durability(self) -> Durability:
        """What an acknowledged write survives; see the port."""
        return Durability(survives="nothing: it ends with the process", settings={})

    @property
    def all_events(self) -> Sequence[Event]:
        """The events of all workspaces, for the ledger beside."""
        return self._events

    @property
    def all_questions(self) -> Mapping[Ref, Question]:
        """The questions of all workspaces, for the ledger beside."""
        return self._questions

    def replace_grants(self, change: Callable[[Grant], Grant]) -> None:
        """Change grants, for the ledger beside."""
        self._grants = {place: change(grant) for place, grant in self._grants.items()}

    def peek(self, ref: Ref) -> Question | None:
        """A question as it stands, for the outbox beside."""
        return self._questions.get(ref)

    def mark_reached(self, ref: Ref) -> None:
        """Somebody has been told of a question after all."""
        question = self._questions.get(ref)
        if question is not None and question.unreached_at is not None:
            self._questions[ref] = replace(question, unreached_at=None)

    def mark_unreached(self, ref: Ref) -> bool:
        """Nobody can be told of a question; False where it has ended or that is known."""
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
        """How many events are there up to this number."""
        return bisect.bisect_right(self._events, number, key=lambda event: int(event.cursor))

    def _ended_by(self, event: Event) -> Question | None:
        """The question that an event ended, or None where it ended none."""
        return (
            self._questions.get(Ref(event.workspace, event.question_id)) if event.kind in _ENDINGS else None
        )

    def _pending_of(self, workspace: str, asker: str) -> list[Question]:
        questions = (self._questions[Ref(workspace, each)] for each in self._pending.get(workspace, []))
        return [question for question in questions if question.asker == asker]

    def _insert(self, draft: Draft) -> Question | KeyConflict:
        known = self._keys.get((draft.workspace, draft.key)) if draft.key else None
        stored = self._seen(known or draft.ref)
        if stored is not None:
            return same_question(draft, stored)
        question = posted(draft, self._now())
        if draft.key:
            self._keys[draft.workspace, draft.key] = draft.ref
        bisect.insort(self._pending.setdefault(draft.workspace, []), draft.id)
        return self._keep(question, EventKind.ASKED, by=draft.asker)

    def _keep(
        self,
        question: Question,
        kind: EventKind,
        *,
        by: str | None = None,
        channel: str | None = None,
        data: Json = None,
    ) -> Question:
        """Store the question as it now stands, with its one event."""
        self._questions[question.ref] = question
        if question.status is not Status.PENDING:
            self._pending[question.workspace].remove(question.id)
        self._log(question.ref, kind, by=by, channel=channel, data=data)
        return question

    def _log(
        self,
        ref: Ref,
        kind: EventKind,
        *,
        by: str | None = None,
        channel: str | None = None,
        data: Json = None,
    ) -> None:
        self._numbers += 1
        event = Event(
            cursor=str(self._numbers),
            workspace=ref.workspace,
            question_id=ref.id,
            kind=kind,
            at=self._now(),
            by=by,
            channel=channel,
            data=data,
        )
        self._events.append(event)
        self.tell(event)

    def _holds(self, move: Move) -> bool:
        if move.kind != "grant":
            return True
        grant = self._grants.get(Ref(move.question.workspace, move.grant_id or ""))
        return grant is not None and grant.holds(self._now(), move.question.conversation)

    def _grant(self, move: Move, granting: Granting) -> None:
        now, question = self._now(), move.question
        ends = now + granting.lasts
        self._grants[Ref(question.workspace, granting.id)] = Grant(
            id=granting.id,
            workspace=question.workspace,
            asker=question.asker,
            tool=granting.tool,
            digest=granting.digest,
            scope=granting.scope,
            conversation=question.conversation,
            granted_by=move.by,
            question_id=question.id,
            created_at=now,
            expires_at=min(ends, granting.until) if granting.until else ends,
        )

    def _seen(self, ref: Ref) -> Question | None:
        question = self._questions.get(ref)
        if question is None or question.status is not Status.PENDING or question.expires_at is None:
            return question
        return replace(question, overdue=question.expires_at <= self._now())

    def _now(self) -> datetime:
        return now_by(self._clock)


def _fits(question: Question, narrow: Filter, concerns: Callable[[Question, Responder], bool]) -> bool:
    return (
        (narrow.conversation is None or question.conversation == narrow.conversation)
        and (narrow.asker is None or question.asker == narrow.asker)
        and (narrow.recipient is None or concerns(question, narrow.recipient))
    )


def _number(cursor: str) -> int:
    """The number of the event at a cursor."""
    if not (cursor.isascii() and cursor.isdecimal()):
        raise ValueError(f"{cursor[:100]!r} is not a cursor of this store")
    return int(cursor)
