"""Sending: what a mail is made of, and what a mail server's answer means."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import re
import ssl
import threading
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from email.headerregistry import Address as Sender
from pathlib import Path
from typing import Any

import pytest

from handraise import Approval, Choice, Confirm, Open, Option, Question
from handraise.channels.email.channel import Email, open_email
from handraise.channels.email.mail_body import render_outcome, render_question, render_text
from handraise.channels.email.mail_texts import on_replying
from handraise.channels.email.server_urls import (
    MailServer,
    address_in,
    mail_address,
    read_sender,
    read_server,
)
from handraise.channels.email.smtp import SmtpRelay
from handraise.channels.inbound_replies import Replies, ReplyResult
from handraise.model.json_values import Json
from handraise.model.outcomes import Answered
from handraise.model.timelines import Step
from handraise.ports.channel import Message, Notice, NotSent
from handraise.testing.contract.channel import (
    AT,
    FORMS,
    HOSTILE,
    HOSTILE_FORMS,
    ChannelContract,
    a_question,
    settled,
)
from tests.certificates import certificate, presenting
from tests.channels.mail_servers import PASSWORD, USER, WITHIN, PostOffice, Seen, post_office
from tests.channels.test_email_hostile import TAGS

NOBODY = Replies(None, None, None)  # type: ignore[arg-type]  # for tests in which nothing comes in
ANN = "ann@example.org"


@pytest.fixture
async def office() -> AsyncIterator[PostOffice]:
    async with post_office() as office:
        yield office


def opened(office: PostOffice, **changes: Any) -> AbstractAsyncContextManager[Email]:
    plain = MailServer(host="127.0.0.1", port=office.port, security="none")
    relay = SmtpRelay(changes.pop("smtp", plain), verify=changes.pop("verify", None))
    given: dict[str, Any] = {
        "transport": relay,
        "sender": Sender("Handraise", addr_spec="desk@example.org"),
        "host": "ask.example.org",
    }
    return open_email(NOBODY, **(given | changes))


@pytest.fixture
async def channel(office: PostOffice) -> AsyncIterator[Email]:
    async with opened(office) as channel:
        yield channel


def message(channel: Email, *questions: Question, to: Json = ANN) -> Message:
    return ChannelContract().message(channel, to, *(questions or (a_question(),)))


@pytest.mark.parametrize(
    ("said", "again"),
    [
        ("421 4.3.2 closing", True),
        ("450 4.2.1 greylisted", True),
        ("451 4.7.1 later", True),
        ("452 4.2.2 mailbox full", True),
        ("550 5.1.1 no such user", False),
        ("552 5.2.2 over quota", False),
        ("554 5.7.1 spam", False),
    ],
)
async def test_4_is_tried_again_and_5_is_not(
    channel: Email, office: PostOffice, said: str, *, again: bool
) -> None:
    office.says["no@example.org"] = said
    with pytest.raises(NotSent, match=said[:3]) as refused:
        await channel.send(message(channel, to="no@example.org"))
    assert (refused.value.again, refused.value.arrived_perhaps) == (again, False)
    office.says_to_data = [said]
    with pytest.raises(NotSent, match=said[:3]) as refused:
        await channel.send(message(channel))
    assert (refused.value.again, refused.value.arrived_perhaps) == (again, False)
    await channel.send(message(channel))
    assert len(office.mails) == 1


async def test_where_nobody_listens_it_has_not_arrived() -> None:
    async with post_office() as gone:
        pass
    async with opened(gone) as channel:
        with pytest.raises(NotSent, match="cannot be used") as failed:
            await channel.send(message(channel))
    assert (failed.value.again, failed.value.arrived_perhaps) == (True, False)


async def test_that_a_mail_server_cannot_be_used_is_logged_once_until_it_can(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with post_office() as gone:
        pass
    caplog.set_level("WARNING")
    relay = SmtpRelay(MailServer(host="127.0.0.1", port=gone.port, security="none"))
    async with opened(gone, transport=relay) as channel:
        for _ in range(2):
            with pytest.raises(NotSent):
                await channel.send(message(channel))
        async with post_office(gone):
            await channel.send(message(channel))
        with pytest.raises(NotSent):
            await channel.send(message(channel))
    found = [each for each in caplog.records if getattr(each, "event", None) == "channel_unreachable"]
    assert len(found) == 2
    assert all("mail server cannot be used" in each.getMessage() for each in found)


async def test_one_who_takes_a_mail_and_hangs_up_has_it_perhaps(channel: Email, office: PostOffice) -> None:
    office.says_to_data = [None]
    with pytest.raises(NotSent, match="no answer") as failed:
        await channel.send(message(channel))
    assert (failed.value.again, failed.value.arrived_perhaps) == (True, True)
    await channel.send(message(channel))
    first, second = office.mails
    assert first.raw == second.raw


async def test_one_who_says_nothing_has_it_perhaps(
    channel: Email, office: PostOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handraise.channels.email.smtp._DATA_WITHIN", 0.2)
    office.silent = threading.Event()
    try:
        with pytest.raises(NotSent, match="no answer") as failed:
            await channel.send(message(channel))
    finally:
        office.silent.set()
    assert (failed.value.again, failed.value.arrived_perhaps) == (True, True)


async def test_a_server_that_never_greets_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handraise.channels.email.smtp._CONNECT_WITHIN", 0.2)
    held: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: held.append(writer), "127.0.0.1", 0)
    silent = PostOffice(port=server.sockets[0].getsockname()[1])
    async with server, opened(silent) as channel:
        with pytest.raises(NotSent, match="cannot be used") as failed:
            await channel.send(message(channel))
        for writer in held:
            writer.close()
    assert (failed.value.again, failed.value.arrived_perhaps) == (True, False)


async def test_a_password_goes_only_to_whom_the_certificate_names(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path, "127.0.0.1")
    ours = presenting(cert, key)
    trusting = ssl.create_default_context(cafile=cert)
    async with post_office(tls=ours) as office:
        smtp = MailServer(
            host="127.0.0.1", port=office.port, security="starttls", user=USER, password=PASSWORD
        )
        async with opened(office, smtp=smtp) as channel:
            with pytest.raises(NotSent, match="cannot be used") as failed:
                await channel.send(message(channel))
        assert failed.value.again
        assert office.logins == []
        async with opened(office, smtp=smtp, verify=trusting) as channel:
            await channel.send(message(channel))
        assert office.logins == [(USER, PASSWORD)]
        wrong = MailServer(host="127.0.0.1", port=office.port, security="starttls", user=USER, password=USER)
        async with opened(office, smtp=wrong, verify=trusting) as channel:
            with pytest.raises(NotSent, match="535") as failed:
                await channel.send(message(channel))
        assert failed.value.again
        assert PASSWORD not in str(failed.value)
    assert len(office.mails) == 1


async def test_a_server_without_tls_is_not_used_where_it_was_asked_for(office: PostOffice) -> None:
    smtp = MailServer(host="127.0.0.1", port=office.port, security="starttls")
    async with opened(office, smtp=smtp) as channel:
        with pytest.raises(NotSent, match="STARTTLS"):
            await channel.send(message(channel))
    assert office.mails == []


@pytest.mark.parametrize("kind", [*HOSTILE_FORMS, "open"])
async def test_nothing_that_anybody_wrote_becomes_markup_or_a_header(
    channel: Email, office: PostOffice, kind: str
) -> None:
    question = a_question(HOSTILE_FORMS.get(kind, Open()), prompt=HOSTILE, asker=HOSTILE, context=HOSTILE)
    await channel.send(message(channel, question))
    await channel.send(message(channel, question, a_question(Confirm(), prompt=HOSTILE, asker=HOSTILE)))
    ended = settled(question, Answered(value=HOSTILE, at=AT, by=HOSTILE))
    await channel.update(message(channel, ended), {"questions": 1, "id": "x@y"})
    assert office.faults == []
    for mail in office.mails:
        seen = Seen()
        seen.feed(mail.html)
        assert seen.tags <= TAGS
        assert {link.partition("?")[0].rpartition("/")[0] for link in seen.links} <= {
            "https://desk.example/questions"
        }
        assert not {name for name in seen.attributes if name.startswith("on")}
        assert set(mail.message.keys()) <= {
            "Message-ID", "In-Reply-To", "References", "From", "To", "Reply-To", "Subject", "Date", "Auto-Submitted",
            "X-Auto-Response-Suppress", "MIME-Version", "Content-Type",
        }  # fmt: skip
        assert mail.message["to"] == ANN
        ours = [line for line in mail.text.split("\n") if not line.startswith("│")]
        assert not [line for line in ours if line.startswith(("Bcc:", "."))]
        assert max(len(line) for line in mail.text.split("\n") if line.startswith("│")) < 90


@pytest.mark.parametrize("kind", FORMS)
async def test_nothing_is_loaded_from_anywhere(channel: Email, office: PostOffice, kind: str) -> None:
    await channel.send(message(channel, a_question(FORMS[kind])))
    [mail] = office.mails
    seen = Seen()
    seen.feed(mail.html)
    assert not seen.attributes & {"src", "srcset", "background", "action", "poster", "data", "ping"}
    for unwanted in ("url(", "@import", "@font-face", "<img", "<link"):
        assert unwanted not in mail.html
    assert len(mail.raw) < 100_000


async def test_a_subject_is_ours_and_one_short_line(channel: Email, office: PostOffice) -> None:
    hostile = a_question(
        Approval.of("pay", risk="high"), prompt="Re: invoice\r\nBcc: x@evil.example\r\n\r\nHello " + "x" * 900
    )
    await channel.send(message(channel, hostile))
    subject = office.mails[0].message["subject"]
    assert subject.startswith(
        "High risk: deploy-bot asks for your approval: Re: invoice Bcc: x@evil.example · Hello xxx"
    )
    assert len(subject) < 120


async def test_without_a_mailbox_for_replies_nobody_is_told_to_reply(
    channel: Email, office: PostOffice
) -> None:
    await channel.send(
        message(channel, a_question(Choice.of(Option(id="a", label="A", description="d"), "b")))
    )
    [mail] = office.mails
    assert "reply" not in mail.text.lower()
    assert mail.message["reply-to"] is None


def test_servers_are_read_from_their_addresses() -> None:
    read = read_server("smtps://me%40example.org:p%40ss%2F@Mail.example.org", "smtp")
    assert (read.host, read.port, read.security) == ("mail.example.org", 465, "tls")
    assert (read.user, read.password) == ("me@example.org", "p@ss/")
    assert "p@ss" not in repr(read)
    assert read_server("smtp://mail.example.org", "smtp").port == 587
    assert read_server("smtp://mail.example.org?tls=starttls", "smtp").security == "starttls"
    assert read_server("smtp://localhost?tls=none", "smtp").port == 25
    imap = read_server("imaps://u:p@mail.example.org/Replies", "imap")
    assert (imap.port, imap.folder) == (993, "Replies")
    assert read_server("imap://u:p@mail.example.org", "imap").folder == "INBOX"
    urls = ("imap://u@h", "imap://u:p@h", "imap://h")
    assert [read_server(url, "imap").takes_tokens for url in urls] == [True, False, False]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "mail.example.org",
        "http://mail.example.org",
        "imap://mail.example.org",
        "smtp://",
        "smtp://mail.example.org:port",
        "smtp://mail.example.org?tls=maybe",
        "smtps://mail.example.org?tls=none",
        "smtp://ann:@mail.example.org",
        "smtp://:hunter2@mail.example.org",
        "smtp://mail.example.org?x=y",
        "smtp://[",
    ],
)
def test_what_is_no_server_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|can be|only|needs"):
        read_server(text, "smtp")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("ann@example.org", ANN),
        ("Ann.B+x@Example.org", "Ann.B+x@Example.org"),
        ("ann@bücher.example", "ann@xn--bcher-kva.example"),
        ("ann@localhost", "ann@localhost"),
        ("änn@example.org", None),
        ("=?utf-8?q?=0D=0ABcc:x?=@example.org", None),
        ("=?utf-8?q?ann?=@example.org", None),
        ("ann@example.org\r\nBcc: x@y", None),
        ("ann@example.org>", None),
        ("<ann@example.org>", None),
        ("ann@@example.org", None),
        ("ann@-example.org", None),
        (".ann@example.org", None),
        ("ann b@example.org", None),
        ('"ann b"@example.org', None),
        ("a" * 65 + "@example.org", None),
        ("ann@" + "a." * 200 + "org", None),
        ("ann@[127.0.0.1]", None),
        (7, None),
    ],
)
def test_addresses_are_only_what_we_can_write_to(text: Json, address: str | None) -> None:
    assert mail_address(text) == address
    assert address_in({"address": text}) == address
    assert address_in({"address": text, "x": 1}) is None


def test_a_sender_has_a_name_and_an_address() -> None:
    assert str(read_sender("Handraise <desk@example.org>")) == "Handraise <desk@example.org>"
    assert read_sender("desk@example.org").display_name == ""
    for text in ("", "Handraise", "Hand\r\nraise <desk@example.org>", "a@b, c@d"):
        with pytest.raises(ValueError, match="expected an e-mail address"):
            read_sender(text)


def test_the_page_about_it_shows_just_what_is_sent(channel: Email) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/how-to/reach-people-by-email.md").read_text(
        encoding="utf-8"
    )
    blocks = [
        block.rstrip("\n") for block in re.findall(r"^```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    ]
    asked = dt.datetime(2026, 11, 16, 9, 30, tzinfo=dt.UTC)
    given = {"asked_at": asked, "steps": (Step(dt.timedelta(hours=8), "expire"),)}
    canary = Option(id="canary", label="Canary", description="one in ten at first, the rest after an hour")
    choice = a_question(
        Choice.of(
            Option(id="bg", label="Blue-green", description="two full sets, one switch"), canary, "Tomorrow"
        ),
        asker="deployer",
        prompt="Release 2.4.0 is built and tested.\nWhich way shall I roll it out?",
        **given,
    )
    payment = {
        "to": "Ada Supplies Ltd",
        "iban": "DE89 3704 0044 0532 0130 00",
        "amount": 4820.5,
        "currency": "EUR",
    }
    approval = a_question(
        Approval.of("transfer_money", payment | {"note": "Invoice 2026-117\nDue on 20 November"}),
        asker="accountant",
        prompt="The invoice matches order 88-1043. Shall I pay it?",
        **given,
    )
    said = ReplyResult(
        "misfit", "I cannot take that as an answer: reply with the number or the name of an option.", choice
    )
    server = "handraise.example.com"

    def one(question: Question) -> tuple[Message, Notice]:
        link = f"https://{server}/q/…"
        notice = Notice(delivery_id="d", question=question, reason="asked", link=link)
        whole = message(channel, question)
        return dataclasses.replace(whole, workspace="acme", notices=[notice]), notice

    made = [
        render_question(
            *one(choice), how=on_replying(choice, by_reply=True, checked=True, several=False), server=server
        ),
        render_question(
            *one(approval),
            how=on_replying(approval, by_reply=True, checked=True, several=False),
            server=server,
        ),
        render_outcome(*one(settled(choice, Answered(value="canary", at=AT, by="bob"))), server=server),
        render_text(said, "The second one, I think.", again=True, server=server),
    ]
    for block, mail in zip(blocks, made, strict=True):
        shown = "\n".join(line.rstrip() for line in mail.text.rstrip("\n").split("\n"))
        assert block == f"Subject: {mail.subject}\n\n{shown}"


async def test_many_at_once_do_not_disturb_each_other(channel: Email, office: PostOffice) -> None:
    questions = [a_question(id=f"q-{n}", prompt=f"Number {n}?") for n in range(50)]
    async with asyncio.timeout(WITHIN):
        await asyncio.gather(*(channel.send(message(channel, each)) for each in questions))
    assert len({mail.text for mail in office.mails}) == 50
