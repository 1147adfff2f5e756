"""Signatures of webhooks, as Standard Webhooks says.

Written by hand, because the reference library has one secret, and fails in several ways on what it cannot read.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence

_SECRET = "whsec_"  # noqa: S105 -- how they all begin
_SECRET_BYTES = range(24, 65)
_ID = re.compile(r"[!-\-/-~]{1,200}")
"""Visible and without a full stop, which separates what is signed."""
_MOMENT = re.compile(r"[0-9]{1,12}")
_TOLERANCE = 300.0
_MOST_SIGNATURES = 10


def signed(name: str, body: bytes, secrets: Sequence[bytes], *, now: float) -> dict[str, str]:
    """The three headers of Standard Webhooks, with a signature for each secret."""
    moment = str(int(now))
    signatures = (base64.b64encode(_signature(name, moment, body, each)).decode() for each in secrets)
    return {
        "webhook-id": name,
        "webhook-timestamp": moment,
        "webhook-signature": " ".join(f"v1,{each}" for each in signatures),
    }


def is_fresh(headers: Mapping[str, str], *, now: float) -> bool:
    """Whether a request says that it was made just now."""
    name, moment = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    readable = _ID.fullmatch(name) and _MOMENT.fullmatch(moment)
    return readable is not None and abs(now - int(moment)) <= _TOLERANCE


def genuine(headers: Mapping[str, str], body: bytes, secrets: Sequence[bytes], *, now: float) -> bool:
    """Whether a request was signed with one of these secrets, just now."""
    if not is_fresh(headers, now=now):
        return False
    name, moment = headers["webhook-id"], headers["webhook-timestamp"]
    expected = [base64.b64encode(_signature(name, moment, body, each)) for each in secrets]
    given = headers.get("webhook-signature", "").split(" ")[:_MOST_SIGNATURES]
    found = [
        hmac.compare_digest(each.removeprefix("v1,").encode(), one)
        for each in given
        for one in expected
        if each.startswith("v1,")
    ]
    return any(found)


def secret_bytes(secret: str) -> bytes | None:
    """The bytes of a `whsec_…`, or None if it is not one, or is one that could be guessed."""
    if not secret.startswith(_SECRET):
        return None
    text = secret.removeprefix(_SECRET)
    try:
        found = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
    return found if len(found) in _SECRET_BYTES else None


def _signature(name: str, moment: str, body: bytes, secret: bytes) -> bytes:
    return hmac.new(secret, f"{name}.{moment}.".encode() + body, hashlib.sha256).digest()
