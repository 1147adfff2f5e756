"""The port for reaching people. A new channel is one class in one file. The docstrings are the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

from handraise.model.callbacks import Callback
from handraise.model.deliveries import Reason
from handraise.model.events import Event
from handraise.model.json_values import Json
from handraise.model.people import ANYONE, GROUP
from handraise.model.questions import Question
from handraise.model.thread_messages import ThreadMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A question to notify somebody of, and the page where that person can answer it.

    `thread` is what people and the asker have written about it: an approval covers what the message shows of it.
    `brought` is the event with which somebody brought this recipient in, if that is the reason.
    """

    delivery_id: str
    question: Question
    reason: Reason
    link: str = field(repr=False)
    thread: Sequence[ThreadMessage] = field(default=(), repr=False)
    brought: Event | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message to one recipient at one address; it has more than one notice if several waited.

    If it is sent again, `id` and everything else stay the same, so a receiver can recognise a second copy.
    `person` is the owner of the address, or None for a room that several share.
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
        """The owner of the address."""
        return None if self.recipient.startswith((GROUP, ANYONE)) else self.recipient


class NotSent(Exception):
    """A message was not sent. `again` says whether another try could help, `after` how long to wait before it.

    `within` says for how long to try, if that is less than the channel's `patience`. `arrived_perhaps` says
    that it was handed over, but no response came.
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

    Replies come in through the server or through a task of the channel. They are answers like any other: the
    desk checks who gives them.
    """

    @property
    def name(self) -> str:
        """The channel's name in addresses and answers."""
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
        """A key for addresses that are slow or dead together: a host, a team, a relay.

        None if the address is invalid.
        """
        ...

    async def send(self, message: Message) -> Json:
        """Send a message and return what `update` needs to find it; raises `NotSent`.

        If people answer on this channel and the message is about one question, return a dict with `shown`:
        the SHA-256, in hexadecimal, of what was shown. The record of an answer keeps it.

        The same message may be sent again if it is unknown whether it arrived.
        """
        ...

    async def update(self, message: Message, receipt: Json) -> None:
        """Change a message so that it says how its one question ended, or follow it up; raises `NotSent`.

        Its buttons are removed. A message that can neither be changed nor followed up is left as it is. The
        receipt is None if it is unknown whether the message was sent.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A channel's response to an HTTP request."""

    status: int = 200
    body: bytes = field(default=b"", repr=False)
    content_type: str = "text/plain; charset=utf-8"


class Rekeyed(Protocol):
    """A channel whose addresses hold secrets that can change while messages wait."""

    def same_place(self, one: Json, other: Json) -> bool:
        """Whether two addresses differ at most in their secrets: then messages for one are sent to the other."""
        ...


class EndsOnce(Protocol):
    """A channel that follows messages up instead of changing them."""

    @property
    def ends_once(self) -> bool:
        """Whether a chat gets only one notice that a question has ended, however many messages it got about it."""
        ...


@runtime_checkable
class CallbackSender(Protocol):
    """A channel that also tells askers that their questions have ended."""

    def callback_problem(self, callback: Callback) -> str | None:
        """Why it must not be called, in words that show neither the URL nor the secret; None if it may be."""
        ...

    async def call_back(
        self,
        to: Json,
        question: Question,
        *,
        id: str,  # noqa: A002 -- as in `Message`
    ) -> None:
        """Tell the asker how its question ended; raises `NotSent`. With the same id, it is the same event every time."""
        ...


class Receiver(Protocol):
    """A channel that receives HTTP requests, at a URL that anybody can reach."""

    async def receive(self, headers: Mapping[str, str], body: bytes) -> Response:
        """Handle a request, if it is genuine and fresh.

        Names of headers are in lower case. A forged, stale or malformed request gets a 401 or 400 without
        details and changes nothing. The same request twice is one answer.
        """
        ...


@runtime_checkable
class TextSender(Protocol):
    """A channel that can also send a text that is not about a pending question."""

    async def send_text(
        self,
        to: Json,
        *,
        id: str,  # noqa: A002 -- as in `Message`
        at: datetime,
        subject: str,
        text: str,
        lines: Sequence[str],
    ) -> None:
        """Send a sentence and some lines to an address; raises `NotSent`."""
        ...
