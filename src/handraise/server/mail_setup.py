"""E-mail as the settings say: how mails go out, who signs in with tokens, and the channel."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import httpx2
import pydantic

from handraise.channels import Replies
from handraise.channels.email.server_urls import MailServer, read_sender, read_server
from handraise.channels.email.transport import MailTransport
from handraise.channels.oauth_tokens import (
    AccessTokens,
    ClientCredentials,
    Grant,
    RefreshToken,
    ServiceAccount,
)
from handraise.model.webhook_signatures import secret_bytes
from handraise.ports.channel import Channel
from handraise.server.mail_setting_types import read_google_key
from handraise.server.settings import ServerSettings

_TIMEOUT = httpx2.Timeout(20.0, connect=5.0)
_MICROSOFT_SCOPE = "https://outlook.office365.com/.default"
_GOOGLE_SCOPE = "https://mail.google.com/"


class MailSetup:
    """What the settings say about mail, and the tokens that several parts of it share."""

    def __init__(self, settings: ServerSettings, client: httpx2.AsyncClient) -> None:
        self._settings = settings
        self._client = client
        self._tokens: dict[tuple[str | None, str | None], AccessTokens] = {}
        self._refresh: Grant | None = None

    @property
    def sender(self) -> str:
        """The address that mails come from."""
        return read_sender(self._settings.email_from or "").addr_spec

    def transport(self) -> MailTransport:
        """How mails go out. The settings turn e-mail on."""
        settings = self._settings
        match settings.email_transport:
            case "graph":
                from handraise.channels.email.graph import GraphTransport, graph_scope  # noqa: PLC0415 -- as below

                tokens = self._tokens_for(None, graph_scope(settings.email_graph_url))
                return GraphTransport(self._client, tokens, url=settings.email_graph_url)
            case "ses":
                from handraise.channels.email.ses import SesTransport  # noqa: PLC0415 -- an extra

                return SesTransport(
                    self._client,
                    region=settings.email_ses_region or "",
                    url=settings.email_ses_url,
                    configuration_set=settings.email_ses_configuration_set,
                )
            case "smtp":
                from handraise.channels.email.smtp import SmtpRelay  # noqa: PLC0415 -- only where it is wanted

                server = read_server(_bare(settings.email_smtp_url) or "", "smtp")
                return SmtpRelay(server, tokens=self.tokens_of(server))

    def mailbox(self) -> MailServer | None:
        """The server that replies are read from."""
        url = _bare(self._settings.email_imap_url)
        return None if url is None else read_server(url, "imap")

    def tokens_of(self, server: MailServer | None) -> AccessTokens | None:
        """The tokens that the user of a mail server signs in with, if it has no password."""
        if server is None or not server.takes_tokens:
            return None
        return self._tokens_for(server.user, self._settings.email_oauth_scope)

    def _tokens_for(self, user: str | None, scope: str | None) -> AccessTokens:
        settings = self._settings
        key = _bare(settings.email_oauth_service_account)
        place: tuple[str | None, str | None]
        if key is not None:
            account, scope = read_google_key(key), scope or _GOOGLE_SCOPE
            url, place, asked = account.token_uri, (user, scope), None
            grant: Grant = ServiceAccount(account.client_email, account.private_key, url, user or "", scope)
        else:
            url, grant = settings.email_oauth_token_url or "", self._grant()
            asked = scope or (_MICROSOFT_SCOPE if isinstance(grant, ClientCredentials) else None)
            place = (None, asked)
        if place not in self._tokens:
            self._tokens[place] = AccessTokens(
                self._client, grant, token_url=url, scope=asked, issuer=urlsplit(url).hostname or ""
            )
        return self._tokens[place]

    def _grant(self) -> Grant:
        settings = self._settings
        name, secret = settings.email_oauth_client_id or "", _bare(settings.email_oauth_client_secret)
        refresh = _bare(settings.email_oauth_refresh_token)
        if refresh is None:
            return ClientCredentials(name, secret or "")
        # One for all scopes: what a server gives instead of it replaces it for all of them.
        self._refresh = self._refresh or RefreshToken(name, secret, refresh)
        return self._refresh


@asynccontextmanager
async def open_mail_setup(settings: ServerSettings) -> AsyncIterator[MailSetup]:
    """What is needed to send and to read mail, for as long as this context lasts."""
    async with httpx2.AsyncClient(timeout=_TIMEOUT, follow_redirects=False) as client:
        yield MailSetup(settings, client)


@asynccontextmanager
async def open_mail_channel(settings: ServerSettings, replies: Replies) -> AsyncIterator[Channel]:
    """Open e-mail; the settings are valid."""
    from handraise.channels.email.channel import open_email  # noqa: PLC0415 -- only where it is wanted

    inbound = _bare(settings.email_inbound_secret)
    async with open_mail_setup(settings) as setup:
        mailbox = setup.mailbox()
        opened = open_email(
            replies,
            transport=setup.transport(),
            sender=read_sender(settings.email_from or ""),
            host=urlsplit(settings.base_url).hostname or "",
            reply_to=settings.email_reply_to,
            keys=settings.secret_keys,
            imap=mailbox,
            imap_tokens=setup.tokens_of(mailbox),
            inbound_secret=None if inbound is None else secret_bytes(inbound),
            authserv_id=settings.email_authserv_id,
        )
        async with opened as channel:
            yield channel


def _bare(secret: pydantic.SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()
