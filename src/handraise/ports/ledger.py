"""The audit trail's place in a store: seals, removals, and what may be removed. The docstrings are the contract."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from handraise.model.json_values import Json
from handraise.model.seals import HeadMark, Hold, Removal, Rule, Seal


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a workspace's chain, and the present instant by the store's clock."""

    seal: Seal | None
    now: datetime
    oldest: int | None
    """The first seal that has an event which is still there; None where none has."""


class SignedHeads(Protocol):
    """The last seal of each workspace that was signed or seen to be signed. It is kept next to the key, never in the store."""

    async def find(self, workspace: str) -> HeadMark | None:
        """The last seal of a workspace, or None if none is known."""
        ...

    async def put(self, workspace: str, head: HeadMark) -> None:
        """Keep a later seal. One with a lower number than what is known changes nothing."""
        ...

    async def reset(self, workspace: str, head: HeadMark | None) -> None:
        """Keep this one, whatever was known: an operator says so."""
        ...

    async def list_workspaces(self, *, after: str, limit: int) -> Sequence[str]:
        """Workspaces of which a seal is known, by name."""
        ...


class Ledger(Protocol):
    """Seals over the events of workspaces, and the rules by which questions go.

    Every method is atomic; raises `StoreUnavailable` as a store does.
    """

    async def unsealed(self, *, limit: int) -> Sequence[str]:
        """Workspaces that have events or removals which no seal covers; some of them may be final only later."""
        ...

    async def head(self, workspace: str) -> Head:
        """The last seal, and what the next one must know."""
        ...

    async def has_signed(self, workspace: str, key_id: str) -> bool:
        """Whether a seal of a workspace is signed with this key."""
        ...

    async def salts(self, workspace: str, question_ids: Collection[str]) -> Mapping[str, bytes]:
        """The salts of these questions. One without a salt gets one, if it is there; else it is left out."""
        ...

    async def asked(self, workspace: str, question_ids: Collection[str]) -> Mapping[str, Json]:
        """What was asked, as it is stored: never put into other words by a later release."""
        ...

    async def removals(self, workspace: str, *, seal: int | None, limit: int) -> Sequence[Removal]:
        """The removals that a seal covers, or those that none does yet, in the order of their numbers."""
        ...

    async def append(self, seal: Seal, *, removals: Sequence[int]) -> bool:
        """Add a seal behind the last, with the removals that it covers, and let go of those before its `oldest`.

        False where its number is taken: of any number of processes that seal at once, one gets True. False also if its
        `cursors` are not exactly the events behind the last seal, if a seal before its `oldest` has an event that is still
        there, and if it is unsigned behind a signed one: the store believes nobody about what is to be let go.
        """
        ...

    async def seals(self, workspace: str, *, after: int, limit: int) -> Sequence[Seal]:
        """Seals in the order of their numbers, from just behind one."""
        ...

    async def concerning(self, workspace: str, person: str) -> Sequence[str]:
        """The questions that a person asked, answered, declined, voted on or attempted, or that name them."""
        ...

    async def erase(self, workspace: str, question_ids: Collection[str], *, by: str) -> Sequence[str]:
        """Erase questions, pending or not, with everything that was kept of them; give back which were there.

        What is held stays. Where a question had events that are sealed, a removal says so.
        """
        ...

    async def erase_person(self, workspace: str, person: str) -> None:
        """Erase what is kept of a person besides questions: address, membership, sessions, links, requests, deliveries.

        The events of the workspace that concern them go too; a removal says so if they were sealed.
        In what others have left, their name is replaced.
        """
        ...

    async def scrub(self) -> bool:
        """Overwrite what was deleted, where a store can; False where it cannot, or not now."""
        ...

    async def rules(self, workspace: str) -> Rule | None:
        """How long a workspace keeps settled questions, or None where it has no rule of its own."""
        ...

    async def put_rule(self, workspace: str, rule: Rule | None) -> None:
        """Give a workspace a rule of its own, or none."""
        ...

    async def hold(self, hold: Hold) -> None:
        """Keep something from being removed. The same name again changes nothing."""
        ...

    async def lift(self, workspace: str, name: str) -> bool:
        """Lift a hold; False where there is none of this name."""
        ...

    async def holds(self, workspace: str) -> Sequence[Hold]:
        """Every hold of a workspace, by name."""
        ...
