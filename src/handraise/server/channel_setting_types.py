"""Types of the channels' settings: each says in its error what is expected, and which other settings it needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated

import pydantic
from pydantic import SecretStr, ValidationInfo

from handraise.channels.apprise_schemes import scheme_problem
from handraise.channels.custom_channels import opener_names, opener_problem
from handraise.channels.email.server_urls import mail_address, read_sender, read_server
from handraise.channels.ntfy import read_server_url
from handraise.channels.safe_http import IPNetwork
from handraise.channels.teams.references import is_id, is_service
from handraise.model.webhook_signatures import secret_bytes

_TELEGRAM_TOKEN = re.compile(r"[0-9]{1,20}:[A-Za-z0-9_-]{20,100}")
_PUBLIC_KEY = re.compile(r"[0-9a-f]{64}", re.ASCII)
_LONGEST_MAILBOX = 20
"""Mail servers accept 64 characters before the @, and the code of a reply needs most of them."""


def _token(fits: Callable[[str], object], expected: str) -> pydantic.AfterValidator:
    def check(token: SecretStr) -> SecretStr:
        if not fits(token.get_secret_value()):
            raise ValueError(f"expected {expected}")
        return token

    return pydantic.AfterValidator(check)


def _hears_from_slack(token: SecretStr | None, others: ValidationInfo) -> SecretStr | None:
    if others.data.get("slack_bot_token") and not (token or others.data.get("slack_signing_secret")):
        raise ValueError("give it or HANDRAISE_SLACK_SIGNING_SECRET, to receive people's answers")
    return token


def _is_a_webhook_secret(secret: SecretStr, others: ValidationInfo) -> SecretStr:
    if not str(others.data.get("public_url")).startswith("https://"):
        raise ValueError("Telegram calls only https addresses; set HANDRAISE_PUBLIC_URL to yours")
    return secret


def _is_a_public_key(text: str | None, others: ValidationInfo) -> str | None:
    if text is not None and not _PUBLIC_KEY.fullmatch(text):
        raise ValueError("expected 64 characters of 0-9 and a-f, as Discord shows them")
    if text is None and others.data.get("discord_bot_token"):
        raise ValueError("give it, to receive people's answers")
    return text


def _is_an_entra_id(text: str) -> str:
    if not is_id(text.lower()):
        raise ValueError("expected an id such as 72f988bf-86f1-41af-91ab-2d7cd011db47")
    return text.lower()


def _is_there_for_teams(value: str | SecretStr | None, others: ValidationInfo) -> str | SecretStr | None:
    if value is None and others.data.get("teams_app_id"):
        raise ValueError("Teams needs it")
    return value


def _service(url: str) -> str:
    if not is_service(url):
        raise ValueError("expected addresses such as https://smba.example.com/teams")
    return url


def _microsoft_address(url: str) -> str:
    if not is_service(url.replace("/.well-known/", "/")):
        raise ValueError("expected an https address")
    return url


def sends_mail(values: Mapping[str, object]) -> bool:
    """Whether settings turn e-mail on."""
    return bool(values.get("email_smtp_url")) or values.get("email_transport", "smtp") != "smtp"


def _is_an_smtp_server(text: SecretStr, others: ValidationInfo) -> SecretStr:
    if others.data.get("email_transport", "smtp") != "smtp":
        raise ValueError("mails go out through HANDRAISE_EMAIL_TRANSPORT; unset one of them")
    read_server(text.get_secret_value(), "smtp")
    return text


def _is_an_imap_server(text: SecretStr, others: ValidationInfo) -> SecretStr:
    if others.data.get("email_reply_to") is None:
        raise ValueError("it is for replies, and they need HANDRAISE_EMAIL_REPLY_TO")
    read_server(text.get_secret_value(), "imap")
    return text


def _is_a_sender(text: str | None, others: ValidationInfo) -> str | None:
    if text is None and sends_mail(others.data):
        raise ValueError("mail needs a sender, such as Handraise <desk@example.com>")
    if text is not None:
        read_sender(text)
    return text


def _is_a_mailbox(text: str, others: ValidationInfo) -> str:
    if mail_address(text) is None or "+" in text or text.index("@") > _LONGEST_MAILBOX:
        raise ValueError("expected a mailbox such as reply@example.com")
    if others.data.get("secret") is None:
        raise ValueError("replies need HANDRAISE_SECRET, which their addresses are made with")
    return text


def _is_a_signing_secret(text: SecretStr | None, others: ValidationInfo) -> SecretStr | None:
    if text is not None and secret_bytes(text.get_secret_value()) is None:
        raise ValueError("expected whsec_ and 24 to 64 random bytes in base64")
    if text is None and others.data.get("email_reply_to") and not others.data.get("email_imap_url"):
        raise ValueError("replies need it, or HANDRAISE_EMAIL_IMAP_URL to read the mailbox")
    return text


def _is_a_contact(text: str, others: ValidationInfo) -> str:
    if not text.startswith(("mailto:", "https://")):
        raise ValueError("expected mailto:… or https://…")
    if others.data.get("secret") is None:
        raise ValueError("needs HANDRAISE_SECRET, from which the key for the push services is made")
    return text


def _leads_to_ntfy(networks: tuple[IPNetwork, ...], others: ValidationInfo) -> tuple[IPNetwork, ...]:
    url = others.data.get("ntfy_url")
    if url is not None and read_server_url(url, networks) is None:
        raise ValueError(
            "HANDRAISE_NTFY_URL must be https://… without a path; in a network listed here, also http://…"
        )
    return networks


def _are_schemes(schemes: tuple[str, ...]) -> tuple[str, ...]:
    if problem := next(filter(None, map(scheme_problem, schemes)), None):
        raise ValueError(problem)
    return schemes


def _are_openers(text: str) -> str:
    for name in opener_names(text):
        if problem := opener_problem(name):
            raise ValueError(problem)
    return text


Networks = tuple[pydantic.IPvAnyNetwork, ...]


def _called_back(hosts: tuple[str, ...], others: pydantic.ValidationInfo) -> tuple[str, ...]:
    if hosts and others.data.get("webhooks") is False:
        raise ValueError("callbacks are webhooks, so it also needs HANDRAISE_WEBHOOKS=true")
    for each in hosts:
        if each != "*" and _HOST.fullmatch(each) is None:
            raise ValueError(f"{each!r} is not a host: name it without https://, port and path")
    return tuple(each.lower() for each in hosts)


_HOST = re.compile(r"[A-Za-z0-9.-]{1,253}|[0-9A-Fa-f:.]{2,45}")
CallbackHosts = Annotated[tuple[str, ...], pydantic.AfterValidator(_called_back)]
SlackBotToken = Annotated[
    SecretStr,
    _token(re.compile(r"xoxb-\S+").fullmatch, "the Bot User OAuth Token of your Slack app, xoxb-…"),
]
SlackAppToken = Annotated[
    Annotated[
        SecretStr, _token(re.compile(r"xapp-\S+").fullmatch, "an app-level token of your Slack app, xapp-…")
    ]
    | None,
    pydantic.AfterValidator(_hears_from_slack),
]
TelegramToken = Annotated[
    SecretStr,
    _token(_TELEGRAM_TOKEN.fullmatch, "what BotFather gave you: digits, a colon, and a secret"),
]
TelegramSecret = Annotated[
    SecretStr,
    # Telegram accepts no other characters.
    _token(re.compile(r"[A-Za-z0-9_-]{16,256}").fullmatch, "16 to 256 letters, digits, _ and -"),
    pydantic.AfterValidator(_is_a_webhook_secret),
]
DiscordPublicKey = Annotated[str | None, pydantic.AfterValidator(_is_a_public_key)]
TeamsApp = Annotated[str, pydantic.AfterValidator(_is_an_entra_id)]
TeamsTenant = Annotated[TeamsApp | None, pydantic.AfterValidator(_is_there_for_teams)]
TeamsSecret = Annotated[SecretStr | None, pydantic.AfterValidator(_is_there_for_teams)]
TeamsService = Annotated[str, pydantic.AfterValidator(_service)]
MicrosoftAddress = Annotated[str, pydantic.AfterValidator(_microsoft_address)]
SmtpServer = Annotated[SecretStr, pydantic.AfterValidator(_is_an_smtp_server)]
ImapServer = Annotated[SecretStr, pydantic.AfterValidator(_is_an_imap_server)]
MailSender = Annotated[str | None, pydantic.AfterValidator(_is_a_sender)]
Mailbox = Annotated[str, pydantic.AfterValidator(_is_a_mailbox)]
MailSecret = Annotated[SecretStr | None, pydantic.AfterValidator(_is_a_signing_secret)]
PushContact = Annotated[str, pydantic.AfterValidator(_is_a_contact)]
NtfyNetworks = Annotated[Networks, pydantic.AfterValidator(_leads_to_ntfy)]
AppriseSchemes = Annotated[tuple[str, ...], pydantic.AfterValidator(_are_schemes)]
ChannelOpeners = Annotated[str, pydantic.AfterValidator(_are_openers)]
