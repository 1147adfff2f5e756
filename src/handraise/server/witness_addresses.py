"""Where witnesses are, from the texts that say so."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

from handraise.channels.email.server_urls import mail_address
from handraise.channels.safe_http import URL, IPNetwork, place_of, read_url

WitnessKind = Literal["file", "http", "mail", "timestamp"]

_AUTHORITY = "rfc3161+"


@dataclass(frozen=True, slots=True, kw_only=True)
class WitnessAddress:
    """A witness: a file, a URL to post to, an e-mail address, or the URL of a timestamp authority."""

    kind: WitnessKind
    name: str
    """What logs and `handraise doctor` call it. The path of a URL is left out: it may contain a secret."""
    id: str
    place: Path | URL | str = field(repr=False)


def read_witness_address(text: str, allowed: Sequence[IPNetwork]) -> WitnessAddress:
    """The witness that an address names; raises `ValueError` with what is wrong, and never with the address."""
    kind, place, name = _read(text, allowed)
    return WitnessAddress(
        kind=kind, name=name, id=hashlib.sha256(text.encode()).hexdigest()[:16], place=place
    )


def _read(text: str, allowed: Sequence[IPNetwork]) -> tuple[WitnessKind, Path | URL | str, str]:
    scheme, _, rest = text.partition(":")
    match scheme:
        case "file":
            path = Path(unquote(urlsplit(text).path))
            if urlsplit(text).netloc or not path.is_absolute():
                raise ValueError("expected a whole path, such as file:///mnt/witness/heads.jsonl")
            return "file", path, f"file {path}"
        case "mailto":
            address = mail_address(rest)
            if address is None:
                raise ValueError("expected an e-mail address, such as mailto:audit@example.com")
            return "mail", address, f"mail to {address}"
        case "http" | "https":
            url = _url(text, allowed)
            return "http", url, f"{scheme} {place_of(url)}"
        case "rfc3161+http" | "rfc3161+https":
            url = _url(text.removeprefix(_AUTHORITY), allowed)
            return "timestamp", url, f"timestamps of {place_of(url)}"
        case _:
            raise ValueError("expected file:///…, https://…, mailto:… or rfc3161+https://…")


def _url(text: str, allowed: Sequence[IPNetwork]) -> URL:
    url = read_url(text, allowed)
    if url is None:
        raise ValueError(
            "expected an https address; in a network of HANDRAISE_AUDIT_WITNESS_ALLOW_PRIVATE, also http"
        )
    return url
