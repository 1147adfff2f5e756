"""Incoming mail, read with distrust: who claims to have sent it, to which of our addresses, and what it says.

Anybody can send us anything, so only headers are read at first, as plain texts. The content of a mail is read once it
is known who sent it. What no person wrote is recognised: bounces, automatic answers, mailing lists.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from email.errors import InvalidHeaderDefect
from email.headerregistry import AddressHeader
from email.message import Message
from email.parser import BytesHeaderParser, BytesParser
from email.policy import compat32, default

from handraise.channels.email.html_text import html_text
from handraise.channels.email.reply_parser import unflowed
from handraise.channels.email.server_urls import mail_address
from handraise.model.identities import fold_email

LARGEST = 262_144
"""How many bytes of a mail are read; what somebody wrote comes before what they attached."""

_LARGEST_HEAD = 65_536
_LONGEST_TEXT = 100_000
_LONGEST_SENDER = 1_000
_MOST_PARTS, _DEEPEST = 20, 8
_TO = ("to", "cc", "delivered-to", "x-original-to", "envelope-to", "x-envelope-to", "x-forwarded-to")
_MESSAGE_ID = re.compile(r"<([!-;=?-~]{1,250})>")
_BULK = frozenset({"bulk", "junk", "list", "auto_reply", "auto-reply"})
_MACHINES = (
    "list-id",
    "list-unsubscribe",
    "x-autoreply",
    "x-autoreply-from",
    "x-autorespond",
    "x-auto-response-suppress",
    "x-failed-recipients",
)
"""Headers that only machines write."""
_NOBODY = re.compile(r"(mailer-daemon|postmaster|no-?reply|do-?not-?reply)@")
_REPORT = re.compile(r"\s*(multipart/report|message/)", re.IGNORECASE)
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_METHOD = re.compile(r"\s*(dmarc|dkim|spf)\s*=\s*([a-z]+)", re.IGNORECASE)


class InvalidPayload(Exception):
    """Something is not a mail that can be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundMail:
    """A mail as it came in. `sender` is only what it claims; see `passes`."""

    id: str
    """Identifies it, and is the same if it comes again."""
    sender: str
    sender_name: str = field(repr=False)
    to: Sequence[str] = field(repr=False)
    references: Sequence[str] = field(repr=False)
    message_id: str | None
    automatic: bool
    """Whether a machine sent it."""
    findings: Sequence[str] = field(repr=False)
    """What servers on its way say about its sender; each may be forged."""
    raw: bytes = field(repr=False)


def parse_mail(raw: bytes) -> InboundMail:
    """Read the head of a mail; raises `InvalidPayload`."""
    raw = raw[:LARGEST]
    head = re.split(rb"\r?\n\r?\n", raw[: _LARGEST_HEAD + 1], maxsplit=1)[0]
    if len(head) > _LARGEST_HEAD:
        raise InvalidPayload("its head is too large")
    try:
        message = BytesHeaderParser(policy=compat32).parsebytes(head)
        address, name = _sender(message)
        named = _MESSAGE_ID.search(" ".join(_all(message, "message-id")))
        what = raw if named is None else f"{address} {named[0]}".encode()
        return InboundMail(
            id=hashlib.sha256(what).hexdigest(),
            sender=address,
            sender_name=name,
            to=[each for header in _TO for each in _all(message, header)],
            references=[each for header in ("references", "in-reply-to") for each in _all(message, header)],
            message_id=None if named is None else named[1],
            automatic=_is_automatic(message, address),
            findings=_all(message, "authentication-results"),
            raw=raw,
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        # The standard library raises all of these for what some programs send.
        raise InvalidPayload("it cannot be read") from error


def text_of(mail: InboundMail) -> str:
    """What a mail says, including quotations; raises `InvalidPayload`."""
    try:
        message = BytesParser(policy=compat32).parsebytes(mail.raw)
        parts = list(_parts(message))[:_MOST_PARTS]
        for kind in ("text/plain", "text/html"):
            for part in parts:
                if part.get_content_type() == kind:
                    return _text(part)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidPayload("its text cannot be read") from error
    return ""


def passes(mail: InboundMail, authserv_id: str) -> bool:
    """Whether the receiving server, under this name, found that the sender's domain sent it (RFC 8601).

    Only its topmost header counts: it puts its own above all that came with the mail, also above those that a sender wrote
    in its name. If the server checked DMARC, that decides. Otherwise a signature (DKIM) or a path (SPF) of exactly the
    sender's domain will do: a domain above it may be one that everybody can register in, such as co.uk. Findings that
    differ count as none.
    """
    domain = mail.sender.rpartition("@")[2]
    found: dict[str, set[bool]] = {"dmarc": set(), "dkim": set(), "spf": set()}
    for result in _results(mail, authserv_id):
        if method := _METHOD.match(result):
            kind, passed = method[1].lower(), method[2].lower() == "pass"
            found[kind].add(passed and _is_about(result, kind, domain))
    if found["dmarc"]:
        return found["dmarc"] == {True}
    return True in found["dkim"] or found["spf"] == {True}


def _results(mail: InboundMail, authserv_id: str) -> list[str]:
    """What the topmost header under this name says."""
    for header in mail.findings:
        # A header that cannot be read may be the topmost one: then nothing below it is trusted.
        name, *results = _bare(header).split(";")
        if not name.strip() or name.split()[0].lower() == authserv_id.lower():
            return results
    return []


def _bare(header: str) -> str:
    """A header without its quoted parts and comments, in which a sender may have written something."""
    bare = _QUOTED.sub("", header)
    for _ in range(_DEEPEST):
        bare = re.sub(r"\([^()]*\)", " ", bare)
    return "" if set(bare) & set('"()') else bare


_ABOUT = {
    "dmarc": r"header\.from\s*=\s*(?:[^\s;@]*@)?([^\s;]+)",
    "dkim": r"header\.d\s*=\s*([^\s;]+)",
    "spf": r"smtp\.mailfrom\s*=\s*(?:[^\s;@]*@)?([^\s;]+)",
}


def _is_about(result: str, kind: str, domain: str) -> bool:
    """Whether a finding is about the sender's own domain."""
    named = re.search(_ABOUT[kind], result, re.IGNORECASE)
    return named is not None and named[1].lower() == domain


def _sender(message: Message) -> tuple[str, str]:
    """The address and the name of the one sender."""
    headers = _all(message, "from")
    if len(headers) != 1 or len(headers[0]) > _LONGEST_SENDER:
        raise InvalidPayload("it does not have one sender")
    header = default.header_factory("from", headers[0])
    found = header.addresses if isinstance(header, AddressHeader) else ()
    odd = any(isinstance(defect, InvalidHeaderDefect) for defect in header.defects)
    address = mail_address(found[0].addr_spec) if len(found) == 1 and not odd else None
    if address is None:
        raise InvalidPayload("it does not have one sender")
    return fold_email(address), found[0].display_name


def _is_automatic(message: Message, sender: str) -> bool:
    def said(name: str) -> str:
        return " ".join(_all(message, name)).strip().lower()

    return (
        said("auto-submitted").partition(";")[0].strip() not in ("", "no")
        or said("precedence") in _BULK
        or said("return-path") == "<>"
        or _REPORT.match(said("content-type")) is not None
        or any(map(said, _MACHINES))
        or _NOBODY.match(sender) is not None
    )


def _parts(message: Message, depth: int = 0) -> Iterator[Message]:
    """The parts of a mail, without attachments, such as another mail."""
    attached = (
        message.get_content_disposition() == "attachment" or message.get_content_maintype() == "message"
    )
    if attached or depth > _DEEPEST:
        return
    inside = message.get_payload() if message.is_multipart() else None
    if not isinstance(inside, list):
        yield message
        return
    for each in inside[:_MOST_PARTS]:
        if isinstance(each, Message):
            yield from _parts(each, depth + 1)


def _text(part: Message) -> str:
    data = part.get_payload(decode=True)
    if not isinstance(data, bytes):
        return ""
    text = _decoded(data, part.get_content_charset())[:_LONGEST_TEXT]
    if part.get_content_subtype() == "html":
        return html_text(text)
    if str(part.get_param("format") or "").lower() == "flowed":
        return unflowed(text, delete_space=str(part.get_param("delsp") or "").lower() == "yes")
    return text


def _decoded(data: bytes, charset: str | None) -> str:
    """The text of some bytes, whatever they claim to be."""
    for name in (charset or "utf-8", "utf-8", "windows-1252"):
        try:
            return data.decode(name)
        except (LookupError, UnicodeError, ValueError):
            continue
    return data.decode("latin-1")


def _all(message: Message, name: str) -> list[str]:
    """The texts of a header, each on one line."""
    return [" ".join(str(each).split()) for each in message.get_all(name, [])]
