"""Reads what a witness kept: lines of JSON, mails, or a folder of either."""

from __future__ import annotations

import json
import mailbox
from collections.abc import Iterator
from datetime import datetime
from email import policy
from email.message import EmailMessage, Message
from email.parser import BytesParser
from pathlib import Path
from typing import IO, Any, Protocol

from handraise.model.seals import instant_text
from handraise.model.witnesses import ChainHead, SeenHead, Witness

_PARSER = BytesParser(policy=policy.default)
_START = 4_096


class Timestamps(Protocol):
    """Checks timestamps; see `TimestampVerifier`."""

    def stamped_at(self, text: str, digest: bytes) -> datetime:
        """When an authority saw a digest; raises `ValueError` if it did not."""
        ...


def read_witness(path: Path, workspace: str, timestamps: Timestamps | None) -> Witness:
    """What a witness saw of a workspace.

    Raises `ValueError` if a timestamp is not valid, or cannot be checked because no authority is trusted.
    """
    seen: list[SeenHead] = []
    unreadable = 0
    for where, record in _records(path):
        try:
            head = ChainHead.from_record(record)
        except ValueError:
            unreadable += 1
            continue
        if head.workspace == workspace:
            seen.append(_seen(head, record, where, timestamps))
    return Witness(name=path.name or str(path), seen=seen, unreadable=unreadable)


def _seen(head: ChainHead, record: dict[str, Any], where: str, timestamps: Timestamps | None) -> SeenHead:
    token = record.get("timestamp")
    if token is None:
        return SeenHead(head=head, where=where)
    if timestamps is None:
        raise ValueError(f"{where} has a timestamp: give the authority's certificate with --witness-ca")
    try:
        at = timestamps.stamped_at(str(token), head.digest)
    except ValueError as error:
        raise ValueError(f"{where}, seal {head.number} of {instant_text(head.sealed_at)}: {error}") from error
    return SeenHead(head=head, where=where, stamped_at=at)


def _records(path: Path) -> Iterator[tuple[str, Any]]:
    """Everything that should be a head, and where it is."""
    for file in _files(path):
        with file.open("rb") as opened:
            start = opened.read(_START)
            opened.seek(0)
            match start.lstrip()[:1]:
                case b"" | b"{":
                    yield from _lines(file, opened)
                case b"[":
                    whole = _parsed(opened.read())
                    for number, each in enumerate(whole if isinstance(whole, list) else [None], 1):
                        yield f"{file.name} entry {number}", each
                case _ if start.startswith(b"From "):
                    yield from _mailbox_lines(file)
                case _:
                    yield from _mail_lines(file, _PARSER.parse(opened))


def _files(path: Path) -> Iterator[Path]:
    """The file itself, or those in a folder: mails, or a Maildir."""
    if not path.is_dir():
        yield path
        return
    for each in sorted(path.iterdir()):
        if not each.name.startswith(".") and each.name != "tmp":
            yield from _files(each)


def _lines(file: Path, opened: IO[bytes]) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(opened, 1):
        if line.strip():
            yield f"{file.name} line {number}", _parsed(line)


def _mailbox_lines(file: Path) -> Iterator[tuple[str, Any]]:
    box = mailbox.mbox(file, create=False)
    try:
        for key in box.iterkeys():
            yield from _mail_lines(file, _PARSER.parsebytes(box.get_bytes(key)))
    finally:
        box.close()


def _mail_lines(file: Path, mail: Message[Any, Any]) -> Iterator[tuple[str, Any]]:
    """The lines of a mail that look like heads. Other mails in the same place are none of ours."""
    where = f"{file.name}, mail {mail.get('message-id', 'without an id')}"
    for part in mail.walk():
        if part.get_content_type() != "text/plain" or not isinstance(part, EmailMessage):
            continue
        try:
            content = part.get_content()
        except (LookupError, ValueError):
            continue
        for line in str(content).splitlines():
            if line.startswith('{"type": "handraise.head"'):
                yield where, _parsed(line)


def _parsed(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
