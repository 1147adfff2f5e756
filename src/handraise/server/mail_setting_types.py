"""Types of the settings for mail without passwords: tokens of OAuth 2.0, Microsoft Graph and Amazon SES."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

import pydantic
from pydantic import SecretStr, ValidationInfo

from handraise.channels.email.server_urls import read_server

_REGION = re.compile(r"[a-z]{2}(-[a-z]+){1,3}-[0-9]{1,2}")
_LONGEST_KEY = 10_000
_LONGEST_URL = 300
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def is_api_url(text: str) -> bool:
    """Whether secrets could go there: over TLS, or no further than this machine."""
    try:
        url = urlsplit(text)
        host, _ = url.hostname, url.port
    except ValueError:
        return False
    is_safe = url.scheme == "https" or (url.scheme == "http" and host in _LOOPBACK)
    is_plain = text.isascii() and text.isprintable() and not any(each in text for each in "@?# ")
    return bool(host) and is_safe and is_plain and len(text) <= _LONGEST_URL


class GoogleKey(pydantic.BaseModel):
    """The key file of a service account, as Google makes it."""

    model_config = pydantic.ConfigDict(hide_input_in_errors=True)

    type: Literal["service_account"]
    client_email: Annotated[str, pydantic.Field(min_length=1, max_length=300)]
    private_key: Annotated[str, pydantic.Field(min_length=1, max_length=_LONGEST_KEY)] = pydantic.Field(
        repr=False
    )
    token_uri: Annotated[str, pydantic.Field(max_length=300)]


def read_google_key(text: str) -> GoogleKey:
    """A key of a service account; raises `ValueError`, and never with the key."""
    try:
        key = GoogleKey.model_validate_json(text)
    except pydantic.ValidationError:
        key = None
    if key is None or not is_api_url(key.token_uri):
        raise ValueError("expected the JSON key of a service account, as Google makes it")
    return key


def _uses_of_tokens(values: Mapping[str, object]) -> list[str]:
    """The settings that sign in with tokens. What is invalid itself does not count."""
    found = ["HANDRAISE_EMAIL_TRANSPORT=graph"] if values.get("email_transport") == "graph" else []
    servers: tuple[tuple[str, Literal["smtp", "imap"]], ...] = (
        ("email_smtp_url", "smtp"),
        ("email_imap_url", "imap"),
    )
    for name, kind in servers:
        url = values.get(name)
        if isinstance(url, SecretStr) and read_server(url.get_secret_value(), kind).takes_tokens:
            found.append(f"HANDRAISE_{name.upper()}")
    return found


def _is_a_google_key(text: SecretStr, others: ValidationInfo) -> SecretStr:
    read_google_key(text.get_secret_value())
    if others.data.get("email_transport") == "graph":
        raise ValueError("it is for mail servers of Google, and mails go out through Microsoft Graph")
    return text


def _is_a_token_url(url: str | None, others: ValidationInfo) -> str | None:
    uses, has_key = _uses_of_tokens(others.data), others.data.get("email_oauth_service_account") is not None
    if url is None and uses and not has_key:
        raise ValueError(
            f"{' and '.join(uses)} signs in with tokens: give the address that issues them, or a user with a password"
            if uses != ["HANDRAISE_EMAIL_TRANSPORT=graph"]
            else "Microsoft Graph needs the address that issues tokens for it"
        )
    if url is None:
        return None
    if not is_api_url(url):
        raise ValueError(
            "expected an https address such as https://login.microsoftonline.com/TENANT/oauth2/v2.0/token"
        )
    if has_key:
        raise ValueError("HANDRAISE_EMAIL_OAUTH_SERVICE_ACCOUNT names one itself; unset one of them")
    if not uses and "email_smtp_url" in others.data and "email_imap_url" in others.data:
        raise ValueError(
            "nothing signs in with tokens: leave the password out of HANDRAISE_EMAIL_SMTP_URL or "
            "HANDRAISE_EMAIL_IMAP_URL, or set HANDRAISE_EMAIL_TRANSPORT=graph"
        )
    return url


def _is_a_client_id(text: str | None, others: ValidationInfo) -> str | None:
    if not text and others.data.get("email_oauth_token_url"):
        raise ValueError("tokens for mail need it")
    return text


def _is_a_client_secret(text: SecretStr | None, others: ValidationInfo) -> SecretStr | None:
    wanted = others.data.get("email_oauth_token_url") and not others.data.get("email_oauth_refresh_token")
    if text is None and wanted:
        raise ValueError("tokens for mail need it, or HANDRAISE_EMAIL_OAUTH_REFRESH_TOKEN")
    return text


def _is_a_region(text: str | None, others: ValidationInfo) -> str | None:
    if text is None and others.data.get("email_transport") == "ses":
        raise ValueError("Amazon SES needs it")
    if text is not None and not _REGION.fullmatch(text):
        raise ValueError("expected a region of AWS such as eu-central-1")
    return text


def _is_an_api(url: str) -> str:
    if not is_api_url(url):
        raise ValueError("expected an https address")
    return url


GoogleAccount = Annotated[SecretStr, pydantic.AfterValidator(_is_a_google_key)]
TokenUrl = Annotated[str | None, pydantic.AfterValidator(_is_a_token_url)]
OAuthClient = Annotated[str | None, pydantic.AfterValidator(_is_a_client_id)]
OAuthSecret = Annotated[SecretStr | None, pydantic.AfterValidator(_is_a_client_secret)]
SesRegion = Annotated[str | None, pydantic.AfterValidator(_is_a_region)]
ApiUrl = Annotated[str, pydantic.AfterValidator(_is_an_api)]
