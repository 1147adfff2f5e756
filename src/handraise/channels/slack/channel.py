"""Slack as a channel: sends questions to people and rooms, changes them when they end, and takes what comes back."""

from __future__ import annotations

import asyncio
import re
import ssl
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs

import httpx2

from handraise.channels.chat_channel import ChatChannel, NotGenuine
from handraise.channels.inbound_replies import Replies
from handraise.channels.payloads import InvalidPayload, read_object
from handraise.channels.sent_files import SentFile
from handraise.channels.slack.api import CHANNEL, SlackApi
from handraise.channels.slack.blocks import Block
from handraise.channels.slack.interactions import (
    InteractionHandler,
    body_of,
    outcome_body,
    question_body,
)
from handraise.channels.slack.messages import render_bundle
from handraise.channels.slack.signatures import is_genuine
from handraise.channels.slack.socket_mode import Socket
from handraise.model.errors import RequestConflict
from handraise.model.json_values import Json
from handraise.ports.channel import Message, NotSent

SLACK = "https://slack.com/api"
SIGNED = "slack-signature"
"""The evidence for what came over HTTP: Slack signed it."""
SOCKET = "slack-socket"
"""The evidence for what came over a connection that we opened to Slack."""
_PEOPLE = re.compile(r"[UW][A-Z0-9]{2,30}")
_ROOMS = re.compile(r"[CGD][A-Z0-9]{2,30}")
_OURS = uuid.UUID("5b0f6c43-0f86-4c0b-8c0e-3f3d6b3f6a51")
"""What the ids that we give to messages are made from, besides the ids of deliveries."""
_AT_ONCE = 2.0
"""Slack waits three seconds for an answer."""
_TIMEOUT = httpx2.Timeout(10.0, connect=5.0)
_POSTED = {"mrkdwn": False, "unfurl_links": False, "unfurl_media": False}
"""Slack must not format a text, and must not show pictures of what a link leads to."""


@asynccontextmanager
async def open_slack(
    replies: Replies,
    *,
    bot_token: str,
    signing_secret: str | None = None,
    app_token: str | None = None,
    api_url: str = SLACK,
    verify: ssl.SSLContext | None = None,
) -> AsyncIterator[Slack]:
    """The channel for the team that the token is for, for as long as this context lasts.

    What people do comes over HTTP if there is a signing secret, and over Socket Mode if there is an app token.
    `verify` says whose certificates are trusted, if not the system's.
    """
    async with httpx2.AsyncClient(timeout=_TIMEOUT, follow_redirects=False, verify=verify or True) as client:
        slack = Slack(SlackApi(client, bot_token, api_url), replies, signing_secret)
        reading = None
        if app_token is not None:
            socket = Socket(SlackApi(client, app_token, api_url), slack.take_from_socket, verify=verify)
            reading = asyncio.create_task(socket.run(), name="handraise slack")
        try:
            yield slack
        finally:
            if reading is not None:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
            await slack.finish()


class Slack(ChatChannel[str, str]):
    """Reaches people through Slack."""

    name = CHANNEL
    service = "Slack"
    receipt = ("channel", "ts")
    brings_files = True

    def __init__(self, api: SlackApi, replies: Replies, signing_secret: str | None) -> None:
        super().__init__(replies)
        self._api = api
        self._secret = signing_secret
        self._incoming = InteractionHandler(api, replies, self._tasks)

    @property
    def takes_requests(self) -> bool:
        """Whether Slack posts to us: there is a secret. Otherwise we ask for what people do."""
        return self._secret is not None

    async def take_from_socket(self, payload: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Take what came over a connection that we opened to Slack."""
        return await self._take(payload, SOCKET)

    def _read_address(self, to: Json) -> str | None:
        match to:
            case {"user": str(user), **rest} if not rest and _PEOPLE.fullmatch(user):
                return user
            case {"channel": str(room), **rest} if not rest and _ROOMS.fullmatch(room):
                return room
            case _:
                return None

    async def _open(self, address: str, /) -> str:
        return address

    def _render(self, message: Message) -> dict[str, Any]:
        if len(message.notices) > 1:
            return body_of(render_bundle(message))
        return question_body(message.notices[0])

    def _render_outcome(self, message: Message) -> dict[str, Any]:
        return outcome_body(message.notices[0].question)

    async def _post(self, place: str, body: dict[str, Any], name: str, below: Any, /) -> tuple[str, Any]:
        """Post a message. Slack recognises the same one by the id that we give it."""
        where = {"channel": place, "client_msg_id": str(uuid.uuid5(_OURS, name))}
        if below is not None:
            where["thread_ts"] = below
        posted = await self._api.call("chat.postMessage", {**where, **body, **_POSTED})
        match posted:
            case {"channel": str(channel), "ts": str(ts)}:
                return channel, ts
            case _:
                raise NotSent("Slack did not say where the message is", arrived_perhaps=True)

    async def _post_files(self, place: str, sent: Any, files: Sequence[SentFile], _: str, /) -> None:
        """Upload files and share them in the thread of a message. Until then nobody else can see them.

        Slack cannot recognise a second copy: if a message may have arrived, its files may come twice.
        """
        uploaded = [
            {"id": await self._api.upload(each.name, each.data), "title": each.name} for each in files
        ]
        shared = {"files": uploaded, "channel_id": place, "thread_ts": sent}
        await self._api.call("files.completeUploadExternal", shared)

    async def _edit(self, place: str, sent: Any, body: dict[str, Any], /) -> None:
        await self._api.call("chat.update", {"channel": place, "ts": sent, **body})

    async def _genuine(self, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
        """What a request contains: JSON for events, a form with JSON in it for what people press."""
        if self._secret is None or not is_genuine(self._secret, headers, body):
            raise NotGenuine
        try:
            text = body.decode()
            if headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
                [text] = parse_qs(text, strict_parsing=True, max_num_fields=20).get("payload", [])
        except ValueError:
            raise InvalidPayload("body") from None
        return read_object(text)

    async def _handle(self, payload: dict[str, Any]) -> Mapping[str, Any] | None:
        if payload.get("type") == "url_verification":
            return {"challenge": str(payload.get("challenge"))}
        return await self._take(payload, SIGNED)

    async def _take(self, payload: Mapping[str, Any], evidence: str) -> Block | None:
        """Do what a payload says, and return the answer that Slack expects within three seconds.

        A view waits for the result. Anything else is answered in time, and continues if it takes longer.
        """
        task = self._tasks.begin(self._incoming.take(payload, evidence))
        patience = None if payload.get("type") == "view_submission" else _AT_ONCE
        done, _ = await asyncio.wait({task}, timeout=patience)
        try:
            return task.result() if done else None
        except RequestConflict:
            # Another process is doing the same thing: it heard of it first.
            return None
