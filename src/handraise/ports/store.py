"""The store of a desk, and the small values that it takes and returns. The docstrings are the contract."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, TypeAlias

from handraise.model.approval_uses import Use, UseRefused
from handraise.model.errors import KeyConflict, PolicyChanged, QuotaExceeded, Stopped
from handraise.model.events import Event, EventKind
from handraise.model.grants import Grant
from handraise.model.json_values import Json
from handraise.model.lifecycle import Move
from handraise.model.move_decisions import Refused
from handraise.model.outcomes import Outcome
from handraise.model.pending_views import NO_FILTERS, Order, PendingFilters, ViewCounts
from handraise.model.people import Responder
from handraise.model.problems import InvalidQuestion
from handraise.model.questions import Draft, Question, Ref
from handraise.model.receipts import UsableApproval
from handraise.model.search_words import SearchQuery
from handraise.model.settled_rows import SettledRow
from handraise.model.statistics import Ending
from handraise.model.stops import Stop
from handraise.model.workspace_events import WorkspaceEvent
from handraise.ports.settled_filter import ANY_END, SettledFilter


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which questions a page has. None does not filter.

    With a `recipient`, a page of pending questions has what is in this person's inbox, or with `aside`, what they set aside;
    with `by_name`, only what names them or one of their groups, and not what anybody may answer.
    """

    workspace: str
    conversation: str | None = None
    recipient: Responder | None = None
    asker: str | None = None
    aside: bool = False
    by_name: bool = False
    filters: PendingFilters = NO_FILTERS
    """For pages of pending questions."""
    ending: SettledFilter = ANY_END
    """For pages of settled questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceEventSearch:
    """Which events of a workspace are searched for. None does not filter.

    `person` did it, or it concerns them. `until` is the first instant that is not searched any more.
    """

    person: str | None = None
    kind: str | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """The rank of a pending question, and a number that equal questions of its asker share."""

    urgency: int
    id: str
    likeness: int | None
    asker: str
    conversation: str | None


@dataclass(frozen=True, slots=True)
class WaitingPage:
    """Some pending questions by urgency, and the cursor of the next page; None if this is the last page."""

    places: Sequence[Waiting]
    after: str | None


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """The words by which a search finds a question, and its tags; see `handraise.model.search_words`."""

    id: str
    words: Sequence[str]
    tags: Sequence[str]


@dataclass(frozen=True, slots=True)
class IndexBatch:
    """Questions to be indexed, with the cursor up to which a workspace is indexed before and after that; None is nothing."""

    question_ids: Sequence[str]
    after: str | None
    cursor: str | None


@dataclass(frozen=True, slots=True)
class SearchPage:
    """Some questions that a search found, and the cursor of the next page; None if this is the last page."""

    questions: Sequence[Question]
    after: str | None


@dataclass(frozen=True, slots=True)
class SettledPage:
    """Some settled questions, and the cursor of the next page; None if this is the last page."""

    questions: Sequence[Question]
    after: str | None


@dataclass(frozen=True, slots=True)
class SettledRows:
    """Some settled questions for an export, oldest first, and the cursor of the next page; None if this is the last page."""

    rows: Sequence[SettledRow]
    after: str | None


@dataclass(frozen=True, slots=True)
class Endings:
    """How questions ended, the latest first."""

    items: Sequence[Ending]
    since: datetime
    """Every ending after then is among them."""
    is_complete: bool
    """Whether there are no others since the time that was asked for."""


MAX_PLACES_SCANNED = 20_000
"""The most places of pending questions that are read for a page of a view, under each name of a person.

By urgency that is for each of its walks.
"""
MAX_PLACES_COUNTED = 1_000
"""The same for the numbers of questions in views."""
MAX_EVENTS_SCANNED = 5_000
"""The most events that are read for a page of settled questions."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """The result of a recovery: how many questions it expired, and how many are still pending."""

    expired: int
    live: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Durability:
    """What the store promises about an acknowledged write, and the settings that this depends on."""

    survives: str
    settings: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """Numbers of what is pending: in the whole store, for an operator, or in one workspace.

    `pending` holds, for each age in seconds, how many pending questions are at most that old; the last age is
    infinite. Of the whole store only: `deliveries` counts the attempts to reach people by status; `oldest_due` is for how
    many seconds the oldest delivery, or event that may lead to one, has been due without an attempt;
    `askers_at_quota` is how many askers have as many pending questions in a workspace as a quota allows; `unanswerable` is
    how many pending questions nobody can answer: no recipient, now or after an escalation, is a person who is enabled, a
    group with one, or has an address.
    """

    pending: Mapping[float, int]
    deliveries: Mapping[str, int]
    oldest_due: float = 0.0
    askers_at_quota: int = 0
    unanswerable: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolStats:
    """How busy a connection pool is: `waiters` are statements that wait until one of `size` connections is free."""

    size: int
    in_use: int
    waiters: int


AGES = (60.0, 600.0, 3600.0, 21_600.0, 86_400.0, 604_800.0, float("inf"))
"""The ages by which pending questions are counted: a minute, ten, an hour, six, a day, a week, and older."""


Inserted: TypeAlias = Question | KeyConflict | QuotaExceeded | PolicyChanged | Stopped | InvalidQuestion
"""The result of inserting a draft: the new or the stored question, or the reason why it was refused."""


StatementSpan: TypeAlias = Callable[[str], AbstractContextManager[object]]
"""Is entered around each statement, with its name; it must not raise."""


class BatchKey(Protocol):
    """Says which calls may share a batch. A store over several databases has one, as its attribute `batch_key`."""

    def __call__(self, workspace: str, /) -> Hashable:
        """The key of calls about a workspace: those with the same key go to one database."""
        ...


class Store(Protocol):
    """The source of truth. Every method is safe to call from any number of tasks, processes and hosts at once.

    Methods that take many items return one result for each, in the same order; one item never makes the
    others fail. Each item is atomic: its rows, its event and nothing else, or none of it. A store raises
    `StoreUnavailable` if it cannot tell whether a call took effect, or knows that it did not; it never raises
    a driver's exception. Times come from the clock that the store was given, else from its own.
    """

    async def insert(self, drafts: Sequence[Draft], *, quota: int | None = None) -> Sequence[Inserted]:
        """Register drafts, each with its `asked` event.

        If the owner already has a question with the draft's key in its workspace, or the id exists there, the
        result is the stored question, settled or not, and nothing is written; if its definition differs, the
        item's result is a `KeyConflict`. Two drafts with one key in one call are one question.

        With a `quota`, a new question of an asker that already has that many pending in its workspace is not
        registered: the item's result is a `QuotaExceeded`. The statement that registers decides this. The quotas of the
        workspace (see `handraise.ports.quotas`) override it, also if it is None.
        Concurrent calls may not see each other's questions, and exceed the quota by that number.

        The statement also checks that the draft was decided by the latest version of the workspace's policy (0 if
        there is none), and that the rule that settles it, if any, is not suspended; else the item's result is a
        `PolicyChanged`. A draft whose ruling has an `ending` is stored as settled, with the events `asked` and that
        of its ending, and does not count for the quota.

        The same statement checks that no stop of the workspace covers the question; else the item's result is a
        `Stopped`.

        A draft with a `callback` leaves a delivery in the same transaction, as `callback_delivery` says, if it becomes a
        new question. No question that a store returns has a callback.

        A draft that `replaces` a question of its asker withdraws that one in the same transaction, if it is open. Otherwise
        that one gets the event `replaced`. In both cases it keeps which question replaced it. If another one has replaced it
        before, the item's result is an `InvalidQuestion`, and nothing is written.

        A draft with a `topic_key` follows the pending question of its workspace that has the same one and follows none, if
        there is one. It is in nobody's inbox. When a person decides that question, the same transaction ends all that
        follow it, each with an event. If that question ends otherwise, the oldest of those becomes the one that the others
        follow, with the event `opened`. Nobody follows a question that has ended.
        """
        ...

    async def settle(self, moves: Sequence[Move]) -> Sequence[Question | Refused]:
        """Make moves on pending questions, each decided by `decide` while the question is locked.

        An accepted move leaves exactly one event and returns the question after it, which may still be pending. A refused
        move leaves nothing, and says why. Several moves on one question in one call are decided in their order.

        A revocation of a grant, a stop, and a change of what the directory says about anybody whose right counts are seen if
        they were acknowledged before; a later one waits until the decision is saved.
        """
        ...

    async def read(self, refs: Sequence[Ref]) -> Sequence[Question | None]:
        """The questions as they are now, None for those that do not exist."""
        ...

    async def followers(self, ref: Ref, *, limit: int) -> Sequence[Question]:
        """Pending questions that follow this one, by their ids."""
        ...

    async def outcomes(self, refs: Collection[Ref]) -> dict[Ref, Outcome | None]:
        """The outcomes of those that are settled, and None for those that do not exist.

        Pending questions are left out: all waits poll with this, and most of their questions are still pending.
        """
        ...

    async def find_by_key(self, workspace: str, owner: str, key: str) -> Question | None:
        """The question with this key of this owner, or None. Shared keys have an empty owner.

        Also a question that the owner has joined with this key.
        """
        ...

    async def join(self, ref: Ref, *, by: str, key: str) -> bool:
        """Let a key of the asker name a question too, with one event; False if that changes nothing.

        One conditional statement: it is pending, was asked by `by`, and the key names no question of theirs.
        From then on `insert` and `find_by_key` return the question for this key, as long as it is kept.
        """
        ...

    async def pending(self, where: Filter, *, after: str | None, limit: int) -> Sequence[Question]:
        """Pending, unexpired questions in the order of their ids, starting after the id `after`."""
        ...

    async def by_urgency(
        self, where: Filter, *, after: str | None, limit: int, order: Order = "urgency"
    ) -> WaitingPage:
        """The ranks of pending questions, the most urgent first, starting after the cursor `after`.

        The order is that of `handraise.model.urgency` when the first page is read, then by id: a rank is stored with each
        question and indexed. The questions themselves are not read; some may be past their expiry. Raises `ValueError` for
        a cursor that does not come from a page.

        With filters or another order, up to `MAX_PLACES_SCANNED` places are read for a page, under each name of a person.
        """
        ...

    async def count_views(self, workspace: str, recipient: Responder) -> ViewCounts:
        """How many questions a person has in each view, by one statement that reads a limited number of places."""
        ...

    async def settled(self, where: Filter, *, after: str | None, limit: int) -> SettledPage:
        """A page of settled questions, the latest first, starting after the cursor `after`.

        `recipient` limits it to questions that this person may see, as in `may_see`, and `ending` to those that ended
        like this. A page until an instant begins there, without reading the events since. No more than
        `MAX_EVENTS_SCANNED` events are read: a page may be short or empty, and still have a cursor. Reading
        page after page returns every question that was settled at the beginning, and none twice. Raises
        `ValueError` for a cursor that does not come from a page.
        """
        ...

    async def settled_rows(
        self,
        workspace: str,
        *,
        since: datetime | None,
        until: datetime | None,
        after: str | None,
        limit: int,
    ) -> SettledRows:
        """The questions that were settled in a time, oldest first, for an export: only the columns that it needs.

        `since` is the first instant, and `until` is the first one that is too late. A page has what was settled by the next
        `limit` events after the cursor `after`, so it may be short or empty and still have a cursor. Reading page after
        page returns every question that was settled at the beginning, and none twice. Raises
        `ValueError` for a cursor that does not come from a page.
        """
        ...

    async def search(self, where: Filter, query: SearchQuery, *, after: str | None, limit: int) -> SearchPage:
        """A page of the questions that have these words, pending or settled, the newest first, after the id `after`.

        `recipient` limits it to questions that this person may see, as in `may_see`; `aside` is ignored. A page may be
        short or empty, and still have a cursor. A store with an index finds what `put_in_index` has stored.
        """
        ...

    async def unindexed(self, *, limit: int) -> Sequence[str]:
        """Some workspaces whose trail goes on after the cursor up to which it is indexed."""
        ...

    async def next_to_index(self, workspace: str, *, limit: int) -> IndexBatch:
        """The questions of the next up to `limit` events of a workspace that change what a search finds.

        Events that are not in the trail yet are looked at too, each time until they are: a search right after a question
        was asked finds it.
        """
        ...

    async def put_in_index(
        self, workspace: str, entries: Sequence[IndexEntry], *, after: str | None, cursor: str | None
    ) -> bool:
        """Index the questions of a batch anew, and note the cursor of the trail up to which that is now done.

        False, and nothing is stored, if the workspace is not indexed up to `after` exactly, because somebody else has done
        it. A question that does not exist any more is not indexed: after one was erased or removed, its words are gone.
        """
        ...

    async def endings(self, workspace: str, *, since: datetime, limit: int) -> Endings:
        """How up to `limit` questions ended since a given time.

        At most about ten times as many events are read: if nearly all of them end nothing, the oldest endings are
        left out, and the result says so.
        """
        ...

    async def run_due(self, *, limit: int, workspace: str | None = None) -> Sequence[Ref]:
        """Do every due step of every timeline, or of one workspace's; return the questions that were settled.

        Works in batches of `limit`, each atomic. Never waits for another sweep: questions that another
        process is working on are skipped. A step is done once, in order, with one event.

        It also withdraws pending questions that their policy closes, because nothing was heard of their asker until
        `closes_at`. A `beat` that was acknowledged before the question was locked counts.
        """
        ...

    async def beat(self, refs: Sequence[Ref], *, by: str) -> Mapping[Ref, float]:
        """Store that the asker `by` still waits for the answers to these, unless one just before is stored (`is_noted`); leaves no event.

        Returns the heartbeats, in seconds, of those that are pending, were asked by `by` and have one; the others are left
        out. A question that another transaction has locked may be left out too: this never makes anybody wait.
        """
        ...

    async def expire_older(
        self, workspace: str, asker: str, max_age: timedelta, *, limit: int
    ) -> Sequence[Ref]:
        """Expire up to `limit` of an asker's questions asked longer than `max_age` ago; return them."""
        ...

    async def count_pending(self, workspace: str, asker: str) -> int:
        """How many questions an asker has pending in a workspace."""
        ...

    async def covering_stop(self, question: Question) -> Stop | None:
        """The oldest stop that covers a question now, or None."""
        ...

    async def consume(self, ref: Ref, use: Use) -> UsableApproval | UseRefused | None:
        """Use up the approval of an action, with one event, as `check_use` decides while the question is locked.

        Of any number of requests one uses it. That request is stored in the event, and may use it again each time it is
        repeated, which changes nothing, unless a stop covers the question. Without a request, this only says until when
        the approval can be used. None if there is no such question.
        """
        ...

    async def claim_sending(self, ref: Ref, *, by: str, lease: timedelta) -> bool:
        """Claim the task of showing a question in a chat; False if it must not be shown now.

        One conditional statement: it is pending, was asked by `by`, has not been marked as sent, and nobody
        else holds a claim whose lease is not over. Leaves no event. Of any number of concurrent callers, one
        gets True.
        """
        ...

    async def mark_sent(self, ref: Ref, *, by: str, channel: str | None) -> bool:
        """Record that a question was shown in a chat, with one event; False if that changes nothing.

        One conditional statement: it is pending, was asked by `by`, and has not been marked before. Claims of
        others do not matter.
        """
        ...

    async def take_back(self, ref: Ref, *, by: str, reason: str | None) -> bool:
        """Take an approval back, with one event, as `can_be_taken_back` says; False if that is not possible.

        Of a call of this and one of `consume`, one succeeds.
        """
        ...

    async def report(self, ref: Ref, *, by: str, record: dict[str, Json]) -> bool:
        """Record what came of an answer, with one event, as `can_be_reported` says; False if that is not possible."""
        ...

    async def tidy(self, *, keep: timedelta | None, limit: int) -> int:
        """Remove every question settled longer than `keep` ago, with its events and deliveries.

        With None nothing is removed. After removal it is as if the question had never existed: its id and its
        key are free again. A question whose grant is still valid stays until that ends. Works in small batches,
        never on pending questions, and never waits for the lock of a question; of any number of processes that
        tidy at once, one may do it for all. Returns how many questions it removed; if that is `limit` or more,
        there may be others.
        """
        ...

    async def find_grant(self, question: Question) -> Grant | None:
        """The valid grant for the action that a question asks about, or None.

        Its scope is one that the question offers, and its giver may answer the question. If there are
        several, it is the one that lasts longest.
        """
        ...

    async def grants(self, workspace: str, *, after: str | None, limit: int) -> Sequence[Grant]:
        """All grants of a workspace, also those that ended, in the order of their ids."""
        ...

    async def revoke(self, workspace: str, grant_id: str, *, by: str) -> Grant | None:
        """End a grant now, with one event; calling it again changes nothing. None if there is none."""
        ...

    async def history(self, ref: Ref) -> Sequence[Event]:
        """Every event of one question, oldest first."""
        ...

    async def histories(
        self, workspace: str, question_ids: Collection[str], *, kinds: Collection[EventKind], limit: int
    ) -> Sequence[Event]:
        """The events of these kinds of several questions, oldest first; of more than `limit`, the latest."""
        ...

    async def feed(self, workspace: str, *, after: str | None, limit: int) -> Sequence[Event]:
        """The workspace's events in a fixed order, starting after the cursor `after`.

        A new event never appears before one that was already returned: anyone who reads to the end and
        continues from the last cursor misses nothing, however late a transaction commits.
        """
        ...

    async def trail(
        self, workspace: str, *, after: str | None, limit: int
    ) -> Sequence[Event | WorkspaceEvent]:
        """Everything that is sealed in a workspace: the events of its feed, and the events of the workspace.

        They are in the order of the feed. As there, nothing appears before what was already returned.
        """
        ...

    async def workspace_events(
        self, workspace: str, *, after: str | None, limit: int
    ) -> Sequence[WorkspaceEvent]:
        """The events of a workspace that are about no question, in the order of the trail.

        Raises `ValueError` for a cursor that does not come from the trail.
        """
        ...

    async def search_workspace_events(
        self, workspace: str, search: WorkspaceEventSearch, *, before: str | None, limit: int
    ) -> Sequence[WorkspaceEvent]:
        """The same, the newest first: those before a cursor that are searched for."""
        ...

    async def feed_end(self, workspace: str) -> str:
        """The cursor after everything that `feed` returns now: from there on `feed` returns new events."""
        ...

    async def settled_since(
        self, workspace: str, mark: str | None, *, limit: int
    ) -> tuple[Sequence[str], str | None]:
        """The ids of questions that were settled since a mark, perhaps some of before, and the mark for the next call.

        Everything is there that was settled after the call that returned the mark, also by a transaction that began
        earlier. If there are more than `limit`, some are left out and the mark is None. Without a mark, no ids are
        returned.
        """
        ...

    async def queue_stats(self, workspace: str | None = None, *, quota: int | None = None) -> QueueStats:
        """How much is pending, everywhere or in one workspace; deliveries are not counted for a workspace.

        Counts up to about 100,000 questions; more are left out. `quota` is that of `insert`.
        """
        ...

    async def durability(self) -> Durability:
        """Which failures an acknowledged write survives here."""
        ...
