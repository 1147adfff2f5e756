"""The settings of a server, read from the environment: `HANDRAISE_` and the name in capitals."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pydantic

from handraise.model.identities import fold_email
from handraise.presentation.translation import Locale
from handraise.server.channel_setting_types import (
    AppriseSchemes,
    CallbackHosts,
    ChannelOpeners,
    DiscordPublicKey,
    ImapServer,
    Mailbox,
    MailSecret,
    MailSender,
    MicrosoftAddress,
    Networks,
    NtfyNetworks,
    PushContact,
    SlackAppToken,
    SlackBotToken,
    SmtpServer,
    TeamsApp,
    TeamsSecret,
    TeamsService,
    TeamsTenant,
    TelegramSecret,
    TelegramToken,
)
from handraise.server.core_settings import CoreSettings
from handraise.server.mail_setting_types import (
    ApiUrl,
    GoogleAccount,
    OAuthClient,
    OAuthSecret,
    SesRegion,
    TokenUrl,
)
from handraise.server.setting_types import AuditWitnesses, Seconds

AUDIT_FILE = "audit.heads"
"""The name of the file beside the audit key."""


class ServerSettings(CoreSettings):
    """The settings of a server; each field's description is its line in the documentation."""

    webhooks: bool = pydantic.Field(
        default=False, description="notify systems of questions by signed webhooks, and accept their answers"
    )
    webhook_allow_private: Networks = pydantic.Field(
        default=(),
        description='private networks that webhooks may reach, also over plain http, as JSON: `["10.1.0.0/16"]`',
    )
    callback_hosts: CallbackHosts = pydantic.Field(
        default=(),
        description='the hosts at which agents may have themselves called back by webhook, as JSON: `["agents.example.com"]`; '
        "`*` is every host",
    )
    slack_bot_token: SlackBotToken | None = pydantic.Field(
        default=None, description="your bot's token at Slack (`xoxb-…`): turns Slack on"
    )
    slack_signing_secret: pydantic.SecretStr | None = pydantic.Field(
        default=None, description="the secret that Slack signs its requests with, to receive events over HTTP"
    )
    slack_app_token: SlackAppToken = pydantic.Field(
        default=None,
        validate_default=True,
        description="your app's token at Slack (`xapp-…`), to receive events over Socket Mode",
    )
    slack_api_url: str = pydantic.Field(
        default="https://slack.com/api", description="the URL of Slack's API; GovSlack has another one"
    )
    telegram_bot_token: TelegramToken | None = pydantic.Field(
        default=None, description="your bot's token at Telegram (`123456:ABC…`): turns Telegram on"
    )
    telegram_webhook_secret: TelegramSecret | None = pydantic.Field(
        default=None,
        description="the secret that Telegram sends with each request, to receive updates over HTTP; without it, the server polls",
    )
    telegram_api_url: str = pydantic.Field(
        default="https://api.telegram.org",
        description="the URL of Telegram's Bot API; change it for a server of your own",
    )
    discord_bot_token: pydantic.SecretStr | None = pydantic.Field(
        default=None, description="your bot's token at Discord: turns Discord on"
    )
    discord_public_key: DiscordPublicKey = pydantic.Field(
        default=None,
        validate_default=True,
        description="your application's public key at Discord, to verify its requests",
    )
    discord_api_url: str = pydantic.Field(
        default="https://discord.com/api/v10", description="where Discord's API is"
    )
    teams_app_id: TeamsApp | None = pydantic.Field(
        default=None, description="your bot's app id at Microsoft Teams: turns Teams on"
    )
    teams_app_secret: TeamsSecret = pydantic.Field(
        default=None, validate_default=True, description="the client secret of that app"
    )
    teams_tenant: TeamsTenant = pydantic.Field(
        default=None, validate_default=True, description="the id of the tenant that the bot belongs to"
    )
    teams_workspace: str = pydantic.Field(
        default="default",
        description="the workspace of the questions that people answer by typing in Teams",
    )
    teams_service_urls: tuple[TeamsService, ...] = pydantic.Field(
        default=(),
        description="connectors besides `https://smba.trafficmanager.net` that may see the bot's token, as JSON; "
        "the first is the usual one",
    )
    teams_login_url: MicrosoftAddress = pydantic.Field(
        default="https://login.microsoftonline.com",
        description="the URL that issues the bot's token; government clouds have another one",
    )
    teams_issuer: MicrosoftAddress = pydantic.Field(
        default="https://api.botframework.com",
        description="the issuer of the tokens in requests from Teams; government clouds have another one",
    )
    teams_metadata_url: MicrosoftAddress = pydantic.Field(
        default="https://login.botframework.com/v1/.well-known/openidconfiguration",
        description="the URL of the keys for those tokens; government clouds have another one",
    )
    teams_graph_url: ApiUrl = pydantic.Field(
        default="https://graph.microsoft.com/v1.0",
        description="the URL of Microsoft Graph, where people are found by their e-mail address; government clouds have another one",
    )
    email_transport: Literal["smtp", "graph", "ses"] = pydantic.Field(
        default="smtp",
        description="how mails go out: `smtp`, `graph` for Microsoft Graph, or `ses` for Amazon SES; the last two turn e-mail on",
    )
    email_smtp_url: SmtpServer | None = pydantic.Field(
        default=None,
        description="the mail server to send through: `smtps://user:password@host`, or `smtp://…` with STARTTLS; without a "
        "password, the user signs in with a token",
    )
    email_from: MailSender = pydantic.Field(
        default=None,
        validate_default=True,
        description="the sender of that mail: `Handraise <desk@example.com>`",
    )
    email_reply_to: Mailbox | None = pydantic.Field(
        default=None,
        description="the mailbox for replies, `reply@example.com`; they come to `reply+code@example.com`",
    )
    email_imap_url: ImapServer | None = pydantic.Field(
        default=None,
        description="the server to read that mailbox from: `imaps://user:password@host`; without a password, the user signs in "
        "with a token",
    )
    email_inbound_secret: MailSecret = pydantic.Field(
        default=None,
        validate_default=True,
        description="the secret (`whsec_…`) that signs replies which a mail server posts here instead",
    )
    email_authserv_id: str | None = pydantic.Field(
        default=None,
        description="the receiving server's name in `Authentication-Results`; then only mails that it found genuine count",
    )
    email_oauth_service_account: GoogleAccount | None = pydantic.Field(
        default=None,
        description="the JSON key of a service account of Google that may act for the users of these servers",
    )
    email_oauth_token_url: TokenUrl = pydantic.Field(
        default=None,
        validate_default=True,
        description="the address that issues tokens for mail: `https://login.microsoftonline.com/TENANT/oauth2/v2.0/token`",
    )
    email_oauth_client_id: OAuthClient = pydantic.Field(
        default=None, validate_default=True, description="the id of the application that gets these tokens"
    )
    email_oauth_refresh_token: pydantic.SecretStr | None = pydantic.Field(
        default=None,
        description="a refresh token of the mailbox, if the application may not act in its own name",
    )
    email_oauth_client_secret: OAuthSecret = pydantic.Field(
        default=None, validate_default=True, description="the secret of that application"
    )
    email_oauth_scope: str | None = pydantic.Field(
        default=None,
        description="the scope of tokens for SMTP and IMAP; `https://outlook.office365.com/.default` if the application acts in "
        "its own name, `https://mail.google.com/` for a service account, otherwise that of the refresh token",
    )
    email_graph_url: ApiUrl = pydantic.Field(
        default="https://graph.microsoft.com/v1.0",
        description="the URL of Microsoft Graph; government clouds have another one",
    )
    email_ses_region: SesRegion = pydantic.Field(
        default=None,
        validate_default=True,
        description="the region of Amazon SES, such as `eu-central-1`; credentials are found as AWS's own tools do",
    )
    email_ses_url: ApiUrl | None = pydantic.Field(
        default=None, description="the URL of Amazon SES, if requests go to an endpoint of your own network"
    )
    email_ses_configuration_set: str | None = pydantic.Field(
        default=None, description="the configuration set that mails are sent with"
    )
    push_contact: PushContact | None = pydantic.Field(
        default=None,
        description="turns web push on: the contact for push services, as `mailto:ops@example.com`; needs the secret",
    )
    push_answers: bool = pydantic.Field(
        default=False,
        description="shows short yes-or-no questions and actions of low risk in push notifications, with buttons that answer them",
    )
    push_allow_private: Networks = pydantic.Field(
        default=(), description="private networks with push services of your own, as JSON"
    )
    ntfy_url: str | None = pydantic.Field(
        default=None, description="turns ntfy on: the server with the topics, such as `https://ntfy.sh`"
    )
    ntfy_token: pydantic.SecretStr | None = pydantic.Field(
        default=None, description="your access token there (`tk_…`), if topics are protected"
    )
    ntfy_allow_private: NtfyNetworks = pydantic.Field(
        default=(),
        validate_default=True,
        description="private networks with an ntfy server of your own, also over plain http, as JSON",
    )
    apprise_schemes: AppriseSchemes = pydantic.Field(
        default=(),
        description='turns Apprise on: the services that addresses may name, as JSON: `["tgram", "pover"]`',
    )
    apprise_allow_private: Networks = pydantic.Field(
        default=(), description="private networks that Apprise may reach, as JSON"
    )
    channels: ChannelOpeners | None = pydantic.Field(
        default=None, description="your own channels, separated by commas: `my_module:open_mine`"
    )
    audit_witness_interval: Seconds = pydantic.Field(
        default=3_600.0,
        description="how often a witness of the audit trail gets the newest head of a workspace at most, in seconds",
    )
    audit_witness_allow_private: tuple[pydantic.IPvAnyNetwork, ...] = pydantic.Field(
        default=(),
        description="private networks with witnesses, also over plain http, as JSON",
    )
    audit_timestamps: Path | None = pydantic.Field(
        default=None,
        description="the file that timestamps of `rfc3161+https://…` witnesses are added to; it must exist",
    )
    audit_witnesses: AuditWitnesses = pydantic.Field(
        default=(),
        repr=False,
        description='who gets the heads of the audit trail, as JSON: `["file:///mnt/witness/heads.jsonl"]`; also `https://…`, '
        "`mailto:…` and `rfc3161+https://…`",
    )
    log_format: Literal["json", "console"] | None = pydantic.Field(
        default=None, description="`json` or `console`; by default `console` at a terminal"
    )
    log_level: Literal["debug", "info", "warning", "error"] = pydantic.Field(
        default="info", description="the lowest level that is logged: `debug`, `info`, `warning` or `error`"
    )
    otel: bool = pydantic.Field(
        default=False,
        description="send traces and metrics to the address in the `OTEL_EXPORTER_OTLP_…` variables",
    )

    @property
    def secret_keys(self) -> tuple[bytes, ...]:
        """The secret, then the earlier ones; empty if there is no secret."""
        secrets = (self.secret, *self.secret_fallbacks) if self.secret else ()
        return tuple(each.get_secret_value().encode() for each in secrets)

    @property
    def audit_file(self) -> Path | None:
        """The file that records what the audit key signed and what witnesses were sent.

        By default it is next to the key, so that the next key in that folder continues it.
        """
        beside = None if self.audit_key is None else self.audit_key.with_name(AUDIT_FILE)
        return self.audit_heads or beside

    @property
    def sends_mail(self) -> bool:
        """Whether e-mail is on."""
        return self.email_transport != "smtp" or self.email_smtp_url is not None

    def may_join(self, workspace: str, name: str) -> bool:
        """Whether this is the name of somebody who may sign in without an invitation."""
        domains = {domain.lower() for domain in self.oidc_join} if workspace == self.oidc_workspace else set()
        return "@" in name and name == name.lower() and name.rpartition("@")[2] in domains

    def is_admin_email(self, email: str) -> bool:
        """Whether this is the address of somebody who administers when they sign in with OIDC."""
        return fold_email(email) in {fold_email(each) for each in self.admin_emails}

    @property
    def base_url(self) -> str:
        """How people reach the server, without a slash at the end."""
        return self.public_url.rstrip("/") if self.public_url else self.listening_url

    @property
    def listening_url(self) -> str:
        """The address on which the server itself listens, without any proxy in front of it."""
        # A server that listens on 0.0.0.0 can be reached at 127.0.0.1; no browser opens 0.0.0.0.
        host = "localhost" if self.host in ("0.0.0.0", "::", "") else self.host  # noqa: S104 -- not bound here
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def is_exposed(self) -> bool:
        """Whether keys and sessions could be read in transit: over a network, without TLS."""
        return (
            not self.is_https and self.host not in ("localhost", "::1") and not self.host.startswith("127.")
        )

    @property
    def locale(self) -> Locale:
        """How people read who chose nothing, as far as nothing else is known."""
        return Locale(self.language, self.time_zone)

    @property
    def is_https(self) -> bool:
        """Whether people reach it over TLS, so that cookies may require it."""
        return self.base_url.startswith("https:")
