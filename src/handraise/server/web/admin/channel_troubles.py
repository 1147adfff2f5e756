"""What is wrong with channels: their messages failed, or are being tried again and nobody may have got them yet."""

from __future__ import annotations

from collections.abc import Mapping

from handraise.ports.outbox import ChannelTrouble
from handraise.presentation.names import channel_name
from handraise.presentation.translation import gettext, grouped, ngettext
from handraise.server.context import ServerContext

MOST_COUNTED = 1_000
"""Of each channel: more messages are shown as this many or more."""


async def failed_by_channel(ctx: ServerContext, workspace: str) -> Mapping[str, ChannelTrouble]:
    """The channels through which messages failed."""
    found = await ctx.outbox.failed_by_channel(workspace, limit=MOST_COUNTED)
    return {each.channel: each for each in found}


async def retried_by_channel(ctx: ServerContext, workspace: str) -> Mapping[str, ChannelTrouble]:
    """The channels through which messages are being tried again."""
    found = await ctx.outbox.retrying_by_channel(workspace, limit=MOST_COUNTED)
    return {each.channel: each for each in found}


def failed_title(trouble: ChannelTrouble) -> str:
    """How many messages failed through a channel."""
    text = ngettext(
        "{count} message through {channel} failed",
        "{count} messages through {channel} failed",
        trouble.number,
    )
    return text.format(count=_count(trouble), channel=channel_name(trouble.channel))


def retried_title(trouble: ChannelTrouble) -> str:
    """How many messages are being tried again through a channel."""
    text = ngettext(
        "{count} message through {channel} is being tried again",
        "{count} messages through {channel} are being tried again",
        trouble.number,
    )
    return text.format(count=_count(trouble), channel=channel_name(trouble.channel))


def failed_badge(trouble: ChannelTrouble) -> str:
    """The same beside the name of the channel."""
    return ngettext("{count} message failed", "{count} messages failed", trouble.number).format(
        count=_count(trouble)
    )


def retried_badge(trouble: ChannelTrouble) -> str:
    """The same beside the name of the channel."""
    return ngettext("{count} tried again", "{count} tried again", trouble.number).format(
        count=_count(trouble)
    )


def _count(trouble: ChannelTrouble) -> str:
    number = grouped(trouble.number)
    return gettext("{count} or more").format(count=number) if trouble.number >= MOST_COUNTED else number
