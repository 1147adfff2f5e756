"""A server with Telegram at the other end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Literal, Self

from handraise.channels.telegram import Telegram
from handraise.model.json_values import Json
from handraise.model.questions import Question
from tests.channels.chat_team import ChatTeam, open_server_with
from tests.channels.telegram_peer import BOT_TOKEN, ROOM, SECRET, Posted, TelegramPeer, open_peer

Transport = Literal["webhook", "poll"]
ANN, BOB, EVE = 1_001, 1_002, 1_666
PEOPLE = {"ann": ANN, "bob": BOB}
INBOUND = "/v1/channels/telegram/inbound"
LABELS = {
    "yes": ("Yes",),
    "no": ("No",),
    "decline": ("Decline…", "End for everyone…"),
    "deny": ("Deny",),
    "send_back": ("Send back…",),
    "aside": ("Not for me",),
}
"""What a button says: what declines says whether that ends it for others."""
WRITING = {"asked_back": "Ask the agent", "noted": "Note for colleagues"}


class Team(ChatTeam[TelegramPeer, Posted]):
    """Telegram, a server, and the desk in it."""

    channel = "telegram"
    people: ClassVar = PEOPLE
    stranger = EVE
    room: ClassVar = {"chat": ROOM}
    evidence = frozenset({"telegram-secret", "telegram-poll"})
    not_here = ("Send back…", "Decline…")

    @property
    def telegram(self) -> Telegram:
        """The channel itself."""
        found = self.ctx.channels["telegram"]
        assert isinstance(found, Telegram)
        return found

    def anew(self) -> Self:
        self.peer.toasts.clear()
        self.peer.blocked.clear()
        return self

    def address(self, user: Any) -> Json:
        return {"chat": user}

    async def press(self, user: Any, message: Posted, deed: str) -> None:
        label = next(each for each in LABELS[deed] if each in message.pressable)
        await self.peer.press(user, message, label)

    async def told_alone(self, user: Any) -> str:
        await self.peer.until(lambda: any(who == user for who, *_ in self.peer.toasts))
        return self.toast(user)

    async def write(self, user: Any, message: Posted, text: str) -> str:
        await self.peer.say(user, text, to=message)
        return await self.told(message)

    async def approve(self, user: Any, message: Posted) -> str:
        self.peer.toasts.clear()
        await self.peer.press(user, message, "Approve…")
        if (first := await self.told_alone(user)) != "":
            return first
        self.peer.toasts.clear()
        await self.peer.press(user, await self.now(message), "Yes, approve")
        return await self.told_alone(user)

    async def offer(self, user: Any, message: Posted, text: str) -> Posted:
        last = max(number for _, number in self.peer.messages)
        await self.peer.say(user, text, to=message)
        return await self.find(lambda each: each.id > last and each.buttons)

    def offered(self, offer: Posted) -> list[str]:
        return [kind for kind, label in WRITING.items() if label in offer.pressable]

    async def choose(self, user: Any, offer: Posted, kind: str) -> str:
        self.peer.toasts.clear()
        await self.peer.press(user, offer, WRITING[kind])
        return await self.told_alone(user)

    def number_of(self, message: Posted) -> int:
        return message.id

    def is_about(self, message: Posted, question: Question) -> bool:
        return question.id in message.shown

    def name_of(self, message: Posted) -> object:
        return message.chat, message.id

    async def now(self, message: Posted) -> Posted:
        """The message as it is now."""
        return await self.find(lambda each: self.name_of(each) == self.name_of(message))

    async def prompt(self, message: Posted) -> Posted:
        """The last message that wants a reply, below this one."""
        return await self.find(lambda each: each.wants_reply and each.id > message.id)

    async def told(self, message: Posted) -> str:
        """What the bot wrote last below a message."""
        return (await self.find(lambda each: each.chat == message.chat and each.id > message.id)).shown

    async def told_in(self, chat: int) -> str:
        """What the bot wrote last in a chat."""
        return (await self.find(lambda each: each.chat == chat)).shown

    def toast(self, user: int) -> str:
        """What one person was told last over a button."""
        return [text for who, text, _ in self.peer.toasts if who == user][-1]


@asynccontextmanager
async def open_team(transport: Transport = "webhook", **settings: Any) -> AsyncIterator[Team]:
    """A team whose people are known here, for as long as this context lasts."""
    async with open_peer() as peer, open_server_for(peer, transport, **settings) as team:
        yield team


@asynccontextmanager
async def open_server_for(
    peer: TelegramPeer, transport: Transport = "webhook", **settings: Any
) -> AsyncIterator[Team]:
    """One of the servers behind a bot."""
    peer.people.update((*PEOPLE.values(), EVE))
    over = {"telegram_webhook_secret": SECRET} if transport == "webhook" else {}
    given = {"telegram_bot_token": BOT_TOKEN, "telegram_api_url": peer.url, **over, **settings}
    async with open_server_with(Team, peer, **given) as team:
        if transport == "webhook":
            peer.post = team.post
            await peer.until(lambda: peer.webhook is not None)
        yield team
