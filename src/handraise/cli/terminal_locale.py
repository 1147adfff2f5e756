"""How the person at this terminal reads: their own choice is at the server, which the command does not ask for it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from handraise.presentation.translation import Locale, best_language, find_time_zone

_LANGUAGE = ("HANDRAISE_LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
"""The first of these that is set says the language."""
_ZONES = "zoneinfo/"


def terminal_locale(
    environment: Mapping[str, str] = os.environ, clock: Path = Path("/etc/localtime")
) -> Locale:
    """The language and the time zone of the environment; `clock` is the file that says the machine's time zone."""
    wish = next(filter(None, map(environment.get, _LANGUAGE)), "")
    language = best_language(wish.partition(".")[0].partition("@")[0].replace("_", "-"))
    zone = environment.get("TZ", "").removeprefix(":") or str(clock.resolve()).rpartition(_ZONES)[2]
    return Locale(language, zone if find_time_zone(zone) else "UTC")
