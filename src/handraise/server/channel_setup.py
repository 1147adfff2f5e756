"""The channels that the settings turn on, and the links that their messages carry."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import timedelta

import pydantic

from handraise.channels import Replies
from handraise.channels.account_links import AccountLinks
from handraise.channels.custom_channels import Opener, find_opener, opener_names
from handraise.model.deliveries import Delivery
from handraise.model.people import ANYONE, GROUP
from handraise.ports import Directory, Outbox
from handraise.ports.channel import Channel
from handraise.server.mail_setup import open_mail_channel
from handraise.server.settings import ServerSettings
from handraise.wire.credentials import TokenKind, digest_of, make_token

_LASTS = timedelta(days=7)
_MAKER = "handraise"


@asynccontextmanager
async def open_channels(
    settings: ServerSettings, replies: Replies, outbox: Outbox, openers: Sequence[Opener] = ()
) -> AsyncIterator[Mapping[str, Channel]]:
    """Open the channels of the settings, by name, while this context is open.

    `openers` open your own channels, in addition to those of the settings.
    """
    channels: list[Channel] = []
    async with AsyncExitStack() as stack:
        if settings.webhooks:
            from handraise.channels.webhook import open_webhook  # noqa: PLC0415 -- only where it is wanted

            opened = open_webhook(
                replies, allowed=settings.webhook_allow_private, callback_hosts=settings.callback_hosts
            )
            channels.append(await stack.enter_async_context(opened))
        if settings.slack_bot_token is not None:
            from handraise.channels.slack import open_slack  # noqa: PLC0415 -- an extra

            slack = open_slack(
                replies,
                bot_token=settings.slack_bot_token.get_secret_value(),
                signing_secret=_bare(settings.slack_signing_secret),
                app_token=_bare(settings.slack_app_token),
                api_url=settings.slack_api_url,
            )
            channels.append(await stack.enter_async_context(slack))
        if settings.telegram_bot_token is not None:
            from handraise.channels.telegram import open_telegram  # noqa: PLC0415 -- an extra

            telegram = open_telegram(
                replies,
                bot_token=settings.telegram_bot_token.get_secret_value(),
                base_url=settings.base_url,
                webhook_secret=_bare(settings.telegram_webhook_secret),
                api_url=settings.telegram_api_url,
            )
            channels.append(await stack.enter_async_context(telegram))
        if settings.discord_bot_token is not None and settings.discord_public_key is not None:
            from handraise.channels.discord import open_discord  # noqa: PLC0415 -- an extra

            discord = open_discord(
                replies,
                bot_token=settings.discord_bot_token.get_secret_value(),
                public_key=settings.discord_public_key,
                api_url=settings.discord_api_url,
            )
            channels.append(await stack.enter_async_context(discord))
        if settings.teams_app_id is not None:
            channels.append(await stack.enter_async_context(_open_teams(settings, replies)))
        if settings.sends_mail:
            channels.append(await stack.enter_async_context(open_mail_channel(settings, replies)))
        if settings.push_contact is not None and settings.secret_keys:
            from handraise.channels.webpush import open_webpush  # noqa: PLC0415 -- an extra

            push = open_webpush(
                outbox,
                secrets=settings.secret_keys,
                contact=settings.push_contact,
                allowed=settings.push_allow_private,
                answers=settings.push_answers,
            )
            channels.append(await stack.enter_async_context(push))
        if settings.ntfy_url is not None:
            from handraise.channels.ntfy import open_ntfy  # noqa: PLC0415 -- only where it is wanted

            ntfy = open_ntfy(
                url=settings.ntfy_url,
                token=_bare(settings.ntfy_token),
                allowed=settings.ntfy_allow_private,
            )
            channels.append(await stack.enter_async_context(ntfy))
        if settings.apprise_schemes:
            from handraise.channels.apprise import open_apprise  # noqa: PLC0415 -- an extra

            apprise = open_apprise(schemes=settings.apprise_schemes, allowed=settings.apprise_allow_private)
            channels.append(await stack.enter_async_context(apprise))
        for opener in (*map(find_opener, opener_names(settings.channels or "")), *openers):
            channels.append(await stack.enter_async_context(opener(replies)))  # noqa: PERF401 -- one by one
        yield _by_name(channels)


def account_links(settings: ServerSettings) -> AccountLinks | None:
    """What lets people connect accounts of theirs; None without a secret to sign with."""
    return AccountLinks(settings.secret_keys, settings.base_url) if settings.secret_keys else None


def _by_name(channels: Sequence[Channel]) -> Mapping[str, Channel]:
    named = {channel.name: channel for channel in channels}
    if len(named) < len(channels):
        raise ValueError("Two channels have the same name; rename your own.")
    return named


def _bare(secret: pydantic.SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()


def _open_teams(settings: ServerSettings, replies: Replies) -> AbstractAsyncContextManager[Channel]:
    """Open Teams; the settings are valid."""
    from handraise.channels.teams.channel import open_teams  # noqa: PLC0415 -- an extra

    return open_teams(
        replies,
        app_id=settings.teams_app_id or "",
        app_secret=_bare(settings.teams_app_secret) or "",
        tenant=settings.teams_tenant or "",
        workspace=settings.teams_workspace,
        service_urls=settings.teams_service_urls,
        login_url=settings.teams_login_url,
        issuer=settings.teams_issuer,
        metadata_url=settings.teams_metadata_url,
    )


class Links:
    """The link of a message: in a private message one that can answer, else the question in the inbox.

    A message that is sent again has the same link: its token is derived from the server's secret and the delivery's id.
    """

    def __init__(
        self, settings: ServerSettings, directory: Directory, channels: Mapping[str, Channel]
    ) -> None:
        self._base = settings.base_url
        self._keys = settings.secret_keys
        self._directory = directory
        self._channels = channels

    async def __call__(self, delivery: Delivery) -> str:
        """Return the page where the recipient of a delivery can answer."""
        plain = f"{self._base}/questions/{delivery.question_id}"
        channel = self._channels.get(delivery.channel)
        secret = delivery.is_to_be_sent and channel is not None and channel.private
        if not self._keys or not secret or delivery.recipient.startswith((GROUP, ANYONE)):
            return plain
        what = f"question link {delivery.workspace} {delivery.id}".encode()
        tokens = [
            make_token(TokenKind.QUESTION, delivery.workspace, hmac.new(key, what, hashlib.sha256).digest())
            for key in self._keys
        ]
        for token in tokens:
            if await self._directory.find_question_link(delivery.workspace, digest_of(token)) is not None:
                break
        else:
            token = tokens[0]
            if delivery.turn != 1:
                # It was made with the first attempt, and somebody has ended it since.
                return plain
            made = await self._directory.add_question_link(
                delivery.workspace,
                delivery.id,
                digest=digest_of(token),
                question_id=delivery.question_id,
                person=delivery.recipient,
                channel=delivery.channel,
                created_by=_MAKER,
                lasts=_LASTS,
            )
            if made is None:
                return plain
        return f"{self._base}/q/{token}"
