"""Events: one line of a question's history for every transition, append-only."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from handraise.model.json_values import Json


class EventKind(StrEnum):
    """What happened to a question."""

    ASKED = "asked"
    ATTEMPTED = "attempted"
    VOTED = "voted"
    REMINDED = "reminded"
    ESCALATED = "escalated"
    ANSWERED = "answered"
    DECLINED = "declined"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    EXHAUSTED = "exhausted"
    CONSUMED = "consumed"
    TAKEN_BACK = "taken_back"
    """An approval that nobody had consumed was taken back."""
    REPORTED = "reported"
    """Its asker said what came of the answer."""
    ASKED_BACK = "asked_back"
    """A person asked the asker something."""
    NOTED = "noted"
    """A person noted something for the other people who may answer."""
    REPLIED = "replied"
    """The asker replied to what people asked."""
    REVOKED = "revoked"
    SENT = "sent"
    """Its asker showed it in a chat of its own."""
    JOINED = "joined"
    """Another call of its asker waits for it too, with a key of its own."""
    UNREACHED = "unreached"
    """No notification was delivered. The question is still pending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Who did what to a question, when, and through which channel.

    `cursor` is the event's place in the feed of its workspace: opaque, to be passed to `feed(after=…)`.
    """

    cursor: str
    workspace: str
    question_id: str
    kind: EventKind
    at: datetime
    by: str | None = None
    channel: str | None = None
    data: Json = field(default=None, repr=False)
