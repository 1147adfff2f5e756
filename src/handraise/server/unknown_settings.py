"""Variables that look like settings and are none: most often a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from handraise.server.settings import PREFIX, ServerSettings

_OF_COMMANDS = {"KEY", "MCP_TOKEN", "MCP_STATE_KEY"}
"""What other commands and desks read."""


def unknown_settings(environment: Iterable[str]) -> list[str]:
    """A sentence for each variable that looks like a setting and is none."""
    known = {*map(str.upper, ServerSettings.model_fields), *_OF_COMMANDS}
    given = sorted(name.removeprefix(PREFIX) for name in environment if name.startswith(PREFIX))
    nearest = {name: get_close_matches(name, known, n=1, cutoff=0.7) for name in given if name not in known}
    return [
        f"{PREFIX}{name} is no setting of this release, and nothing reads it."
        + "".join(f" Did you mean {PREFIX}{each}?" for each in close)
        for name, close in nearest.items()
    ]
