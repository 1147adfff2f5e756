"""A way to reach people. A new one is a class with these few methods and one file. The docstrings are the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from handraise.model.deliveries import Reason
from handraise.model.json_values import Json
from handraise.model.people import ANYONE, GROUP
from handraise.model.questions import Question


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A question to tell somebody of, and the page where that person can answer it."""

    delivery_id: str
    question: Question
    reason: Reason
    link: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What one recipient is told at one address; more than one notice where several waited.

    `id` is the same however often it is sent, and so is everything else in it: a receiver can tell a second
    copy by it. `person` is whom the address belongs to, or None for a room that several share.
    """

    id: str
    workspace: str
    channel: str
    recipient: str
    to: Json = field(repr=False)
    at: datetime
    notices: Sequence[Notice]

    @property
    def person(self) -> str | None:
        """The person that the address belongs to."""
        return None if self.recipient.startswith((GROUP, ANYONE)) else self.recipient


class NotSent(Exception):
    """A message was not sent. `again` says whether another try could help, `after` not to try before that long.

    `within` says for how long to try, where that is less than the channel's patience; `arrived_perhaps` that it was
    handed over and the answer never came.
    """

    def __init__(
        self,
        problem: str,
        *,
        again: bool = True,
        after: timedelta | None = None,
        within: timedelta | None = None,
        arrived_perhaps: bool = False,
    ) -> None:
        super().__init__(problem)
        self.again = again
        self.after = after
        self.within = within
        self.arrived_perhaps = arrived_perhaps


class Channel(Protocol):
    """Renders questions for one medium, sends them, and changes them when they have ended.

    Replies come in through the server or a task of the channel's own, and are answers like any other: the desk
    checks who gives them.
    """

    @property
    def name(self) -> str:
        """What addresses and answers call it."""
        ...

    @property
    def private(self) -> bool:
        """Whether a message to a person reaches nobody else, so that a link in it may answer in their name."""
        ...

    @property
    def patience(self) -> timedelta:
        """For how long a message is tried again."""
        ...

    def rate_limit_key(self, to: Json) -> str | None:
        """Whatever is slow or dead together: a host, a team, one relay. None where the address makes no sense."""
        ...

    async def send(self, message: Message) -> Json:
        """Send a message and give back what `update` needs to find it; raises `NotSent`.

        Where people answer on this channel and it is one question, that is a dict with `shown` in it: the SHA-256, in
        hexadecimal, of what was put before them. The record of an answer has it.

        The same message may be sent again where it is not known whether it arrived.
        """
        ...

    async def update(self, message: Message, receipt: Json) -> None:
        """Change a message so that it says how its one question ended, or follow it up; raises `NotSent`.

        Nothing in it can be pressed any more. What can neither be changed nor followed up is left as it is. The
        receipt is None where nobody knows whether the message was sent.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What a channel answers to an HTTP request."""

    status: int = 200
    body: bytes = field(default=b"", repr=False)
    content_type: str = "text/plain; charset=utf-8"


class Rekeyed(Protocol):
    """A channel whose addresses have secrets in them, which change while messages wait."""

    def same_place(self, one: Json, other: Json) -> bool:
        """Whether two addresses differ in their secrets at most: what waits for one goes to the other."""
        ...


class EndsOnce(Protocol):
    """A channel that follows messages up instead of changing them."""

    @property
    def ends_once(self) -> bool:
        """Whether one place is told once that a question has ended, however many messages it got about it."""
        ...


class Receiver(Protocol):
    """A channel that is sent things over HTTP, at an address that anybody can reach."""

    async def receive(self, headers: Mapping[str, str], body: bytes) -> Response:
        """Take a request to heart, once it is shown to be genuine and fresh.

        Names of headers are in lower case. Whatever is forged, stale or garbled is a 401 or 400 that says no more,
        and changes nothing; the same request twice is one answer.
        """
        ...
