"""Types of single settings: each says in its error what is expected. `channel_setting_types` has those of channels."""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path
from typing import Annotated, TypeVar
from urllib.parse import urlsplit

import limits
import pydantic

from handraise.model.json_values import text_problem
from handraise.presentation.translation import find_time_zone, languages
from handraise.server.witness_addresses import read_witness_address

T = TypeVar("T")

SHORTEST_SECRET = 32
"""The shortest secret for signing OIDC sign-ins, in characters."""

_EMAIL = re.compile(r"[!-?A-~]+@[!-?A-~]+")
_LONGEST_GROUP = 200
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


def _are_witnesses(texts: tuple[str, ...], info: pydantic.ValidationInfo) -> tuple[str, ...]:
    others = info.data
    allowed = others.get("audit_witness_allow_private", ())
    kinds = {read_witness_address(text, allowed).kind for text in texts}
    if kinds and not (others.get("audit_key") or others.get("audit_heads")):
        raise ValueError("needs HANDRAISE_AUDIT_KEY or HANDRAISE_AUDIT_HEADS, to record what was sent")
    if "mail" in kinds and not (
        others.get("email_smtp_url") or others.get("email_transport", "smtp") != "smtp"
    ):
        raise ValueError(
            "mailto: needs HANDRAISE_EMAIL_SMTP_URL or another HANDRAISE_EMAIL_TRANSPORT, to send through"
        )
    if "timestamp" in kinds and not others.get("audit_timestamps"):
        raise ValueError("rfc3161+https:// needs HANDRAISE_AUDIT_TIMESTAMPS, to keep timestamps in")
    return texts


def _completes_oidc(text: str | None, others: pydantic.ValidationInfo) -> str | None:
    if "oidc_issuer" not in others.data:
        return text  # it is invalid itself
    issuer, secret = others.data["oidc_issuer"], others.data.get("secret")
    if text and not issuer:
        raise ValueError("it is for OIDC sign-in, which also needs HANDRAISE_OIDC_ISSUER")
    if issuer and not text:
        raise ValueError("OIDC sign-in needs it")
    if issuer and len(secret.get_secret_value() if secret else "") < SHORTEST_SECRET:
        raise ValueError(f"OIDC sign-in needs HANDRAISE_SECRET with {SHORTEST_SECRET} characters or more")
    return text


def _replaces(name: str) -> pydantic.AfterValidator:
    """What is accepted besides the setting of this name means nothing without it."""

    def check(values: tuple[T, ...], others: pydantic.ValidationInfo) -> tuple[T, ...]:
        if values and name in others.data and others.data[name] is None:
            raise ValueError(f"it needs HANDRAISE_{name.upper()}")
        return values

    return pydantic.AfterValidator(check)


def _are_admin_emails(texts: tuple[str, ...], others: pydantic.ValidationInfo) -> tuple[str, ...]:
    for text in texts:
        if not _EMAIL.fullmatch(text):
            raise ValueError(f"expected e-mail addresses such as ann@example.com, not {text!r}")
    if texts and "oidc_issuer" in others.data and not others.data["oidc_issuer"]:
        raise ValueError("these people sign in with OIDC, which needs HANDRAISE_OIDC_ISSUER")
    return texts


def _completes_groups(
    named: dict[str, str] | tuple[str, ...], others: pydantic.ValidationInfo
) -> dict[str, str] | tuple[str, ...]:
    if named and not others.data.get("oidc_groups_claim"):
        raise ValueError("needs HANDRAISE_OIDC_GROUPS_CLAIM, which says where the provider lists groups")
    for text in (*named, *(named.values() if isinstance(named, dict) else ())):
        if not text.strip() or len(text) > _LONGEST_GROUP or text_problem(text):
            raise ValueError(f"{text[:_LONGEST_GROUP]!r} cannot be the name of a group")
    return named


Seconds = Annotated[float, pydantic.Field(gt=0)]
AdminEmails = Annotated[tuple[str, ...], pydantic.AfterValidator(_are_admin_emails)]
GroupNames = Annotated[dict[str, str], pydantic.AfterValidator(_completes_groups)]
AdminGroups = Annotated[tuple[str, ...], pydantic.AfterValidator(_completes_groups)]
Address = Annotated[str, pydantic.AfterValidator(_address)]
Issuer = Annotated[str, pydantic.AfterValidator(_issuer)]
Origin = Annotated[str, pydantic.AfterValidator(_origin)]
Proxies = Annotated[str, pydantic.AfterValidator(_proxies)]
Language = Annotated[str, pydantic.AfterValidator(_language)]
Rate = Annotated[str, pydantic.AfterValidator(_rate)]
AuditWitnesses = Annotated[tuple[str, ...], pydantic.AfterValidator(_are_witnesses)]
OidcClient = Annotated[str | None, pydantic.AfterValidator(_completes_oidc)]
SecretFallbacks = Annotated[tuple[pydantic.SecretStr, ...], _replaces("secret")]
ReceiptKeyFallbacks = Annotated[tuple[Path, ...], _replaces("receipt_key")]
TimeZone = Annotated[str, pydantic.AfterValidator(_time_zone)]
