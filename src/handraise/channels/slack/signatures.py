"""Whether a request comes from Slack: it signs the bytes and the second at which it sent them."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping

_FRESH = 300
_DIGITS = 12


def is_genuine(secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether Slack signed this body with our secret within the last five minutes. It takes equally long either way."""
    sent = headers.get("x-slack-request-timestamp", "")
    given = headers.get("x-slack-signature", "")
    if not (sent.isascii() and sent.isdigit() and len(sent) <= _DIGITS):
        return False
    if abs(time.time() - int(sent)) > _FRESH:
        return False
    made = "v0=" + hmac.new(secret.encode(), f"v0:{sent}:".encode() + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(made.encode(), given.encode(errors="replace"))
