"""Subscriptions to web push, without the extra that sends them."""

from __future__ import annotations

import hashlib
from typing import Protocol

from handraise.model.json_values import Json
from handraise.ports.channel import Channel

NAME = "webpush"


class PushChannel(Channel, Protocol):
    """Web push, as far as browsers see it."""

    @property
    def public_key(self) -> str:
        """What a browser needs to subscribe, in base64url."""
        ...

    def accepts(self, to: Json) -> bool:
        """Whether a browser made this, so that a notification can be encrypted for it."""
        ...


def subscription_id(to: Json) -> str:
    """The address id of a subscription."""
    endpoint = to.get("endpoint") if isinstance(to, dict) else ""
    return hashlib.sha256(str(endpoint).encode()).hexdigest()[:32]


def account_of(workspace: str, person: str) -> str:
    """Who a browser works for: the button of a notification answers only in the name of this account."""
    return f"{workspace}/{person}"
