"""Slack as a channel: sends questions to people and rooms, changes them when they end, and takes what comes back."""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs

import httpx2

from handraise.channels.background_tasks import BackgroundTasks
from handraise.channels.inbound_replies import Replies
from handraise.channels.payloads import InvalidPayload, as_json, read_object
from handraise.channels.slack.api import SlackApi
from handraise.channels.slack.blocks import Block
from handraise.channels.slack.interactions import CHANNEL, InteractionHandler
from handraise.channels.slack.messages import Rendered, render_bundle, render_outcome, render_question
from handraise.channels.slack.references import build_metadata
from handraise.channels.slack.signatures import is_genuine
from handraise.channels.slack.socket_mode import Socket
from handraise.model.errors import HandraiseError, RequestConflict
from handraise.model.json_values import Json, digest
from handraise.ports.channel import Message, NotSent, Response

_log = logging.getLogger(__name__)

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
_PLAINLY = {"parse": "none", "link_names": False}
"""Slack is to make nothing of a text: no mentions, and no links."""
_POSTED = {**_PLAINLY, "mrkdwn": False, "unfurl_links": False, "unfurl_media": False}
"""And no formats, and no pictures of what a link leads to."""


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

    What people do comes over HTTP where there is a signing secret, and over Socket Mode where there is an app token.
    `verify` says whose certificates are trusted, where that is not for the machine to say.
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


class Slack:
    """Reaches people through Slack."""

    name = CHANNEL
    private = False
    """The owners of a Slack workspace can read its messages, and people pass them on: no link in one may answer."""
    patience = timedelta(days=1)

    def __init__(self, api: SlackApi, replies: Replies, signing_secret: str | None) -> None:
        self._api = api
        self._secret = signing_secret
        self._tasks = BackgroundTasks(CHANNEL)
        self._incoming = InteractionHandler(api, replies, self._tasks)

    def rate_limit_key(self, to: Json) -> str | None:
        """The one team that the token is for; None unless `to` is a user or a room of it."""
        match to:
            case {"user": str(user), **rest} if not rest and _PEOPLE.fullmatch(user):
                return CHANNEL
            case {"channel": str(room), **rest} if not rest and _ROOMS.fullmatch(room):
                return CHANNEL
            case _:
                return None

    async def send(self, message: Message) -> Json:
        """Post a message. The same one again is told apart by Slack, by the id that we give it."""
        one = len(message.notices) == 1
        rendered = render_question(message.notices[0]) if one else render_bundle(message)
        body = {"channel": _where(message.to), "client_msg_id": _id(message.id), **_body(rendered), **_POSTED}
        if one:
            body["metadata"] = build_metadata(message.notices[0].question)
        posted = _receipt(await self._api.call("chat.postMessage", body))
        return posted | ({"shown": digest(_body(rendered))} if one else {"several": True})

    async def update(self, message: Message, receipt: Json) -> None:
        """Let a message say how its question ended. What has several questions is followed up in its thread."""
        question = message.notices[0].question
        body = _body(render_outcome(question))
        follow_up = {**body, **_POSTED, "client_msg_id": _id(f"{message.id} ended")}
        match receipt:
            case {"channel": str(channel), "ts": str(ts), "several": True}:
                await self._api.call("chat.postMessage", {"channel": channel, "thread_ts": ts, **follow_up})
            case {"channel": str(channel), "ts": str(ts)}:
                place = {"channel": channel, "ts": ts, "metadata": build_metadata(question)}
                await self._api.call("chat.update", {**place, **body, **_PLAINLY})
            case _:
                await self._api.call("chat.postMessage", {"channel": _where(message.to), **follow_up})

    async def receive(self, headers: Mapping[str, str], body: bytes) -> Response:
        """Take an interaction or an event that Slack signed."""
        if self._secret is None or not is_genuine(self._secret, headers, body):
            return Response(status=401)
        try:
            payload = _payload(headers.get("content-type", ""), body)
            if payload.get("type") == "url_verification":
                return _answer({"challenge": str(payload.get("challenge"))})
            return _answer(await self._take(payload, SIGNED))
        except InvalidPayload:
            return Response(status=400)
        except (HandraiseError, NotSent) as error:
            _log.warning(
                "something from Slack could not be done (%s); it may come again", type(error).__name__
            )
            return Response(status=503)

    async def take_from_socket(self, payload: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Take what came over a connection that we opened to Slack."""
        return await self._take(payload, SOCKET)

    async def finish(self) -> None:
        """See through what is under way, within reason."""
        await self._tasks.finish()

    async def _take(self, payload: Mapping[str, Any], evidence: str) -> Block | None:
        """Do what a payload says, and give back what Slack is to be answered within its three seconds.

        A view waits for what came of it. Anything else is answered in time, and goes on where it takes longer.
        """
        task = self._tasks.begin(self._incoming.take(payload, evidence))
        patience = None if payload.get("type") == "view_submission" else _AT_ONCE
        done, _ = await asyncio.wait({task}, timeout=patience)
        try:
            return task.result() if done else None
        except RequestConflict:
            # The same thing is being done by another process, which has come to hear of it first.
            return None


def _where(to: Json) -> str:
    match to:
        case {"user": str(where)} | {"channel": str(where)}:
            return where
        case _:
            raise NotSent("the address makes no sense to Slack", again=False)


def _body(rendered: Rendered) -> dict[str, Any]:
    return {"text": rendered.text, "blocks": rendered.blocks}


def _id(what: str) -> str:
    return str(uuid.uuid5(_OURS, what))


def _receipt(posted: Mapping[str, Any]) -> dict[str, Json]:
    found: dict[str, Json] = {"channel": posted.get("channel"), "ts": posted.get("ts")}
    if not all(isinstance(each, str) for each in found.values()):
        raise NotSent("Slack did not say where the message is", arrived_perhaps=True)
    return found


def _payload(content_type: str, body: bytes) -> dict[str, Any]:
    """What a request has in it: JSON for events, a form with JSON in it for what people press."""
    try:
        text = body.decode()
        if content_type.startswith("application/x-www-form-urlencoded"):
            [text] = parse_qs(text, strict_parsing=True, max_num_fields=20).get("payload", [])
    except ValueError:
        raise InvalidPayload("body") from None
    return read_object(text)


def _answer(reply: Mapping[str, Any] | None) -> Response:
    if reply is None:
        return Response()
    return Response(body=as_json(reply), content_type="application/json; charset=utf-8")
