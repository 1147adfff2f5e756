"""The audit trail in a store: seals, removals, and what may be removed. The docstrings are the contract."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from handraise.model.json_values import Json
from handraise.model.seals import HeadMark, Hold, Removal, Rule, Seal
from handraise.model.store_invariants import InboxRow


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a workspace's chain, and the current time by the store's clock."""

    seal: Seal | None
    now: datetime
    oldest: int | None
    """The first seal with an event that still exists; None if there is none."""


class SignedHeads(Protocol):
    """The last known signed seal of each workspace. It is kept next to the key, never in the store."""

    async def find(self, workspace: str) -> HeadMark | None:
        """The last seal of a workspace, or None if none is known."""
        ...

    async def put(self, workspace: str, head: HeadMark) -> None:
        """Store a later seal. One with a lower number than the known seal changes nothing."""
        ...

    async def reset(self, workspace: str, head: HeadMark | None) -> None:
        """Store this seal, whatever was known before, because an operator said so."""
        ...

    async def list_workspaces(self, *, after: str, limit: int) -> Sequence[str]:
        """The workspaces with a known seal, by name."""
        ...


class Ledger(Protocol):
    """Seals over the events of workspaces, and the rules for removing questions.

    Every method is atomic; raises `StoreUnavailable` as a store does.
    """

    async def unsealed(self, *, limit: int) -> Sequence[str]:
        """Workspaces with events or removals that no seal covers; some of those may not be final yet."""
        ...

    async def head(self, workspace: str) -> Head:
        """The last seal, and what is needed to make the next one."""
        ...

    async def has_signed(self, workspace: str, key_id: str) -> bool:
        """Whether a seal of a workspace is signed with this key."""
        ...

    async def salts(self, workspace: str, question_ids: Collection[str]) -> Mapping[str, bytes]:
        """The salts of these questions.

        A question without a salt gets one; questions that do not exist are left out.
        """
        ...

    async def asked(self, workspace: str, question_ids: Collection[str]) -> Mapping[str, Json]:
        """The question as it was stored when it was asked: later releases never rewrite it."""
        ...

    async def removals(self, workspace: str, *, seal: int | None, limit: int) -> Sequence[Removal]:
        """The removals that a seal covers, or those not covered by any, in the order of their numbers."""
        ...

    async def append(self, seal: Seal, *, removals: Sequence[int]) -> bool:
        """Add a seal after the last, with the removals that it covers, and delete the seals before its `oldest`.

        False if its number is taken: of any number of processes that seal at once, one gets True. False also
        if its `cursors` are not exactly the events after the last seal, if a seal before its `oldest` has an
        event that still exists, or if it is unsigned and the last one is signed: the store checks itself
        which seals may be deleted.
        """
        ...

    async def seals(self, workspace: str, *, after: int, limit: int) -> Sequence[Seal]:
        """Seals in the order of their numbers, starting after the given one."""
        ...

    async def concerning(self, workspace: str, person: str) -> Sequence[str]:
        """The questions that a person asked, answered, declined, voted on or attempted, or that name them."""
        ...

    async def erase(self, workspace: str, question_ids: Collection[str], *, by: str) -> Sequence[str]:
        """Erase questions, pending or not, with everything stored about them; return those that existed.

        A question under a hold stays. If a question had sealed events, a removal is recorded.
        """
        ...

    async def erase_person(self, workspace: str, person: str, *, by: str | None = None) -> None:
        """Erase a person's other data: addresses, group memberships, sessions, links, requests and deliveries.

        With `by`, an event of the workspace says that they erased somebody, and not whom.

        The events of the workspace that concern them are erased too; a removal is recorded if they were
        sealed. In records of others, their name is replaced.
        """
        ...

    async def scrub(self) -> bool:
        """Overwrite deleted data, if the store can; False if it cannot, or not now."""
        ...

    async def rules(self, workspace: str) -> Rule | None:
        """How long a workspace keeps settled questions, or None if it has no rule of its own."""
        ...

    async def put_rule(self, workspace: str, rule: Rule | None, *, by: str | None = None) -> None:
        """Set the rule of a workspace, or remove it. If that changes anything, it leaves one event of the workspace."""
        ...

    async def hold(self, hold: Hold) -> None:
        """Place a hold, which prevents removal, with one event of the workspace. The same name again changes nothing."""
        ...

    async def lift(self, workspace: str, name: str, *, by: str | None = None) -> bool:
        """Lift a hold, with one event of the workspace; False if there is none with this name."""
        ...

    async def holds(self, workspace: str) -> Sequence[Hold]:
        """Every hold of a workspace, by name."""
        ...

    async def newest_questions(self, workspace: str, *, before: str | None, limit: int) -> Sequence[str]:
        """The ids of questions, the newest first, also those that are only in an inbox; for a check of the store."""
        ...

    async def inbox_rows(self, workspace: str, question_ids: Collection[str]) -> Sequence[InboxRow]:
        """The places of questions in the inboxes; for a check of the store."""
        ...
