"""A server with a chat service at the other end: people in both, and a question's whole way, whatever the service."""

from __future__ import annotations

import abc
import asyncio
import copy
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypeVar

import httpx2

from handraise.desk.local_desk import LocalDesk
from handraise.model.deliveries import Address, DeliveryStatus
from handraise.model.identities import Role
from handraise.model.json_values import Json
from handraise.model.outcomes import Answered, Outcome
from handraise.model.questions import Question
from handraise.server import ServerContext, ServerSettings, create_app, open_server
from tests.channels.chat_peer import ChatPeer

WITHIN = 10.0
P = TypeVar("P", bound=ChatPeer[Any, Any])
"""The stand-in for the service."""
M = TypeVar("M")
"""A message as it stands there."""


@dataclass
class ChatTeam(abc.ABC, Generic[P, M]):
    """A chat service, a server, and the desk in it. Ann and bob are known here, a stranger only there."""

    peer: P
    ctx: ServerContext
    client: httpx2.AsyncClient

    channel: ClassVar[str]
    people: ClassVar[Mapping[str, Any]]
    stranger: ClassVar[Any]
    room: ClassVar[Json]
    evidence: ClassVar[frozenset[str]]
    not_here: ClassVar[Sequence[str]] = ()
    """What can be pressed where a question cannot be answered there."""
    reads: ClassVar[bool] = True
    """Whether it tells us what people write."""
    redraws: ClassVar[bool] = True
    """Whether a message that is pressed too late is changed, and not only shown to that person in another way."""
    draws_again: ClassVar[bool] = True
    """Whether a message is changed if its conversation has moved on."""

    @property
    def desk(self) -> LocalDesk:
        return self.ctx.desk

    @property
    def inbound(self) -> str:
        return f"/v1/channels/{self.channel}/inbound"

    @abc.abstractmethod
    def anew(self) -> Self:
        """The same team for another test: nobody remembers anything."""

    @abc.abstractmethod
    def address(self, user: Any) -> Json:
        """Where messages to one person go."""

    @abc.abstractmethod
    async def press(self, user: Any, message: M, deed: str) -> None:
        """Let somebody press yes, no, or decline."""

    @abc.abstractmethod
    async def told_alone(self, user: Any) -> str:
        """What somebody was told about what they pressed."""

    @abc.abstractmethod
    async def write(self, user: Any, message: M, text: str) -> str:
        """Let somebody reply to a message, and give back what they are told."""

    async def approve(self, user: Any, message: M) -> str:
        """Let somebody approve, with all confirmations, and give back what they are told, if anything."""
        raise NotImplementedError

    async def offer(self, user: Any, message: M, text: str) -> Any:
        """Let somebody write something about an approval; gives back what they are asked then."""
        raise NotImplementedError

    def offered(self, offer: Any) -> list[str]:
        """The kinds of message that somebody can choose from."""
        raise NotImplementedError

    async def choose(self, user: Any, offer: Any, kind: str) -> str:
        """Let somebody say what their text is, and give back what they are told."""
        raise NotImplementedError

    async def later(self, question: Question, before: M) -> M:
        """The next message of a question after another one, once it has come."""

        def fits(each: Any) -> bool:
            is_later = self.number_of(each) > self.number_of(before)
            return is_later and self.is_about(each, question) and "moved on" not in each.shown

        found: M = await self.peer.message(fits)
        await self.delivered(question)
        return found

    def number_of(self, message: M) -> Any:
        """When a message was sent, compared with others."""
        raise NotImplementedError

    def is_about(self, message: M, question: Question) -> bool:
        return f"/questions/{question.id}" in message.shown  # type: ignore[attr-defined]  # every peer has it

    def put_back(self, message: M) -> None:
        """Let a message look as it did before: somebody's client may show it so for a while."""
        self.peer.messages[self.name_of(message)] = copy.deepcopy(message)

    async def find(self, fits: Any) -> M:
        """The message that fits, once there is one."""
        found: M = await self.peer.message(fits)
        return found

    async def ask(self, prompt: str = "Which strategy?", **options: Any) -> tuple[Question, M]:
        """Post a question to ann, unless said otherwise, and wait for its message."""
        question = await self.desk.post(prompt, **({"recipients": ["ann"]} | options))
        return question, await self.sent(question)

    async def sent(self, question: Question) -> M:
        """The message of a question, once it has come and we know that it has."""
        message = await self.find(lambda each: self.is_about(each, question))
        await self.delivered(question)
        return message

    async def delivered(self, question: Question, *but: DeliveryStatus) -> None:
        """Return once no delivery of a question is on its way, or in one of these other ways."""
        unfit = {DeliveryStatus.QUEUED, *but}
        async with asyncio.timeout(WITHIN):
            while {each.status for each in await self.ctx.outbox.deliveries(question.ref)} & unfit:
                await asyncio.sleep(0.005)

    async def ended(self, message: M) -> M:
        """The message as it is once it says how its question ended."""
        return await self.find(lambda each: self.name_of(each) == self.name_of(message) and each.edits > 0)

    @abc.abstractmethod
    def name_of(self, message: M) -> object:
        """What the service calls a message."""

    async def outcome(self, question: Question) -> Outcome:
        """What the asker gets."""
        return await self.desk.wait(question.id, timeout=WITHIN)

    async def value(self, question: Question) -> Any:
        """The value that the asker gets; fails unless ann gave it through this service."""
        outcome = await self.outcome(question)
        assert isinstance(outcome, Answered)
        assert (outcome.by, outcome.channel) == ("ann", self.channel)
        assert outcome.evidence in self.evidence
        return outcome.value

    async def untouched(self, question: Question) -> None:
        """Fail unless nothing has happened to a question since it was asked."""
        now = await self.desk.get(question.id)
        assert (now.outcome, now.attempts, now.votes) == (None, 0, ())
        assert [each.kind.value for each in await self.desk.history(question.id)] == ["asked"]

    async def post(self, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        """The service's request to the server."""
        answer = await self.client.post(self.inbound, content=body, headers=dict(headers))
        return answer.status_code, answer.content

    async def introduce(self) -> None:
        """Tell the server who the people are, and of a room that they share."""
        workspace = self.ctx.settings.workspace
        to: dict[str, tuple[str, Json]] = {"group:ops": ("room", self.room)}
        for person, user in self.people.items():
            await self.ctx.directory.put_person(workspace, person, name=person, email=None, role=Role.MEMBER)
            to[person] = (str(user), self.address(user))
        await self.ctx.directory.put_group(workspace, "ops", list(self.people))
        for recipient, (name, where) in to.items():
            address = Address(
                workspace=workspace, recipient=recipient, channel=self.channel, id=name, to=where
            )
            await self.ctx.outbox.put_address(address)


T = TypeVar("T", bound=ChatTeam[Any, Any])


@asynccontextmanager
async def open_server_with(
    kind: type[T], peer: Any, *, url: str = "memory:", **settings: Any
) -> AsyncIterator[T]:
    """A server on a store, with a peer that may have had another one before."""
    given = ServerSettings(url=url, poll_interval=0.2, **({"public_url": "https://desk.example"} | settings))
    async with open_server(given) as ctx:
        inside = httpx2.ASGITransport(app=create_app(ctx), client=("192.0.2.1", 50_000))
        async with httpx2.AsyncClient(transport=inside, base_url=given.base_url, verify=False) as client:
            team = kind(peer, ctx, client)
            await team.introduce()
            yield team
