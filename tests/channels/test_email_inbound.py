"""Replies that a mail server posts here, people's own addresses, and what an operator may set."""

from __future__ import annotations

import asyncio
import base64
import os
import random
import re
import socket
import time
from collections.abc import AsyncIterator, Callable
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import httpx2
import pydantic
import pytest
from fastapi import FastAPI

from handraise import Answered, Approval, Choice, Open, Question
from handraise.desks import LocalDesk
from handraise.model.identities import Role
from handraise.model.outcomes import Returned
from handraise.model.webhook_signatures import signed
from handraise.server import ServerContext, ServerSettings, create_app, open_server
from handraise.server.mail_addresses import sync_all_email_addresses, sync_email_address
from support.command import handraise
from support.http_server import listening
from support.issuer import Issuer
from tests.channels.mail_servers import Mail, PostOffice, address_of, post_office, reply_to
from tests.samples import turns
from tests.tiers import sized

ANN, BOB = "ann@example.org", "bob@example.org"
KEY = b"inbound secret of 32 bytes......"
SECRET = "whsec_" + base64.b64encode(KEY).decode()
STRATEGY = Choice.of("Blue-green", "Canary")
INBOUND = "/v1/channels/email/inbound"


def given(tmp_path: Path, port: int = 1, **changes: Any) -> dict[str, Any]:
    return {
        "url": f"sqlite:///{tmp_path / 'questions.db'}",
        "public_url": "https://ask.example.org",
        "poll_interval": 0.05,
        "secret": "s" * 32,
        "email_smtp_url": f"smtp://127.0.0.1:{port}?tls=none",
        "email_from": "Handraise <desk@example.org>",
        "email_reply_to": "reply@example.org",
        "email_inbound_secret": SECRET,
    } | changes


@pytest.fixture
async def office() -> AsyncIterator[PostOffice]:
    async with post_office() as office:
        yield office


@pytest.fixture
def changes() -> dict[str, Any]:
    """What a test sets otherwise."""
    return {}


@pytest.fixture
async def ctx(office: PostOffice, tmp_path: Path, changes: dict[str, Any]) -> AsyncIterator[ServerContext]:
    async with open_server(ServerSettings(**given(tmp_path, office.port, **changes))) as ctx:
        for name, address in (("ann", ANN), ("bob", BOB)):
            person = await ctx.directory.put_person(
                "default", name, name=name, email=address, role=Role.MEMBER
            )
            await sync_email_address(ctx, None, person, by=None)
        yield ctx


@pytest.fixture
def desk(ctx: ServerContext) -> LocalDesk:
    return ctx.desk.scoped("default")


@pytest.fixture
def app(ctx: ServerContext) -> FastAPI:
    return create_app(ctx)


@pytest.fixture
def client_at(app: FastAPI) -> Callable[[str], httpx2.AsyncClient]:
    """Makes clients at any network address: whoever is refused too often is slowed down."""

    def make(host: str) -> httpx2.AsyncClient:
        transport = httpx2.ASGITransport(app=app, client=(host, 50_000), raise_app_exceptions=True)
        return httpx2.AsyncClient(transport=transport, base_url="https://ask.example.org")

    return make


@pytest.fixture
async def client(client_at: Callable[[str], httpx2.AsyncClient]) -> AsyncIterator[httpx2.AsyncClient]:
    async with client_at("192.0.2.1") as client:
        yield client


async def post(
    client: httpx2.AsyncClient, letter: EmailMessage | bytes, *, key: bytes = KEY, age: float = 0.0
) -> httpx2.Response:
    body = letter if isinstance(letter, bytes) else letter.as_bytes()
    headers = signed("msg-1", body, [key], now=time.time() - age)
    return await client.post(INBOUND, content=body, headers=headers)


async def test_a_posted_reply_answers(
    desk: LocalDesk, office: PostOffice, client: httpx2.AsyncClient
) -> None:
    question = await desk.post("Which strategy?", form=STRATEGY, recipients=["ann"])
    letter = reply_to(await office.mail_to(ANN), "Canary")
    for _ in range(20):
        assert (await post(client, letter)).status_code == 204
    outcome = (await desk.get(question.id)).outcome
    assert isinstance(outcome, Answered)
    assert (outcome.value, outcome.by, outcome.evidence) == ("Canary", "ann", "email-sender")
    await office.mail_to(ANN, 2)
    assert len(office.mails) == 2


async def test_a_reply_sends_back_or_leaves_it_to_others(
    desk: LocalDesk, office: PostOffice, client: httpx2.AsyncClient
) -> None:
    question = await desk.post(
        "Refund?", form=Approval.of("refund", {"amount": 3}), recipients=["ann", "bob"]
    )
    mail = await office.mail_to(ANN)
    shown = " ".join(mail.text.split())
    assert "To have it changed and asked again, write “send back:” and what is to be changed." in shown
    assert "To leave it to the others, write “not for me”." in shown
    assert (
        await post(client, reply_to(mail, "send back: forged", sender="eve@example.org"))
    ).status_code == 204
    assert (await desk.get(question.id)).outcome is None
    assert (await post(client, reply_to(mail, "Not for me.\n\nBest regards\nAnn"))).status_code == 204
    assert [each.person for each in (await desk.get(question.id)).aside] == ["ann"]
    letter = reply_to(await office.mail_to(BOB), "Send back: only 1, please", sender=BOB)
    assert (await post(client, letter)).status_code == 204
    outcome = (await desk.get(question.id)).outcome
    assert isinstance(outcome, Returned)
    assert (outcome.by, outcome.reason, outcome.evidence) == ("bob", "only 1, please", "email-sender")


async def test_a_misfit_that_comes_again_is_told_and_counted_once(
    desk: LocalDesk, office: PostOffice, client: httpx2.AsyncClient
) -> None:
    question = await desk.post(
        "How many?", form=Open(type="integer", minimum=3), recipients=["ann"], max_attempts=3
    )
    letter = reply_to(await office.mail_to(ANN), "1")
    for _ in range(20):
        assert (await post(client, letter)).status_code == 204
    assert (await desk.get(question.id)).outcome is None
    assert len(office.mails) == 2


async def test_a_thousand_that_are_not_genuine_change_nothing(
    desk: LocalDesk, office: PostOffice, client_at: Callable[[str], httpx2.AsyncClient]
) -> None:
    question = await desk.post("What now?", form=Open(), recipients=["ann"])
    good = reply_to(await office.mail_to(ANN), "anything at all").as_bytes()
    headers = signed("msg-1", good, [KEY], now=time.time())
    chance = random.Random(3)

    def flipped(data: bytes) -> bytes:
        place = chance.randrange(len(data))
        return data[:place] + bytes([data[place] ^ (1 << chance.randrange(8))]) + data[place + 1 :]

    def without_one() -> dict[str, str]:
        left_out = chance.choice(sorted(headers))
        return {name: text for name, text in headers.items() if name != left_out}

    def changed(name: str, text: str) -> dict[str, str]:
        return headers | {name: text}

    made: list[Callable[[], tuple[bytes, dict[str, str]]]] = [
        lambda: (flipped(good), headers),
        lambda: (
            good,
            changed("webhook-signature", f"v1,{base64.b64encode(chance.randbytes(32)).decode()}"),
        ),
        lambda: (
            good,
            changed("webhook-timestamp", str(int(headers["webhook-timestamp"]) + chance.randrange(1, 290))),
        ),
        lambda: (good, signed("msg-1", good, [KEY], now=time.time() - 301 - chance.randrange(10**6))),
        lambda: (good, signed("msg-1", good, [KEY], now=time.time() + 301 + chance.randrange(10**6))),
        lambda: (good, signed("msg-1", good, [chance.randbytes(32)], now=time.time())),
        lambda: (good, changed("webhook-id", f"msg-{chance.randrange(2, 10**9)}")),
        lambda: (good, without_one()),
        lambda: (good + b" ", headers),
        lambda: (good[: chance.randrange(len(good))], headers),
        lambda: (chance.randbytes(500), headers),
        lambda: (b"", {}),
    ]
    for number in turns(1_000, kinds=len(made), each=6):
        chance.seed(f"3 {number}")
        body, sent = made[number % len(made)]()
        async with client_at(f"10.{number // 20 % 200}.{number // 4_000}.1") as client:
            answer = await client.post(INBOUND, content=body, headers=sent)
        assert (answer.status_code, answer.content) == (401, b"")
    assert await desk.get(question.id) == question
    assert len(office.mails) == 1
    async with client_at("192.0.2.7") as client:
        assert (await post(client, good)).status_code == 204
    assert (await desk.get(question.id)).outcome is not None


async def test_a_thousand_mails_of_others_change_nothing_and_are_answered_by_silence(
    desk: LocalDesk, office: PostOffice, client: httpx2.AsyncClient
) -> None:
    question = await desk.post("What now?", form=Open(), recipients=["ann"])
    other = await desk.post("And for bob?", form=Open(), recipients=["bob"])
    mail, bobs = await office.mail_to(ANN), await office.mail_to(BOB)
    to, his = address_of(mail.message["reply-to"]), address_of(bobs.message["reply-to"])
    chance = random.Random(5)

    def with_letter_changed() -> str:
        place = chance.randrange(len("reply+"), to.index("@"))
        left = "abcdefghijklmnopqrstuvwxyz234567".replace(to[place].lower(), "")
        return to[:place] + chance.choice(left) + to[place + 1 :]

    kinds: list[Callable[[], dict[str, str]]] = [
        lambda: {"sender": BOB},
        lambda: {"sender": f"mallory{chance.randrange(10**6)}@evil.example"},
        lambda: {"sender": '"ann@example.org" <mallory@evil.example>'},
        lambda: {"sender": "ann@example.org, mallory@evil.example"},
        lambda: {"sender": "ann@example.org.evil.example"},
        lambda: {"To": with_letter_changed()},
        lambda: {"To": with_letter_changed()},
        lambda: {"To": his},
        lambda: {"To": "reply@example.org"},
        lambda: {"To": to.replace("@example.org", "@example.com")},
        lambda: {"To": to[:-14] + "@example.org"},
        lambda: {"Auto_Submitted": "auto-replied"},
    ]
    for number in turns(1_000, kinds=len(kinds), each=3):
        chance.seed(f"5 {number}")
        letter = reply_to(mail, f"forged {number}", **kinds[number % len(kinds)]())
        assert (await post(client, letter)).status_code == 204
    assert await desk.get(question.id) == question
    assert await desk.get(other.id) == other
    assert len(office.mails) == 2


async def test_the_script_on_the_page_posts_a_mail(
    desk: LocalDesk, office: PostOffice, app: FastAPI, tmp_path: Path
) -> None:
    question = await desk.post("Which strategy?", form=STRATEGY, recipients=["ann"])
    letter = reply_to(await office.mail_to(ANN), "Canary").as_bytes()
    page = Path(__file__).resolve().parents[2] / "docs/how-to/reach-people-by-email.md"
    [script] = re.findall(r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    with socket.create_server(("127.0.0.1", 0)) as door:
        here = f"http://127.0.0.1:{door.getsockname()[1]}"
        (tmp_path / "post").write_text(script.replace("https://handraise.example.com", here))

        async def run(secret: str) -> int:
            process = await asyncio.create_subprocess_exec(
                "sh",
                str(tmp_path / "post"),
                stdin=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={**os.environ, "HANDRAISE_EMAIL_INBOUND_SECRET": secret},
            )
            await process.communicate(letter)
            return process.returncode or 0

        async with listening(app, door):
            assert await run("whsec_" + base64.b64encode(bytes(32)).decode()) != 0
            assert (await desk.get(question.id)).outcome is None
            assert await run(SECRET) == 0
    assert isinstance((await desk.get(question.id)).outcome, Answered)


@pytest.mark.parametrize("changes", [{"email_authserv_id": "mx.example.com"}])
async def test_where_the_domain_is_checked_a_forged_sender_is_not_enough(
    desk: LocalDesk, office: PostOffice, client: httpx2.AsyncClient
) -> None:
    question = await desk.post("What now?", form=Open(), recipients=["ann"])
    mail = await office.mail_to(ANN)
    for found in ("mx.example.com; dmarc=fail", "mx.evil.example; dmarc=pass", "mx.example.com; none"):
        await post(client, reply_to(mail, "forged", Authentication_Results=found))
    await post(client, reply_to(mail, "forged"))
    assert await desk.get(question.id) == question
    genuine = reply_to(
        mail, "mine", Authentication_Results="mx.example.com; dmarc=pass header.from=example.org"
    )
    await post(client, genuine)
    assert isinstance((await desk.get(question.id)).outcome, Answered)


@pytest.mark.parametrize("changes", [{"email_authserv_id": "mx.example.com"}])
async def test_where_the_domain_is_checked_a_reply_approves_what_was_seen_in_full(
    desk: LocalDesk, office: PostOffice, client: httpx2.AsyncClient
) -> None:
    found = "mx.example.com; dmarc=pass header.from=example.org"
    deploy = await desk.post("Deploy?", form=Approval.of("deploy", {"version": "1.2"}), recipients=["ann"])
    mail = await office.mail_to(ANN)
    assert "write “approve” or “deny”" in mail.text
    await post(client, reply_to(mail, "approve", Authentication_Results=found))
    decision = (await desk.get(deploy.id)).decision
    assert decision
    assert decision.action.arguments == {"version": "1.2"}
    drop = await desk.post("Drop?", form=Approval.of("drop", risk="high"), recipients=["ann"])
    await office.mail_to(ANN, 3)
    [risky] = [each for each in office.mails if "Drop?" in each.text]
    await post(client, reply_to(risky, "approve", Authentication_Results=found))
    assert await desk.get(drop.id) == drop


async def test_what_is_signed_and_is_no_mail_is_passed_over(
    client: httpx2.AsyncClient, ctx: ServerContext
) -> None:
    for body in (b"", b"hello", b"\x00" * 1_000, b"From: a@b\r\nFrom: c@d\r\n\r\nx"):
        assert (await post(client, body)).status_code == 204
    too_large = await post(client, b"From: ann@example.org\r\n\r\n" + b"x" * ctx.settings.body_limit)
    assert too_large.status_code == 413


@pytest.mark.parametrize("changes", [{"email_inbound_secret": None, "email_reply_to": None}])
async def test_where_nobody_may_post_nobody_can(client: httpx2.AsyncClient) -> None:
    assert (await post(client, b"From: ann@example.org\r\n\r\nx")).status_code == 404


async def test_a_long_workspace_name_travels_in_the_message_id(
    ctx: ServerContext, office: PostOffice, client: httpx2.AsyncClient
) -> None:
    workspace = "a workspace with a rather long name: 名前"
    person = await ctx.directory.put_person(workspace, "ann", name="ann", email=ANN, role=Role.MEMBER)
    await sync_email_address(ctx, None, person, by=None)
    desk = ctx.desk.scoped(workspace)
    question = await desk.post("Which strategy?", form=STRATEGY, recipients=["ann"])
    mail = await office.mail_to(ANN)
    assert len(address_of(mail.message["reply-to"]).partition("@")[0]) <= 64
    elsewhere = await ctx.desk.scoped("default").post("Which?", form=STRATEGY, recipients=["ann"])
    await post(client, reply_to(mail, "Canary"))
    outcome = (await desk.get(question.id)).outcome
    assert isinstance(outcome, Answered)
    assert outcome.value == "Canary"
    assert (await ctx.desk.scoped("default").get(elsewhere.id)).outcome is None


async def recipients(ctx: ServerContext) -> list[tuple[str, str]]:
    found = await ctx.outbox.addresses("default")
    return [(each.recipient, each.to["address"]) for each in found if each.channel == "email"]


async def test_whoever_has_an_e_mail_address_is_reached_there(
    ctx: ServerContext, client: httpx2.AsyncClient
) -> None:
    token = await Issuer(ctx.directory).person("default", "root", role=Role.ADMIN)
    headers = {"authorization": f"Bearer {token}"}

    async def put(email: str | None) -> None:
        answer = await client.put("/v1/people/cid", json={"name": "cid", "email": email}, headers=headers)
        assert answer.status_code == 200

    known = [("ann", ANN), ("bob", BOB)]
    await put("Cid@Example.org")
    assert await recipients(ctx) == [*known, ("cid", "Cid@Example.org")]
    await put("cid@new.example")
    assert await recipients(ctx) == [*known, ("cid", "cid@new.example")]
    await put(None)
    assert await recipients(ctx) == known
    await put("cid@new.example")
    await client.delete("/v1/people/cid", headers=headers)
    assert await recipients(ctx) == known
    await ctx.directory.put_person("default", "dan", name="dan", email="dan@example.org", role=Role.MEMBER)
    await sync_all_email_addresses(ctx)
    assert await recipients(ctx) == [*known, ("dan", "dan@example.org")]


async def test_the_command_that_adds_somebody_gives_them_their_address(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'questions.db'}"
    mail = {"email_smtp_url": "smtp://localhost?tls=none", "email_from": "desk@example.org"}

    async def addresses() -> list[tuple[str, str]]:
        async with open_server(ServerSettings(url=url)) as ctx:
            return await recipients(ctx)

    def add(name: str, **settings: str) -> None:
        done = handraise("people", "add", name, "--email", f"{name}@example.org", url=url, **settings)
        assert done.returncode == 0, done.stderr

    await asyncio.to_thread(add, "ann")
    assert await addresses() == []
    await asyncio.to_thread(lambda: add("bob", **mail))
    assert await addresses() == [("bob", BOB)]
    # From now on the workspace has e-mail, also for a command that does not know the server's settings.
    await asyncio.to_thread(add, "cid")
    assert await addresses() == [("bob", BOB), ("cid", "cid@example.org")]


async def test_without_e_mail_nobody_has_an_address_for_it(tmp_path: Path) -> None:
    async with open_server(ServerSettings(url=f"sqlite:///{tmp_path / 'questions.db'}")) as ctx:
        person = await ctx.directory.put_person("default", "ann", name="ann", email=ANN, role=Role.MEMBER)
        await sync_email_address(ctx, None, person, by=None)
        await sync_all_email_addresses(ctx)
        assert await recipients(ctx) == []


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"email_from": None}, "needs a sender"),
        ({"email_from": "nobody"}, "expected an e-mail address"),
        ({"email_smtp_url": "mail.example.org"}, "expected an address such as smtps://"),
        ({"email_reply_to": "reply+x@example.org"}, "expected a mailbox"),
        ({"email_reply_to": "r" * 30 + "@example.org"}, "expected a mailbox"),
        ({"secret": None}, "need HANDRAISE_SECRET"),
        ({"email_inbound_secret": None}, "or HANDRAISE_EMAIL_IMAP_URL"),
        ({"email_inbound_secret": "whsec_c2hvcnQ="}, "24 to 64 random bytes"),
        ({"email_reply_to": None, "email_imap_url": "imaps://u:p@h"}, "need HANDRAISE_EMAIL_REPLY_TO"),
        ({"email_imap_url": "imaps://:password@host"}, "a password needs a user"),
        ({"email_imap_url": "imaps://user@host"}, "HANDRAISE_EMAIL_IMAP_URL signs in with tokens"),
    ],
)
def test_settings_that_make_no_sense_are_refused_in_a_sentence(
    tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    with pytest.raises(pydantic.ValidationError, match=re.escape(why)):
        ServerSettings(**given(tmp_path, **changes))


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    settings = ServerSettings(
        **given(tmp_path, email_smtp_url="smtps://me:hunter2@h", email_imap_url="imaps://me:hunter2@h")
    )
    assert "hunter2" not in repr(settings)
    assert SECRET not in repr(settings)


async def test_mails_are_dealt_with_side_by_side(
    desk: LocalDesk, office: PostOffice, client: httpx2.AsyncClient
) -> None:
    number = sized(gate=8, nightly=20)
    questions: list[Question] = [await desk.post(f"Number {n}?", recipients=["ann"]) for n in range(number)]
    mails: list[Mail] = [await office.mail_to(ANN, n + 1) for n in range(number)]
    answers = await asyncio.gather(*(post(client, reply_to(mail, "done")) for mail in mails * 3))
    assert {answer.status_code for answer in answers} <= {204, 503}
    for question in questions:
        assert isinstance((await desk.get(question.id)).outcome, Answered)
