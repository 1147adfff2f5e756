"""Telegram as a channel: sends questions to people and rooms, changes them when they end, and takes what comes back."""

from __future__ import annotations

import asyncio
import hmac
import logging
import random
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from handraise.channels.account_links import BotAddress
from handraise.channels.chat_channel import ChatChannel, NotGenuine
from handraise.channels.http_errors import Refused
from handraise.channels.inbound_replies import Replies
from handraise.channels.payloads import object_in, read_object
from handraise.channels.sent_files import SentFile
from handraise.channels.telegram.api import TELEGRAM, BotApi, open_api
from handraise.channels.telegram.interactions import CHANNEL, InteractionHandler
from handraise.channels.telegram.messages import render_bundle, render_outcome, render_question
from handraise.channels.telegram.polling import WANTED, Poller
from handraise.channels.telegram.references import QuestionReferences
from handraise.model.json_values import Json
from handraise.ports.channel import Message, NotSent

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

    What people do comes over HTTP if there is a webhook secret, which Telegram is then told together with our
    address at `base_url`. Otherwise we ask for it. `verify` says whose certificates are trusted, if not the
    system's.
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


class Telegram(ChatChannel[int, int]):
    """Reaches people through Telegram."""

    name = CHANNEL
    service = "Telegram"
    receipt = ("chat", "message")
    brings_files = True

    def __init__(
        self,
        api: BotApi,
        replies: Replies,
        references: QuestionReferences,
        base_url: str,
        webhook_secret: str | None,
    ) -> None:
        super().__init__(replies)
        self._api = api
        self._references = references
        self._secret = None if webhook_secret is None else webhook_secret.encode()
        self._incoming = InteractionHandler(api, replies, references, base_url)

    @property
    def takes_requests(self) -> bool:
        """Whether Telegram posts to us: there is a secret. Otherwise we ask for what people do."""
        return self._secret is not None

    async def bot_address(self) -> BotAddress:
        """See `handraise.channels.account_links.NamedBot`."""
        name = await self._api.bot_name()
        return BotAddress(f"@{name}", f"https://t.me/{name}")

    async def take_from_poll(self, update: Mapping[str, Any]) -> None:
        """Take what Telegram gave us when we asked."""
        await self._incoming.take(update, POLL)

    def _read_address(self, to: Json) -> int | None:
        return _chat(to)

    async def _open(self, address: int, /) -> int:
        return address

    def _render(self, message: Message) -> dict[str, Any]:
        if len(message.notices) > 1:
            return render_bundle(message).body
        in_room = (_chat(message.to) or 0) < 0
        return render_question(message.notices[0], self._references, room=in_room).body

    def _render_outcome(self, message: Message) -> dict[str, Any]:
        notice = message.notices[0]
        return render_outcome(notice.question, notice.link, self._references).body

    async def _post(self, place: int, body: dict[str, Any], _: str, below: Any, /) -> tuple[int, Any]:
        """Post a message. Telegram cannot recognise a second copy: if one may have arrived, there may be two."""
        try:
            return place, await self._api.send(place, body, reply_to=below)
        except Refused as refused:
            # A group that has grown has a new id, and its old one is gone for good.
            moved = _chat({"chat": object_in(refused.told, "parameters").get("migrate_to_chat_id")})
            if moved is None:
                raise
        return moved, await self._api.send(moved, body, reply_to=below)

    async def _post_files(self, place: int, sent: Any, files: Sequence[SentFile], _: str, /) -> None:
        """Send each file in reply to a message: an image that Telegram takes as one is shown."""
        for each in files:
            if each.is_image:
                try:
                    await self._api.send_file("photo", place, each, reply_to=sent)
                    continue
                except Refused as refused:
                    if refused.again:
                        raise
                    # Telegram shows no image that is very wide or very high; it takes it as a file.
            await self._api.send_file("document", place, each, reply_to=sent)

    async def _edit(self, place: int, sent: Any, body: dict[str, Any], /) -> None:
        await self._api.edit("editMessageText", place, sent, body)

    async def _genuine(self, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
        """An update that came with our secret."""
        given = headers.get("x-telegram-bot-api-secret-token", "").encode(errors="replace")
        if self._secret is None or not hmac.compare_digest(given, self._secret):
            raise NotGenuine
        return read_object(body)

    async def _handle(self, payload: dict[str, Any]) -> None:
        await self._incoming.take(payload, SECRET)


async def _register(api: BotApi, base_url: str, secret: str) -> None:
    """Tell Telegram where we are, however long that takes."""
    body = {"url": f"{base_url}{_INBOUND}", "secret_token": secret, "allowed_updates": WANTED}
    pause = _FIRST_PAUSE
    while True:
        try:
            await api.call("setWebhook", body)
        except NotSent as failed:
            _log.warning(
                "Telegram could not be told where to send answers (%s); trying again",
                failed,
                extra={"event": "channel_unreachable"},
            )
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
