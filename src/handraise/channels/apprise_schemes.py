"""Which of Apprise's services addresses may name: none that reach this machine instead of a person."""

from __future__ import annotations

import re

_SCHEME = re.compile(r"[a-z0-9_-]{1,40}")
_HERE = frozenset(
    {
        "blink1",
        "dbus",
        "gio",
        "glib",
        "gnome",
        "kde",
        "macosx",
        "qt",
        "syslog",
        "windows",
    }
)
"""Services that speak to the desktop, the log or a device of the machine that the server runs on."""
_APART = frozenset({"mqtt", "mqtts", "xmpp", "xmpps"})
"""Services that work in their own threads, where nothing keeps them from reaching what they must not."""


def scheme_problem(scheme: str) -> str | None:
    """Why addresses cannot begin with this, or None if they can."""
    if not _SCHEME.fullmatch(scheme):
        return "expected the beginnings of Apprise URLs without ://, such as tgram"
    if scheme in _HERE:
        return f"{scheme} reaches the machine that the server runs on, and no person"
    if scheme in _APART:
        return f"{scheme} works in threads of its own, where it cannot be kept from private networks"
    return None
