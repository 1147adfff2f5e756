"""The audit trail: what a seal says, and the digests that it is made of. See docs/explanation/audit.md.

An event's leaf is salted, and the salt belongs to its question. Once both are erased, the leaf in the seal stands for
what was there and tells nothing of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, Protocol

from handraise.model.events import Event
from handraise.model.json_values import Json, canonical_json
from handraise.model.workspace_events import WorkspaceEvent

SALT = 16
"""How many random bytes a question's salt has."""
NOTHING_BEFORE = bytes(32)
"""What the first seal of a workspace has in the place of the digest of the one before."""

_LEAF, _NODE, _SEAL, _REMOVAL = b"\x00", b"\x01", b"\x02", b"\x03"


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """That a question is gone, with its events: erased on demand, or removed because its time was over."""

    number: int
    question_id: str
    what: Literal["erased", "removed"]
    at: datetime
    by: str | None
    cursors: tuple[str, ...]
    """Its events that had been sealed, by their places in the feed."""

    @property
    def record(self) -> dict[str, Json]:
        """What is sealed of it."""
        return {
            "question": self.question_id,
            "what": self.what,
            "at": instant_text(self.at),
            "by": self.by,
            "cursors": list(self.cursors),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """A batch of events of a workspace, and that nothing before it has changed.

    `leaves` are the digests of its events in their order, then of its removals; `cursor` is the place of the last event
    that is sealed here or before. Seals with a lower number than `oldest` had been let go when this one was made,
    because none of their events was kept.
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
        """What is signed, and what the next seal has as `previous`."""
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
    """A seal that is written down outside the store: its number, and its digest."""

    number: int
    digest: bytes

    def __str__(self) -> str:
        return f"{self.number}:{self.digest.hex()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """That nothing of a workspace, or of one question, is removed or erased until it is lifted."""

    workspace: str
    name: str
    question_id: str | None
    reason: str
    since: datetime
    by: str


@dataclass(frozen=True, slots=True)
class Rule:
    """How long a workspace keeps settled questions; None is for ever."""

    keep: timedelta | None


class Signer(Protocol):
    """A key that seals are signed with."""

    @property
    def key_id(self) -> str:
        """The name of the key, which its public half has too."""
        ...

    def sign(self, message: bytes) -> bytes:
        """The signature of a message."""
        ...

    def has_signed(self, message: bytes, signature: bytes) -> bool:
        """Whether this is the key's signature of a message."""
        ...


def event_record(event: Event | WorkspaceEvent, asked: Json) -> dict[str, Json]:
    """What is sealed of an event; `asked` is what a question was when it was asked, else None.

    An event of the workspace has an empty text for its question, and its salt in its data.
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
    """The digest of an event's record, which tells nothing to anyone who does not have the salt."""
    return hashlib.sha256(_LEAF + salt + canonical_json(record).encode()).digest()


def removal_leaf(record: dict[str, Json]) -> bytes:
    """The digest of a removal's record."""
    return hashlib.sha256(_REMOVAL + canonical_json(record).encode()).digest()


def merkle_root(leaves: Sequence[bytes]) -> bytes:
    """The root over leaves, as in RFC 6962: the left half is the largest power of two below their number."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << (len(leaves) - 1).bit_length() - 1
    halves = merkle_root(leaves[:split]) + merkle_root(leaves[split:])
    return hashlib.sha256(_NODE + halves).digest()


def instant_text(at: datetime) -> str:
    """An instant as it is sealed."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")
