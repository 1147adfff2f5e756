"""Discord as a channel: sends questions to people and rooms, changes them when they end, and takes what comes back."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from handraise.channels.chat_channel import ChatChannel, NotGenuine
from handraise.channels.chat_flow import BEING_TAKEN, TRY_AGAIN
from handraise.channels.chat_references import as_base64
from handraise.channels.discord.api import DiscordApi, is_id, message_of, text_message
from handraise.channels.discord.interactions import (
    CHANNEL,
    LATER,
    PING,
    InteractionHandler,
    InteractionResult,
    told,
)
from handraise.channels.discord.messages import render_bundle, render_outcome, render_question
from handraise.channels.discord.signatures import is_genuine, read_key
from handraise.channels.inbound_replies import Replies
from handraise.channels.payloads import InvalidPayload, read_object
from handraise.channels.sent_files import SentFile
from handraise.model.errors import RequestConflict
from handraise.model.json_values import Json
from handraise.model.problems import HandraiseError
from handraise.ports.channel import Message
from handraise.presentation.translation import gettext

_log = logging.getLogger(__name__)

DISCORD = "https://discord.com/api/v10"
_AT_ONCE = 2.0
"""Discord waits three seconds for an answer."""
_PONG = {"type": 1}


@asynccontextmanager
async def open_discord(
    replies: Replies,
    *,
    bot_token: str,
    public_key: str,
    api_url: str = DISCORD,
    verify: ssl.SSLContext | None = None,
) -> AsyncIterator[Discord]:
    """The channel for the application that the token and the key belong to, for as long as this context lasts.

    `verify` says whose certificates are trusted, if not the system's.
    """
    async with httpx2.AsyncHTTPTransport(verify=verify or True) as transport:
        discord = Discord(DiscordApi(transport, bot_token, api_url), replies, public_key)
        try:
            yield discord
        finally:
            await discord.finish()


class Discord(ChatChannel[tuple[str, str], str]):
    """Reaches people through Discord."""

    name = CHANNEL
    service = "Discord"
    receipt = ("channel", "message")
    brings_files = True

    def __init__(self, api: DiscordApi, replies: Replies, public_key: str) -> None:
        super().__init__(replies)
        self._api = api
        self._key = read_key(public_key)
        self._incoming = InteractionHandler(api, replies, self._tasks)

    async def register_connect(self) -> None:
        """See `handraise.channels.account_links.ConnectCommand`."""
        await self._api.register_connect()

    def _read_address(self, to: Json) -> tuple[str, str] | None:
        match to:
            case {"user": str(who), **rest} | {"channel": str(who), **rest} if not rest and is_id(who):
                return ("user" if "user" in to else "channel"), who
            case _:
                return None

    async def _open(self, address: tuple[str, str], /) -> str:
        kind, who = address
        return await self._api.direct_message_room(who) if kind == "user" else who

    def _render(self, message: Message) -> dict[str, Any]:
        one = len(message.notices) == 1
        return message_of(render_question(message.notices[0]) if one else render_bundle(message))

    def _render_outcome(self, message: Message) -> dict[str, Any]:
        return message_of(render_outcome(message.notices[0].question))

    async def _post(self, place: str, body: dict[str, Any], name: str, below: Any, /) -> tuple[str, Any]:
        """Post a message. Discord recognises the same one within minutes by the name that we give it."""
        return place, await self._api.post(place, _named(body, name, below))

    async def _post_files(self, place: str, sent: Any, files: Sequence[SentFile], name: str, /) -> None:
        described = [{"id": number, "filename": each.name} for number, each in enumerate(files)]
        body = {"allowed_mentions": {"parse": []}, "attachments": described}
        await self._api.post(place, _named(body, name, sent), files)

    async def _edit(self, place: str, sent: Any, body: dict[str, Any], /) -> None:
        await self._api.edit(place, sent, body)

    async def _genuine(self, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
        if not is_genuine(self._key, headers, body):
            raise NotGenuine
        return read_object(body)

    async def _handle(self, payload: dict[str, Any]) -> Mapping[str, Any]:
        """Do what a payload says, and return the answer that Discord expects within three seconds.

        What takes longer is promised, and said when it is done. Discord sends nothing a second time, so a person is
        told if something went wrong.
        """
        if payload.get("type") == PING:
            return _PONG
        self._incoming.begin()
        task = self._tasks.begin(self._take(payload))
        done, _ = await asyncio.wait({task}, timeout=_AT_ONCE)
        if done:
            return task.result().answer
        self._tasks.begin(self._later(task, payload))
        return LATER

    async def _take(self, payload: Mapping[str, Any]) -> InteractionResult:
        try:
            return await self._incoming.take(payload)
        except RequestConflict:
            return told(text_message(gettext(BEING_TAKEN)))
        except HandraiseError as error:
            _log.warning(
                "something from Discord could not be done: %s",
                type(error).__name__,
                extra={"event": "channel_input_failed"},
            )
            return told(text_message(gettext(TRY_AGAIN)))

    async def _later(self, task: asyncio.Task[InteractionResult], payload: Mapping[str, Any]) -> None:
        try:
            body = (await task).later
        except InvalidPayload:
            body = text_message(gettext(TRY_AGAIN))
        await self._api.follow_up(str(payload.get("application_id")), str(payload.get("token")), body)


def _named(body: dict[str, Any], name: str, below: Any) -> dict[str, Any]:
    """A message with a name by which Discord recognises it, in reply to another or not."""
    named = {**body, "nonce": as_base64(hashlib.sha256(name.encode()).digest()[:16]), "enforce_nonce": True}
    if below is not None:
        named["message_reference"] = {"message_id": below, "fail_if_not_exists": False}
    return named
