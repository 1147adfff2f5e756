"""Handing mails over to a mail server, and what its answer means for another try."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress

from handraise.channels.email.server_urls import MailServer
from handraise.model.errors import MissingExtra
from handraise.model.visible import visible_line
from handraise.ports.channel import NotSent

try:
    import aiosmtplib
except ImportError as error:
    raise MissingExtra("aiosmtplib", "email") from error

_CONNECT_WITHIN = 10.0
_DATA_WITHIN = 60.0
_GOODBYE_WITHIN = 2.0
_PERMANENT = 500
_CLOSING = 421
_LONGEST_SAID = 200


class SmtpRelay:
    """A mail server that mails are handed to, each over its own connection."""

    def __init__(self, server: MailServer, *, verify: ssl.SSLContext | None = None) -> None:
        self._server = server
        self._verify = verify

    async def hand_over(self, letter: bytes, *, sender: str, to: str) -> None:
        """Hand a mail over. Before the mail itself is on its way, every failure means that it did not arrive."""
        server = self._server
        client = aiosmtplib.SMTP(
            hostname=server.host,
            port=server.port,
            username=server.user,
            password=server.password,
            use_tls=server.security == "tls",
            start_tls=server.security == "starttls",
            tls_context=self._verify,
            timeout=_CONNECT_WITHIN,
        )
        try:
            try:
                async with asyncio.timeout(_CONNECT_WITHIN):
                    await client.connect()
            except (aiosmtplib.SMTPException, OSError) as error:
                raise NotSent(f"the mail server cannot be used: {_said(error)}") from None
            await _hand_over(client, letter, sender=sender, to=to)
            with suppress(aiosmtplib.SMTPException, OSError):
                await client.quit(timeout=_GOODBYE_WITHIN)
        finally:
            client.close()


async def _hand_over(client: aiosmtplib.SMTP, letter: bytes, *, sender: str, to: str) -> None:
    try:
        await client.mail(sender)
        await client.rcpt(to)
    except aiosmtplib.SMTPResponseException as error:
        raise _refused(error) from None
    except (aiosmtplib.SMTPException, OSError) as error:
        raise NotSent(f"the mail server gave up: {_said(error)}") from None
    try:
        await client.data(letter, timeout=_DATA_WITHIN)
    except aiosmtplib.SMTPResponseException as error:
        raise _refused(error) from None
    except (aiosmtplib.SMTPException, OSError) as error:
        raise NotSent(f"the mail server gave no answer: {_said(error)}", arrived_perhaps=True) from None


def _refused(error: aiosmtplib.SMTPResponseException) -> NotSent:
    again = error.code < _PERMANENT or error.code == _CLOSING
    return NotSent(f"the mail server refused it: {_said(error)}", again=again)


def _said(error: Exception) -> str:
    """What a server said. It may be anything, and people read it."""
    text = error.message if isinstance(error, aiosmtplib.SMTPException) else str(error)
    if isinstance(error, aiosmtplib.SMTPResponseException):
        text = f"{error.code} {text}"
    return visible_line(" ".join(text.split()))[:_LONGEST_SAID] or type(error).__name__
