"""Tries the services of channels: each asks its service who we are, which changes nothing. Raises `NotSent`."""

from __future__ import annotations

import json

import httpx2

from handraise.model.visible import visible_line
from handraise.ports.channel import NotSent
from handraise.server.settings import ServerSettings

_WITHIN = 15.0
_LARGEST = 10_000
_OK = 200


async def try_slack(settings: ServerSettings) -> str:
    """Ask Slack for the bot."""
    from handraise.channels.slack.api import SlackApi  # noqa: PLC0415 -- an extra

    token = settings.slack_bot_token.get_secret_value() if settings.slack_bot_token else ""
    async with httpx2.AsyncClient(timeout=_WITHIN, follow_redirects=False) as client:
        bot = await SlackApi(client, token, settings.slack_api_url).bot_identity()
    return f"the bot is {visible_line(bot.user)} in team {visible_line(bot.team)}"


async def try_telegram(settings: ServerSettings) -> str:
    """Ask Telegram for the bot."""
    from handraise.channels.telegram.api import open_api  # noqa: PLC0415 -- an extra

    token = settings.telegram_bot_token.get_secret_value() if settings.telegram_bot_token else ""
    async with open_api(token, settings.telegram_api_url) as api:
        return f"the bot is @{await api.bot_name()}"


async def try_discord(settings: ServerSettings) -> str:
    """Ask Discord for the application."""
    from handraise.channels.discord.api import DiscordApi  # noqa: PLC0415 -- an extra

    token = settings.discord_bot_token.get_secret_value() if settings.discord_bot_token else ""
    async with httpx2.AsyncHTTPTransport() as transport:
        found = await DiscordApi(transport, token, settings.discord_api_url).call(
            "GET", "/applications/@me", {}
        )
    return f"the application is {visible_line(str(found.get('name', 'without a name')))}"


async def try_teams(settings: ServerSettings) -> str:
    """Get the token with which messages are sent."""
    from handraise.channels.oauth_tokens import AccessTokens, ClientCredentials  # noqa: PLC0415 -- an extra

    secret = settings.teams_app_secret.get_secret_value() if settings.teams_app_secret else ""
    async with httpx2.AsyncClient(timeout=_WITHIN, follow_redirects=False) as client:
        tokens = AccessTokens(
            client,
            ClientCredentials(settings.teams_app_id or "", secret),
            token_url=f"{settings.teams_login_url.rstrip('/')}/{settings.teams_tenant}/oauth2/v2.0/token",
            scope=f"{settings.teams_issuer}/.default",
            issuer="Microsoft",
        )
        await tokens.token()
    return "Microsoft gives this application a token"


async def try_ntfy(settings: ServerSettings) -> str:
    """Ask the ntfy server whether it is healthy."""
    from handraise.channels.safe_http import open_safe_client, read_url  # noqa: PLC0415 -- only where it is wanted

    address = f"{(settings.ntfy_url or '').rstrip('/')}"
    url = read_url(f"{address}/v1/health", settings.ntfy_allow_private)
    if url is None:
        raise NotSent("not the address of an ntfy server that may be called")
    async with open_safe_client(settings.ntfy_allow_private) as outward:
        answer = await outward.get(url, headers={"user-agent": "handraise"}, keep=_LARGEST)
    try:
        is_healthy = answer.status == _OK and json.loads(answer.body)["healthy"] is True
    except (ValueError, KeyError, TypeError):
        is_healthy = False
    if not is_healthy:
        raise NotSent(f"{address}/v1/health answers {answer.status}, and not as a healthy ntfy server")
    return f"{address} is healthy"
