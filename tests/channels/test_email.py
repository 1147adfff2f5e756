"""E-mail both ways, over real SMTP and IMAP: from the question to the asker who goes on."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from handraise import Answered, Approval, Choice, Confirm, Open, Question
from handraise.channels.email.mailbox import _Reader
from handraise.desks import LocalDesk
from handraise.model.deliveries import Address, Delivery
from handraise.model.identities import Role
from handraise.server import ServerContext, ServerSettings, create_app, open_server
from handraise.testing import ManualClock
from tests.channels.mail_servers import (
    WITHIN,
    Imap,
    Mail,
    PostOffice,
    address_of,
    imap_server,
    post_office,
    reply_to,
)
from tests.server.conftest import ORIGIN

ANN, BOB = "ann@example.org", "bob@example.org"
STRATEGY = Choice.of("Blue-green", "Canary")


@pytest.fixture(scope="module")
def imap_process() -> Iterator[Imap]:
    with imap_server() as imap:
        yield imap


@pytest.fixture
def imap(imap_process: Imap) -> Imap:
    imap_process.empty()
    return imap_process


@pytest.fixture
async def office(imap: Imap) -> AsyncIterator[PostOffice]:
    async with post_office(PostOffice(deliver=imap.append)) as office:
        yield office


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def settings(office: PostOffice, imap: Imap | None, tmp_path: Path, **changes: Any) -> ServerSettings:
    given: dict[str, Any] = {
        "url": f"sqlite:///{tmp_path / 'questions.db'}",
        "public_url": "https://ask.example.org",
        "poll_interval": 0.05,
        "secret": "s" * 32,
        "email_smtp_url": f"smtp://127.0.0.1:{office.port}?tls=none",
        "email_from": "Handraise <desk@example.org>",
        "email_reply_to": "reply@example.org",
        "email_imap_url": None if imap is None else imap.url,
        "email_inbound_secret": "whsec_" + "QUFB" * 10,
    }
    return ServerSettings(**(given | changes))


async def furnish(ctx: ServerContext) -> None:
    """Two people who have addresses, and a group of both."""
    for name, address in (("ann", ANN), ("bob", BOB)):
        await ctx.directory.put_person("default", name, name=name, email=address, role=Role.MEMBER)
        await ctx.outbox.put_address(
            Address(workspace="default", recipient=name, channel="email", id=address, to={"address": address})
        )
    await ctx.directory.put_group("default", "ops", ["ann", "bob"])


@pytest.fixture
async def ctx(
    office: PostOffice, imap: Imap, tmp_path: Path, clock: ManualClock
) -> AsyncIterator[ServerContext]:
    async with open_server(settings(office, imap, tmp_path), clock=clock) as ctx:
        await furnish(ctx)
        yield ctx


@pytest.fixture
def desk(ctx: ServerContext) -> LocalDesk:
    return ctx.desk.scoped("default")


@pytest.fixture
async def browser(ctx: ServerContext) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app=create_app(ctx), client=("192.0.2.1", 50_000))
    async with httpx2.AsyncClient(transport=transport, base_url="https://ask.example.org") as browser:
        yield browser


async def reply(office: PostOffice, mail: Mail, text: str, *, sender: str = ANN, **headers: str) -> None:
    """Reply to a mail over SMTP, as its recipient."""
    letter = reply_to(mail, text, sender=f"Somebody <{sender}>", **headers)
    to = address_of(letter["to"])
    await asyncio.to_thread(office.submit, letter, sender=sender, to=to)


async def ended(desk: LocalDesk, question: Question) -> Answered:
    outcome = await desk.wait(question.id, timeout=timedelta(seconds=WITHIN))
    assert isinstance(outcome, Answered)
    return outcome


async def deliveries(ctx: ServerContext, question: Question, status: str) -> list[Delivery]:
    """The deliveries of a question, once all of them stand so."""
    async with asyncio.timeout(WITHIN):
        while True:
            found = list(await ctx.outbox.deliveries(question.ref))
            if found and all(each.status == status for each in found):
                return found
            await asyncio.sleep(0.01)


async def test_a_reply_answers_and_the_asker_goes_on(
    ctx: ServerContext, desk: LocalDesk, office: PostOffice, imap: Imap
) -> None:
    question = await desk.post("Which strategy?", form=STRATEGY, recipients=["ann", "bob"])
    mail = await office.mail_to(ANN)
    assert mail.message["subject"] == "agent asks you to choose one: Which strategy?"
    assert (mail.sender, address_of(mail.message["from"])) == ("desk@example.org", "desk@example.org")
    assert mail.message["auto-submitted"] == "auto-generated"
    await office.mail_to(BOB)
    await reply(office, mail, "2")
    outcome = await ended(desk, question)
    assert (outcome.value, outcome.by) == ("Canary", "ann")
    assert (outcome.channel, outcome.evidence) == ("email", "email-sender")
    for address, who in ((ANN, "you"), (BOB, "ann")):
        first, after = await office.mail_to(address), await office.mail_to(address, 2)
        assert after.text.startswith(f"Answered by {who}:\n\n│ Canary\n")
        assert after.message["in-reply-to"] == first.message["message-id"]
        assert after.message["subject"] == f"Re: {first.message['subject']}"
        shared = set(first.message["references"].split()) & set(after.message["references"].split())
        assert shared
    await deliveries(ctx, question, "updated")
    await imap.all_seen(1)
    assert len(office.mails) == 4


async def test_a_link_in_a_mail_is_fetched_by_every_scanner_and_answers_only_by_post(
    desk: LocalDesk, office: PostOffice, browser: httpx2.AsyncClient
) -> None:
    question = await desk.post("Which strategy?", form=STRATEGY, recipients=["ann"])
    mail = await office.mail_to(ANN)
    links = set(re.findall(r"https://[^\s\"<>]+", mail.text + mail.html))
    assert len(links) == 3
    for link in links:
        for method in ("GET", "HEAD", "OPTIONS", "PROPFIND", "GET"):
            answer = await browser.request(method, link, headers={"user-agent": "Scanner/1.0"})
            assert answer.status_code in (200, 405)
    assert await desk.get(question.id) == question
    [canary] = [link for link in links if link.endswith("?v=1")]
    page = await browser.get(canary)
    assert re.search(r'value="1"[^>]*checked', page.text)
    origin = {"origin": "https://ask.example.org"}
    answered = await browser.post(canary.partition("?")[0], data={"v": "1"}, headers=ORIGIN | origin)
    assert answered.status_code == 303
    outcome = await ended(desk, question)
    assert (outcome.value, outcome.by, outcome.evidence) == ("Canary", "ann", "signed-link")


async def test_while_the_mail_server_is_down_mails_wait(
    imap: Imap, tmp_path: Path, clock: ManualClock
) -> None:
    office = PostOffice(deliver=imap.append)
    async with AsyncExitStack() as stack:
        async with post_office(office):
            pass
        ctx = await stack.enter_async_context(open_server(settings(office, None, tmp_path), clock=clock))
        await furnish(ctx)
        desk = ctx.desk.scoped("default")
        question = await desk.post("Go?", form=Confirm(), recipients=["ann"])
        async with asyncio.timeout(WITHIN):
            while not (found := await ctx.outbox.deliveries(question.ref)) or found[0].problem is None:
                await asyncio.sleep(0.01)
        assert (found[0].status, "mail server" in (found[0].problem or "")) == ("queued", True)
        await stack.enter_async_context(post_office(office))
        clock.advance(timedelta(minutes=1))
        mail = await office.mail_to(ANN)
        await deliveries(ctx, question, "sent")
        assert "Go?" in mail.text


async def test_what_does_not_fit_is_said_kindly_once_and_can_be_put_right(
    desk: LocalDesk, office: PostOffice, imap: Imap
) -> None:
    question = await desk.post("Which strategy?", form=STRATEGY, recipients=["ann"])
    mail = await office.mail_to(ANN)
    await reply(office, mail, "The second one, I think.\n\nBest regards\nSomebody")
    said = await office.mail_to(ANN, 2)
    assert "I cannot take that as an answer" in said.text
    assert "│ The second one, I think.\n" in said.text
    assert "Best regards" not in said.text
    assert said.message["auto-submitted"] == "auto-replied"
    assert said.message["reply-to"] == mail.message["reply-to"]
    assert (await desk.get(question.id)).outcome is None
    await reply(office, said, "canary")
    assert (await ended(desk, question)).value == "Canary"
    await imap.all_seen(2)
    await reply(office, said, "Blue-green")
    late = await office.mail_to(ANN, 4)
    assert "You have answered this already" in late.text


async def test_of_several_who_must_agree_each_hears_that_the_vote_counts(
    desk: LocalDesk, office: PostOffice
) -> None:
    question = await desk.post("Go?", form=Confirm(), recipients=["group:ops"], quorum=2)
    await reply(office, await office.mail_to(ANN), "yes")
    assert "Your vote counts; 2 people must agree." in (await office.mail_to(ANN, 2)).text
    await reply(office, await office.mail_to(BOB), "Yes!", sender=BOB)
    assert (await ended(desk, question)).value is True


@pytest.mark.parametrize(
    ("form", "why"),
    [
        (Approval.of("drop", {"table": "users"}, risk="high"), "Because of the risk"),
        (Approval.of("write", {"text": "line\n" * 500}), "The action is too long"),
    ],
    ids=["high risk", "not shown in full"],
)
async def test_what_is_risky_or_not_shown_in_full_is_not_approved_by_a_reply(
    desk: LocalDesk, office: PostOffice, form: Approval, why: str
) -> None:
    question = await desk.post("May I?", form=form, recipients=["ann"])
    mail = await office.mail_to(ANN)
    assert why in mail.text
    assert "reply to this e-mail" not in mail.text
    await reply(office, mail, "approve")
    assert why in (await office.mail_to(ANN, 2)).text
    assert await desk.get(question.id) == question


async def test_without_a_check_of_senders_a_reply_denies_and_does_not_approve(
    desk: LocalDesk, office: PostOffice
) -> None:
    question = await desk.post("Deploy?", form=Approval.of("deploy", {"version": "1.2"}), recipients=["ann"])
    mail = await office.mail_to(ANN)
    assert '│     version: "1.2"\n' in mail.text
    assert "Or deny with a reply" in mail.text
    assert "“approve”" not in mail.text
    await reply(office, mail, "approve")
    assert "not approve: nobody checks here" in (await office.mail_to(ANN, 2)).text
    assert await desk.get(question.id) == question
    await reply(office, mail, "deny: not on a Friday")
    assert (await ended(desk, question)).value["reason"] == "not on a Friday"


async def test_what_machines_send_back_is_passed_over_in_silence(
    desk: LocalDesk, office: PostOffice, imap: Imap
) -> None:
    question = await desk.post("What now?", form=Open(), recipients=["ann"])
    mail = await office.mail_to(ANN)
    machines = [
        {"Auto_Submitted": "auto-replied"},
        {"Precedence": "bulk"},
        {"X_Auto_Response_Suppress": "All"},
        {"List_Id": "<x.example.org>"},
    ]
    for headers in machines:
        await reply(office, mail, "I am on holiday", **headers)
    await asyncio.to_thread(
        office.submit, reply_to(mail, "Undelivered"), sender="", to=address_of(mail.message["reply-to"])
    )
    await imap.all_seen(len(machines) + 1)
    assert await desk.get(question.id) == question
    assert len(office.mails) == 1


async def test_two_machines_that_answer_each_other_come_to_an_end(
    desk: LocalDesk, office: PostOffice, imap: Imap
) -> None:
    await desk.post("Which strategy?", form=STRATEGY, recipients=["ann"])
    mail = await office.mail_to(ANN)
    for _ in range(12):
        await reply(office, mail, "I am a machine that does not say so")
    await imap.all_seen(12)
    assert len(office.mails) == 1 + 5


@pytest.mark.only_proof_of("that a mail which is read twice is one answer")
async def test_a_reply_that_is_read_twice_is_one_answer(
    desk: LocalDesk, office: PostOffice, imap: Imap, monkeypatch: pytest.MonkeyPatch
) -> None:
    marked = _Reader._mark  # noqa: SLF001 -- where a server could die
    died: list[str] = []

    def die_once(self: _Reader, uid: str) -> None:
        if not died:
            died.append(uid)
            raise ConnectionResetError("planted")
        marked(self, uid)

    monkeypatch.setattr(_Reader, "_mark", die_once)
    monkeypatch.setattr("handraise.channels.email.mailbox._FIRST_PAUSE", 0.01)
    question = await desk.post("Which strategy?", form=STRATEGY, recipients=["ann"])
    await reply(office, await office.mail_to(ANN), "1")
    assert (await ended(desk, question)).value == "Blue-green"
    await imap.all_seen(1)
    assert len(died) == 1
    await office.mail_to(ANN, 2)
    assert len(office.mails) == 2


async def test_who_could_not_be_told_is_told_later(
    desk: LocalDesk, office: PostOffice, imap: Imap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handraise.channels.email.mailbox._AGAIN_SECONDS", 0.05)
    await desk.post("Which strategy?", form=STRATEGY, recipients=["ann"])
    mail = await office.mail_to(ANN)
    office.says_to_data = ["451 4.3.0 later", "451 4.3.0 later"]
    await reply(office, mail, "neither")
    assert "I cannot take that" in (await office.mail_to(ANN, 2)).text
    await imap.all_seen(1)
    assert len(office.mails) == 2


async def test_a_group_with_a_mailbox_of_its_own_is_answered_by_one_of_its_people(
    ctx: ServerContext, desk: LocalDesk, office: PostOffice, imap: Imap
) -> None:
    room = "ops@example.org"
    await ctx.directory.put_person("default", "cid", name="cid", email="cid@example.org", role=Role.MEMBER)
    for recipient, address in (("group:ops", room), ("cid", "cid@example.org")):
        await ctx.outbox.put_address(
            Address(workspace="default", recipient=recipient, channel="email", id=address, to=address)
        )
    question = await desk.post("Which strategy?", form=STRATEGY, recipients=["group:ops"])
    mail = await office.mail_to(room)
    assert f"https://ask.example.org/questions/{question.id}" in mail.text
    assert "for the group ops" in mail.text
    await reply(office, mail, "1", sender="cid@example.org")
    await imap.all_seen(1)
    assert (await desk.get(question.id)).outcome is None
    await reply(office, mail, "2", sender=BOB)
    assert (await ended(desk, question)).by == "bob"


async def test_several_that_waited_are_one_mail_that_is_not_followed_up(
    ctx: ServerContext, desk: LocalDesk, office: PostOffice, clock: ManualClock
) -> None:
    await ctx.outbox.put_routing("default", {"anybody": {"per_hour": 1}})
    await desk.post("First?", form=Confirm(), recipients=["ann"])
    await office.mail_to(ANN)
    waiting = [await desk.post(f"Go {n}?", form=Confirm(), recipients=["ann"]) for n in range(3)]
    async with asyncio.timeout(WITHIN):
        for each in waiting:
            while not await ctx.outbox.deliveries(each.ref):
                await asyncio.sleep(0.01)
    clock.advance(timedelta(hours=1))
    bundle = await office.mail_to(ANN, 2)
    assert bundle.message["subject"] == "3 questions wait for you"
    assert bundle.message["reply-to"] is None
    await desk.answer(waiting[0].id, True, by="ann")
    await deliveries(ctx, waiting[0], "updated")
    assert len(office.mails) == 2


async def test_a_mail_brings_small_files_along_and_names_large_ones(
    desk: LocalDesk, office: PostOffice
) -> None:
    """Whatever a file is called, its name adds no header, and no mail program is told what to do with it."""
    name = "=?utf-8?q?=0D=0ABcc: eve@example.org?= „Bericht“ & <b>.pdf"
    small = [
        await desk.attach(b"%PDF-1.7 \xff\0", name=name),
        await desk.attach(b"<script>", name="page.html", media_type="text/html"),
    ]
    await desk.post("Publish?", choices=["a", "b"], recipients=["ann"], attachments=small, replies="program")
    mail = await office.mail_to(ANN)
    parts = list(mail.message.iter_attachments())
    assert [part.get_filename() for part in parts] == [name, "page.html"]
    assert [part.get_content() for part in parts] == [b"%PDF-1.7 \xff\0", b"<script>"]
    assert {part.get_content_type() for part in parts} == {"application/octet-stream"}
    assert mail.message["bcc"] is None
    assert "page.html (8 bytes)" in mail.text
    large = [await desk.attach(bytes([place]) * 2_600_000, name=f"{place}.bin") for place in (1, 2)]
    await desk.post("Larger?", choices=["a", "b"], recipients=["ann"], attachments=large)
    second = await office.mail_to(ANN, 2)
    assert list(second.message.iter_attachments()) == []
    assert "1.bin (2.6 MB), 2.bin (2.6 MB)" in second.text
