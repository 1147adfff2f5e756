"""The truth behind a desk, and the small values that go in and out of it. The docstrings are the contract."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, TypeAlias

from handraise.model.errors import KeyConflict, QuotaExceeded
from handraise.model.events import Event
from handraise.model.grants import Grant
from handraise.model.lifecycle import Move
from handraise.model.outcomes import Outcome
from handraise.model.people import Responder
from handraise.model.questions import Draft, Question, Ref
from handraise.model.statistics import Ending
from handraise.model.workspace_events import WorkspaceEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which questions a page is about. What is None does not narrow it."""

    workspace: str
    conversation: str | None = None
    recipient: Responder | None = None
    asker: str | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """Where a pending question stands among those that wait, and a number that equal ones of its asker share."""

    urgency: int
    id: str
    likeness: int | None
    asker: str
    conversation: str | None


@dataclass(frozen=True, slots=True)
class WaitingPage:
    """Some pending questions by urgency, and the cursor to go on from; None where the walk has come to its end."""

    places: Sequence[Waiting]
    after: str | None


@dataclass(frozen=True, slots=True)
class SettledPage:
    """Some settled questions, and the cursor to go on from; None where the walk has come to its end."""

    questions: Sequence[Question]
    after: str | None


MAX_EVENTS_SCANNED = 5_000
"""How many events a page of settled questions looks through at most."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a recovery found: how many questions it expired, and how many are live again."""

    expired: int
    live: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Durability:
    """What the store promises about an acknowledged write, and the settings it rests on."""

    survives: str
    settings: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """How much waits, in numbers: in the whole store, for an operator, or in one workspace.

    `pending` has, for each age in seconds, how many pending questions are at most that old; the last age is
    infinite. `deliveries` counts the attempts to reach people by status, in the whole store only.
    """

    pending: Mapping[float, int]
    deliveries: Mapping[str, int]


AGES = (60.0, 600.0, 3600.0, 21_600.0, 86_400.0, 604_800.0, float("inf"))
"""The ages by which pending questions are counted: a minute, ten, an hour, six, a day, a week, and whatever is older."""


Inserted: TypeAlias = Question | KeyConflict | QuotaExceeded
"""What becomes of a draft: the question that it is now or was before, or why it is none."""


class BatchKey(Protocol):
    """Says which calls may share a batch. A store over several databases has one, as its attribute `batch_key`."""

    def __call__(self, workspace: str, /) -> Hashable:
        """The key of calls about a workspace: those with the same key go to one database."""
        ...


class Store(Protocol):
    """The truth. Every method is safe to call from any number of tasks, processes and hosts at once.

    Methods that take many items give back one result for each, in the same order; one item never fails its
    neighbours. Each item is atomic: its rows, its event and nothing else, or none of it. A store raises
    `StoreUnavailable` where it cannot tell whether a call took effect or knows that it did not; no driver's
    exception comes out of it. Instants come from the clock the store was given, else from its own.
    """

    async def insert(self, drafts: Sequence[Draft], *, quota: int | None = None) -> Sequence[Inserted]:
        """Register drafts, each with its `asked` event.

        A draft whose key its owner has in its workspace already, or whose id exists there, gives back the stored question, settled
        or not, and writes nothing; where its definition differs, the item's result is a `KeyConflict`. Two
        drafts with one key in one call are one question.

        With a `quota`, a new question of an asker that has that many pending in its workspace is not registered: the
        item's result is a `QuotaExceeded`. The statement that registers decides this. Calls that are made at the same
        instant may not see each other's questions, and exceed it by as many.
        """
        ...

    async def settle(self, moves: Sequence[Move]) -> Sequence[Question | None]:
        """Make moves on pending questions, each decided by one conditional statement as in `transition`.

        A move that is accepted leaves exactly one event and gives back the question after it, which may
        still be pending (a vote, an attempt). A refused move gives None and leaves nothing: the question is
        unknown, settled, past its expiry, the mover is not entitled, the grant holds no more, or one to be left would
        have ended already; `read` tells which. Several moves on one question in one call are decided in their order. An accepted
        approval that leaves a grant leaves it in the same transaction.

        The same statement looks again at everybody whom it counts on: a vote whose voter may not answer any more, as
        in `still_may_respond`, is dropped (the event `voted` names them as `uncounted`), and a grant holds only
        if its giver may answer this very question. A revocation of the grant, a removal of such a person and a change of
        their groups that was acknowledged before is seen.
        """
        ...

    async def read(self, refs: Sequence[Ref]) -> Sequence[Question | None]:
        """The questions as they stand, None for those that do not exist."""
        ...

    async def outcomes(self, refs: Collection[Ref]) -> dict[Ref, Outcome | None]:
        """The outcomes of those that are settled, and None for those that do not exist.

        What is pending is left out: this is the poll of all waits, and most of them still wait.
        """
        ...

    async def find_by_key(self, workspace: str, owner: str, key: str) -> Question | None:
        """The question with this key of this owner, or None. An empty owner is that of keys that askers share.

        Also the one that the owner has joined with this key.
        """
        ...

    async def join(self, ref: Ref, *, by: str, key: str) -> bool:
        """Have a key of the asker stand for a question too, with one event; False where that changes nothing.

        One conditional statement: it is pending, was asked by `by`, and the key stands for no question of theirs. `insert`
        and `find_by_key` give the question for this key from then on, as long as it is kept.
        """
        ...

    async def pending(self, where: Filter, *, after: str | None, limit: int) -> Sequence[Question]:
        """Pending, unexpired questions in the order of their ids, from just behind the id `after`."""
        ...

    async def by_urgency(self, where: Filter, *, after: str | None, limit: int) -> WaitingPage:
        """Where pending questions stand, the most urgent first, from just behind the cursor `after`.

        The order is that of `handraise.model.urgency`, with the ids below it: it is kept with each question, and an
        index has it. Nothing of the questions themselves is read; some may be past their expiry. Raises `ValueError` for a
        cursor that no page has given out.
        """
        ...

    async def settled(self, where: Filter, *, after: str | None, limit: int) -> SettledPage:
        """A page of settled questions, the newest ending first, from just behind the cursor `after`.

        `recipient` narrows it to what that person may see, as in `may_see`. No more than `MAX_EVENTS_SCANNED` events
        are looked through: a page may be short, or empty, and have a cursor all the same. Anyone who goes on from
        there meets every question that was settled when they began, and none twice. Raises `ValueError` for a
        cursor that no page has given out.
        """
        ...

    async def endings(self, workspace: str, *, since: datetime, limit: int) -> Sequence[Ending]:
        """How up to `limit` questions ended since an instant, the newest first.

        About ten times as many events are looked through at most: where nearly all of them end nothing, some of
        the oldest endings are left out.
        """
        ...

    async def run_due(self, *, limit: int, workspace: str | None = None) -> Sequence[Ref]:
        """Do every due deed of every timeline, or of one workspace's; give back what one of them settled.

        Works in batches of `limit`, each atomic. Never waits for another sweep: what another process is
        working on is passed over. A deed is done once, in its order, with one event.
        """
        ...

    async def expire_older(
        self, workspace: str, asker: str, max_age: timedelta, *, limit: int
    ) -> Sequence[Ref]:
        """Expire up to `limit` of an asker's questions asked longer than `max_age` ago; give back which."""
        ...

    async def count_pending(self, workspace: str, asker: str) -> int:
        """How many questions an asker has pending in a workspace."""
        ...

    async def consume(self, ref: Ref, *, digest: str, by: str, request: str) -> bool:
        """Use up the approval of an action, with one event; False where it is not there to be used.

        One conditional statement: the question is answered with an approval of just this digest, was asked
        by `by`, and has been neither consumed nor taken back; its `valid_for` is not over; and if it was answered by a
        grant, that holds now, and its giver may answer the question. Its history must say the same: that it ended once, with an
        approval of this digest. Of any number of requests one gets True. It is kept in the event, and gets True again
        however often it is made, which changes nothing.
        """
        ...

    async def claim_sending(self, ref: Ref, *, by: str, lease: timedelta) -> bool:
        """Take on to show a question in a chat; False unless it is there to be shown now.

        One conditional statement: it is pending, was asked by `by`, has not been marked as sent, and nobody else has
        taken it on within their lease. Leaves no event. Of any number of callers at once, one gets True.
        """
        ...

    async def mark_sent(self, ref: Ref, *, by: str, channel: str | None) -> bool:
        """Record that a question was shown in a chat, with one event; False where that changes nothing.

        One conditional statement: it is pending, was asked by `by`, and has not been marked before. Whether somebody
        else has taken it on meanwhile does not matter.
        """
        ...

    async def take_back(self, ref: Ref, *, by: str, reason: str | None) -> bool:
        """Take an approval back, with one event; False where that cannot be, or was done before.

        One conditional statement: the question is answered with an approval that has been neither consumed nor taken
        back, and `by` is one of those who gave it, or an administrator of the directory, as in `may_take_back`. Of a
        call of this and one of `consume`, one gets True.
        """
        ...

    async def tidy(self, *, rest: timedelta, keep: timedelta | None, limit: int) -> int:
        """Make room: remove every question settled longer than `keep` ago, with its events and deliveries.

        With None nothing is removed. What is removed was never there: its id and its key are free again. A question
        whose grant holds stays until that ends. A store may besides put questions elsewhere that were settled longer
        than `rest` ago, where every method finds them as before. Works in small batches, never on what is pending, and
        never waits for anybody; of any number of processes that tidy at once, one may do it for all. Gives back
        about how many questions it moved or removed; with `limit` or more, there may be others.
        """
        ...

    async def find_grant(self, question: Question) -> Grant | None:
        """The grant that holds now for the action that a question asks about, or None.

        Its scope is one that the question offers, and its giver may answer the question. Of several it is the one
        that lasts longest.
        """
        ...

    async def grants(self, workspace: str, *, after: str | None, limit: int) -> Sequence[Grant]:
        """All grants of a workspace, also those that ended, in the order of their ids."""
        ...

    async def revoke(self, workspace: str, grant_id: str, *, by: str) -> Grant | None:
        """End a grant now, with one event; a second time changes nothing. None where there is none."""
        ...

    async def history(self, ref: Ref) -> Sequence[Event]:
        """Every event of one question, oldest first."""
        ...

    async def feed(self, workspace: str, *, after: str | None, limit: int) -> Sequence[Event]:
        """The workspace's events in a fixed order, from just behind the cursor `after`.

        An event never appears before one that was already given out: anyone who reads to the end and goes on
        from the last cursor misses nothing, however late a transaction commits.
        """
        ...

    async def trail(
        self, workspace: str, *, after: str | None, limit: int
    ) -> Sequence[Event | WorkspaceEvent]:
        """Everything that is sealed in a workspace: what its feed gives out, and the events of the workspace.

        In one order, which is that of the feed. As there, nothing appears before what was already given out.
        """
        ...

    async def workspace_events(
        self, workspace: str, *, after: str | None, limit: int
    ) -> Sequence[WorkspaceEvent]:
        """The events of a workspace that are about no question, in the order of the trail.

        Raises `ValueError` for a cursor that no trail has given out.
        """
        ...

    async def feed_end(self, workspace: str) -> str:
        """The cursor behind everything that `feed` gives out now: from there on it gives what is new."""
        ...

    async def queue_stats(self, workspace: str | None = None) -> QueueStats:
        """How much waits, everywhere or in one workspace, where no deliveries are counted.

        Counted up to some 100,000 questions; what is beyond that is left out.
        """
        ...

    async def durability(self) -> Durability:
        """What an acknowledged write survives here."""
        ...
