"""Passkeys over HTTP."""

from __future__ import annotations

from datetime import datetime

from handraise.model.passkey_signatures import Passkey
from handraise.wire.records import Record


class PasskeyRecord(Record):
    """A passkey of a person. `vouched_by` is that of the session in which it was added."""

    id: str
    name: str
    domain: str
    created_at: datetime
    last_used_at: datetime | None = None
    vouched_by: str | None = None

    @classmethod
    def of(cls, passkey: Passkey) -> PasskeyRecord:
        """The record of a passkey."""
        return cls(**{name: getattr(passkey, name) for name in cls.model_fields})


class PasskeyList(Record):
    """The passkeys of one person, the oldest first."""

    passkeys: tuple[PasskeyRecord, ...]
