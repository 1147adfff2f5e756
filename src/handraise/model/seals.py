"""The audit trail: what a seal says, and the digests that it is made of. See docs/explanation/audit.md.

An event's leaf is salted, and the salt belongs to its question. Once both are erased, the leaf in the seal
still proves that the event existed, but reveals nothing about it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, Protocol

from handraise.model.events import Event
from handraise.model.json_values import Json, canonical_json
from handraise.model.workspace_events import Change, WorkspaceEvent, retention_put

SALT = 16
"""How many random bytes a question's salt has."""
NOTHING_BEFORE = bytes(32)
"""The `previous` of the first seal of a workspace, which has no seal before it."""

_LEAF, _NODE, _SEAL, _REMOVAL = b"\x00", b"\x01", b"\x02", b"\x03"


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A record that a question and its events are gone: erased on demand, or removed after the retention time."""

    number: int
    question_id: str
    what: Literal["erased", "removed"]
    at: datetime
    by: str | None
    cursors: tuple[str, ...]
    """Its events that had been sealed, as places in the feed."""

    @property
    def record(self) -> dict[str, Json]:
        """The part that is sealed."""
        return {
            "question": self.question_id,
            "what": self.what,
            "at": instant_text(self.at),
            "by": self.by,
            "cursors": list(self.cursors),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """Seals a batch of events of a workspace, and proves that nothing before it has changed.

    `leaves` are the digests of its events in their order, then of its removals; `cursor` is the place of the
    last event that is sealed here or before. Seals with a lower number than `oldest` had been deleted when
    this one was made, because none of their events was kept.
    """

    workspace: str
    number: int
    oldest: int
    previous: bytes
    sealed_at: datetime
    cursor: str
    cursors: tuple[str, ...]
    leaves: tuple[bytes, ...] = field(repr=False)
    key_id: str | None = None
    signature: bytes | None = None

    @property
    def root(self) -> bytes:
        """The Merkle root of its leaves."""
        return merkle_root(self.leaves)

    @property
    def digest(self) -> bytes:
        """The digest that is signed, and that the next seal has as `previous`."""
        body = {
            "workspace": self.workspace,
            "number": self.number,
            "oldest": self.oldest,
            "previous": self.previous.hex(),
            "sealed_at": instant_text(self.sealed_at),
            "cursor": self.cursor,
            "cursors": list(self.cursors),
            "removals": len(self.leaves) - len(self.cursors),
            "root": self.root.hex(),
            "key_id": self.key_id,
        }
        return hashlib.sha256(_SEAL + canonical_json(body).encode()).digest()


class HeadMark(NamedTuple):
    """A seal that is written down outside the store: its number and its digest."""

    number: int
    digest: bytes

    def __str__(self) -> str:
        return f"{self.number}:{self.digest.hex()}"


LOST_HEAD = HeadMark(0, b"")
"""Stands for the last signed seal if it is not known any more. The first seal has the number 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A hold: nothing of a workspace, or of one question, is removed or erased until it is lifted."""

    workspace: str
    name: str
    question_id: str | None
    reason: str
    since: datetime
    by: str


@dataclass(frozen=True, slots=True)
class Rule:
    """How long a workspace keeps settled questions; None means forever."""

    keep: timedelta | None


def rule_change(rule: Rule | None, *, by: str | None) -> Change:
    """The event of a new rule of a workspace, or of its removal."""
    days = None if rule is None or rule.keep is None else rule.keep / timedelta(days=1)
    return retention_put(days, is_rule=rule is not None, by=by)


class Signer(Protocol):
    """A key that seals are signed with."""

    @property
    def key_id(self) -> str:
        """The name of the key, which its public key has too."""
        ...

    def sign(self, message: bytes) -> bytes:
        """The signature of a message."""
        ...

    def has_signed(self, message: bytes, signature: bytes) -> bool:
        """Whether this is the key's signature of a message."""
        ...


def event_record(event: Event | WorkspaceEvent, asked: Json) -> dict[str, Json]:
    """The part of an event that is sealed; `asked` is the question as it was asked, for that event, else None.

    An event of the workspace has an empty text as its question, and its salt in its data.
    """
    record = {
        "cursor": event.cursor,
        "workspace": event.workspace,
        "question": event.question_id,
        "kind": event.kind.value,
        "at": instant_text(event.at),
        "by": event.by,
        "channel": event.channel,
        "data": event.data,
    }
    return record if asked is None else {**record, "asked": asked}


def event_leaf(salt: bytes, record: dict[str, Json]) -> bytes:
    """The digest of an event's record, which reveals nothing to anyone without the salt."""
    return hashlib.sha256(_LEAF + salt + canonical_json(record).encode()).digest()


def removal_leaf(record: dict[str, Json]) -> bytes:
    """The digest of a removal's record."""
    return hashlib.sha256(_REMOVAL + canonical_json(record).encode()).digest()


def merkle_root(leaves: Sequence[bytes]) -> bytes:
    """The root of the leaves as in RFC 6962: the left half is the largest power of two below their number."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << (len(leaves) - 1).bit_length() - 1
    halves = merkle_root(leaves[:split]) + merkle_root(leaves[split:])
    return hashlib.sha256(_NODE + halves).digest()


def instant_text(at: datetime) -> str:
    """A time in the format that is sealed."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")
