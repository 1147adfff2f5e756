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
    RETURNED = "returned"
    """A person sent it back, to be changed and asked again."""
    REPLACED = "replaced"
    """Its asker asked another question instead, after this one had ended."""
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
    OPENED = "opened"
    """It followed an equal question, which ended without an answer for this one. From now on it is asked itself."""
    TAKEN = "taken"
    """A person is working on the answer, for some minutes."""
    RELEASED = "released"
    """That person is not working on it any more."""
    BROUGHT_IN = "brought_in"
    """A person had others asked too."""
    HANDED_OVER = "handed_over"
    """A person had others asked too, and took the question out of their own inbox."""
    SET_ASIDE = "set_aside"
    """A person took it out of their own inbox, until a time or for good."""
    PUT_BACK = "put_back"
    """That person wants it in their inbox again."""
    REVOKED = "revoked"
    KEPT = "kept"
    """The person who answered keeps the answer for its topic."""
    SENT = "sent"
    """Its asker showed it in a chat of its own."""
    JOINED = "joined"
    """Another call of its asker waits for it too, with a key of its own."""
    UNREACHED = "unreached"
    """No notification was delivered. The question is still pending."""


SETTLING = frozenset(
    {
        EventKind.ANSWERED,
        EventKind.DECLINED,
        EventKind.EXPIRED,
        EventKind.WITHDRAWN,
        EventKind.EXHAUSTED,
        EventKind.RETURNED,
    }
)
"""The events that settle a question. Each is called as the status of the question is from then on."""


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
