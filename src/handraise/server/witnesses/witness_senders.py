"""Sends heads of the audit trail to witnesses: a file, an HTTP endpoint, a mailbox, a timestamp authority.

Nothing secret is sent: a head is the name of a workspace, the number of a seal, its digest, its time and its signature. A
timestamp authority gets only a digest.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.headerregistry import Address
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from handraise.channels.email.server_urls import read_sender
from handraise.channels.http_errors import status_error
from handraise.channels.safe_http import URL, SafeHttpClient, open_safe_client
from handraise.model.witnesses import ChainHead
from handraise.presentation.translation import Locale, gettext, use_locale
from handraise.server.mail_setup import open_mail_setup
from handraise.server.settings import ServerSettings
from handraise.server.witness_addresses import WitnessAddress, read_witness_address
from handraise.server.witnesses.witness_file import FileWitness

_YES = range(200, 300)
_MOST_LINES = 200


class WitnessSender(Protocol):
    """Sends to one witness."""

    @property
    def batch(self) -> int:
        """The most heads that are sent at once."""
        ...

    async def send(self, heads: Sequence[ChainHead]) -> None:
        """Send heads; raises `NotSent`. The same head may be sent again if it is unknown whether it arrived."""
        ...


@asynccontextmanager
async def open_senders(
    settings: ServerSettings,
) -> AsyncIterator[Sequence[tuple[WitnessAddress, WitnessSender]]]:
    """Every witness of the settings, for as long as this context lasts."""
    allowed = settings.audit_witness_allow_private
    addresses = [read_witness_address(each, allowed) for each in settings.audit_witnesses]
    async with open_safe_client(allowed) as client:
        yield [(each, _sender(each, settings, client)) for each in addresses]


def _sender(address: WitnessAddress, settings: ServerSettings, client: SafeHttpClient) -> WitnessSender:
    """The sender for an address; the settings are valid."""
    place = address.place
    if isinstance(place, Path):
        return FileWitness(place)
    if isinstance(place, str):
        return MailWitness(settings, place)
    if address.kind == "http":
        return HttpWitness(client, place)
    from handraise.server.witnesses.timestamp_authority import (  # noqa: PLC0415 -- an extra
        TimestampWitness,
    )

    return TimestampWitness(client, place, FileWitness(settings.audit_timestamps or Path()))


class HttpWitness:
    """An endpoint to which each head is posted as JSON."""

    batch = 1

    def __init__(self, client: SafeHttpClient, url: URL, *, now: Callable[[], float] = time.time) -> None:
        self._client = client
        self._url = url
        self._now = now

    async def send(self, heads: Sequence[ChainHead]) -> None:
        """Post each head."""
        headers = {"content-type": "application/json", "user-agent": "handraise"}
        for head in heads:
            answered = await self._client.post(
                self._url, headers=headers, content=json.dumps(head.record).encode()
            )
            if answered.status not in _YES:
                raise status_error("it", answered, final=(), now=self._now())


class MailWitness:
    """A mailbox that gets heads by e-mail, as the server's own mails go out."""

    batch = _MOST_LINES

    def __init__(self, settings: ServerSettings, to: str) -> None:
        from handraise.channels.email.mime import id_host  # noqa: PLC0415 -- an extra

        self._settings = settings
        self._sender = read_sender(settings.email_from or "")
        self._to = to
        self._locale = settings.locale
        self._host = id_host(urlsplit(settings.base_url).hostname or "")

    async def send(self, heads: Sequence[ChainHead]) -> None:
        """Send one mail with all heads."""
        mail = head_mail(heads, sender=self._sender, to=self._to, host=self._host, locale=self._locale)
        async with open_mail_setup(self._settings) as setup:
            await setup.transport().hand_over(mail, sender=self._sender.addr_spec, to=self._to)


def head_mail(heads: Sequence[ChainHead], *, sender: Address, to: str, host: str, locale: Locale) -> bytes:
    """A mail with a line for each head."""
    from handraise.channels.email.mail_body import render_lines  # noqa: PLC0415 -- an extra
    from handraise.channels.email.mime import build_mail  # noqa: PLC0415 -- an extra

    lines = [json.dumps(head.record) for head in heads]
    with use_locale(locale):
        rendered = render_lines(
            subject=gettext("Heads of the audit trail of {server}").format(server=host),
            text=gettext(
                "Keep this e-mail. It can show later whether somebody rebuilt the audit trail: save it in a folder with the "
                "earlier ones, and give that folder to handraise audit verify as --witness."
            ),
            lines=lines,
            server=host,
        )
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    return build_mail(
        rendered,
        sender=sender,
        to=to,
        id=f"{digest[:32]}.heads@{host}",
        at=datetime.now(UTC),
        auto="auto-generated",
    )
