"""A server with Microsoft at the other end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Self

from handraise.channels.teams.channel import Teams
from handraise.model.json_values import Json
from tests.channels.chat_team import ChatTeam, open_server_with
from tests.channels.teams_peer import APP, ROOM, SECRET, TENANT, Posted, TeamsPeer, open_peer
from tests.channels.teams_rules import as_text, buttons_in

ANN = "0a0a0a0a-0000-4000-8000-00000000000a"
BOB = "0b0b0b0b-0000-4000-8000-00000000000b"
STRANGER = "0e0e0e0e-0000-4000-8000-00000000000e"
PEOPLE = {"ann": ANN, "bob": BOB}
INBOUND = "/v1/channels/teams/inbound"


class Office(ChatTeam[TeamsPeer, Posted]):
    """Microsoft, a server, and the desk in it."""

    channel = "teams"
    people: ClassVar = PEOPLE
    stranger = STRANGER
    room: ClassVar = {"conversation": ROOM}
    evidence = frozenset({"teams-token"})
    redraws = False
    draws_again = False
    said = ""

    @property
    def teams(self) -> Teams:
        """The channel itself."""
        found = self.ctx.channels["teams"]
        assert isinstance(found, Teams)
        return found

    def anew(self) -> Self:
        self.peer.messages.clear()
        return self

    def address(self, user: Any) -> Json:
        return {"user": user}

    async def press(self, user: Any, message: Posted, deed: str) -> None:
        said = await self.peer.press(user, message, deed)
        self.said = said if isinstance(said, str) else as_text(said)

    async def told_alone(self, user: Any) -> str:  # noqa: ARG002 -- it was the one who pressed
        return self.said

    async def write(self, user: Any, message: Posted, text: str) -> str:
        await self.peer.send(self.peer.typed(user, message.conversation, text, replyToId=message.id))
        return await self.told(message.conversation)

    async def approve(self, user: Any, message: Posted) -> str:
        said = await self.peer.press(user, message, "approve")
        if not isinstance(said, str) and "approved" in [each["verb"] for each in buttons_in(said)]:
            said = await self.peer.press(user, message, "approved", card=said)
        return said if isinstance(said, str) else as_text(said)

    async def offer(self, user: Any, message: Posted, text: str) -> Posted:
        known = set(self.peer.messages)
        await self.peer.send(self.peer.typed(user, message.conversation, text, replyToId=message.id))
        return await self.find(lambda each: self.name_of(each) not in known)

    def offered(self, offer: Posted) -> list[str]:
        return [each["verb"] for each in buttons_in(offer.card)]

    async def choose(self, user: Any, offer: Posted, kind: str) -> str:
        said: str = await self.peer.press(user, offer, kind)
        return said

    def number_of(self, message: Posted) -> int:
        return list(self.peer.messages).index(self.name_of(message))

    def name_of(self, message: Posted) -> object:
        return message.conversation, message.id

    async def told(self, conversation: str) -> str:
        """What was said in a conversation in answer to what somebody typed, once it was."""
        return (await self.find(lambda each: each.conversation == conversation and each.card is None)).shown


@asynccontextmanager
async def open_office(**settings: Any) -> AsyncIterator[Office]:
    """An office whose people are known here, for as long as this context lasts."""
    async with open_peer() as peer:
        peer.people.update(dict.fromkeys((*PEOPLE.values(), STRANGER), TENANT))
        async with open_server_for(peer, **settings) as office:
            yield office


@asynccontextmanager
async def open_server_for(peer: TeamsPeer, **settings: Any) -> AsyncIterator[Office]:
    """A server with a peer that may have had another one before."""
    given: dict[str, Any] = {
        "teams_app_id": APP,
        "teams_app_secret": SECRET,
        "teams_tenant": TENANT,
        "teams_service_urls": [peer.service],
        "teams_login_url": f"{peer.url}/login",
        "teams_metadata_url": peer.metadata_url,
    }
    async with open_server_with(Office, peer, **(given | settings)) as office:
        peer.post = office.post
        yield office
