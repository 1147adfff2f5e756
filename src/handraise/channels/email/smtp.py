"""Handing mails over to a mail server, and what its answer means for another try."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from handraise.channels.email.server_urls import MailServer
from handraise.channels.oauth_tokens import AccessTokens
from handraise.model.errors import MissingExtra
from handraise.model.visible import visible_line
from handraise.ports.channel import NotSent

try:
    import aiosmtplib
except ImportError as error:
    raise MissingExtra("aiosmtplib", "email") from error

_log = logging.getLogger(__name__)

_CONNECT_WITHIN = 10.0
_DATA_WITHIN = 60.0
_GOODBYE_WITHIN = 2.0
_PERMANENT = 500
_CLOSING = 421
_LONGEST_SAID = 200


class TokenRefused(NotSent):
    """A mail server does not accept an access token."""


class SmtpRelay:
    """A mail server that mails are handed to, each over its own connection.

    With `tokens`, the user signs in with a token (XOAUTH2) instead of a password.
    """

    most_attached = 5_000_000

    def __init__(
        self,
        server: MailServer,
        *,
        tokens: AccessTokens | None = None,
        verify: ssl.SSLContext | None = None,
    ) -> None:
        self._server = server
        self._tokens = tokens
        self._verify = verify
        self._is_unusable = False

    @property
    def rate_limit_key(self) -> str:
        """The server."""
        return f"email {self._server.host.lower()}:{self._server.port}"

    async def hand_over(self, letter: bytes, *, sender: str, to: str) -> str | None:
        """Hand a mail over. Before the mail itself is on its way, every failure means that it did not arrive."""
        async with self._connected(self._sign_in_and_log) as client:
            await _hand_over(client, letter, sender=sender, to=to)
        return None

    async def check(self, *, sender: str) -> str:
        """Connect and sign in as for a mail; raises `NotSent` if that fails."""
        del sender
        async with self._connected(self._sign_in):
            return f"{self._server.host} accepts this sender's connection"

    @asynccontextmanager
    async def _connected(
        self, sign_in: Callable[[], Awaitable[aiosmtplib.SMTP]]
    ) -> AsyncIterator[aiosmtplib.SMTP]:
        client = await sign_in()
        try:
            yield client
            with suppress(aiosmtplib.SMTPException, OSError):
                await client.quit(timeout=_GOODBYE_WITHIN)
        finally:
            client.close()

    async def _sign_in_and_log(self) -> aiosmtplib.SMTP:
        """A connection. The first time that there is none, the log says so: mails are tried again for days."""
        try:
            client = await self._sign_in()
        except NotSent as error:
            if not self._is_unusable:
                _log.warning(
                    "no mail can be sent through %s (%s); trying again",
                    self._server.host,
                    error,
                    extra={"event": "channel_unreachable"},
                )
            self._is_unusable = True
            raise
        self._is_unusable = False
        return client

    async def _sign_in(self) -> aiosmtplib.SMTP:
        """A connection. If the server refuses a token, another one is tried once."""
        if self._tokens is None:
            return await self._connect(None)
        token = await self._tokens.token()
        try:
            return await self._connect(token)
        except TokenRefused:
            self._tokens.refuse(token)
        token = await self._tokens.token()
        try:
            return await self._connect(token)
        except TokenRefused:
            self._tokens.refuse(token)
            raise

    async def _connect(self, token: str | None) -> aiosmtplib.SMTP:
        server = self._server
        client = aiosmtplib.SMTP(
            hostname=server.host,
            port=server.port,
            username=server.user if token is None else None,
            password=server.password,
            use_tls=server.security == "tls",
            start_tls=server.security == "starttls",
            tls_context=self._verify,
            timeout=_CONNECT_WITHIN,
        )
        try:
            async with asyncio.timeout(_CONNECT_WITHIN):
                await client.connect()
                if token is not None:
                    await _show_token(client, server.user or "", token)
        except BaseException as error:
            client.close()
            if isinstance(error, aiosmtplib.SMTPException | OSError):
                raise NotSent(f"the mail server cannot be used: {_said(error)}") from None
            raise
        return client


async def _show_token(client: aiosmtplib.SMTP, user: str, token: str) -> None:
    await client.ehlo()
    if "xoauth2" not in client.server_auth_methods:
        raise NotSent("the mail server cannot be used: it takes no tokens (XOAUTH2)")
    try:
        await client.auth_xoauth2(user, token)
    except aiosmtplib.SMTPAuthenticationError as error:
        if error.code < _PERMANENT:
            raise
        raise TokenRefused(f"the mail server refuses the token of this user: {_said(error)}") from None


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
