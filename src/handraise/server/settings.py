"""The settings of a server, read from the environment: `HANDRAISE_` and the name in capitals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pydantic
from pydantic_settings import BaseSettings, SettingsConfigDict

from handraise.desk_factory import default_address
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
from handraise.server.setting_types import Address, Issuer, Language, Origin, Proxies, Rate, Seconds, TimeZone
from handraise.server.witness_addresses import read_witness_address

SHORTEST_SECRET = 32
"""The shortest secret for signing OIDC sign-ins, in characters."""
PREFIX = "HANDRAISE_"
"""The prefix of every variable."""
_AUDIT_FILE = "audit.heads"


class ServerSettings(BaseSettings):
    """The settings of a server; each field's description is its line in the documentation."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, extra="ignore", frozen=True, hide_input_in_errors=True
    )

    url: str = pydantic.Field(
        default_factory=default_address,
        repr=False,
        description="where the store is: `sqlite:///file.db`, `postgresql://…` or `postgresql+shards://…`",
    )
    listen_url: str | None = pydantic.Field(
        default=None,
        repr=False,
        description="the address of PostgreSQL without the pooler, for the listener and for migrations",
    )
    bus: str | None = pydantic.Field(
        default=None,
        repr=False,
        description="what carries wake-ups between processes instead of the store: `nats://host:4222`",
    )
    files: str | None = pydantic.Field(
        default=None,
        repr=False,
        description="where the bytes of attached files are: a folder that all servers share, or object storage "
        "such as `s3://bucket/prefix`; otherwise in the database",
    )
    host: str = pydantic.Field(default="127.0.0.1", description="the address to listen on")
    port: int = pydantic.Field(default=8765, ge=0, le=65_535, description="the port to listen on")
    public_url: Address | None = pydantic.Field(
        default=None,
        description="the URL by which people reach the server, for links and `question.url`; `http://host:port` if not set",
    )
    workspace: Annotated[str, pydantic.Field(min_length=1, max_length=200)] = pydantic.Field(
        default="default", description="the workspace whose first administrator gets a link at the start"
    )
    admin: Annotated[str, pydantic.Field(min_length=1, max_length=200)] = pydantic.Field(
        default="admin", description="the name of that first administrator"
    )
    language: Language = pydantic.Field(
        default="en",
        description="the language for people who chose none and whose browser prefers no available one: `en` or `de`",
    )
    time_zone: TimeZone = pydantic.Field(
        default="UTC",
        description="the time zone for people who chose none and whose browser reports none, such as `Europe/Berlin`",
    )
    connections: int = pydantic.Field(
        default=8,
        ge=2,
        description="the most connections of one process to PostgreSQL, its listener included",
    )
    poll_interval: Seconds = pydantic.Field(
        default=1.0,
        description="how long a lost wake-up may go unnoticed, and the time between sweeps, in seconds",
    )
    heartbeat: Seconds = pydantic.Field(
        default=15.0, description="seconds between keep-alive messages on an event stream"
    )
    longest_wait: Seconds = pydantic.Field(
        default=300.0, description="the longest that a long poll may wait, in seconds"
    )
    rate_limit: Rate = pydantic.Field(
        default="200/second", description="requests that one key or session may make"
    )
    sign_in_limit: Rate = pydantic.Field(
        default="30/minute", description="invalid credentials that one network address may send"
    )
    stream_limit: int = pydantic.Field(
        default=1_000,
        ge=0,
        description="event streams and long polls that one key or session may have open in a process; "
        "0 for a quarter of what the process may have open, which is the most in any case",
    )
    workspace_stream_limit: int = pydantic.Field(
        default=20_000,
        ge=0,
        description="the same for a whole workspace; 0 for three quarters",
    )
    connection_limit: int = pydantic.Field(
        default=10_000,
        ge=0,
        description="connections that one network address may have open in a process, except trusted proxies; "
        "0 for half of what the process may have open, which is the most in any case",
    )
    workers: int = pydantic.Field(
        default=1,
        ge=1,
        le=64,
        description="how many processes serve at the same port; each counts its limits and its metrics for itself",
    )
    busy_limit: int = pydantic.Field(
        default=2_000,
        ge=1,
        description="requests that one process serves at a time, without streams and long polls that only wait; "
        "more are refused, and told when to come again",
    )
    head_seconds: Seconds = pydantic.Field(
        default=20.0, description="how long the headers of a request may take to arrive"
    )
    body_limit: int = pydantic.Field(
        default=524_288, ge=1024, description="the largest body of a request, in bytes"
    )
    pending_quota: int = pydantic.Field(
        default=1_000,
        ge=0,
        description="pending questions that one agent may have in a workspace; 0 for any number",
    )
    check_recipients: bool = pydantic.Field(
        default=True,
        description="refuse questions to unknown people and groups, in workspaces that have people",
    )
    session_days: Annotated[float, pydantic.Field(gt=0, le=400)] = pydantic.Field(
        default=30.0, description="how long a person stays signed in"
    )
    link_hours: Annotated[float, pydantic.Field(gt=0, le=8_760)] = pydantic.Field(
        default=48.0, description="how long an invitation or sign-in link works"
    )
    archive_after_days: Annotated[float, pydantic.Field(ge=0, le=36_500)] = pydantic.Field(
        default=7.0,
        description="how long a settled question stays in the same table as pending ones on PostgreSQL, before it is archived",
    )
    keep_settled_days: Annotated[float, pydantic.Field(ge=0, le=36_500)] | None = pydantic.Field(
        default=None,
        description="how long settled questions of every workspace are kept; forever if not set",
    )
    audit_key: Path | None = pydantic.Field(
        default=None,
        description="the file with the key that signs the seals of the audit trail; they are unsigned if not set",
    )
    audit_heads: Path | None = pydantic.Field(
        default=None,
        description="the file that records what the key signed last and what witnesses were sent; `audit.heads` in the key's "
        "folder if not set",
    )
    receipt_key: Path | None = pydantic.Field(
        default=None,
        description="the file with the key that signs receipts of approvals; there are none if not set",
    )
    seal_interval: Seconds = pydantic.Field(
        default=10.0, description="how long events may wait before they are sealed, in seconds"
    )
    embed_origins: tuple[Origin, ...] = pydantic.Field(
        default=(),
        description='sites that may show a question in a frame, as JSON: `["https://app.example.com"]`',
    )
    embed_approvals: bool = pydantic.Field(
        default=False, description="let people decide approvals in such a frame, not only in a separate tab"
    )
    trusted_proxies: Proxies = pydantic.Field(
        default="",
        description="addresses of trusted proxies, separated by commas, whose forwarding headers count; none if not set",
    )
    drain_seconds: Annotated[float, pydantic.Field(ge=0, le=600)] = pydantic.Field(
        default=0.0,
        description="how long to keep serving after SIGTERM while `/readyz` returns 503, so that load balancers notice",
    )
    stop_seconds: Seconds = pydantic.Field(
        default=30.0, description="how long running requests may take to finish at shutdown"
    )
    secret: pydantic.SecretStr | None = pydantic.Field(
        default=None,
        description="the secret that signs OIDC sign-ins and links in messages to people; the same for all processes",
    )
    secret_fallbacks: tuple[pydantic.SecretStr, ...] = pydantic.Field(
        default=(),
        description="earlier secrets that are still accepted while the secret is replaced, as JSON; nothing new is signed with them",
    )
    oidc_issuer: Issuer | None = pydantic.Field(
        default=None, description="the OIDC provider that people sign in with"
    )
    oidc_client_id: str | None = pydantic.Field(
        default=None, validate_default=True, description="your client id at that provider"
    )
    oidc_client_secret: pydantic.SecretStr | None = pydantic.Field(
        default=None, description="your client secret at that provider"
    )
    oidc_assume_verified: bool = pydantic.Field(
        default=False,
        description="trust e-mail addresses if the provider does not say whether they are verified",
    )
    oidc_workspace: str = pydantic.Field(
        default="default", description="the workspace for people who sign in with OIDC"
    )
    oidc_join: tuple[str, ...] = pydantic.Field(
        default=(),
        description='e-mail domains whose people may join without an invitation, as JSON: `["example.com"]`',
    )
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
    email_smtp_url: SmtpServer | None = pydantic.Field(
        default=None,
        description="the mail server to send through: `smtps://user:password@host`, or `smtp://…` with STARTTLS",
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
        default=None, description="the server to read that mailbox from: `imaps://user:password@host`"
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
    audit_witnesses: tuple[str, ...] = pydantic.Field(
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

    @pydantic.field_validator("audit_witnesses")
    @classmethod
    def _are_witnesses(cls, texts: tuple[str, ...], info: pydantic.ValidationInfo) -> tuple[str, ...]:
        others = info.data
        allowed = others.get("audit_witness_allow_private", ())
        kinds = {read_witness_address(text, allowed).kind for text in texts}
        if kinds and not (others.get("audit_key") or others.get("audit_heads")):
            raise ValueError("needs HANDRAISE_AUDIT_KEY or HANDRAISE_AUDIT_HEADS, to record what was sent")
        if "mail" in kinds and not others.get("email_smtp_url"):
            raise ValueError("mailto: needs HANDRAISE_EMAIL_SMTP_URL, to send through")
        if "timestamp" in kinds and not others.get("audit_timestamps"):
            raise ValueError("rfc3161+https:// needs HANDRAISE_AUDIT_TIMESTAMPS, to keep timestamps in")
        return texts

    @pydantic.field_validator("oidc_client_id")
    @classmethod
    def _completes_oidc(cls, text: str | None, others: pydantic.ValidationInfo) -> str | None:
        if "oidc_issuer" not in others.data:
            return text  # it is invalid itself
        issuer, secret = others.data["oidc_issuer"], others.data.get("secret")
        if text and not issuer:
            raise ValueError("it is for OIDC sign-in, which also needs HANDRAISE_OIDC_ISSUER")
        if issuer and not text:
            raise ValueError("OIDC sign-in needs it")
        if issuer and len(secret.get_secret_value() if secret else "") < SHORTEST_SECRET:
            raise ValueError(f"OIDC sign-in needs HANDRAISE_SECRET with {SHORTEST_SECRET} characters or more")
        return text

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
        beside = None if self.audit_key is None else self.audit_key.with_name(_AUDIT_FILE)
        return self.audit_heads or beside

    def may_join(self, workspace: str, name: str) -> bool:
        """Whether this is the name of somebody who may sign in without an invitation."""
        domains = {domain.lower() for domain in self.oidc_join} if workspace == self.oidc_workspace else set()
        return "@" in name and name == name.lower() and name.rpartition("@")[2] in domains

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
