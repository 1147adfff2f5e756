"""Discord as a channel: sends questions to people and rooms, changes them when they end, and takes what comes back."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx2

from handraise.channels.background_tasks import BackgroundTasks
from handraise.channels.discord.api import DiscordApi, is_id, message_of, text_message
from handraise.channels.discord.interactions import (
    CHANNEL,
    LATER,
    PING,
    InteractionHandler,
    InteractionResult,
)
from handraise.channels.discord.messages import render_bundle, render_outcome, render_question
from handraise.channels.discord.signatures import is_genuine, read_key
from handraise.channels.inbound_replies import Replies
from handraise.channels.payloads import InvalidPayload, as_json, read_object
from handraise.model.errors import HandraiseError, RequestConflict
from handraise.model.json_values import Json, digest
from handraise.ports.channel import Message, NotSent, Response

_log = logging.getLogger(__name__)

DISCORD = "https://discord.com/api/v10"
_AT_ONCE = 2.0
"""Discord waits three seconds for an answer."""
_PONG = {"type": 1}
_NOT_NOW = "That could not be taken just now. Please try again."
_TAKEN_ALREADY = "That is being taken already."


@asynccontextmanager
async def open_discord(
    replies: Replies,
    *,
    bot_token: str,
    public_key: str,
    api_url: str = DISCORD,
    verify: ssl.SSLContext | None = None,
) -> AsyncIterator[Discord]:
    """The channel for the application that the token and the key are of, for as long as this context lasts.

    `verify` says whose certificates are trusted, where that is not for the machine to say.
    """
    async with httpx2.AsyncHTTPTransport(verify=verify or True) as transport:
        discord = Discord(DiscordApi(transport, bot_token, api_url), replies, public_key)
        try:
            yield discord
        finally:
            await discord.finish()


class Discord:
    """Reaches people through Discord."""

    name = CHANNEL
    private = False
    """Messages are forwarded, and the owners of a server read them: no link in one may answer."""
    patience = timedelta(days=1)

    def __init__(self, api: DiscordApi, replies: Replies, public_key: str) -> None:
        self._api = api
        self._key = read_key(public_key)
        self._tasks = BackgroundTasks(CHANNEL, expected=(InvalidPayload,))
        self._incoming = InteractionHandler(api, replies, self._tasks)

    def rate_limit_key(self, to: Json) -> str | None:
        """The one bot that the token is for; None unless `to` is a user or a room."""
        match to:
            case {"user": who, **rest} | {"channel": who, **rest} if not rest and is_id(who):
                return CHANNEL
            case _:
                return None

    async def send(self, message: Message) -> Json:
        """Post a message. The same one again within minutes is told apart by Discord, by the name that we give it."""
        one = len(message.notices) == 1
        rendered = render_question(message.notices[0]) if one else render_bundle(message)
        room = await self._room(message.to)
        body = message_of(rendered)
        made = await self._api.post(room, {**body, **_named(message.id)})
        return {"channel": room, "message": made} | ({"shown": digest(body)} if one else {"several": True})

    async def update(self, message: Message, receipt: Json) -> None:
        """Let a message say how its question ended. What has several questions is followed up by a reply to it."""
        body = message_of(render_outcome(message.notices[0].question))
        follow_up = {**body, **_named(f"{message.id} ended")}
        match receipt:
            case {"channel": str(room), "message": str(sent), "several": True}:
                answers = {"message_id": sent, "fail_if_not_exists": False}
                await self._api.post(room, {**follow_up, "message_reference": answers})
            case {"channel": str(room), "message": str(sent)}:
                await self._api.edit(room, sent, body)
            case _:
                await self._api.post(await self._room(message.to), follow_up)

    async def receive(self, headers: Mapping[str, str], body: bytes) -> Response:
        """Take what Discord signed: it looks whether we are here, or somebody did something."""
        if not is_genuine(self._key, headers, body):
            return Response(status=401)
        try:
            payload = read_object(body)
            return _answer(_PONG if payload.get("type") == PING else await self._take(payload))
        except InvalidPayload:
            return Response(status=400)

    async def finish(self) -> None:
        """See through what is under way, within reason."""
        await self._tasks.finish()

    async def _take(self, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        """Do what a payload says, and give back what Discord is to be answered within its three seconds.

        What takes longer is promised, and said when it is done. Discord sends nothing a second time, so that a person
        is told where something went wrong.
        """
        task = self._tasks.begin(self._handle_errors(payload))
        done, _ = await asyncio.wait({task}, timeout=_AT_ONCE)
        if done:
            return task.result().answer
        self._tasks.begin(self._later(task, payload))
        return LATER

    async def _handle_errors(self, payload: Mapping[str, Any]) -> InteractionResult:
        try:
            return await self._incoming.take(payload)
        except RequestConflict:
            return InteractionResult(text_message(_TAKEN_ALREADY))
        except HandraiseError as error:
            _log.warning("something from Discord could not be done: %s", type(error).__name__)
            return InteractionResult(text_message(_NOT_NOW))

    async def _later(self, task: asyncio.Task[InteractionResult], payload: Mapping[str, Any]) -> None:
        try:
            told = (await task).later
        except InvalidPayload:
            told = text_message(_NOT_NOW)
        await self._api.follow_up(str(payload.get("application_id")), str(payload.get("token")), told)

    async def _room(self, to: Json) -> str:
        match to:
            case {"user": str(user)} if is_id(user):
                return await self._api.direct_message_room(user)
            case {"channel": str(room)} if is_id(room):
                return room
            case _:
                raise NotSent("the address makes no sense to Discord", again=False)


def _named(what: str) -> dict[str, Any]:
    """A name for a message: where Discord has had it before, it makes no second one."""
    digest = hashlib.sha256(what.encode()).digest()[:16]
    nonce = base64.urlsafe_b64encode(digest).decode().rstrip("=")
    return {"nonce": nonce, "enforce_nonce": True}


def _answer(reply: Mapping[str, Any]) -> Response:
    return Response(body=as_json(reply), content_type="application/json")
