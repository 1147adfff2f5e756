"""Mail without passwords: tokens for SMTP and IMAP, Microsoft Graph, and Amazon SES, from the question to the reply."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from email.headerregistry import Address as Sender
from pathlib import Path
from typing import Any

import httpx2
import pydantic
import pytest

from handraise import Answered, Choice, Question
from handraise.channels.email.channel import Email
from handraise.channels.email.mailbox import mailbox_reader
from handraise.channels.email.server_urls import MailServer, read_server
from handraise.channels.email.smtp import SmtpRelay
from handraise.channels.email.transport import MailTransport
from handraise.channels.inbound_replies import Replies
from handraise.channels.oauth_tokens import AccessTokens, ClientCredentials, RefreshToken
from handraise.model.identities import Role
from handraise.ports.channel import Message, NotSent
from handraise.server import ServerSettings, create_app, open_server
from handraise.server.mail_addresses import sync_email_address
from handraise.server.mail_setup import open_mail_setup
from handraise.server.probes import ProbeResult, run_probes
from handraise.testing.contract.channel import ChannelContract, a_question
from tests.certificates import certificate, presenting
from tests.channels.mail_servers import WITHIN, Imap, Mail, PostOffice, imap_server, post_office, reply_to
from tests.channels.mail_token_peers import (
    ACCESS_KEY,
    CLIENT,
    REFRESH,
    REGION,
    SECRET,
    SECRET_KEY,
    SESSION_TOKEN,
    GraphPeer,
    SesPeer,
    TokenIssuer,
    TokenPostOffice,
    graph_peer,
    ses_peer,
    token_imap,
    token_issuer,
)
from tests.channels.test_email_inbound import ANN, given, post

NOBODY = Replies(None, None, None)  # type: ignore[arg-type]  # for tests in which nothing comes in
DESK = "desk@example.org"
GOOGLE = "https://mail.google.com/"
MICROSOFT = "https://outlook.office365.com/.default"
STRATEGY = Choice.of("Blue-green", "Canary")
NO_PASSWORDS: dict[str, Any] = {"auth_require_tls": False, "auth_exclude_mechanism": ["PLAIN", "LOGIN"]}


@pytest.fixture
async def issuer() -> AsyncIterator[TokenIssuer]:
    async with token_issuer() as issuer:
        yield issuer


@pytest.fixture
async def office(issuer: TokenIssuer) -> AsyncIterator[TokenPostOffice]:
    office = TokenPostOffice(issuer=issuer)
    async with post_office(office, **NO_PASSWORDS):
        yield office


@pytest.fixture
async def graph(issuer: TokenIssuer) -> AsyncIterator[GraphPeer]:
    async with graph_peer(issuer, PostOffice()) as peer:
        yield peer


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The credentials of AWS as a container has them."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
async def ses(keys: None) -> AsyncIterator[SesPeer]:
    del keys
    async with ses_peer(PostOffice()) as peer:
        yield peer


@pytest.fixture(scope="module")
def imap_process() -> Iterator[Imap]:
    with imap_server() as imap:
        yield imap


def application(issuer: TokenIssuer, **changes: Any) -> dict[str, Any]:
    """An application that acts in its own name."""
    return {
        "email_oauth_token_url": issuer.token_url,
        "email_oauth_client_id": CLIENT,
        "email_oauth_client_secret": SECRET,
        **changes,
    }


def smtp_settings(office: TokenPostOffice, **changes: Any) -> dict[str, Any]:
    url = f"smtp://desk%40example.org@127.0.0.1:{office.port}?tls=none"
    return application(office.issuer, email_smtp_url=url, **changes)


def graph_settings(graph: GraphPeer, **changes: Any) -> dict[str, Any]:
    return application(
        graph.issuer,
        email_transport="graph",
        email_graph_url=graph.api_url,
        email_smtp_url=None,
        **changes,
    )


def ses_settings(ses: SesPeer, **changes: Any) -> dict[str, Any]:
    return {
        "email_transport": "ses",
        "email_ses_region": REGION,
        "email_ses_url": ses.url,
        "email_smtp_url": None,
        **changes,
    }


def mail_settings(**values: Any) -> ServerSettings:
    return ServerSettings(url="memory:", **{"email_from": f"Handraise <{DESK}>", **values})


def message(*questions: Question) -> Message:
    return ChannelContract().message(channel_of(SmtpRelay(read_server("smtp://h", "smtp"))), ANN, *questions)


def channel_of(transport: MailTransport) -> Email:
    return Email(NOBODY, transport, sender=Sender("Handraise", addr_spec=DESK), host="ask.example.org")


async def send(settings: ServerSettings, times: int = 1) -> None:
    """Send mails at once, as the settings say."""
    async with open_mail_setup(settings) as setup:
        channel = channel_of(setup.transport())
        await asyncio.gather(*(channel.send(message(a_question())) for _ in range(times)))


# Tokens for SMTP.


@pytest.mark.parametrize(
    ("changes", "scope", "grant"),
    [
        ({}, MICROSOFT, "client_credentials"),
        (
            {"email_oauth_refresh_token": REFRESH, "email_oauth_scope": None},
            GOOGLE,
            "refresh_token",
        ),
        ({"email_oauth_scope": "custom"}, "custom", "client_credentials"),
    ],
)
async def test_mail_is_handed_over_with_a_token_instead_of_a_password(
    office: TokenPostOffice, changes: dict[str, Any], scope: str, grant: str
) -> None:
    office.scope = scope
    await send(mail_settings(**smtp_settings(office, **changes)))
    assert [each.to for each in office.mails] == [ANN]
    assert [each["grant_type"] for each in office.issuer.requests] == [grant]
    assert (office.refused, office.issuer.refused) == (0, [])


async def test_a_service_account_of_google_acts_for_the_mailbox(office: TokenPostOffice) -> None:
    url = smtp_settings(office)["email_smtp_url"]
    account = {"email_smtp_url": url, "email_oauth_service_account": office.issuer.key_file}
    await send(mail_settings(**account))
    assert (len(office.mails), office.refused) == (1, 0)
    # Somebody else's key gets nothing.
    async with token_issuer() as other:
        key = json.loads(other.key_file) | {"token_uri": office.issuer.token_url}
        wrong = account | {"email_oauth_service_account": json.dumps(key)}
        with pytest.raises(NotSent, match="gives no token: invalid_grant"):
            await send(mail_settings(**wrong))


async def test_many_mails_at_once_share_one_token_and_a_new_one_when_it_has_ended(
    office: TokenPostOffice, issuer: TokenIssuer
) -> None:
    office.scope = MICROSOFT
    async with open_mail_setup(mail_settings(**smtp_settings(office))) as setup:
        channel = channel_of(setup.transport())
        issuer.gate = asyncio.Event()
        async with asyncio.timeout(WITHIN), asyncio.TaskGroup() as group:
            for _ in range(8):
                group.create_task(channel.send(message(a_question())))
            while not issuer.requests:
                await asyncio.sleep(0.01)
            issuer.gate.set()
        assert (len(office.mails), len(issuer.requests)) == (8, 1)
        # The server does not take it any more, whatever its end was: all of them fetch one other token.
        issuer.end_all()
        await asyncio.gather(*(channel.send(message(a_question())) for _ in range(4)))
        assert (len(office.mails), len(issuer.requests)) == (12, 2)
        assert office.refused >= 1


async def test_a_server_that_refuses_each_token_is_asked_twice_and_the_mail_waits(
    office: TokenPostOffice, issuer: TokenIssuer
) -> None:
    office.user = "somebody-else@example.org"
    office.scope = MICROSOFT
    with pytest.raises(NotSent, match=r"refuses the token of this user: 535 5\.7\.3") as failed:
        await send(mail_settings(**smtp_settings(office)))
    assert (failed.value.again, failed.value.arrived_perhaps) == (True, False)
    assert (office.refused, len(issuer.requests), office.mails) == (2, 2, [])


async def test_a_token_goes_only_to_whom_the_certificate_names(tmp_path: Path, issuer: TokenIssuer) -> None:
    cert, key = certificate(tmp_path, "127.0.0.1")
    office = TokenPostOffice(issuer=issuer, scope="mail")
    trusting = ssl.create_default_context(cafile=cert)
    async with (
        post_office(office, tls=presenting(cert, key), auth_exclude_mechanism=["PLAIN", "LOGIN"]),
        httpx2.AsyncClient() as client,
    ):
        tokens = tokens_of(client, issuer)
        server = MailServer(host="127.0.0.1", port=office.port, security="starttls", user=DESK)
        with pytest.raises(NotSent, match="cannot be used"):
            await SmtpRelay(server, tokens=tokens).check(sender=DESK)
        assert (office.signed_in, office.refused) == ([], 0)
        await SmtpRelay(server, tokens=tokens, verify=trusting).check(sender=DESK)
        assert len(office.signed_in) == 1


async def test_a_server_that_takes_no_tokens_gets_none(issuer: TokenIssuer) -> None:
    async with post_office() as plain, httpx2.AsyncClient() as client:
        server = MailServer(host="127.0.0.1", port=plain.port, security="none", user=DESK)
        with pytest.raises(NotSent, match="it takes no tokens"):
            await SmtpRelay(server, tokens=tokens_of(client, issuer)).check(sender=DESK)


# The tokens themselves.


def tokens_of(client: httpx2.AsyncClient, issuer: TokenIssuer, **changes: Any) -> AccessTokens:
    options: dict[str, Any] = {
        "token_url": issuer.token_url,
        "scope": "mail",
        "issuer": "the issuer",
    }
    return AccessTokens(
        client, changes.pop("grant", ClientCredentials(CLIENT, SECRET)), **(options | changes)
    )


async def test_a_token_is_used_until_shortly_before_its_end(issuer: TokenIssuer) -> None:
    now = 1_000.0
    async with httpx2.AsyncClient() as client:
        tokens = tokens_of(client, issuer, clock=lambda: now)
        first = await tokens.token()
        now += 3_599 - 301
        assert await tokens.token() == first
        now += 2
        assert await tokens.token() != first
        tokens.refuse("another one")
        assert len(issuer.requests) == 2


async def test_whoever_gives_up_waiting_takes_the_token_from_nobody(issuer: TokenIssuer) -> None:
    issuer.gate = asyncio.Event()
    async with httpx2.AsyncClient() as client:
        tokens = tokens_of(client, issuer)
        first, second = (asyncio.create_task(tokens.token()) for _ in range(2))
        async with asyncio.timeout(WITHIN):
            while not issuer.requests:
                await asyncio.sleep(0.01)
            first.cancel()
            issuer.gate.set()
            assert await second in issuer.tokens
        assert len(issuer.requests) == 1


async def test_a_refresh_token_that_is_replaced_is_kept_for_all_scopes(issuer: TokenIssuer) -> None:
    issuer.rotates = True
    async with httpx2.AsyncClient() as client:
        grant = RefreshToken(CLIENT, SECRET, REFRESH)
        for scope in ("mail", "graph"):
            await tokens_of(client, issuer, grant=grant, scope=scope).token()
    assert issuer.refused == []
    assert issuer.requests[0]["refresh_token"] == REFRESH != issuer.requests[1]["refresh_token"]


async def test_why_there_is_no_token_is_said_without_any_secret(
    issuer: TokenIssuer, office: TokenPostOffice, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    office.scope = MICROSOFT
    settings = mail_settings(**smtp_settings(office, email_oauth_refresh_token=REFRESH))
    issuer.failure = (400, {"error": "invalid_grant", "error_description": f"AADSTS700082: {REFRESH}"})
    with pytest.raises(NotSent, match=r"127.0.0.1 gives no token: invalid_grant \(AADSTS700082\)") as failed:
        await send(settings)
    assert failed.value.again
    issuer.failure = (503, {"error": "<b>" + SECRET})
    with pytest.raises(NotSent, match="gives no token: it answered 503"):
        await send(settings)
    issuer.failure = None
    await send(mail_settings(**smtp_settings(office)))
    texts = [caplog.text, repr(settings), str(failed.value), repr(RefreshToken(CLIENT, SECRET, REFRESH))]
    for secret in (SECRET, REFRESH, *issuer.tokens):
        assert not any(secret in text for text in texts)


# Reading replies with a token.


async def test_replies_are_read_with_a_token_and_an_ended_one_is_replaced(
    imap_process: Imap, issuer: TokenIssuer
) -> None:
    imap_process.empty()
    came: asyncio.Queue[bytes] = asyncio.Queue()

    async def take(raw: bytes) -> bool:
        came.put_nowait(raw)
        return True

    async with token_imap(imap_process, issuer) as door, httpx2.AsyncClient() as client:
        door.scope = "mail"
        tokens = tokens_of(client, issuer)
        await tokens.token()
        issuer.end_all()
        async with mailbox_reader(read_server(door.url, "imap"), take, tokens=tokens):
            await asyncio.to_thread(imap_process.append, b"From: ann@example.org\r\n\r\nhello\r\n")
            assert b"hello" in await asyncio.wait_for(came.get(), WITHIN)
        assert (door.refused, len(door.signed_in), len(issuer.requests)) == (1, 1, 2)


# Graph and SES.


async def test_graph_takes_the_mail_as_it_is_and_a_refused_token_is_replaced_once(graph: GraphPeer) -> None:
    async with open_mail_setup(mail_settings(**graph_settings(graph))) as setup:
        channel = channel_of(setup.transport())
        receipt = await channel.send(message(a_question()))
        [mail] = graph.office.mails
        assert a_question().prompt in mail.text
        assert isinstance(receipt, dict)
        # Graph does not say which id it gave, so ours stays in the receipt.
        assert receipt["id"] == f"{message(a_question()).id}@ask.example.org"
        graph.issuer.end_all()
        await channel.send(message(a_question()))
        assert graph.refused == ["InvalidAuthenticationToken"]
        graph.issuer.tokens.clear()
        graph.failures = []
        graph.issuer.failure = (400, {"error": "invalid_client"})
        with pytest.raises(NotSent, match="invalid_client"):
            await channel.send(message(a_question()))
    assert len(graph.office.mails) == 2


@pytest.mark.parametrize(
    ("status", "code", "again", "arrived"),
    [
        (400, "ErrorInvalidRecipients", False, False),
        (403, "ErrorSendAsDenied", True, False),
        (429, "ApplicationThrottled", True, False),
        (503, "ServiceUnavailable", True, True),
    ],
)
async def test_what_graph_refuses_is_tried_again_where_that_can_help(
    graph: GraphPeer, status: int, code: str, *, again: bool, arrived: bool
) -> None:
    graph.failures = [(status, code)]
    with pytest.raises(NotSent) as failed:
        await send(mail_settings(**graph_settings(graph)))
    assert (failed.value.again, failed.value.arrived_perhaps) == (again, arrived)
    if status == 429:
        assert failed.value.after is not None
        assert failed.value.after.total_seconds() == 7
    assert graph.office.mails == []


async def test_ses_takes_requests_with_a_right_signature_only(
    ses: SesPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = mail_settings(**ses_settings(ses, email_ses_configuration_set="ours"))
    await send(settings)
    assert (len(ses.office.mails), ses.refused, ses.configuration_sets) == (1, [], ["ours"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(NotSent, match="403 SignatureDoesNotMatch") as failed:
        await send(settings)
    assert failed.value.again
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    # A role's credentials come with a token, which is signed too.
    ses.session_token = SESSION_TOKEN
    with pytest.raises(NotSent, match="ExpiredTokenException"):
        await send(settings)
    monkeypatch.setenv("AWS_SESSION_TOKEN", SESSION_TOKEN)
    await send(settings)
    assert len(ses.office.mails) == 2
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with pytest.raises(NotSent, match="no credentials for Amazon SES"):
        await send(settings)


@pytest.mark.parametrize(
    ("status", "code", "again"),
    [
        (400, "MessageRejected", False),
        (400, "SendingPausedException", True),
        (429, "TooManyRequestsException", True),
    ],
)
async def test_what_ses_refuses_is_tried_again_where_that_can_help(
    ses: SesPeer, status: int, code: str, *, again: bool
) -> None:
    ses.failures = [(status, code)]
    with pytest.raises(NotSent, match=code) as failed:
        await send(mail_settings(**ses_settings(ses)))
    assert failed.value.again is again
    ses.senders = ()
    with pytest.raises(NotSent, match="Email address is not verified") as failed:
        await send(mail_settings(**ses_settings(ses)))
    assert failed.value.again


# Ids that a service replaces.


@pytest.fixture(params=["smtp", "graph", "ses"])
async def transport(
    request: pytest.FixtureRequest, issuer: TokenIssuer, keys: None
) -> AsyncIterator[tuple[dict[str, Any], PostOffice]]:
    """The settings of a way to send, and where its mails arrive."""
    del keys
    async with AsyncExitStack() as stack:
        match request.param:
            case "smtp":
                office = TokenPostOffice(issuer=issuer, scope=MICROSOFT)
                await stack.enter_async_context(post_office(office, **NO_PASSWORDS))
                yield smtp_settings(office), office
            case "graph":
                graph = await stack.enter_async_context(graph_peer(issuer, PostOffice()))
                yield graph_settings(graph), graph.office
            case _:
                ses = await stack.enter_async_context(ses_peer(PostOffice()))
                yield ses_settings(ses), ses.office


def answer_to(mail: Mail, text: str) -> bytes:
    """A reply with the references that mail programs write (RFC 5322, 3.6.4)."""
    got = mail.message
    references = f"{got['references'] or ''} {got['message-id']}".strip()
    return reply_to(mail, text, References=references).as_bytes()


@pytest.mark.parametrize("workspace", ["default", "a workspace with a name that fits into no address"])
async def test_a_reply_finds_its_question_whatever_id_the_mail_was_given(
    transport: tuple[dict[str, Any], PostOffice], tmp_path: Path, workspace: str
) -> None:
    changes, office = transport
    async with open_server(ServerSettings(**given(tmp_path, **changes))) as ctx:
        person = await ctx.directory.put_person(workspace, "ann", name="ann", email=ANN, role=Role.MEMBER)
        await sync_email_address(ctx, None, person, by=None)
        desk = ctx.desk.scoped(workspace)
        app = httpx2.ASGITransport(app=create_app(ctx), client=("192.0.2.1", 50_000))
        async with httpx2.AsyncClient(transport=app, base_url="https://ask.example.org") as client:
            question = await desk.post("Which strategy?", form=STRATEGY, recipients=["ann"])
            first = await office.mail_to(ANN)
            assert (await post(client, answer_to(first, "Purple"))).status_code == 204
            said = await office.mail_to(ANN, 2)
            assert "does not" in said.text or "cannot" in said.text
            # A reply to what we said about the reply is one, too.
            assert (await post(client, answer_to(said, "Canary"))).status_code == 204
            outcome = (await desk.get(question.id)).outcome
            assert isinstance(outcome, Answered)
            assert outcome.by == "ann"
            ended = await office.mail_to(ANN, 3)
    # All mails about the question refer to the same thing, by which mail programs show them together.
    threads = [set((each.message["references"] or "").split()) for each in (first, ended)]
    assert threads[0] & threads[1]
    if "email_ses_url" in changes:
        assert ended.message["in-reply-to"] == first.message["message-id"]


# What doctor finds, and what settings are refused.


async def probed(**settings: Any) -> ProbeResult:
    [found] = [
        each
        for each in await run_probes(mail_settings(**settings))
        if each.probe.name in ("SMTP", "Microsoft Graph", "Amazon SES")
    ]
    return found


async def test_doctor_tries_tokens_and_signatures_and_sends_nothing(
    office: TokenPostOffice, graph: GraphPeer, ses: SesPeer
) -> None:
    office.scope = MICROSOFT
    works = [
        await probed(**smtp_settings(office)),
        await probed(**graph_settings(graph)),
        await probed(**ses_settings(ses)),
    ]
    assert [(each.works, each.text) for each in works] == [
        (True, "127.0.0.1 accepts this sender's connection"),
        (True, f"this application may send as {DESK}"),
        (True, "sending is enabled"),
    ]
    graph.forbidden = (DESK,)
    found = await probed(**graph_settings(graph))
    assert (found.works, "403 ErrorAccessDenied" in found.text) == (False, True)
    found = await probed(**graph_settings(graph, email_oauth_client_secret=REFRESH))
    assert (found.works, "gives no token: invalid_client" in found.text) == (False, True)
    ses.is_paused = True
    assert not (await probed(**ses_settings(ses))).works
    ses.may_get_account = False
    assert (await probed(**ses_settings(ses))).works
    found = await probed(**ses_settings(ses, email_ses_region="eu-west-1"))
    assert (found.works, "SignatureDoesNotMatch" in found.text) == (False, True)
    assert [*office.mails, *graph.office.mails, *ses.office.mails] == []


async def test_doctor_tries_the_token_of_the_mailbox(imap_process: Imap, issuer: TokenIssuer) -> None:
    async with token_imap(imap_process, issuer) as door, post_office() as plain:
        door.scope = MICROSOFT
        changes = {
            **application(issuer),
            "email_smtp_url": f"smtp://127.0.0.1:{plain.port}?tls=none",
            "email_reply_to": "reply@example.com",
            "email_imap_url": door.url,
            "secret": "s" * 32,
        }
        find: Callable[[list[ProbeResult]], ProbeResult] = lambda found: next(  # noqa: E731
            each for each in found if each.probe.name == "IMAP"
        )
        assert find(await run_probes(mail_settings(**changes))).works
        door.user = "other@example.org"
        found = find(
            await run_probes(
                mail_settings(**changes | {"email_imap_url": door.url.replace("other", "reply")})
            )
        )
        assert (found.works, "AUTHENTICATIONFAILED" in found.text) == (False, True)


@pytest.mark.parametrize(
    ("changes", "whys"),
    [
        (
            {"email_transport": "graph"},
            ["Microsoft Graph needs the address that issues tokens"],
        ),
        (
            {"email_transport": "graph", "email_oauth_token_url": "https://login.example.com/token"},
            ["tokens for mail need it", "or HANDRAISE_EMAIL_OAUTH_REFRESH_TOKEN"],
        ),
        (
            {"email_smtp_url": "smtps://u@h", "email_oauth_token_url": "http://login.example.com/token"},
            ["expected an https address"],
        ),
        (
            {"email_smtp_url": "smtps://u:p@h", "email_oauth_token_url": "https://login.example.com/token"},
            ["nothing signs in with tokens"],
        ),
        ({"email_transport": "graph", "email_smtp_url": "smtps://u:p@h"}, ["unset one of them"]),
        ({"email_transport": "ses", "email_from": None}, ["Amazon SES needs it", "needs a sender"]),
        ({"email_transport": "ses", "email_ses_region": "here"}, ["expected a region"]),
        ({"email_transport": "pigeon"}, ["'smtp', 'graph' or 'ses'"]),
        ({"email_smtp_url": "smtps://u@h", "email_oauth_service_account": "{}"}, ["expected the JSON key"]),
    ],
)
def test_settings_that_make_no_sense_are_all_refused_at_once(
    changes: dict[str, Any], whys: list[str]
) -> None:
    with pytest.raises(pydantic.ValidationError) as refused:
        mail_settings(**changes)
    for why in whys:
        assert why in str(refused.value)
    assert refused.value.error_count() >= len(whys)
