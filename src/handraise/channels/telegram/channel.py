"""Telegram as a channel: sends questions to people and rooms, changes them when they end, and takes what comes back."""

from __future__ import annotations

import asyncio
import hmac
import logging
import random
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from handraise.channels.http_errors import Refused
from handraise.channels.inbound_replies import Replies
from handraise.channels.payloads import InvalidPayload, object_in, read_object
from handraise.channels.telegram.api import TELEGRAM, BotApi, open_api
from handraise.channels.telegram.interactions import CHANNEL, InteractionHandler, is_unchanged
from handraise.channels.telegram.messages import render_bundle, render_outcome, render_question
from handraise.channels.telegram.polling import WANTED, Poller
from handraise.channels.telegram.references import QuestionReferences
from handraise.model.errors import HandraiseError, RequestConflict
from handraise.model.json_values import Json, digest
from handraise.ports.channel import Message, NotSent, Response

_log = logging.getLogger(__name__)

SECRET = "telegram-secret"  # noqa: S105 -- the name of a kind of evidence
"""The evidence for what came over HTTP: the sender had the secret that we gave to Telegram."""
POLL = "telegram-poll"
"""The evidence for what Telegram gave us when we asked."""
_INBOUND = "/v1/channels/telegram/inbound"
_MOST_DIGITS = 52
"""Telegram's ids have at most 52 bits."""
_FIRST_PAUSE, _LONGEST_PAUSE = 2.0, 300.0


@asynccontextmanager
async def open_telegram(
    replies: Replies,
    *,
    bot_token: str,
    base_url: str,
    webhook_secret: str | None = None,
    api_url: str = TELEGRAM,
    verify: ssl.SSLContext | None = None,
) -> AsyncIterator[Telegram]:
    """The channel of one bot, for as long as this context lasts.

    What people do comes over HTTP where there is a webhook secret, which Telegram is then told together with our
    address at `base_url`. Else we ask for it. `verify` says whose certificates are trusted, where that is not for the
    machine to say.
    """
    async with open_api(bot_token, api_url, verify=verify) as api:
        telegram = Telegram(api, replies, QuestionReferences(bot_token), base_url, webhook_secret)
        if webhook_secret is None:
            work = Poller(api, telegram.take_from_poll).run()
        else:
            work = _register(api, base_url, webhook_secret)
        task = asyncio.create_task(work, name="handraise telegram")
        try:
            yield telegram
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class Telegram:
    """Reaches people through Telegram."""

    name = CHANNEL
    private = False
    """People pass messages on, and have them on telephones that others see: no link in one may answer."""
    patience = timedelta(days=1)

    def __init__(
        self,
        api: BotApi,
        replies: Replies,
        references: QuestionReferences,
        base_url: str,
        webhook_secret: str | None,
    ) -> None:
        self._api = api
        self._references = references
        self._secret = None if webhook_secret is None else webhook_secret.encode()
        self._incoming = InteractionHandler(api, replies, references, base_url)

    def rate_limit_key(self, to: Json) -> str | None:
        """All of Telegram; None unless `to` is a chat."""
        return None if _chat(to) is None else CHANNEL

    async def send(self, message: Message) -> Json:
        """Send a message. Telegram cannot tell a second copy of it: where one may have come, there may be two."""
        one = len(message.notices) == 1
        chat = _chat(message.to)
        if chat is None:
            raise NotSent("that is no chat", again=False)
        notice = message.notices[0]
        rendered = render_question(notice, self._references, room=chat < 0) if one else render_bundle(message)
        sent = await self._send(chat, rendered.body)
        return sent | ({"shown": digest(rendered.body)} if one else {"several": True})

    async def update(self, message: Message, receipt: Json) -> None:
        """Let a message say how its question ended. What has several questions is followed up."""
        notice = message.notices[0]
        body = render_outcome(notice.question, notice.link, self._references).body
        match receipt:
            case {"chat": int(chat), "message": int(number), "several": True}:
                reply = {"message_id": number, "allow_sending_without_reply": True}
                await self._send(chat, {"reply_parameters": reply, **body})
            case {"chat": int(chat), "message": int(number)}:
                try:
                    await self._api.call("editMessageText", {"chat_id": chat, "message_id": number, **body})
                except Refused as refused:
                    if not is_unchanged(refused):
                        raise
            case _ if (there := _chat(message.to)) is not None:
                await self._send(there, body)

    async def receive(self, headers: Mapping[str, str], body: bytes) -> Response:
        """Take an update that came with our secret."""
        given = headers.get("x-telegram-bot-api-secret-token", "").encode(errors="replace")
        if self._secret is None or not hmac.compare_digest(given, self._secret):
            return Response(status=401)
        try:
            await self._incoming.take(read_object(body), SECRET)
        except InvalidPayload:
            return Response(status=400)
        except RequestConflict:
            # Another process is at it, or we are. If that fails, it is to come again.
            return Response(status=503)
        except HandraiseError as error:
            _log.warning("something from Telegram could not be done yet (%s)", type(error).__name__)
            return Response(status=503)
        return Response()

    async def take_from_poll(self, update: Mapping[str, Any]) -> None:
        """Take what Telegram gave us when we asked."""
        await self._incoming.take(update, POLL)

    async def _send(self, chat: int, body: Mapping[str, Any]) -> dict[str, Json]:
        try:
            sent = await self._api.call("sendMessage", {"chat_id": chat, **body})
        except Refused as refused:
            # A group that has grown has another id, and its old one is gone for good.
            moved = _chat({"chat": object_in(refused.told, "parameters").get("migrate_to_chat_id")})
            if moved is None:
                raise
            chat = moved
            sent = await self._api.call("sendMessage", {"chat_id": chat, **body})
        match sent:
            case {"message_id": int(number)}:
                return {"chat": chat, "message": number}
            case _:
                raise NotSent("Telegram did not say where the message is", arrived_perhaps=True)


async def _register(api: BotApi, base_url: str, secret: str) -> None:
    """Tell Telegram where we are, however long that takes."""
    body = {"url": f"{base_url}{_INBOUND}", "secret_token": secret, "allowed_updates": WANTED}
    pause = _FIRST_PAUSE
    while True:
        try:
            await api.call("setWebhook", body)
        except NotSent as failed:
            _log.warning("Telegram could not be told where to send answers (%s); trying again", failed)
            after = failed.after.total_seconds() if failed.after else 0.0
            await asyncio.sleep(max(pause * random.uniform(0.5, 1.0), after))  # noqa: S311 -- only to spread them
            pause = min(pause * 2, _LONGEST_PAUSE)
        else:
            return


def _chat(to: Json) -> int | None:
    match to:
        case {"chat": bool()}:
            return None
        case {"chat": int(chat), **rest} if not rest and chat and chat.bit_length() <= _MOST_DIGITS:
            return chat
        case _:
            return None
