"""Microsoft Graph: mails are sent from a mailbox of Microsoft 365, as they are (MIME).

The mailbox is that of the sender. Graph gives every mail an id of its own and does not say which.
"""

from __future__ import annotations

import base64
import re
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2

from handraise.channels.http_errors import Refused, exchange, refusal
from handraise.channels.oauth_tokens import AccessTokens

GRAPH = "https://graph.microsoft.com/v1.0"
_SERVICE = "Microsoft Graph"
_UNAUTHORIZED, _TOO_LARGE = 401, 413
_CODE = re.compile(r"[A-Za-z0-9_.]{1,80}")
_INVALID_MIME = b"~"
_READ_AS_MAIL = frozenset({"ErrorMimeContentInvalidBase64String", "ErrorMimeContentInvalid"})
"""What Graph says to a mail that it may send and cannot read."""
_FINAL = _READ_AS_MAIL | {"ErrorInvalidRecipients", "ErrorMessageSizeExceeded", "ErrorInvalidRequest"}
"""Errors that Graph would repeat for the same mail, however often it is asked."""


def graph_scope(url: str) -> str:
    """The scope of tokens for the API at this address."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/.default"


class GraphTransport:
    """Sends through Microsoft Graph."""

    # A request has 4 MB at most, and files are in base64 twice.
    most_attached = 2_000_000

    def __init__(self, client: httpx2.AsyncClient, tokens: AccessTokens, *, url: str = GRAPH) -> None:
        self._client = client
        self._tokens = tokens
        self._url = url.rstrip("/")

    @property
    def rate_limit_key(self) -> str:
        """The API."""
        return f"email {urlsplit(self._url).netloc.lower()}"

    async def hand_over(self, letter: bytes, *, sender: str, to: str) -> str | None:
        """Send a mail from the sender's mailbox; raises `NotSent`."""
        del to  # Graph reads it in the mail
        await self._send(base64.b64encode(letter), sender)
        return None

    async def check(self, *, sender: str) -> str:
        """Post what is no mail: whoever may send is told that it cannot be read, and nobody else is."""
        try:
            await self._send(_INVALID_MIME, sender)
        except Refused as refused:
            if refused.code not in _READ_AS_MAIL:
                raise
        return f"this application may send as {sender}"

    async def _send(self, content: bytes, sender: str) -> None:
        """Post a mail. If the token is refused, another one is tried once."""
        token = await self._tokens.token()
        try:
            await self._post(content, sender, token)
        except Refused as refused:
            if refused.status != _UNAUTHORIZED:
                raise
            self._tokens.refuse(token)
            await self._post(content, sender, await self._tokens.token())

    async def _post(self, content: bytes, sender: str, token: str) -> None:
        request = self._client.post(
            f"{self._url}/users/{quote(sender, safe='@')}/sendMail",
            content=content,
            headers={"authorization": f"Bearer {token}", "content-type": "text/plain"},
        )
        answer, told = await exchange(request, _SERVICE, "sendMail", may_be_empty=True)
        if answer.is_success:
            return
        code = _code(told)
        why = str(answer.status_code) if code is None else f"{answer.status_code} {code}"
        is_final = code in _FINAL or answer.status_code == _TOO_LARGE
        raise refusal(answer, _SERVICE, "sendMail", why, is_final=is_final, code=code)


def _code(told: dict[str, Any]) -> str | None:
    error = told.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, str) and _CODE.fullmatch(code) else None
