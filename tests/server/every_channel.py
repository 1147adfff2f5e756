"""A server with every channel that there is, and at the other end of each somebody who takes what comes."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from handraise.model.deliveries import Address
from handraise.model.identities import Role
from handraise.server import ServerContext, ServerSettings, open_server
from handraise.server.observability import Traces
from handraise.testing.contract.channel import Peer
from support.webhook_receiver import Receiver, receiving
from tests.channels import discord_peer, slack_peer, teams_peer, telegram_peer
from tests.channels.mail_servers import PostOffice, post_office

SLACK, DISCORD, TEAMS, TELEGRAM = "U0ANN", "100000000000000001", "0a0a0a0a-0000-4000-8000-00000000000a", 1_001
MAIL = "ann@example.org"
WEBHOOK_KEY = b"a webhook secret of 32 bytes...."
MAIL_KEY = b"inbound secret of 32 bytes......"
LOOPBACK = ["127.0.0.0/8"]


def whsec(key: bytes) -> str:
    """A secret as operators write it."""
    return "whsec_" + base64.b64encode(key).decode()


@dataclass
class Everything:
    """The server, and the other ends."""

    ctx: ServerContext
    slack: slack_peer.SlackPeer
    discord: discord_peer.DiscordPeer
    teams: teams_peer.TeamsPeer
    telegram: telegram_peer.TelegramPeer
    office: PostOffice
    webhook: Receiver

    def told(self) -> dict[str, str]:
        """Everything that has come to the other end of each channel, as its text and its bytes."""
        peers: dict[str, Peer] = {
            "slack": self.slack,
            "discord": self.discord,
            "teams": self.teams,
            "telegram": self.telegram,
        }
        found = {name: [(each.raw, each.text) for each in peer.received()] for name, peer in peers.items()}
        found["email"] = [(each.raw, each.shown) for each in self.office.mails]
        found["webhook"] = [(each.body, repr(each.headers)) for each in self.webhook.got]
        return {
            name: "\n".join(f"{raw.decode(errors='replace')}\n{text}" for raw, text in came)
            for name, came in found.items()
        }

    async def introduce(self, workspace: str) -> None:
        """Let ann of this workspace have an address on every channel."""
        await self.ctx.directory.put_person(workspace, "ann", name="ann", email=MAIL, role=Role.MEMBER)
        for channel, id_, to in (
            ("slack", SLACK, {"user": SLACK}),
            ("discord", DISCORD, {"user": DISCORD}),
            ("teams", TEAMS, {"user": TEAMS}),
            ("telegram", str(TELEGRAM), {"chat": TELEGRAM}),
            ("email", MAIL, {"address": MAIL}),
            ("webhook", "main", {"url": self.webhook.url, "secret": whsec(WEBHOOK_KEY)}),
        ):
            await self.ctx.outbox.put_address(
                Address(workspace=workspace, recipient="ann", channel=channel, id=id_, to=to)
            )


@asynccontextmanager
async def open_everything(
    url: str, *, traces: Traces | None = None, **settings: Any
) -> AsyncIterator[Everything]:
    """Every channel at once, for as long as this context lasts."""
    async with AsyncExitStack() as stack:
        slack = await stack.enter_async_context(slack_peer.open_peer())
        discord = await stack.enter_async_context(discord_peer.open_peer())
        teams = await stack.enter_async_context(teams_peer.open_peer())
        telegram = await stack.enter_async_context(telegram_peer.open_peer())
        office = await stack.enter_async_context(post_office())
        webhook = await stack.enter_async_context(receiving())
        slack.people[SLACK] = slack_peer.TEAM
        discord.people.add(DISCORD)
        teams.people[TEAMS] = teams_peer.TENANT
        telegram.people.add(TELEGRAM)
        given: dict[str, Any] = {
            "url": url,
            "public_url": "https://desk.example",
            "poll_interval": 0.1,
            "secret": "s" * 32,
            "rate_limit": "1000000/second",
            "sign_in_limit": "1000000/second",
            "webhooks": True,
            "webhook_allow_private": LOOPBACK,
            "slack_bot_token": slack_peer.BOT_TOKEN,
            "slack_signing_secret": slack_peer.SECRET,
            "slack_api_url": slack.api_url,
            "telegram_bot_token": telegram_peer.BOT_TOKEN,
            "telegram_webhook_secret": telegram_peer.SECRET,
            "telegram_api_url": telegram.url,
            "discord_bot_token": discord_peer.BOT_TOKEN,
            "discord_public_key": discord.public_key,
            "discord_api_url": discord.api_url,
            "teams_app_id": teams_peer.APP,
            "teams_app_secret": teams_peer.SECRET,
            "teams_tenant": teams_peer.TENANT,
            "teams_service_urls": [teams.service],
            "teams_login_url": f"{teams.url}/login",
            "teams_metadata_url": teams.metadata_url,
            "email_smtp_url": f"smtp://127.0.0.1:{office.port}?tls=none",
            "email_from": "Handraise <desk@example.org>",
            "email_reply_to": "reply@example.org",
            "email_inbound_secret": whsec(MAIL_KEY),
            "push_contact": "mailto:ops@example.org",
            "push_allow_private": LOOPBACK,
        }
        ctx = await stack.enter_async_context(
            open_server(ServerSettings(**(given | settings)), traces=traces)
        )
        await telegram.until(lambda: telegram.webhook is not None)
        yield Everything(ctx, slack, discord, teams, telegram, office, webhook)
