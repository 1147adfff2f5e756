"""What `handraise doctor --server` tries: real mail servers, Slack as its stand-in speaks, a real server at its public URL."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse

from handraise.server import ServerSettings
from handraise.server.probes import ProbeResult, run_probes
from support.command import handraise, serving
from support.free_port import free_port
from support.http_server import listening
from tests.channels import discord_peer, teams_peer, telegram_peer
from tests.channels.mail_servers import PASSWORD, USER, Imap, imap_server, post_office
from tests.channels.slack_peer import APP_TOKEN, BOT_TOKEN, open_peer

SECRET = "a secret of thirty-two characters"  # noqa: S105 -- made up
MAIL = {"email_from": "Handraise <desk@example.com>"}


@pytest.fixture(scope="module")
def imap() -> Iterator[Imap]:
    with imap_server() as server:
        yield server


async def probed(**settings: Any) -> dict[str, ProbeResult]:
    return {each.probe.name: each for each in await run_probes(ServerSettings(url="memory:", **settings))}


@asynccontextmanager
async def provider(**claims: str) -> AsyncIterator[str]:
    """An address that describes itself as an OIDC provider, with a clock of its own."""
    app = FastAPI()

    @app.get("/.well-known/openid-configuration")
    async def describe(request: Request) -> JSONResponse:
        here = str(request.base_url).rstrip("/")
        endpoints = {
            name: f"{here}/{name}" for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")
        }
        return JSONResponse({"issuer": here, **endpoints, **claims})

    with socket.create_server(("localhost", 0)) as door:
        async with listening(app, door):
            yield f"http://localhost:{door.getsockname()[1]}"


async def test_without_other_services_there_is_nothing_to_try(tmp_path: Path) -> None:
    assert await probed() == {}
    file = f"sqlite:///{tmp_path / 'questions.db'}"
    await asyncio.to_thread(handraise, "migrate", url=file)
    done = await asyncio.to_thread(handraise, "doctor", "--server", url=file)
    assert (done.returncode, "No setting needs another service." in done.stdout) == (0, True)


async def test_slack_says_who_the_bot_is_or_why_not() -> None:
    async with open_peer() as peer:
        slack = {"slack_api_url": f"{peer.url}/api", "slack_app_token": APP_TOKEN}
        works = (await probed(slack_bot_token=BOT_TOKEN, **slack))["Slack"]
        assert (works.works, works.text.startswith("the bot is U")) == (True, True)
        fails = (await probed(slack_bot_token="xoxb-" + "0" * 40, **slack))["Slack"]
        peer.refused.clear()
    assert (fails.works, "invalid_auth" in fails.text) == (False, True)
    gone = (await probed(slack_bot_token=BOT_TOKEN, **slack))["Slack"]
    assert not gone.works


async def test_every_channel_that_is_one_service_is_tried() -> None:
    settings: dict[str, Any] = {"secret": SECRET, "public_url": None}
    async with AsyncExitStack() as stack:
        telegram = await stack.enter_async_context(telegram_peer.open_peer())
        discord = await stack.enter_async_context(discord_peer.open_peer())
        teams = await stack.enter_async_context(teams_peer.open_peer())
        settings |= {
            "telegram_bot_token": telegram_peer.BOT_TOKEN,
            "telegram_api_url": telegram.url,
            "discord_bot_token": discord_peer.BOT_TOKEN,
            "discord_public_key": discord.public_key,
            "discord_api_url": discord.api_url,
            "teams_app_id": teams_peer.APP,
            "teams_app_secret": teams_peer.SECRET,
            "teams_tenant": teams_peer.TENANT,
            "teams_login_url": f"{teams.url}/login",
        }
        found = {name: (each.works, each.text) for name, each in (await probed(**settings)).items()}
        assert found == {
            "Telegram": (True, "the bot is @handraise_bot"),
            "Discord": (True, "the application is Handraise"),
            "Teams": (True, "Microsoft gives this application a token"),
        }
        assert telegram.webhook is None, "nothing was changed"
    gone = await probed(**settings)
    assert [each.works for each in gone.values()] == [False, False, False]
    assert "Nobody is reached through Telegram." in gone["Telegram"].probe.otherwise
    assert telegram_peer.BOT_TOKEN not in gone["Telegram"].text


async def test_an_ntfy_server_is_asked_whether_it_is_healthy() -> None:
    app = FastAPI()

    @app.get("/v1/health")
    async def health() -> JSONResponse:
        return JSONResponse({"healthy": True})

    with socket.create_server(("127.0.0.1", 0)) as door:
        url = f"http://127.0.0.1:{door.getsockname()[1]}"
        async with listening(app, door):
            found = (await probed(ntfy_url=url, ntfy_allow_private=["127.0.0.0/8"]))["ntfy"]
    assert (found.works, found.text) == (True, f"{url} is healthy")
    assert not (await probed(ntfy_url=url, ntfy_allow_private=["127.0.0.0/8"]))["ntfy"].works


async def test_mail_servers_are_signed_in_to_and_nothing_is_sent_or_read(imap: Imap) -> None:
    imap.append(b"From: ann@example.org\r\n\r\nunread\r\n")
    async with post_office() as office:
        smtp = f"smtp://127.0.0.1:{office.port}?tls=none"
        mail = {**MAIL, "email_smtp_url": smtp, "email_reply_to": "reply@example.com", "secret": SECRET}
        found = await probed(**mail, email_imap_url=imap.url)
        assert [(each.works, each.text) for each in found.values()] == [
            (True, "127.0.0.1 accepts this sender's connection"),
            (True, "127.0.0.1 opens the folder INBOX"),
        ]
        wrong = imap.url.replace(quote(PASSWORD, safe=""), "wrong")
        refused = (await probed(**mail, email_imap_url=wrong))["IMAP"]
        assert not refused.works
        assert not any(secret in refused.text for secret in ("wrong", PASSWORD, USER))
    assert office.mails == []
    assert imap.count("UNSEEN") == 1
    gone = (await probed(**MAIL, email_smtp_url=f"smtp://127.0.0.1:{free_port()}?tls=none"))["SMTP"]
    assert (gone.works, "the mail server cannot be used" in gone.text) == (False, True)


async def test_the_oidc_provider_must_describe_itself_under_its_own_name() -> None:
    oidc = {"oidc_client_id": "us", "secret": SECRET}
    async with provider() as issuer:
        assert (await probed(oidc_issuer=issuer, **oidc))["OIDC"].works
    async with provider(issuer="https://evil.example.com") as issuer:
        other = (await probed(oidc_issuer=issuer, **oidc))["OIDC"]
    assert (other.works, "does not describe an OIDC provider of that name" in other.text) == (False, True)
    gone = await probed(oidc_issuer=issuer, **oidc)
    assert [each.works for each in gone.values()] == [False, False]


@pytest.mark.parametrize(("seconds", "works"), [(0, True), (-300, False)], ids=["same", "behind"])
async def test_a_clock_that_differs_by_minutes_is_found(
    monkeypatch: pytest.MonkeyPatch, seconds: int, *, works: bool
) -> None:
    async with provider() as issuer:
        now = formatdate  # uvicorn's own Date header comes from this function
        monkeypatch.setattr("uvicorn.server.formatdate", lambda at, **how: now(at + seconds, **how))
        await asyncio.sleep(1.2)
        clock = (await probed(oidc_issuer=issuer, oidc_client_id="us", secret=SECRET))["Clock"]
    assert clock.works is works
    assert works or "this machine's is 30" in clock.text


async def test_the_public_url_leads_to_a_server_and_not_to_another_site(tmp_path: Path) -> None:
    file = f"sqlite:///{tmp_path / 'questions.db'}"
    with serving(file, tmp_path) as server:
        assert (await probed(public_url=server.address))["Public URL"].works
        done = await asyncio.to_thread(handraise, "doctor", "--server", url=file, public_url=server.address)
        assert (done.returncode, "a server is ready at" in done.stdout) == (0, True)
    async with provider() as site:
        done = await asyncio.to_thread(handraise, "doctor", "--server", url=file, public_url=site)
    assert done.returncode == 69
    text = " ".join(done.stdout.split())
    assert f"FAILED: {site}/readyz answers 404" in text
    assert "Links in messages and mails lead nowhere." in text


@asynccontextmanager
async def proxy(answer: str) -> AsyncIterator[tuple[int, list[str]]]:
    """The port of a proxy that answers like this, and what it was asked for."""
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
        except asyncio.IncompleteReadError:
            writer.close()
            return
        writer.write(f"HTTP/1.1 {answer}\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], asked


SLACK = {"slack_bot_token": BOT_TOKEN, "slack_app_token": APP_TOKEN}


async def test_the_proxy_must_lead_to_what_is_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    async with proxy("200 OK") as (port, asked):
        monkeypatch.setenv("HTTPS_PROXY", f"http://us:hu%20sh@127.0.0.1:{port}")
        found = await probed(**SLACK)
        assert (found["Proxy"].works, found["Proxy"].text) == (
            True,
            f"127.0.0.1:{port} leads to slack.com:443",
        )
        assert asked[0].startswith("CONNECT slack.com:443 HTTP/1.1\r\n")
        assert any("Proxy-Authorization: Basic dXM6aHUgc2g=" in each for each in asked)
        monkeypatch.setenv("NO_PROXY", "slack.com")
        unused = await probed(**SLACK, slack_api_url="https://slack.com/api")
        assert "no service that is set up is reached through it" in unused["Proxy"].text
        monkeypatch.delenv("NO_PROXY")
    async with proxy("407 Proxy Authentication Required") as (port, _):
        monkeypatch.setenv("HTTPS_PROXY", f"http://us:hush@127.0.0.1:{port}")
        refused = (await probed(**SLACK))["Proxy"]
    assert not refused.works
    assert "it says 407 Proxy Authentication Required" in refused.text
    assert "hush" not in refused.text
    assert "OIDC" in refused.probe.otherwise
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{free_port()}")
    assert not (await probed(**SLACK))["Proxy"].works
    monkeypatch.setenv("HTTPS_PROXY", "socks5://127.0.0.1:1080")
    assert "'socks5' is not supported" in (await probed(**SLACK))["Proxy"].text


async def test_what_ends_tls_in_front_must_be_trusted() -> None:
    address = f"https://127.0.0.1:{free_port()}"
    unset = (await probed(public_url=address))["Proxy in front"]
    assert (unset.works, "HANDRAISE_TRUSTED_PROXIES is not set" in unset.text) == (False, True)
    assert (await probed(public_url=address, trusted_proxies="10.0.0.0/8"))["Proxy in front"].works
    assert "Proxy in front" not in await probed(public_url=address.replace("https", "http"))
