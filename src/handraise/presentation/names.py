"""People, groups, agents and channels by the names that people read."""

from __future__ import annotations

from collections.abc import Sequence

from handraise.model.people import GROUP
from handraise.model.visible import visible_line

_LONGEST_NAME = 80
_CHANNELS = {
    "web": "the inbox",
    "api": "the API",
    "cli": "the terminal",
    "terminal": "the terminal",
    "email": "e-mail",
    "slack": "Slack",
    "telegram": "Telegram",
    "teams": "Teams",
    "discord": "Discord",
    "link": "a link",
    "webhook": "a webhook",
    "webpush": "a notification",
    "ntfy": "ntfy",
    "apprise": "Apprise",
}


def display_name(name: str) -> str:
    """The name of a person or an agent, on one line and not too long."""
    shown = visible_line(name)
    return shown if len(shown) <= _LONGEST_NAME else f"{shown[: _LONGEST_NAME - 1].rstrip()}…"


def person_name(person: str | None, *, viewer: str = "", asker: str | None = None) -> str:
    """A person in a sentence: the `viewer` is "you", and the one who asked "the agent".

    An agent's name is its own word, and stands where a place shows who asked.
    """
    if person is None:
        return "nobody"
    if person == asker:
        return "the agent"
    return "you" if person == viewer else display_name(person)


def recipient_name(name: str, *, viewer: str = "") -> str:
    """A person or a group."""
    if not name.startswith(GROUP):
        return person_name(name, viewer=viewer)
    group = display_name(name.removeprefix(GROUP))
    return f"the group {group}"


def channel_name(channel: str) -> str:
    """A channel as people know it."""
    return _CHANNELS.get(channel, visible_line(channel))


def through(person: str, channel: str | None) -> str:
    """A person with the channel through which they did something."""
    if channel is None:
        return person
    name = channel_name(channel)
    return f"{person} through {name}"


def listed(names: Sequence[str]) -> str:
    """Several names in a sentence."""
    if not names:
        return "nobody"
    *some, last = names
    return f"{', '.join(some)} and {last}" if some else last
