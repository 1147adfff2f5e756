"""Types of single settings: each says in its error what is expected."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Callable
from typing import Annotated
from urllib.parse import urlsplit

import limits
import pydantic

from handraise.channels.teams.references import is_service
from handraise.presentation.translation import find_time_zone, languages

_TELEGRAM_TOKEN = re.compile(r"[0-9]{1,20}:[A-Za-z0-9_-]{20,100}")
_PUBLIC_KEY = re.compile(r"[0-9a-f]{64}", re.ASCII)
_ORIGIN = re.compile(r"https?://[a-z0-9-]+(\.[a-z0-9-]+)*(:[0-9]{1,5})?")


def _address(text: str) -> str:
    if not (text.startswith(("http://", "https://")) and urlsplit(text).hostname):
        raise ValueError("expected an address such as https://ask.example.com")
    return text


def _issuer(text: str) -> str:
    # As Authlib has it: its variable is for tests against a provider without TLS.
    if text.startswith(("https://", "http://localhost:")) or os.environ.get("AUTHLIB_INSECURE_TRANSPORT"):
        return text
    raise ValueError("expected an https address such as https://login.example.com")


def _origin(text: str) -> str:
    # It goes into a header, where a space or a semicolon would say something else.
    if not _ORIGIN.fullmatch(text):
        raise ValueError("expected origins such as https://app.example.com, without a path or a wildcard")
    return text


def _proxies(text: str) -> str:
    for each in filter(None, map(str.strip, text.split(","))):
        try:
            ipaddress.ip_network(each)
        except ValueError:
            if each != "*":
                raise ValueError(
                    "expected addresses and networks separated by commas, such as 10.0.0.7,10.1.0.0/16, or * for all"
                ) from None
    return text


def _public_key(text: str) -> str:
    if not _PUBLIC_KEY.fullmatch(text):
        raise ValueError("expected 64 characters of 0-9 and a-f, as Discord shows them")
    return text


def _language(text: str) -> str:
    if text not in languages():
        raise ValueError(f"expected one of {', '.join(languages())}")
    return text


def _time_zone(text: str) -> str:
    if find_time_zone(text) is None:
        raise ValueError("expected the name of a time zone such as Europe/Berlin or UTC")
    return text


def _rate(text: str) -> str:
    try:
        limits.parse(text)
    except ValueError:
        raise ValueError("expected a rate such as 200/second or 30/minute") from None
    return text


def _service(url: str) -> str:
    if not is_service(url):
        raise ValueError("expected addresses such as https://smba.example.com/teams")
    return url


def _microsoft_address(url: str) -> str:
    if not is_service(url.replace("/.well-known/", "/")):
        raise ValueError("expected an https address")
    return url


def _token(fits: Callable[[str], object], expected: str) -> pydantic.AfterValidator:
    def check(token: pydantic.SecretStr) -> pydantic.SecretStr:
        if not fits(token.get_secret_value()):
            raise ValueError(f"expected {expected}")
        return token

    return pydantic.AfterValidator(check)


Seconds = Annotated[float, pydantic.Field(gt=0)]
Address = Annotated[str, pydantic.AfterValidator(_address)]
Issuer = Annotated[str, pydantic.AfterValidator(_issuer)]
Origin = Annotated[str, pydantic.AfterValidator(_origin)]
Proxies = Annotated[str, pydantic.AfterValidator(_proxies)]
Language = Annotated[str, pydantic.AfterValidator(_language)]
Rate = Annotated[str, pydantic.AfterValidator(_rate)]
TimeZone = Annotated[str, pydantic.AfterValidator(_time_zone)]
TeamsService = Annotated[str, pydantic.AfterValidator(_service)]
MicrosoftAddress = Annotated[str, pydantic.AfterValidator(_microsoft_address)]
DiscordPublicKey = Annotated[str, pydantic.AfterValidator(_public_key)]
TelegramSecret = Annotated[
    pydantic.SecretStr,
    # Telegram accepts no other characters.
    _token(re.compile(r"[A-Za-z0-9_-]{16,256}").fullmatch, "16 to 256 letters, digits, _ and -"),
]
TelegramToken = Annotated[
    pydantic.SecretStr,
    _token(_TELEGRAM_TOKEN.fullmatch, "what BotFather gave you: digits, a colon, and a secret"),
]
SlackBotToken = Annotated[
    pydantic.SecretStr,
    _token(re.compile(r"xoxb-\S+").fullmatch, "the Bot User OAuth Token of your Slack app, xoxb-…"),
]
SlackAppToken = Annotated[
    pydantic.SecretStr,
    _token(re.compile(r"xapp-\S+").fullmatch, "an app-level token of your Slack app, xapp-…"),
]
