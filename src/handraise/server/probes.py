"""Tries what a server needs besides its store: the OIDC provider, channels, mail servers, proxies, its own address, the clock.

A probe changes nothing, and sends nothing to people.
"""

from __future__ import annotations

import asyncio
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from handraise.model.visible import visible_line
from handraise.ports.channel import NotSent
from handraise.server.channel_probes import try_discord, try_ntfy, try_slack, try_teams, try_telegram
from handraise.server.mail_setup import open_mail_setup
from handraise.server.settings import ServerSettings

_WITHIN = 15.0
_CLOCK_TOLERANCE = 30.0
_LONGEST_REASON = 300
_TRANSPORTS = {"smtp": "SMTP", "graph": "Microsoft Graph", "ses": "Amazon SES"}
_READY = {"status": "ready"}


class ProbeFailed(Exception):
    """It does not work; the text says why."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Something that a server needs. `run` returns what it found, or raises `ProbeFailed`."""

    name: str
    run: Callable[[], Awaitable[str]]
    otherwise: str
    """What does not work without it."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What a probe has found, or why it failed."""

    probe: Probe
    text: str
    works: bool


def probes_of(settings: ServerSettings) -> list[Probe]:
    """What a server with these settings needs."""
    probes = []
    if settings.oidc_issuer is not None:
        probes.append(
            Probe(
                "OIDC", lambda: _oidc(settings), "Nobody can sign in with it. Sessions go on, and links work."
            )
        )
    probes += [
        Probe(name, partial(run, settings), f"Nobody is reached through {name}. Deliveries are tried again.")
        for name, is_on, run in (
            ("Slack", settings.slack_bot_token, try_slack),
            ("Telegram", settings.telegram_bot_token, try_telegram),
            ("Discord", settings.discord_bot_token, try_discord),
            ("Teams", settings.teams_app_id, try_teams),
            ("ntfy", settings.ntfy_url, try_ntfy),
        )
        if is_on is not None
    ]
    if settings.sends_mail:
        name = _TRANSPORTS[settings.email_transport]
        probes.append(
            Probe(
                name, lambda: _sending(settings), "No mail is sent. Deliveries are tried again for a while."
            )
        )
    if settings.email_imap_url is not None:
        probes.append(Probe("IMAP", lambda: _imap(settings), "Replies by mail stay unread until it works."))
    if settings.public_url is not None:
        probes.append(
            Probe("Public URL", lambda: _public_url(settings), "Links in messages and mails lead nowhere.")
        )
    if settings.public_url is not None and settings.is_https:
        probes.append(
            Probe(
                "Proxy in front",
                lambda: _proxy_in_front(settings),
                "All people share one limit of connections and of invalid credentials: one can lock out everybody.",
            )
        )
    if (proxy := outgoing_proxy()) is not None:
        probes.append(
            Probe(
                "Proxy",
                lambda: _proxy(proxy, _destination(settings)),
                "OIDC, Slack, Teams and Telegram are not reached. NO_PROXY names what is reached without it.",
            )
        )
    if (clock := _other_clock(settings)) is not None:
        probes.append(
            Probe(
                "Clock",
                lambda: _clock(clock),
                "Sign-ins by OIDC and requests of Slack are refused if clocks differ by minutes.",
            )
        )
    return probes


async def run_probes(settings: ServerSettings) -> list[ProbeResult]:
    """Run all of them at once."""
    return await asyncio.gather(*map(_result, probes_of(settings)))


async def _result(probe: Probe) -> ProbeResult:
    try:
        async with asyncio.timeout(_WITHIN):
            return ProbeResult(probe, await probe.run(), works=True)
    except TimeoutError:
        return ProbeResult(probe, f"no answer within {_WITHIN:.0f} s", works=False)
    except ImportError as error:  # an extra is missing
        return ProbeResult(probe, str(error), works=False)
    except (ProbeFailed, NotSent, httpx2.HTTPError, OSError) as error:
        reason = visible_line(" ".join(str(error).split()))[:_LONGEST_REASON]
        return ProbeResult(probe, reason or type(error).__name__, works=False)


async def _oidc(settings: ServerSettings) -> str:
    from handraise.server.auth.oidc import Provider, ProviderUnavailable  # noqa: PLC0415 -- an extra

    try:
        await Provider(settings).check()
    except ProviderUnavailable as error:
        raise ProbeFailed(str(error)) from None
    return f"{settings.oidc_issuer} describes itself"


async def _sending(settings: ServerSettings) -> str:
    async with open_mail_setup(settings) as setup:
        return await setup.transport().check(sender=setup.sender)


async def _imap(settings: ServerSettings) -> str:
    from handraise.channels.email.mailbox import MailboxUnavailable, check_mailbox  # noqa: PLC0415 -- an extra

    async with open_mail_setup(settings) as setup:
        server = setup.mailbox()
        if server is None:
            raise ProbeFailed("no server is set")
        try:
            await check_mailbox(server, tokens=setup.tokens_of(server))
        except MailboxUnavailable as error:
            raise ProbeFailed(str(error)) from None
    return f"{server.host} opens the folder {visible_line(server.folder)}"


async def _public_url(settings: ServerSettings) -> str:
    async with _client() as client:
        answer = await client.get(f"{settings.base_url}/readyz")
    try:
        is_ready = answer.status_code == httpx2.codes.OK and answer.json() == _READY
    except ValueError:
        is_ready = False
    if not is_ready:
        raise ProbeFailed(
            f"{settings.base_url}/readyz answers {answer.status_code}, and not as a Handraise server that is ready"
        )
    return f"a server is ready at {settings.base_url}"


async def _proxy_in_front(settings: ServerSettings) -> str:
    if not settings.trusted_proxies:
        raise ProbeFailed(
            "HANDRAISE_TRUSTED_PROXIES is not set, so every client seems to have the address of what ends TLS"
        )
    return f"{settings.trusted_proxies} may say which address a client has"


def outgoing_proxy() -> str | None:
    """The proxy for requests to other services, as `HTTPS_PROXY` or `ALL_PROXY` says."""
    found = getproxies()
    return found.get("https") or found.get("all")


def _destination(settings: ServerSettings) -> str | None:
    """A service that is reached through the proxy, as `host:port`."""
    services = (
        settings.oidc_issuer,
        settings.slack_api_url if settings.slack_bot_token else None,
        settings.teams_login_url if settings.teams_app_id else None,
        settings.telegram_api_url if settings.telegram_bot_token else None,
    )
    for service in services:
        place = urlsplit(service or "")
        if place.scheme == "https" and place.hostname and not proxy_bypass(place.hostname):
            return f"{place.hostname}:{place.port or 443}"
    return None


async def _proxy(url: str, destination: str | None) -> str:
    """Open a tunnel through the proxy, as a request would, and send nothing through it."""
    proxy = urlsplit(url if "://" in url else f"http://{url}")
    if proxy.scheme not in ("http", "https") or proxy.hostname is None:
        raise ProbeFailed(f"a proxy of the kind {proxy.scheme!r} is not supported: use http:// or https://")
    port = proxy.port or (443 if proxy.scheme == "https" else 80)
    reader, writer = await asyncio.open_connection(
        proxy.hostname, port, ssl=httpx2.create_ssl_context() if proxy.scheme == "https" else None
    )
    try:
        if destination is None:
            return f"{proxy.hostname}:{port} accepts connections; no service that is set up is reached through it"
        user = f"{unquote(proxy.username or '')}:{unquote(proxy.password or '')}".encode()
        sign_in = f"Proxy-Authorization: Basic {b64encode(user).decode()}\r\n" if proxy.username else ""
        writer.write(f"CONNECT {destination} HTTP/1.1\r\nHost: {destination}\r\n{sign_in}\r\n".encode())
        await writer.drain()
        answer = (await reader.readline()).decode("latin-1").split(" ", 2)
    finally:
        writer.close()
    if answer[1:2] != ["200"]:
        said = " ".join(answer[1:]).strip() or "nothing"
        raise ProbeFailed(f"{proxy.hostname}:{port} opens no connection to {destination}: it says {said}")
    return f"{proxy.hostname}:{port} leads to {destination}"


def _other_clock(settings: ServerSettings) -> str | None:
    """An address whose answers say what time it is there."""
    slack = None if settings.slack_bot_token is None else settings.slack_api_url
    return settings.oidc_issuer or slack or settings.public_url


async def _clock(address: str) -> str:
    async with _client() as client:
        began = time.time()
        answer = await client.get(address)
        here = (began + time.time()) / 2
    try:
        there = parsedate_to_datetime(answer.headers["date"]).timestamp()
    except (KeyError, ValueError):
        return f"{address} does not say what time it is"
    ahead = here - there
    if abs(ahead) > _CLOCK_TOLERANCE:
        raise ProbeFailed(
            f"this machine's is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} {address}"
        )
    return f"this machine's and that of {address} are the same"


@asynccontextmanager
async def _client() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=_WITHIN, follow_redirects=False) as client:
        yield client
