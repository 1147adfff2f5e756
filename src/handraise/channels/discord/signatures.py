"""Whether a request comes from Discord: it signs the bytes and the second at which it sent them."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

_FRESH = 300
_SECONDS = re.compile(r"[0-9]{1,12}", re.ASCII)
_SIGNATURE = re.compile(r"[0-9a-f]{128}", re.ASCII)


def read_key(text: str) -> Ed25519PublicKey:
    """An application's public key as Discord shows it; raises `ValueError`."""
    return Ed25519PublicKey.from_public_bytes(bytes.fromhex(text))


def is_genuine(key: Ed25519PublicKey, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether Discord signed this body for our application within the last five minutes."""
    sent = headers.get("x-signature-timestamp", "")
    given = headers.get("x-signature-ed25519", "")
    if not _SECONDS.fullmatch(sent) or not _SIGNATURE.fullmatch(given):
        return False
    if abs(time.time() - int(sent)) > _FRESH:
        return False
    try:
        key.verify(bytes.fromhex(given), sent.encode() + body)
    except InvalidSignature:
        return False
    return True
