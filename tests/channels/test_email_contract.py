"""E-mail keeps the contract of every channel, against a real SMTP server that takes only proper mail."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from email.headerregistry import Address

import pytest

from handraise.channels.email.channel import Email, open_email
from handraise.channels.email.server_urls import MailServer
from handraise.channels.email.smtp import SmtpRelay
from handraise.channels.inbound_replies import Replies
from handraise.model.json_values import Json
from handraise.testing.contract.channel import ChannelContract, Received
from tests.channels.mail_servers import PostOffice, post_office

NOBODY = Replies(None, None, None)  # type: ignore[arg-type]  # for tests in which nothing comes in
SENDER = Address("Handraise", addr_spec="desk@example.org")


class Recipient:
    """Whoever gets mail from that server."""

    def __init__(self, office: PostOffice) -> None:
        self._office = office

    def received(self) -> Sequence[Received]:
        assert self._office.faults == []
        return [Received(raw=each.raw, text=each.shown) for each in self._office.mails]


class TestEmail(ChannelContract):
    shows = True
    reports = True

    @pytest.fixture
    async def office(self) -> AsyncIterator[PostOffice]:
        async with post_office() as office:
            office.says["dead@example.org"] = "450 4.2.1 mailbox is locked"
            yield office

    @pytest.fixture
    async def channel(self, office: PostOffice) -> AsyncIterator[Email]:
        smtp = MailServer(host="127.0.0.1", port=office.port, security="none")
        opened = open_email(
            NOBODY,
            transport=SmtpRelay(smtp),
            sender=SENDER,
            host="ask.example.org",
            reply_to="reply@example.org",
            keys=[b"k" * 32],
        )
        async with opened as channel:
            yield channel

    @pytest.fixture
    def peer(self, office: PostOffice) -> Recipient:
        return Recipient(office)

    @pytest.fixture
    def to(self) -> Json:
        return {"address": "ann@example.org"}

    @pytest.fixture
    def dead(self) -> Json:
        return "dead@example.org"
