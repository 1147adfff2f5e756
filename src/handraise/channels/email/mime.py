"""Mails as bytes. Headers are ours: nothing that an agent or a correspondent wrote can add one or begin a line."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import datetime
from email.header import Header
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Literal

from handraise.channels.email.mail_body import Rendered

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,250}[A-Za-z0-9])?")
_ID = re.compile(r"[!-;=?-~]{1,900}")
_LINE, _END = 78, "\r\n"
_POLICY = SMTP.clone(max_line_length=_LINE, cte_type="7bit")


def build_mail(
    rendered: Rendered,
    *,
    sender: Address,
    to: str,
    id: str,  # noqa: A002 -- a Message-ID, without its brackets
    at: datetime,
    auto: Literal["auto-generated", "auto-replied"],
    reply_to: str | None = None,
    in_reply_to: str | None = None,
    references: Sequence[str] = (),
    files: Sequence[tuple[str, bytes]] = (),
) -> bytes:
    """A mail with a text and its HTML; the same arguments always give the same bytes.

    `references` are what all mails about the same thing refer to, so that they are shown together. `files` are attached with their
    names, as bytes of no known type.
    """
    mail = EmailMessage(policy=_POLICY)
    mail["From"] = sender
    mail["To"] = Address(addr_spec=to)
    if reply_to is not None:
        mail["Reply-To"] = Address(sender.display_name, addr_spec=reply_to)
    mail["Date"] = format_datetime(at)
    mail["Auto-Submitted"] = auto
    mail["X-Auto-Response-Suppress"] = "All"
    mail.set_content(rendered.text, cte="quoted-printable")
    mail.add_alternative(rendered.html, subtype="html", cte="quoted-printable")
    mail.set_boundary(f"=_{hashlib.sha256(id.encode()).hexdigest()[:40]}")
    for name, data in files:
        mail.add_attachment(data, maintype="application", subtype="octet-stream")
        part = list(mail.iter_attachments())[-1]
        del part["Content-Disposition"]
        # Percent-encoded: the standard library would decode encoded words in a name.
        part.add_header("Content-Disposition", "attachment", filename=("utf-8", "", name))
    if files:
        mail.set_boundary(f"=_files_{hashlib.sha256(id.encode()).hexdigest()[:40]}")
    answered = [in_reply_to] if in_reply_to else []
    ids = {"Message-ID": [id], "In-Reply-To": answered, "References": [*references, *answered]}
    headers = [*(_id_header(*each) for each in ids.items()), _subject_header(rendered.subject)]
    return b"".join(headers) + mail.as_bytes()


def id_host(host: str) -> str:
    """A host as it can be in the id of a mail."""
    return host if _HOST.fullmatch(host) else "localhost"


def _subject_header(text: str) -> bytes:
    """The subject, part of which an agent wrote. The standard library would decode encoded words in it.

    It would then write what it decoded: `=?utf-8?q?=0D=0A…?=` would end the subject and begin the agent's own headers.
    """
    plain = text.isascii() and "=?" not in text
    subject = Header(text, "us-ascii" if plain else "utf-8", header_name="Subject", maxlinelen=_LINE)
    return f"Subject: {subject.encode(linesep=_END)}{_END}".encode("ascii")


def _id_header(name: str, ids: Sequence[str]) -> bytes:
    """A header of ids, one per line. The standard library would encode a long one, and nobody would recognise it."""
    if not all(map(_ID.fullmatch, ids)):
        raise ValueError("that is no id of a mail")
    lines = "\r\n ".join(f"<{each}>" for each in ids)
    return f"{name}: {lines}\r\n".encode() if ids else b""
