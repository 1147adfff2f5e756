"""Where mail goes and where it is fetched, from the texts that say so."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from email.headerregistry import Address
from email.policy import default
from typing import Literal
from urllib.parse import parse_qs, unquote, urlsplit

from handraise.model.json_values import Json

Security = Literal["tls", "starttls", "none"]

_WORD = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LOCAL = re.compile(rf"{_WORD}(\.{_WORD})*")
_DOMAIN = re.compile(
    r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*"
)
_LONGEST_LOCAL, _LONGEST = 64, 254
_PORTS = {("smtp", "tls"): 465, ("smtp", "starttls"): 587, ("smtp", "none"): 25}
_PORTS |= {("imap", "tls"): 993, ("imap", "starttls"): 143, ("imap", "none"): 143}


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    """A server to send through or to fetch from. `folder` is where replies come in.

    A user without a password signs in with an access token.
    """

    host: str
    port: int
    security: Security
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    folder: str = "INBOX"

    @property
    def takes_tokens(self) -> bool:
        """Whether the user signs in with an access token."""
        return self.user is not None and self.password is None


def read_server(text: str, kind: Literal["smtp", "imap"]) -> MailServer:
    """The server that an address names; raises `ValueError` with what is wrong, and never with the address.

    `smtps://` and `imaps://` are encrypted from the start, `smtp://` and `imap://` by STARTTLS, unless `?tls=none`
    says that nobody listens on the way.
    """
    try:
        url = urlsplit(text)
        host, port = url.hostname, url.port
    except ValueError:
        host, port, url = None, None, urlsplit("")
    if not host or url.scheme not in (kind, f"{kind}s"):
        raise ValueError(f"expected an address such as {kind}s://user:password@mail.example.com")
    wanted = parse_qs(url.query, keep_blank_values=True)
    given = wanted.pop("tls", ["tls" if url.scheme == f"{kind}s" else "starttls"])[-1]
    security: Security
    match (url.scheme == f"{kind}s", given):
        case (True, "tls"):
            security = "tls"
        case (False, "starttls"):
            security = "starttls"
        case (False, "none"):
            security = "none"
        case _:
            raise ValueError(f"tls can be starttls or none, with {kind}://")
    if wanted:
        raise ValueError("only tls can be said behind the question mark")
    if url.username == "":
        raise ValueError("a password needs a user")
    if url.password == "":
        raise ValueError(
            "an empty password can be left out with its colon, if the user signs in with a token"
        )
    return MailServer(
        host=host,
        port=port or _PORTS[kind, security],
        security=security,
        user=None if url.username is None else unquote(url.username),
        password=None if url.password is None else unquote(url.password),
        folder=unquote(url.path.strip("/")) or "INBOX",
    )


def mail_address(text: Json) -> str | None:
    """An e-mail address as a mail server takes it, or None if it is not one that we can write to.

    A domain in other letters is written as it is looked up; before the @ there are ASCII characters only.
    """
    if not isinstance(text, str) or len(text) > _LONGEST:
        return None
    local, _, domain = text.rpartition("@")
    try:
        domain = domain.encode("idna").decode()
    except UnicodeError:
        return None
    if len(local) > _LONGEST_LOCAL or len(local) + len(domain) >= _LONGEST:
        return None
    if "=?" in local:
        return None  # an encoded word, which mail programs read as something else
    return f"{local}@{domain}" if _LOCAL.fullmatch(local) and _DOMAIN.fullmatch(domain) else None


def address_in(to: Json) -> str | None:
    """The e-mail address in what a recipient's address holds: `{"address": "ann@example.org"}`, or just that."""
    if isinstance(to, dict):
        return mail_address(to["address"]) if set(to) == {"address"} else None
    return mail_address(to)


def read_sender(text: str) -> Address:
    """Who our mail comes from, such as `Handraise <desk@example.org>`; raises `ValueError`."""
    found = list(default.header_factory("from", text).addresses) if text.isprintable() else []
    address = mail_address(found[0].addr_spec) if len(found) == 1 else None
    if address is None:
        raise ValueError("expected an e-mail address such as Handraise <desk@example.org>")
    return Address(found[0].display_name, addr_spec=address)
