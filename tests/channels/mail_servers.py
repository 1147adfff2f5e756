"""Real mail servers on loopback: one for SMTP that takes only what is proper mail, one for IMAP with one mailbox."""

from __future__ import annotations

import asyncio
import email.utils
import imaplib
import re
import smtplib
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from support.free_port import free_port

WITHIN = 30.0
USER, PASSWORD = "reply", "a secret / with ? signs"
_ONCE = ("from", "to", "subject", "date", "message-id")


@dataclass(frozen=True)
class Mail:
    """A mail as it came to the server."""

    sender: str
    to: str
    raw: bytes

    @property
    def message(self) -> EmailMessage:
        return BytesParser(policy=policy.default).parsebytes(self.raw)

    def part(self, kind: str) -> str:
        body = self.message.get_body((kind,))
        assert body is not None
        return str(body.get_content()).replace("\r\n", "\n")

    @property
    def text(self) -> str:
        return self.part("plain")

    @property
    def html(self) -> str:
        return self.part("html")

    @property
    def shown(self) -> str:
        """What a person sees, in whichever form they look at it."""
        reader = Seen()
        reader.feed(self.html)
        return "\n".join((str(self.message["subject"]), self.text, "".join(reader.parts), *reader.links))


class Seen(HTMLParser):
    """The text of a page, and everything that it is made of."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.attributes: set[str] = set()
        self._style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [text or "" for name, text in attrs if name in ("href", "src", "action", "background")]
        self._style = tag == "style"

    def handle_endtag(self, tag: str) -> None:
        self._style = self._style and tag != "style"

    def handle_data(self, data: str) -> None:
        if not self._style:
            self.parts.append(data)


@dataclass
class PostOffice:
    """An SMTP server. Replies to `reply+…` go on to the mailbox, as a real one would deliver them."""

    port: int = 0
    mails: list[Mail] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    says: dict[str, str] = field(default_factory=dict)
    """What the server says to a recipient, where that is not yes."""
    says_to_data: list[str | None] = field(default_factory=list)
    """What it says to the next mails; None hangs up without a word."""
    silent: threading.Event | None = None
    """Once it has a mail, it says nothing until this is set."""
    deliver: Callable[[bytes], None] | None = None
    logins: list[tuple[str, str]] = field(default_factory=list)

    async def handle_RCPT(  # noqa: N802 -- aiosmtpd calls it so
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        del server, session, options
        if address in self.says:
            return self.says[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 -- as above
        del session
        raw = envelope.original_content or b""
        [to] = envelope.rcpt_tos
        if self.deliver is not None and to.startswith(f"{USER}+"):
            sender = (envelope.mail_from or "").strip("<>")
            trace = f"Return-Path: <{sender}>\r\nDelivered-To: {to}\r\n"
            self.deliver(trace.encode() + raw)
            return "250 delivered"
        if why := improper(raw):
            self.faults.append(why)
            return f"554 5.6.0 {why}"
        said = self.says_to_data.pop(0) if self.says_to_data else "250 OK"
        if said is None or said.startswith("250"):
            self.mails.append(Mail(envelope.mail_from or "", to, raw))
        if said is None:
            assert server.transport is not None
            server.transport.close()
        if self.silent is not None:
            await asyncio.get_running_loop().run_in_executor(None, self.silent.wait, WITHIN)
        return said or "250 OK"

    def authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any
    ) -> AuthResult:
        del server, session, envelope, mechanism
        assert isinstance(data, LoginPassword)
        login = (data.login.decode(), data.password.decode())
        self.logins.append(login)
        return AuthResult(success=login == (USER, PASSWORD), handled=False)

    async def mail_to(self, address: str, number: int = 1) -> Mail:
        """The so manieth mail to an address, once it is there."""
        async with asyncio.timeout(WITHIN):
            while len(found := [each for each in self.mails if each.to == address]) < number:
                assert self.faults == []
                await asyncio.sleep(0.01)
        return found[number - 1]

    def submit(self, letter: EmailMessage | bytes, *, sender: str, to: str) -> None:
        """Hand in a mail as somebody's mail program does."""
        raw = letter if isinstance(letter, bytes) else letter.as_bytes()
        with smtplib.SMTP("127.0.0.1", self.port, timeout=WITHIN) as client:
            client.sendmail(sender, [to], raw)


def improper(raw: bytes) -> str | None:
    """What is wrong with a mail, as strict servers see it."""
    if b"\n" in raw.replace(b"\r\n", b"") or b"\r" in raw.replace(b"\r\n", b""):
        return "bare line ends"
    if not raw.isascii():
        return "8 bits without 8BITMIME"
    if max(map(len, raw.split(b"\r\n"))) > 998:
        return "a line of more than 998"
    message = BytesParser(policy=policy.default).parsebytes(raw)
    for name in _ONCE:
        if len(message.get_all(name, [])) != 1:
            return f"{name} is not there once"
    defects = [*message.defects, *(defect for part in message.walk() for defect in part.defects)]
    defects += [defect for header in message.values() for defect in header.defects]
    if defects:
        return f"defects: {defects}"
    kinds = [part.get_content_type() for part in message.walk()]
    if kinds[0] == "multipart/mixed":  # with files, whose types nobody believes
        kinds = [each for each in kinds[1:] if each != "application/octet-stream"]
    if kinds != ["multipart/alternative", "text/plain", "text/html"]:
        return "not a text and its HTML"
    if not re.fullmatch(r"<[^<>@\s]+@[A-Za-z0-9.-]+>", message["message-id"]):
        return "no proper Message-ID"
    if any(
        "=?" in line
        for line in raw.decode().split("\r\n\r\n")[0].splitlines()
        if "-ID:" in line or "Re" in line[:2]
    ):
        return "an encoded id"
    email.utils.parsedate_to_datetime(message["date"])
    return None


@asynccontextmanager
async def post_office(
    office: PostOffice | None = None, *, tls: ssl.SSLContext | None = None, **options: Any
) -> AsyncIterator[PostOffice]:
    """An SMTP server for as long as this context lasts, at the office's own port where it has one."""
    office = office or PostOffice()
    if not office.port:
        office.port = free_port()
    controller = Controller(
        office,
        hostname="127.0.0.1",
        port=office.port,
        tls_context=tls,
        authenticator=office.authenticate if tls else None,
        require_starttls=tls is not None,
        auth_required=tls is not None,
        ready_timeout=WITHIN,
        **options,
    )
    await asyncio.to_thread(controller.start)
    try:
        yield office
    finally:
        await asyncio.to_thread(controller.stop)


class Imap:
    """An IMAP server with one mailbox, and somebody who looks into it."""

    def __init__(self, port: int) -> None:
        self.port = port
        # A login takes its time, as it should.
        self._client = imaplib.IMAP4("127.0.0.1", port, timeout=WITHIN)
        self._client.login(USER, PASSWORD)
        self._client.select("INBOX")
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"imap://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}/INBOX?tls=none"

    @contextmanager
    def session(self) -> Iterator[imaplib.IMAP4]:
        with self._lock:
            self._client.noop()
            yield self._client

    def close(self) -> None:
        self._client.logout()

    def append(self, raw: bytes) -> None:
        """Put a mail into the mailbox."""
        with self.session() as client:
            status, said = client.append("INBOX", "", "", raw)
            assert status == "OK", said

    def count(self, what: str) -> int:
        """How many mails are `ALL`, `SEEN` or `UNSEEN`."""
        with self.session() as client:
            return len(client.search(None, what)[1][0].split())

    def empty(self) -> None:
        """Take everything out."""
        with self.session() as client:
            for number in client.search(None, "ALL")[1][0].split():
                client.store(number.decode(), "+FLAGS", r"(\Deleted)")
            client.expunge()

    async def all_seen(self, number: int) -> None:
        """Wait until so many mails are there and have been dealt with."""
        async with asyncio.timeout(WITHIN):
            while await asyncio.to_thread(self.count, "SEEN") < number:
                await asyncio.sleep(0.02)
        assert await asyncio.to_thread(self.count, "UNSEEN") == 0


@contextmanager
def imap_server() -> Iterator[Imap]:
    """A real IMAP server (pymap) in a process of its own."""
    port = free_port()
    command = [sys.executable, "-W", "ignore", "-c", "from pymap.main import main; main()"]
    options = ["--host", "127.0.0.1", "--port", str(port), "--no-tls"]
    options += ["dict", "--demo-user", USER, "--demo-password", PASSWORD]
    with subprocess.Popen([*command, *options]) as process:
        try:
            until = time.monotonic() + 60
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    assert process.poll() is None
                    assert time.monotonic() < until, "the IMAP server did not start"
                    time.sleep(0.05)
            imap = Imap(port)
            yield imap
            imap.close()
        finally:
            process.terminate()
            process.wait(WITHIN)


def reply_to(
    mail: Mail, text: str, *, sender: str = "Ann Smith <ann@example.org>", **headers: str
) -> EmailMessage:
    """A reply as a mail program writes it, with our mail quoted below."""
    got = mail.message
    # Ids may be long, and real programs leave them as they are.
    reply = EmailMessage(policy=policy.SMTP.clone(max_line_length=900))
    reply["From"] = sender
    reply["To"] = got["reply-to"] or got["from"]
    reply["Subject"] = f"Re: {got['subject']}"
    reply["Message-ID"] = email.utils.make_msgid(domain="mail.example.org")
    reply["In-Reply-To"] = got["message-id"]
    reply["Date"] = email.utils.localtime()
    for name, given in headers.items():
        del reply[name.replace("_", "-")]
        reply[name.replace("_", "-")] = given
    quoted = "\n".join(f"> {line}".rstrip() for line in mail.text.splitlines())
    reply.set_content(f"{text}\n\nOn Mon, Jan 5, 2026 at 10:30 AM {got['from']} wrote:\n\n{quoted}\n")
    return reply


def address_of(header: object) -> str:
    """The address in a header."""
    return email.utils.parseaddr(str(header))[1]
