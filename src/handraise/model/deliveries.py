"""Deliveries: attempts to reach people, each with a visible status; and the addresses they go to."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Literal, TypeAlias

from handraise.model.callbacks import Callback, callback_place
from handraise.model.json_values import Json, digest
from handraise.model.questions import Question, Ref

CALLBACK_CHANNEL = "webhook"
"""The channel that makes the callbacks of agents."""


class DeliveryStatus(StrEnum):
    """The status of an attempt to reach somebody."""

    QUEUED = "queued"
    SENT = "sent"
    UPDATED = "updated"
    """It was sent, and now says how the question ended."""
    UNSENT = "unsent"
    """The question ended before it was sent."""
    FAILED = "failed"
    UNKNOWN = "unknown"
    """It was handed over, but whether it arrived is unknown. It may be tried again."""
    WAITING = "waiting"
    """A callback that has not been made: its question has not ended, or it is tried again."""


CALLBACK: Final = "callback"
Reason: TypeAlias = Literal["asked", "reminded", "escalated", "brought_in", "noted", "replied"]
"""Why somebody is notified."""
DeliveryReason: TypeAlias = Reason | Literal["callback"]
"""Why there is a delivery: somebody is notified, or the asker is called back once its question has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a recipient can be reached through a channel. Only the channel interprets `to`.

    A recipient is a person, a group (`group:ops`, for a room they share), or `*` for questions to anyone.
    """

    workspace: str
    recipient: str
    channel: str
    id: str
    """Identifies it among the recipient's addresses on that channel; an address with the same name is replaced."""
    to: Json = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One attempt to reach one recipient through one channel about one question.

    The id stays the same when it is tried again. `receipt` is what the channel needs to change the message
    later; `stale` says that the message shows a question that has ended. Deliveries that share a `bundle` are
    sent as one message.
    """

    workspace: str
    id: str
    question_id: str
    recipient: str
    channel: str
    to: Json = field(repr=False)
    reason: DeliveryReason
    rate_limit_key: str
    created_at: datetime
    due_at: datetime | None = None
    """When it is next tried, or None if nothing is left to do."""
    bundle: str | None = None
    status: DeliveryStatus = DeliveryStatus.QUEUED
    tries: int = 0
    turn: int = 0
    """How often it has been taken, which tells the workers that took it apart."""
    stale: bool = False
    sent_at: datetime | None = None
    receipt: Json = field(default=None, repr=False)
    problem: str | None = None

    @property
    def is_to_be_sent(self) -> bool:
        """Whether the next try sends it; otherwise it updates the message."""
        return self.status in (DeliveryStatus.QUEUED, DeliveryStatus.UNKNOWN) and not self.stale

    @property
    def is_retried(self) -> bool:
        """Whether its last try failed and it is to be sent again."""
        return self.is_to_be_sent and self.problem is not None and self.due_at is not None

    @property
    def may_have_arrived(self) -> bool:
        """Whether it has notified somebody who can answer, or still may."""
        if self.is_callback or self.status in (DeliveryStatus.FAILED, DeliveryStatus.UNSENT):
            return False
        return self.status is not DeliveryStatus.UNKNOWN or self.due_at is not None

    @property
    def is_callback(self) -> bool:
        """Whether it tells the asker that its question has ended. It is stored with the question, and due at its end."""
        return self.reason == CALLBACK

    @property
    def question(self) -> Ref:
        """The question it is about."""
        return Ref(self.workspace, self.question_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """The result of trying a delivery. `again_after` is how long to wait before the next try, if there is one."""

    delivery: Delivery
    status: DeliveryStatus
    receipt: Json = field(default=None, repr=False)
    problem: str | None = None
    again_after: timedelta | None = None


def callback_delivery(question: Question, callback: Callback) -> Delivery:
    """The delivery of a callback, as it is stored with its question. One that has ended already is due at once."""
    ended = question.outcome is not None
    return Delivery(
        workspace=question.workspace,
        id=callback_id(question.ref),
        question_id=question.id,
        recipient=question.asker,
        channel=CALLBACK_CHANNEL,
        to=callback_destination(callback),
        reason=CALLBACK,
        rate_limit_key=callback_rate_limit_key(callback),
        created_at=question.asked_at,
        due_at=question.asked_at if ended else None,
        status=DeliveryStatus.WAITING,
        stale=ended,
    )


def callback_id(ref: Ref) -> str:
    """The id of a question's callback: there is one."""
    return digest(["handraise callback", *ref])[:32]


def callback_destination(callback: Callback) -> dict[str, Json]:
    """A callback as the address that its channel reads."""
    return {"url": callback.url, "secret": callback.secret}


def callback_rate_limit_key(callback: Callback) -> str:
    """The key of its host and port. Webhooks to people there have another: agents must not hold them up."""
    return f"{CALLBACK} {callback_place(callback)}"


def called_place(delivery: Delivery) -> str:
    """The host and port that a callback calls."""
    return delivery.rate_limit_key.removeprefix(f"{CALLBACK} ")


def made_stale(delivery: Delivery, now: datetime) -> Delivery:
    """The same delivery once its question has ended.

    A callback is due now. If it was sent, or may have been, its message must be updated. If nobody has tried it, it is not sent. If
    somebody is trying it now, they go on. If that was so before, the asker has reported what came of the answer: what
    was sent must be updated again, and an update that is under way counts as not made.
    """
    if delivery.stale and delivery.status in (DeliveryStatus.SENT, DeliveryStatus.UPDATED):
        return replace(delivery, due_at=now, turn=delivery.turn + 1)
    if delivery.stale:
        return delivery
    stale = replace(delivery, stale=True)
    if delivery.status is DeliveryStatus.WAITING:
        return replace(stale, created_at=now, due_at=now)
    if delivery.status is DeliveryStatus.QUEUED and not delivery.turn:
        return replace(stale, status=DeliveryStatus.UNSENT, due_at=None)
    if delivery.status in (DeliveryStatus.SENT, DeliveryStatus.UNKNOWN) and delivery.due_at is None:
        return replace(stale, due_at=now)
    return stale


def tried_again(delivery: Delivery, now: datetime) -> Delivery:
    """A delivery that failed, as new: it is due now, and has its whole time again."""
    return replace(
        delivery,
        status=DeliveryStatus.QUEUED,
        created_at=now,
        due_at=now,
        bundle=None,
        tries=0,
        turn=delivery.turn + 1,
        problem=None,
    )


def after_try(delivery: Delivery, tried: Try, now: datetime) -> Delivery:
    """The same delivery with the result of a try, unless somebody else has taken it over since."""
    if delivery.turn != tried.delivery.turn:
        return delivery
    status = tried.status
    due_at = None if tried.again_after is None else now + tried.again_after
    arrives = status is DeliveryStatus.SENT and delivery.status in (
        DeliveryStatus.QUEUED,
        DeliveryStatus.UNKNOWN,
    )
    if delivery.stale and status is DeliveryStatus.QUEUED:
        status, due_at = DeliveryStatus.UNSENT, None
    elif delivery.stale and arrives:
        due_at = now
    return replace(
        delivery,
        status=status,
        sent_at=now if arrives else delivery.sent_at,
        tries=0 if arrives else delivery.tries,
        receipt=delivery.receipt if tried.receipt is None else tried.receipt,
        problem=tried.problem,
        due_at=due_at,
    )
