"""Amazon SES (API v2): mails are sent as they are, in requests that are signed (Signature Version 4).

botocore finds the credentials and signs, because roles of containers and machines are what replaces keys, and no small
library for signatures knows how to get and renew them. Requests go out as all others of ours do.
"""

from __future__ import annotations

import asyncio
import base64
import re
from typing import Any
from urllib.parse import urlsplit

import httpx2

from handraise.channels.http_errors import Refused, exchange, refusal
from handraise.channels.payloads import as_json
from handraise.model.errors import MissingExtra
from handraise.model.visible import visible_line
from handraise.ports.channel import NotSent

try:
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session, get_session
except ImportError as error:
    raise MissingExtra("botocore", "ses") from error

_SERVICE = "Amazon SES"
_SIGNED_AS = "ses"
_CREDENTIALS_WITHIN = 20.0
_FIRST_REGION, _ITS_HOST = "us-east-1", "email"
_ID = re.compile(r"[A-Za-z0-9-]{1,200}")
_FINAL = frozenset({"MessageRejected", "BadRequestException"})
"""Errors that SES would repeat for the same mail, however often it is asked."""
_UNVERIFIED = "not verified"
_NOT_ALLOWED = frozenset({"AccessDeniedException", "AccessDenied"})


class SesTransport:
    """Sends through Amazon SES in one region."""

    most_attached = 5_000_000

    def __init__(
        self,
        client: httpx2.AsyncClient,
        *,
        region: str,
        url: str | None = None,
        configuration_set: str | None = None,
        session: Session | None = None,
    ) -> None:
        self._client = client
        self._region = region
        self._url = (url or f"https://email.{region}.amazonaws.com").rstrip("/")
        self._configuration_set = configuration_set
        self._session: Any = session or get_session()

    @property
    def rate_limit_key(self) -> str:
        """The API."""
        return f"email {urlsplit(self._url).netloc.lower()}"

    async def hand_over(self, letter: bytes, *, sender: str, to: str) -> str | None:
        """Send a mail; raises `NotSent`. SES replaces its id and says by which one."""
        body: dict[str, Any] = {
            "FromEmailAddress": sender,
            "Destination": {"ToAddresses": [to]},
            "Content": {"Raw": {"Data": base64.b64encode(letter).decode()}},
        }
        if self._configuration_set is not None:
            body["ConfigurationSetName"] = self._configuration_set
        told = await self._call("POST", "/v2/email/outbound-emails", as_json(body), "SendEmail")
        name = told.get("MessageId")
        if not isinstance(name, str) or not _ID.fullmatch(name):
            return None
        host = _ITS_HOST if self._region == _FIRST_REGION else self._region
        return f"{name}@{host}.amazonses.com"

    async def check(self, *, sender: str) -> str:
        """Read whether the account may send; raises `NotSent`."""
        del sender
        try:
            account = await self._call("GET", "/v2/email/account", b"", "GetAccount")
        except Refused as refused:
            if refused.code not in _NOT_ALLOWED:
                raise
            return "the credentials are valid; whether sending is enabled only ses:GetAccount would show"
        if account.get("SendingEnabled") is not True:
            raise NotSent("sending is paused in this account of Amazon SES")
        if account.get("ProductionAccessEnabled") is not True:
            return "sending is enabled, in the sandbox: only verified recipients are reached"
        return "sending is enabled"

    async def _call(self, method: str, path: str, body: bytes, what: str) -> dict[str, Any]:
        url = f"{self._url}{path}"
        headers = await self._signed(method, url, body)
        request = self._client.request(method, url, content=body, headers=headers)
        answer, told = await exchange(request, _SERVICE, what)
        if answer.is_success:
            return told
        code = answer.headers.get("x-amzn-errortype", "").partition(":")[0]
        said = visible_line(str(told.get("message") or told.get("Message") or ""))
        why = f"{answer.status_code} {code} {said if code in _FINAL else ''}".strip()
        # An address can be verified later.
        is_final = code in _FINAL and _UNVERIFIED not in said
        raise refusal(answer, _SERVICE, what, why, is_final=is_final, code=code)

    async def _signed(self, method: str, url: str, body: bytes) -> dict[str, str]:
        """The headers of a request, with its signature."""
        request = AWSRequest(method=method, url=url, data=body, headers={"content-type": "application/json"})
        try:
            async with asyncio.timeout(_CREDENTIALS_WITHIN):
                credentials = await asyncio.to_thread(self._credentials)
        except TimeoutError:
            raise NotSent("no credentials for Amazon SES in time") from None
        except BotoCoreError as error:
            raise NotSent(f"no credentials for Amazon SES: {type(error).__name__}") from None
        if credentials is None:
            raise NotSent("no credentials for Amazon SES: AWS_ACCESS_KEY_ID is not set, and no role is there")
        SigV4Auth(credentials, _SIGNED_AS, self._region).add_auth(request)
        return dict(request.headers.items())

    def _credentials(self) -> Any:
        """The credentials as they are now. botocore may ask a service for them, and blocks meanwhile."""
        found = self._session.get_credentials()
        return None if found is None else found.get_frozen_credentials()
