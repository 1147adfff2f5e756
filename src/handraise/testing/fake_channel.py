"""A channel for tests: it keeps what would be sent, and what people reply goes the way of every real channel."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Unpack

from handraise import Desk, Question
from handraise.channels import Replies, Reply, ReplyResult
from handraise.channels.message_texts import heading_of, waiting_text
from handraise.channels.plain_messages import ended_lines, lines_of, mention_of
from handraise.desk.dispatcher import run_dispatcher
from handraise.desk.local_desk import LocalDesk
from handraise.desk_factory import DeskOptions, desk_from_store, open_backend
from handraise.model.deliveries import Address, Delivery
from handraise.model.durations import Span, seconds_of
from handraise.model.identities import Role
from handraise.model.json_values import Json
from handraise.model.people import ANYONE
from handraise.ports import Backend, Clock
from handraise.ports.channel import Message, NotSent

_PAUSE = 0.002
_EVERYBODY = "everybody"
_EVIDENCE = "fake-channel"


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message that a person would have got, or with `ended` what it was changed to when the question had ended.

    `text` is what it says, `reason` why it was sent: "asked", "reminded", "escalated" …
    """

    to: str
    text: str
    reason: str
    question: Question
    link: str
    ended: bool
    message: Message


class FakeChannel:
    """Keeps messages instead of sending them. See `handraise.ports.channel` for what each method of a channel promises.

    `async with channel.open_desk() as desk:` opens a desk whose questions are sent through it. At a server it is a
    channel like any other: `open_server(settings, channels=[channel.open])`. While `is_down`, nothing can be sent.
    """

    patience = timedelta(hours=6)

    def __init__(self, name: str = "fake", *, private: bool = True) -> None:
        """`private` says whether a message to a person reaches nobody else."""
        self.name = name
        self.private = private
        self.is_down = False
        self.sent: list[SentMessage] = []
        self._returned = 0
        self._numbers = count(1)
        self._desk: LocalDesk | None = None
        self._backend: Backend | None = None
        self._replies: Replies | None = None
        self._task: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def open(self, replies: Replies) -> AsyncIterator[FakeChannel]:
        """Take part in a server, as `HANDRAISE_CHANNELS` and `open_server` open a channel."""
        self._replies = replies
        yield self

    @asynccontextmanager
    async def open_desk(
        self,
        url: str = "memory:",
        *,
        people: Iterable[str] = ("ana",),
        clock: Clock | None = None,
        **options: Unpack[DeskOptions],
    ) -> AsyncIterator[Desk]:
        """A desk whose questions are sent through this channel, which reaches these people."""
        async with (
            open_backend(url, clock=clock) as backend,
            desk_from_store(
                backend.store,
                backend.bus,
                directory=backend.directory,
                policies=backend.policies,
                files=backend.files,
                blobs=backend.blobs,
                clock=clock,
                **options,
            ) as desk,
        ):
            self._serve(desk, backend)
            for person in people:
                await self.add_person(person)
            async with self._dispatching():
                yield desk

    async def add_person(self, name: str, *, groups: Sequence[str] = ()) -> None:
        """Add a person whom this channel reaches, to a desk that this channel has opened."""
        if self._desk is None or self._backend is None:
            raise TypeError("Open the desk with `async with channel.open_desk() as desk:` first.")
        workspace, directory = self._desk.workspace, self._backend.directory
        await directory.put_person(workspace, name, name=name, email=None, role=Role.MEMBER)
        for group in groups:
            members = (await directory.groups(workspace)).get(group, ())
            await directory.put_group(workspace, group, [*members, name])
        for recipient, place in ((name, name), (ANYONE, _EVERYBODY)):
            await self._backend.outbox.put_address(
                Address(
                    workspace=workspace,
                    recipient=recipient,
                    channel=self.name,
                    id=place,
                    to={"name": place},
                )
            )

    async def next_message(self, *, patience: Span = 10) -> SentMessage:
        """The next message, or change to one, as soon as it is sent. After `patience`, which is real time, it raises."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds_of(patience)):
                while len(self.sent) <= self._returned:  # noqa: ASYNC110 -- a dispatcher may run on another loop
                    await asyncio.sleep(_PAUSE)
                self._returned += 1
                return self.sent[self._returned - 1]
        raise AssertionError(
            f"Nothing more was sent through the channel {self.name!r} within {seconds_of(patience):g} seconds. Is the "
            "question for somebody whom it reaches? `await channel.add_person(…)` adds a person."
        )

    async def reply(
        self,
        text: str,
        *,
        by: str = "ana",
        question: Question | None = None,
        id: str | None = None,  # noqa: A002 -- as in `Reply`
    ) -> ReplyResult:
        """Type a reply as this person: to a question, or else to the last message that they got.

        `text` of the result is what the person is told. The same `id` twice is one reply.
        """
        return await self._take(by, question, id, text=text)

    async def press(
        self,
        value: Json,
        *,
        by: str = "ana",
        question: Question | None = None,
        id: str | None = None,  # noqa: A002 -- as in `Reply`
    ) -> ReplyResult:
        """Press a button as this person; `value` is the answer that it gives."""
        return await self._take(by, question, id, value=value)

    async def _take(
        self,
        by: str,
        question: Question | None,
        id: str | None,  # noqa: A002 -- as in `Reply`
        *,
        text: str | None = None,
        value: Json = None,
    ) -> ReplyResult:
        if self._replies is None:
            raise TypeError(
                "Nothing reads replies: open the desk with `async with channel.open_desk() as desk:`."
            )
        about = question or self._last_question(by)
        return await self._replies.take(
            Reply(
                workspace=about.workspace,
                question_id=about.id,
                channel=self.name,
                identity=by,
                evidence=_EVIDENCE,
                id=id or f"reply-{next(self._numbers)}",
                text=text,
                value=value,
                seen=about.thread or None,
            )
        )

    def _last_question(self, person: str) -> Question:
        for each in reversed(self.sent):
            if each.to in (person, ANYONE) and not each.ended:
                return each.question
        raise AssertionError(
            f"{person!r} has got no message to reply to. Wait for it: `await channel.next_message()`."
        )

    def rate_limit_key(self, to: Json) -> str | None:
        """One for all: it is down as a whole."""
        return self.name if isinstance(to, dict) and _is_name(to.get("name")) else None

    async def send(self, message: Message) -> Json:
        """Keep a message."""
        if len(message.notices) == 1:
            [notice] = message.notices
            lines = [f"{heading_of(notice.question)}:", *lines_of(notice), notice.link]
        else:
            lines = [waiting_text(len(message.notices))]
            lines += [line for each in message.notices for line in mention_of(each)]
        text = "\n".join(lines)
        self._keep(message, text, ended=False)
        return {"shown": hashlib.sha256(text.encode()).hexdigest()} if len(message.notices) == 1 else {}

    async def update(self, message: Message, receipt: Json) -> None:
        """Keep what a message is changed to."""
        del receipt
        ended, lines = ended_lines(message.notices[0].question)
        self._keep(message, "\n".join((ended, *lines)), ended=True)

    def _keep(self, message: Message, text: str, *, ended: bool) -> None:
        if self.is_down:
            raise NotSent(f"the channel {self.name!r} is down")
        first = message.notices[0]
        self.sent.append(
            SentMessage(message.recipient, text, first.reason, first.question, first.link, ended, message)
        )

    def _serve(self, desk: LocalDesk, backend: Backend) -> None:
        self._desk, self._backend = desk, backend
        self._replies = Replies(desk, backend.directory, backend.outbox)

    def _start(self) -> None:
        """Send on the loop that is running, until it ends."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._send_for_ever(), name="handraise sends")

    async def _send_for_ever(self) -> None:
        async with self._dispatching():
            await asyncio.Event().wait()

    @asynccontextmanager
    async def _dispatching(self) -> AsyncIterator[None]:
        assert self._desk is not None
        assert self._backend is not None
        async with run_dispatcher(
            self._desk._engine,  # noqa: SLF001 -- a server has the engine at hand
            self._backend.outbox,
            self._backend.directory,
            [self],
            link_to=_link_to,
        ):
            yield


async def _link_to(delivery: Delivery) -> str:
    return f"https://handraise.example/questions/{delivery.question_id}"


def _is_name(name: Json) -> bool:
    return isinstance(name, str) and bool(name.strip())
