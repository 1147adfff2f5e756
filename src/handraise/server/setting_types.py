"""Types of single settings: each says in its error what is expected. `channel_setting_types` has those of channels."""

from __future__ import annotations

import ipaddress
import os
import re
from typing import Annotated
from urllib.parse import urlsplit

import limits
import pydantic

from handraise.presentation.translation import find_time_zone, languages

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


Seconds = Annotated[float, pydantic.Field(gt=0)]
Address = Annotated[str, pydantic.AfterValidator(_address)]
Issuer = Annotated[str, pydantic.AfterValidator(_issuer)]
Origin = Annotated[str, pydantic.AfterValidator(_origin)]
Proxies = Annotated[str, pydantic.AfterValidator(_proxies)]
Language = Annotated[str, pydantic.AfterValidator(_language)]
Rate = Annotated[str, pydantic.AfterValidator(_rate)]
TimeZone = Annotated[str, pydantic.AfterValidator(_time_zone)]
