"""A chat service as a channel: a question is posted, edited when it ends, and answered there.

A service is an adapter: it says what a message looks like there, where it goes, and whether a request is genuine.
"""

from __future__ import annotations

import abc
import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar, Generic, TypeVar

from handraise.channels.background_tasks import BackgroundTasks
from handraise.channels.inbound_replies import Replies
from handraise.channels.payloads import InvalidPayload, as_json
from handraise.channels.sent_files import SentFile, read_files
from handraise.model.json_values import Json, digest
from handraise.model.problems import HandraiseError
from handraise.ports.channel import Message, NotSent, Response

_log = logging.getLogger(__name__)

A = TypeVar("A")
"""What an address leads to: a person or a room."""
P = TypeVar("P")
"""Where messages go: a room, a chat, a conversation."""
_FILES_WITHIN = 12.0
"""How long files may take: a message must be confirmed in time, and it stands without them."""


class NotGenuine(Exception):
    """A request does not come from the service."""


class ChatChannel(abc.ABC, Generic[A, P]):
    """Reaches people through a chat service. See `handraise.ports.channel`."""

    name: ClassVar[str]
    service: ClassVar[str]
    """What people call it."""
    receipt: ClassVar[tuple[str, str]]
    """What a receipt calls the place that a message went to, and the message there."""
    private = False
    """The owners of a service can read its messages, and people forward them: no link in one may answer."""
    patience = timedelta(days=1)

    brings_files: ClassVar[bool] = False
    """Whether files are posted below the message of a question."""

    def __init__(self, replies: Replies) -> None:
        self._replies = replies
        self._tasks = BackgroundTasks(self.name, expected=(InvalidPayload,))

    def rate_limit_key(self, to: Json) -> str | None:
        """The one bot at the one service; None if the address makes no sense."""
        return None if self._read_address(to) is None else self.name

    async def send(self, message: Message) -> Json:
        """Post a message about one question, or about several that waited."""
        place = await self._place(message.to)
        one = len(message.notices) == 1
        body = self._render(message)
        sent = await self._post(place, body, message.id, None)
        if not one:
            return self._receipt(*sent) | {"several": True}
        if self.brings_files:
            await self._bring_files(message, *sent)
        seen = self._seen(message)
        return self._receipt(*sent) | {"shown": digest(body)} | ({"seen": seen} if seen else {})

    async def update(self, message: Message, receipt: Json) -> None:
        """Update a message to say how its question ended, and what came of it.

        Below a message with several questions, a new one says so.
        """
        reported = message.notices[0].question.report is not None
        body, name = self._render_outcome(message), f"{message.id} {'reported' if reported else 'ended'}"
        sent = self._sent(receipt) if isinstance(receipt, dict) else None
        if sent is None:
            await self._post(await self._place(message.to), body, name, None)
        elif receipt.get("several"):
            await self._post(sent[0], body, name, sent[1])
        else:
            await self._edit(*sent, body)

    async def receive(self, headers: Mapping[str, str], body: bytes) -> Response:
        """Take a request from the service; see `handraise.ports.channel.Receiver`."""
        try:
            payload = await self._genuine(headers, body)
            answer = await self._handle(payload)
        except NotGenuine:
            return Response(status=401)
        except InvalidPayload:
            return Response(status=400)
        except (HandraiseError, NotSent) as error:
            why = type(error).__name__
            _log.warning(
                "something from %s could not be done (%s); it may come again",
                self.service,
                why,
                extra={"event": "channel_input_failed"},
            )
            return Response(status=503)
        if answer is None:
            return Response()
        return Response(body=as_json(answer), content_type="application/json")

    async def finish(self) -> None:
        """Wait a short time for the running tasks."""
        await self._tasks.finish()

    async def _bring_files(self, message: Message, place: P, sent: Any) -> None:
        """Post the files of a question below its message, where nobody else sees them.

        If that fails, the message stands: it has their names, and the page has the files. If the same message is sent
        again, so are its files, and they are the same if the service can tell.
        """
        try:
            async with asyncio.timeout(_FILES_WITHIN):
                if files := await read_files(self._replies, message.notices[0]):
                    await self._post_files(place, sent, files, f"{message.id} files")
        except Exception as error:  # noqa: BLE001 -- whatever it is, the question has been told
            # An error of ours says what to do, such as which permission is missing; any other may have secrets in it.
            why = str(error) if isinstance(error, NotSent) else type(error).__name__
            _log.warning(
                "the files of a message could not be sent to %s: %s",
                self.service,
                why,
                extra={"event": "channel_files_failed"},
            )

    async def _post_files(self, place: P, sent: Any, files: Sequence[SentFile], name: str, /) -> None:
        """Post files in reply to a message; raises `NotSent`. The same `name` twice is one message, if the service can tell."""
        raise NotImplementedError

    async def _place(self, to: Json) -> P:
        address = self._read_address(to)
        if address is None:
            raise NotSent(f"the address makes no sense to {self.service}", again=False)
        return await self._open(address)

    def _seen(self, message: Message) -> int | None:  # noqa: ARG002 -- for services whose messages do not say it
        """How many messages of its thread a message shows, if only the receipt can say so later."""
        return None

    def _receipt(self, place: P, sent: Any) -> dict[str, Json]:
        return dict(zip(self.receipt, (place, sent), strict=True))

    def _sent(self, receipt: dict[str, Json]) -> tuple[P, Any] | None:
        """Where a message went and what it is called there; None if a receipt does not say so."""
        place, sent = (receipt.get(each) for each in self.receipt)
        return None if place is None or sent is None else (place, sent)

    @abc.abstractmethod
    def _read_address(self, to: Json) -> A | None:
        """What an address leads to, or None if it makes no sense."""

    @abc.abstractmethod
    async def _open(self, address: A, /) -> P:
        """Where messages to an address go; raises `NotSent`."""

    @abc.abstractmethod
    def _render(self, message: Message) -> dict[str, Any]:
        """What is posted about one question, or about several."""

    @abc.abstractmethod
    def _render_outcome(self, message: Message) -> dict[str, Any]:
        """What is posted about how a question ended."""

    @abc.abstractmethod
    async def _post(self, place: P, body: dict[str, Any], name: str, below: Any, /) -> tuple[P, Any]:
        """Post a message, in reply to another or not, and say where it went and what it is called there.

        The same `name` twice is one message, if the service can tell.
        """

    @abc.abstractmethod
    async def _edit(self, place: P, sent: Any, body: dict[str, Any], /) -> None:
        """Change a message."""

    @abc.abstractmethod
    async def _genuine(self, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
        """What a request says; raises `NotGenuine`, or `InvalidPayload` if it cannot be read."""

    @abc.abstractmethod
    async def _handle(self, payload: dict[str, Any]) -> Mapping[str, Any] | None:
        """Do what a genuine request says, and return the answer for the service."""
