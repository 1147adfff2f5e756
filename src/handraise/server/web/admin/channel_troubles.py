"""Channels through which messages are being tried again: they have not failed yet, and still nobody gets them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from handraise.model.deliveries import Delivery
from handraise.server.context import ServerContext

MOST_RETRIED = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What is wrong with a channel. `since` is when the oldest of its messages was made."""

    channel: str
    number: int
    since: datetime
    problem: str
    """What the last try said, as the channel said it."""


async def troubles_of(ctx: ServerContext, workspace: str) -> dict[str, Trouble]:
    """The channels that have messages to try again, the one with the most first."""
    by_channel: dict[str, list[Delivery]] = {}
    for each in await ctx.outbox.retrying(workspace, limit=MOST_RETRIED):
        by_channel.setdefault(each.channel, []).append(each)
    found = [_trouble(channel, deliveries) for channel, deliveries in by_channel.items()]
    return {each.channel: each for each in sorted(found, key=lambda each: -each.number)}


def _trouble(channel: str, deliveries: Sequence[Delivery]) -> Trouble:
    return Trouble(
        channel=channel,
        number=len(deliveries),
        since=deliveries[0].created_at,
        problem=deliveries[-1].problem or "",
    )
