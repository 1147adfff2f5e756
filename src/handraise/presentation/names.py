"""People, groups, agents and channels by the names that people read."""

from __future__ import annotations

from collections.abc import Sequence

from handraise.model.people import GROUP
from handraise.model.rulings import POLICY
from handraise.model.visible import visible_line
from handraise.presentation.translation import gettext, gettext_noop, pgettext

_LONGEST_NAME = 80
_CHANNELS = {
    "web": gettext_noop("the inbox"),
    "api": gettext_noop("the API"),
    "cli": gettext_noop("the terminal"),
    "terminal": gettext_noop("the terminal"),
    "email": gettext_noop("e-mail"),
    "slack": "Slack",
    "telegram": "Telegram",
    "teams": "Teams",
    "discord": "Discord",
    "link": gettext_noop("a link"),
    "webhook": gettext_noop("a webhook"),
    "webpush": gettext_noop("a notification"),
    "ntfy": "ntfy",
    "apprise": "Apprise",
}


def display_name(name: str) -> str:
    """The name of a person or an agent, on one line and not too long."""
    shown = visible_line(name)
    return shown if len(shown) <= _LONGEST_NAME else f"{shown[: _LONGEST_NAME - 1].rstrip()}…"


def person_name(person: str | None, *, viewer: str = "", asker: str | None = None) -> str:
    """A person in a sentence, after "by": the `viewer` is "you", and the one who asked "the agent".

    Agents choose their own names, so a name is only shown where a place shows who asked.
    """
    if person is None:
        return pgettext("done by", "nobody")
    if person.startswith(POLICY):
        rule = display_name(person.removeprefix(POLICY))
        return gettext("the policy, rule “{rule}”").format(rule=rule)
    if person == asker:
        return pgettext("done by", "the agent")
    return pgettext("done by", "you") if person == viewer else display_name(person)


def recipient_name(name: str, *, viewer: str = "") -> str:
    """A person or a group in a sentence, after "for"."""
    if name.startswith(GROUP):
        return gettext("the group {name}").format(name=display_name(name.removeprefix(GROUP)))
    return pgettext("for whom", "you") if name == viewer else display_name(name)


def channel_name(channel: str) -> str:
    """A channel as people know it."""
    known = _CHANNELS.get(channel)
    return visible_line(channel) if known is None else gettext(known)


def through(person: str, channel: str | None) -> str:
    """A person with the channel through which they did something."""
    if channel is None:
        return person
    return gettext("{person} through {channel}").format(person=person, channel=channel_name(channel))


def listed(names: Sequence[str]) -> str:
    """Several names in a sentence."""
    if not names:
        return pgettext("for whom", "nobody")
    *some, last = names
    return gettext("{names} and {last}").format(names=", ".join(some), last=last) if some else last
