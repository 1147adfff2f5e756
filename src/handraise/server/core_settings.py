"""The settings of a server's store, of its HTTP, and of how people sign in. `settings` has those of channels too."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pydantic
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from handraise.desk_factory import default_address
from handraise.server.setting_types import (
    Address,
    AdminEmails,
    AdminGroups,
    GroupNames,
    Issuer,
    Language,
    OidcClient,
    Origin,
    Proxies,
    Rate,
    ReceiptKeyFallbacks,
    Seconds,
    SecretFallbacks,
    TimeZone,
)
from handraise.server.setting_variables import PREFIX, SettingVariables


class CoreSettings(BaseSettings):
    """The settings that every server has; each field's description is its line in the documentation."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, extra="ignore", frozen=True, hide_input_in_errors=True
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments go before variables."""
        del env_settings, dotenv_settings, file_secret_settings
        return init_settings, SettingVariables(settings_cls)

    url: str = pydantic.Field(
        default_factory=default_address,
        repr=False,
        description="where the store is: `sqlite:///file.db` or `postgresql://…`",
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
        description="pending questions that one agent may have in a workspace; 0 for any number. Quotas of a workspace override it",
    )
    daily_bytes: int = pydantic.Field(
        default=1_000_000_000,
        ge=0,
        description="bytes of requests that one agent may send to this process in a day; 0 for any number",
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
    receipt_key_fallbacks: ReceiptKeyFallbacks = pydantic.Field(
        default=(),
        description="files with the public keys (`.pub`) of other keys whose receipts are accepted while the key is replaced, as JSON",
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
    secret_fallbacks: SecretFallbacks = pydantic.Field(
        default=(),
        description="other secrets that are accepted while the secret is replaced, as JSON; nothing is signed with them",
    )
    oidc_issuer: Issuer | None = pydantic.Field(
        default=None, description="the OIDC provider that people sign in with"
    )
    oidc_client_id: OidcClient = pydantic.Field(
        default=None, validate_default=True, description="your client id at that provider"
    )
    oidc_client_secret: pydantic.SecretStr | None = pydantic.Field(
        default=None, description="your client secret at that provider"
    )
    oidc_scopes: Annotated[str, pydantic.Field(pattern=r"^(.* )?openid( .*)?$", max_length=500)] = (
        pydantic.Field(
            default="openid email profile", description="the scopes that are asked of that provider"
        )
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
    oidc_groups_claim: Annotated[str, pydantic.Field(min_length=1, max_length=200)] | None = pydantic.Field(
        default=None, description="the claim in which the provider lists a person's groups, such as `groups`"
    )
    oidc_groups: GroupNames = pydantic.Field(
        default={},
        description='your groups by the groups of the provider, as JSON: `{"Finance": "finance"}`; others give nothing',
    )
    oidc_admin_groups: AdminGroups = pydantic.Field(
        default=(),
        description='the groups of the provider whose people are administrators, as JSON: `["Handraise admins"]`',
    )
    oidc_max_age_hours: Annotated[float, pydantic.Field(gt=0, le=9_600)] | None = pydantic.Field(
        default=None,
        description="how long ago a person may have signed in at the provider; then they must do so again. "
        "The provider must give `auth_time`",
    )
    admin_emails: AdminEmails = pydantic.Field(
        default=(),
        description='the verified e-mail addresses of administrators who sign in with OIDC, as JSON: `["ann@example.com"]`; '
        "then the server makes no first sign-in link",
    )
