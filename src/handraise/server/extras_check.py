"""What the settings need that is not installed. `handraise serve` would end with it; `handraise doctor` says all of it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from handraise.model.errors import MissingExtra
from handraise.server.settings import ServerSettings

_CHANNELS = "handraise.channels"


def missing_extras(settings: ServerSettings) -> list[str]:
    """A sentence for each package that a server with these settings would miss."""
    found: dict[str, None] = {}
    for module in modules_of(settings):
        try:
            import_module(module)
        except MissingExtra as error:
            found[str(error)] = None
    return list(found)


def modules_of(settings: ServerSettings) -> Iterator[str]:
    """The modules that a server with these settings imports for them, besides those that it always has."""
    if settings.webhooks:
        yield f"{_CHANNELS}.webhook"
    if settings.slack_bot_token is not None:
        yield f"{_CHANNELS}.slack"
    if settings.telegram_bot_token is not None:
        yield f"{_CHANNELS}.telegram"
    if settings.discord_bot_token is not None:
        yield f"{_CHANNELS}.discord"
    if settings.teams_app_id is not None:
        yield f"{_CHANNELS}.teams.channel"
    if settings.sends_mail:
        yield f"{_CHANNELS}.email.{settings.email_transport}"
        yield f"{_CHANNELS}.email.channel"
    if settings.email_imap_url is not None:
        yield f"{_CHANNELS}.email.mailbox"
    if settings.push_contact is not None:
        yield f"{_CHANNELS}.webpush"
    if settings.ntfy_url is not None:
        yield f"{_CHANNELS}.ntfy"
    if settings.apprise_schemes:
        yield f"{_CHANNELS}.apprise"
    if settings.oidc_issuer is not None:
        yield "handraise.server.auth.oidc"
    if settings.receipt_key is not None:
        yield "handraise.signing.receipt_tokens"
