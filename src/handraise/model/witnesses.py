"""Witnesses of the audit trail: what they are sent, and how what they saw is compared with a chain.

A witness keeps heads of chains out of reach of the people who can rewrite the store and have the signing key. A chain that
was rebuilt has other digests than a witness saw.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from handraise.model.json_values import Json
from handraise.model.seals import HeadMark, Seal, instant_text

WITHIN = timedelta(days=1)
"""How long a seal may go unseen by every witness."""

_TYPE = "handraise.head"
_DIGEST = 32
_LATER = timedelta(minutes=1)
"""How long a seal may take to be made: one that an export does not have may be dated so much before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainHead:
    """The last seal of a workspace's chain, as a witness gets it."""

    workspace: str
    number: int
    digest: bytes
    sealed_at: datetime
    key_id: str | None = None
    signature: bytes | None = None

    @classmethod
    def from_seal(cls, seal: Seal) -> ChainHead:
        """The head of a chain that ends with this seal."""
        return cls(
            workspace=seal.workspace,
            number=seal.number,
            digest=seal.digest,
            sealed_at=seal.sealed_at,
            key_id=seal.key_id,
            signature=seal.signature,
        )

    @classmethod
    def from_record(cls, record: Any) -> ChainHead:
        """The head in a JSON object that `record` made; raises `ValueError` if there is none in it."""
        try:
            if record["type"] != _TYPE:
                raise ValueError("it is something else")
            head = cls(
                workspace=str(record["workspace"]),
                number=int(record["number"]),
                digest=bytes.fromhex(record["digest"]),
                sealed_at=datetime.fromisoformat(record["sealed_at"]),
                key_id=None if record["key_id"] is None else str(record["key_id"]),
                signature=None if record["signature"] is None else bytes.fromhex(record["signature"]),
            )
        except (KeyError, TypeError, OverflowError) as error:
            raise ValueError("it is not the head of a chain") from error
        if head.number < 1 or len(head.digest) != _DIGEST or head.sealed_at.tzinfo is None:
            raise ValueError("it is not the head of a chain")
        return head

    @property
    def record(self) -> dict[str, Json]:
        """The same as a JSON object."""
        return {
            "type": _TYPE,
            "workspace": self.workspace,
            "number": self.number,
            "digest": self.digest.hex(),
            "sealed_at": instant_text(self.sealed_at),
            "key_id": self.key_id,
            "signature": None if self.signature is None else self.signature.hex(),
        }

    @property
    def mark(self) -> HeadMark:
        """Its number and digest."""
        return HeadMark(self.number, self.digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenHead:
    """A head that a witness kept, and where it is in what the witness gave us.

    `stamped_at` is when a timestamp authority saw it; other witnesses do not say when.
    """

    head: ChainHead
    where: str
    stamped_at: datetime | None = None

    @property
    def at(self) -> datetime:
        """When it was seen: as the authority says or, without one, when the seal was made."""
        return self.stamped_at or self.head.sealed_at


@dataclass(slots=True, kw_only=True)
class Witness:
    """What one witness saw of a workspace, and what came of comparing it."""

    name: str
    seen: Sequence[SeenHead] = field(repr=False)
    unreadable: int = 0
    """Lines or mails that could not be read."""
    compared: int = 0
    older: int = 0
    """Heads of seals that retention has removed since."""
    later: int = 0
    """Heads of seals that were made after the export."""

    @property
    def first(self) -> SeenHead:
        """The first one that it saw."""
        return min(self.seen, key=lambda each: each.at)

    @property
    def last(self) -> SeenHead:
        """The last one that it saw."""
        return max(self.seen, key=lambda each: each.at)

    @property
    def stamped(self) -> bool:
        """Whether a timestamp authority says when it saw them."""
        return any(each.stamped_at is not None for each in self.seen)


class WitnessComparison:
    """Compares what witnesses saw with the seals of a chain. The seals come in their order.

    Every head that a witness saw must be in the chain, unless its seal has been removed by retention or was made after
    the export. A seal that no witness saw, itself or through a later one, must not be older than `within`. From `since`
    on, every seal must have been seen within that time after it was made.
    """

    def __init__(
        self,
        witnesses: Sequence[Witness],
        *,
        within: timedelta = WITHIN,
        since: datetime | None = None,
        has_signed: Callable[[ChainHead], bool],
    ) -> None:
        self.witnesses = witnesses
        self.unseen_from: int | None = None
        """The first seal that no witness saw, itself or through a later one."""
        self._within = within
        self._since = since
        self._has_signed = has_signed
        self._by_number: dict[int, list[tuple[Witness, SeenHead]]] = {}
        for witness in witnesses:
            for each in witness.seen:
                self._by_number.setdefault(each.head.number, []).append((witness, each))
        self._numbers = sorted(self._by_number)
        self._seen_by = _earliest_from(self._numbers, self._by_number)
        self._started = False
        self._floor: datetime | None = None
        self._unseen_since: datetime | None = None

    def take(self, seal: Seal, digest: bytes, events: Iterable[Mapping[str, Any]]) -> str | None:
        """Compare a seal; say what is wrong, or None. `events` are the records that it covers."""
        if not self._started:
            self._started = True
            if (why := self._begin(seal)) is not None:
                return why
        if self._floor is not None:
            for record in events:
                if datetime.fromisoformat(record["at"]) < self._floor:
                    return (
                        f"event {record['cursor']} is of {record['at']}, and was sealed only after a witness had seen an earlier "
                        "seal, which is not here any more: it was sealed again, or sealing was far behind. See --witness-within"
                    )
        if (why := self._compare(seal.number, digest)) is not None:
            return why
        if seal.number in self._by_number:
            self.unseen_from = self._unseen_since = None
        elif self.unseen_from is None:
            self.unseen_from, self._unseen_since = seal.number, seal.sealed_at
        return self._check_delay(seal)

    def finish(self, last: Seal | None, exported_at: datetime) -> str | None:
        """After the last seal of the chain, say what is missing, or None."""
        if not self.witnesses:
            return None
        end = 0 if last is None else last.number
        for number in self._numbers[bisect_left(self._numbers, end + 1) :]:
            for witness, each in self._by_number[number]:
                if each.head.sealed_at < exported_at - _LATER:
                    return f"{self._said(each)}, and the chain ends with seal {end}: seals were cut off"
                witness.later += 1
        if last is None:
            return None
        if nothing := next((each for each in self.witnesses if not each.seen), None):
            return f"{nothing.name} has no head of this workspace"
        if not any(witness.compared for witness in self.witnesses):
            return "no witness saw a seal that is here, so nothing can be compared"
        if self._unseen_since is not None and self._unseen_since < exported_at - self._within:
            return (
                f"no witness saw seal {self.unseen_from} of {instant_text(self._unseen_since)}, nor a later one: what was sealed "
                "since then could have been rebuilt. If the witnesses were out of reach for so long, say so with --witness-within"
            )
        return None

    def _begin(self, first: Seal) -> str | None:
        """Compare what is known of the seals before the first one: its predecessor, and when they were made."""
        if (why := self._compare(first.number - 1, first.previous)) is not None:
            return why
        older = [
            pair for number in self._numbers if number < first.number for pair in self._by_number[number]
        ]
        for witness, each in older:
            witness.older += each.head.number < first.number - 1
        if older:
            self._floor = max(each.at for _, each in older) - self._within
        return None

    def _compare(self, number: int, digest: bytes) -> str | None:
        for witness, each in self._by_number.get(number, ()):
            if each.head.digest != digest:
                return (
                    f"{self._said(each)}, and this one is {HeadMark(number, digest)}: the chain was changed or rebuilt "
                    "after a witness had seen it"
                )
            witness.compared += 1
        return None

    def _check_delay(self, seal: Seal) -> str | None:
        if self._since is None or seal.sealed_at < self._since:
            return None
        place = bisect_left(self._numbers, seal.number)
        if place == len(self._numbers):
            return None  # the end says whether that is too long ago
        seen = self._seen_by[place]
        if seen - seal.sealed_at <= self._within:
            return None
        return (
            f"the seal says that it was made {instant_text(seal.sealed_at)}, and the first witness to see it or a later one did so "
            f"{instant_text(seen)}: it could have been rebuilt until then. If the witnesses were out of reach for so long, say so "
            "with --witness-within"
        )

    def _said(self, each: SeenHead) -> str:
        head = each.head
        if head.signature is None:
            signed = "not signed"
        elif self._has_signed(head):
            signed = f"signed with the key {head.key_id}"
        else:
            signed = "not signed with a key that was given, so anybody could have sent it"
        return f"{each.where} has seal {head.mark} of {instant_text(head.sealed_at)}, {signed}"


def _earliest_from(
    numbers: Sequence[int], by_number: Mapping[int, Sequence[tuple[Witness, SeenHead]]]
) -> list[datetime]:
    """For each number, the earliest time at which that seal or a later one was seen."""
    earliest: list[datetime] = []
    for number in reversed(numbers):
        times = [each.at for _, each in by_number[number]]
        earliest.append(min([*times, *earliest[-1:]]))
    return earliest[::-1]
