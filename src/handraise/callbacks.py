"""Callbacks: a program that asks and holds no connection is told by HTTP that its question has ended."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pydantic

from handraise.model.callbacks import Callback
from handraise.model.errors import CallbackRefused
from handraise.model.outcomes import Outcome
from handraise.model.webhook_signatures import genuine, is_fresh, secret_bytes
from handraise.wire.records import OutcomeRecord

__all__ = [
    "Callback",
    "CallbackEvent",
    "verify_callback",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackEvent:
    """How a question ended. A callback that is sent again has the same `id`."""

    id: str
    question_id: str
    workspace: str
    asker: str
    key: str | None
    conversation: str | None
    tool_call: str | None
    outcome: Outcome = field(repr=False)


def verify_callback(
    headers: Mapping[str, str], body: bytes, *, secret: str | Sequence[str], now: float | None = None
) -> CallbackEvent:
    """The event of a request that the desk signed with this secret, or with one of these, at most five minutes ago.

    Raises `CallbackRefused` for any other request. `body` are the bytes as they came. `now` is the time in seconds since
    1970, if not that of the clock.
    """
    secrets = [secret_bytes(each) for each in ((secret,) if isinstance(secret, str) else secret)]
    if not secrets or None in secrets:
        raise ValueError("The secret must be whsec_ and 24 to 64 random bytes in Base64.")
    named = {name.lower(): value for name, value in headers.items()}
    now = time.time() if now is None else now
    if not is_fresh(named, now=now):
        raise CallbackRefused("it has no id, or it was not sent within the last five minutes")
    if not genuine(named, body, [each for each in secrets if each is not None], now=now):
        raise CallbackRefused("it is not signed with this secret")
    try:
        event = _Event.model_validate_json(body)
        outcome = event.data.question.outcome.outcome()
    except (pydantic.ValidationError, ValueError, LookupError, TypeError, RecursionError):
        raise CallbackRefused("it does not say how a question ended") from None
    if event.id != named["webhook-id"]:
        raise CallbackRefused("its event has another id")
    question = event.data.question
    return CallbackEvent(
        id=event.id,
        question_id=question.id,
        workspace=question.workspace,
        asker=question.asker,
        key=question.key,
        conversation=question.conversation,
        tool_call=question.tool_call,
        outcome=outcome,
    )


class _Question(pydantic.BaseModel):
    id: str
    workspace: str
    asker: str
    key: str | None = None
    conversation: str | None = None
    tool_call: str | None = None
    outcome: OutcomeRecord


class _Data(pydantic.BaseModel):
    question: _Question


class _Event(pydantic.BaseModel):
    """The CloudEvent, as far as it is read here: a later release may say more."""

    id: str
    type: Literal["dev.handraise.question.settled"]
    data: _Data
