"""A mailbox that receives replies, read over IMAP: at once if the server announces new mail, otherwise at intervals.

A mail is marked as seen only when it has been handled. Whatever happens before that, it is fetched again.
"""

from __future__ import annotations

import asyncio
import imaplib
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Literal, TypeVar, TypeVarTuple

from handraise.channels.email.inbound_mail import LARGEST
from handraise.channels.email.server_urls import MailServer
from handraise.channels.oauth_tokens import AccessTokens
from handraise.model.errors import MissingExtra
from handraise.model.visible import visible_line
from handraise.ports.channel import NotSent

try:
    from imap_tools.errors import ImapToolsError
    from imap_tools.mailbox import BaseMailBox, MailBox, MailBoxStartTls, MailBoxUnencrypted
except ImportError as error:
    raise MissingExtra("imap-tools", "email") from error

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_Given = TypeVarTuple("_Given")

Take = Callable[[bytes], Awaitable[bool]]
"""Handles a mail; False if it must come again."""

_COMMAND_WITHIN = 15.0
_CLOSE_WITHIN = 5.0
_IDLE_SECONDS = 15.0
_AGAIN_SECONDS = 5.0
_POLL_SECONDS = 20.0
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_FAILURES = (ImapToolsError, imaplib.IMAP4.error, OSError, NotSent)
_LONGEST_SAID = 200
_PASSING = "[UNAVAILABLE]"
"""What a server says that cannot check a token now."""


@asynccontextmanager
async def mailbox_reader(
    server: MailServer,
    take: Take,
    *,
    tokens: AccessTokens | None = None,
    verify: ssl.SSLContext | None = None,
) -> AsyncIterator[None]:
    """Read a mailbox for as long as this context lasts. With `tokens`, the user has no password (XOAUTH2)."""
    reader = _Reader(server, take, tokens, verify)
    task = asyncio.create_task(reader.run(), name="handraise reads mail")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await reader.close()


class MailboxUnavailable(Exception):
    """A mailbox cannot be opened; the text says why."""


class _TokenRefused(Exception):
    """A mail server does not accept an access token; the text is what it says."""


async def check_mailbox(
    server: MailServer, *, tokens: AccessTokens | None = None, verify: ssl.SSLContext | None = None
) -> None:
    """Connect, sign in and open the folder; raises `MailboxUnavailable`. No mail is read."""
    reader = _Reader(server, _take_none, tokens, verify)
    try:
        await reader.connect()
    except _FAILURES as error:
        raise MailboxUnavailable(str(error) or type(error).__name__) from None
    finally:
        await reader.close()


async def _take_none(_: bytes) -> bool:
    return False


class _Reader:
    """Works on one connection at a time, in its own thread."""

    def __init__(
        self,
        server: MailServer,
        take: Take,
        tokens: AccessTokens | None,
        verify: ssl.SSLContext | None,
    ) -> None:
        self._server = server
        self._take = take
        self._tokens = tokens
        self._verify = verify
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="handraise mailbox")
        self._box: BaseMailBox | None = None
        self._failed: set[str] = set()

    async def run(self) -> None:
        """Read until cancelled, over as many connections as needed."""
        pause = _FIRST_PAUSE
        while True:
            try:
                await self.connect()
                while True:
                    standing = await self._read_new()
                    pause = _FIRST_PAUSE
                    # More may have come while some was handled, and the server need not announce it again.
                    if standing != "done":
                        await self._wait(
                            _AGAIN_SECONDS if standing == "some must come again" else _IDLE_SECONDS
                        )
            except _FAILURES as error:
                # Only our own errors have texts without anything of the server's or of the user's.
                why = str(error) if isinstance(error, NotSent) else type(error).__name__
                _log.warning(
                    "the mailbox cannot be read (%s); trying again",
                    why,
                    extra={"event": "mailbox_unreachable"},
                )
            except Exception as error:  # noqa: BLE001 -- replies depend on this task
                _log.error(
                    "reading mail failed; trying again", exc_info=error, extra={"event": "mailbox_failed"}
                )
            await self._there(self._close)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def connect(self) -> None:
        """Connect, sign in and open the folder. If the server refuses a token, another one is tried once."""
        if self._tokens is None:
            await self._there(self._connect, None)
            return
        try:
            await self._connect_with_token(self._tokens)
        except _TokenRefused:
            try:
                await self._connect_with_token(self._tokens)
            except _TokenRefused as refused:
                raise NotSent(f"the mail server refuses the token of this user: {refused}") from None

    async def _connect_with_token(self, tokens: AccessTokens) -> None:
        token = await tokens.token()
        try:
            await self._there(self._connect, token)
        except _TokenRefused:
            tokens.refuse(token)
            await self._there(self._close)
            raise

    async def close(self) -> None:
        """Stop the thread and what it waits for."""
        if self._box is not None:
            with suppress(OSError):
                self._box.client.sock.shutdown(socket.SHUT_RDWR)
        # A server that does not answer blocks the thread for a while, and nobody has to wait for that.
        closed = asyncio.wrap_future(self._thread.submit(self._close))
        self._thread.shutdown(wait=False)
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_WITHIN):
                await asyncio.shield(closed)

    async def _read_new(self) -> Literal["nothing", "done", "some must come again"]:
        """Handle what is new."""
        new = [uid for uid in await self._there(self._unseen) if uid not in self._failed]
        again = False
        for uid in new:
            raw = await self._there(self._fetch, uid)
            try:
                done = raw is None or await self._take(raw)
            except Exception as error:  # noqa: BLE001 -- one mail must not keep others from being read
                _log.error(
                    "a mail could not be dealt with; it stays unread",
                    exc_info=error,
                    extra={"event": "mail_failed"},
                )
                self._failed.add(uid)
                continue
            again = again or not done
            if done:
                await self._there(self._mark, uid)
        if again:
            return "some must come again"
        return "done" if new else "nothing"

    async def _wait(self, seconds: float) -> None:
        """Wait until the server announces new mail, or until the time is up."""
        if "IDLE" in self._opened().client.capabilities:
            await self._there(self._idle, seconds)
        else:
            await asyncio.sleep(min(seconds, _POLL_SECONDS))

    async def _there(self, work: Callable[[*_Given], _T], *given: *_Given) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *given)

    def _connect(self, token: str | None) -> None:
        server = self._server
        # Without our own context, nobody would check the certificate.
        kinds = {"tls": MailBox, "starttls": MailBoxStartTls}
        context = self._verify or ssl.create_default_context()
        secure = {"ssl_context": context} if server.security in kinds else {}
        box: BaseMailBox = kinds.get(server.security, MailBoxUnencrypted)(
            server.host, server.port, timeout=_COMMAND_WITHIN, **secure
        )
        self._box = box
        self._failed = set()
        if token is None:
            box.login(server.user or "", server.password or "", initial_folder=server.folder)
        else:
            _show_token(box, server.user or "", token)
            box.folder.set(server.folder)
        # Servers say after the login what else they can do.
        box.client.capabilities = tuple(box.client.capability()[1][0].decode().upper().split())

    def _unseen(self) -> list[str]:
        box = self._opened()
        box.client.noop()
        # What the server announces from here on may not be among those found.
        box.client.response("EXISTS")
        return box.uids("UNSEEN")

    def _fetch(self, uid: str) -> bytes | None:
        """The beginning of a mail, without marking it."""
        status, found = self._opened().client.uid("FETCH", uid, f"(BODY.PEEK[]<0.{LARGEST}>)")
        if status != "OK":
            raise imaplib.IMAP4.error("a mail could not be fetched")
        return next((part[1] for part in found if isinstance(part, tuple)), None)

    def _mark(self, uid: str) -> None:
        status, _ = self._opened().client.uid("STORE", uid, "+FLAGS.SILENT", r"(\Seen)")
        if status != "OK":
            raise imaplib.IMAP4.error("a mail could not be marked")

    def _idle(self, seconds: float) -> None:
        box = self._opened()
        if "EXISTS" not in box.client.untagged_responses:
            box.idle.wait(timeout=seconds)

    def _opened(self) -> BaseMailBox:
        if self._box is None:
            raise OSError("the mailbox is closed")
        return self._box

    def _close(self) -> None:
        box, self._box = self._box, None
        if box is not None:
            with suppress(OSError):
                box.client.shutdown()


def _show_token(box: BaseMailBox, user: str, token: str) -> None:
    shown = f"user={user}\x01auth=Bearer {token}\x01\x01".encode()

    def answer(challenge: bytes) -> bytes:
        # A server that refuses says why in a challenge, and waits for an empty answer.
        return b"" if challenge else shown

    try:
        box.client.authenticate("XOAUTH2", answer)
    except imaplib.IMAP4.abort:
        raise
    except imaplib.IMAP4.error as error:
        said = visible_line(" ".join(str(error).split()))[:_LONGEST_SAID]
        if _PASSING in said.upper():
            raise
        raise _TokenRefused(said) from None
