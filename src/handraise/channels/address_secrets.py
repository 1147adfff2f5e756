"""Which addresses may be shown: those that only name a person or a room of a service."""

from __future__ import annotations

from handraise.model.json_values import Json

PUBLIC_PARTS = {
    "email": ("address",),
    "slack": ("user", "channel"),
    "discord": ("user", "channel"),
    "teams": ("user", "conversation"),
    "telegram": ("chat",),
}
"""The parts that name a person or a room of a channel. All other addresses may be secret."""


def may_be_secret(channel: str, to: Json) -> bool:
    """Whether an address may hold anything besides the name of a person or a room."""
    return not (isinstance(to, dict) and to and to.keys() <= {*PUBLIC_PARTS.get(channel, ())})
