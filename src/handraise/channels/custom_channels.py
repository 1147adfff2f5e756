"""Your own channels: a module on the path, and in it a function that opens one.

The function takes the `Replies` that answers go through, and gives an async context manager: the channel is there for
as long as its context lasts.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

from handraise.channels.inbound_replies import Replies
from handraise.ports.channel import Channel

Opener: TypeAlias = Callable[[Replies], AbstractAsyncContextManager[Channel]]
"""Opens a channel."""

_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


def opener_names(text: str) -> Sequence[str]:
    """The names in a setting, separated by commas."""
    return [name for part in text.split(",") if (name := part.strip())]


def opener_problem(name: str) -> str | None:
    """Why nothing can be opened by this name, as far as can be seen before the module is run."""
    if not _NAME.fullmatch(name):
        return "expected my_module:open_mine, with commas between several"
    module = name.partition(":")[0]
    try:
        found = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        found = None
    if found is None:
        return f"there is no module {module} on the path; PYTHONPATH=. puts this folder there"
    return None


def find_opener(name: str) -> Opener:
    """The function by that name. An error in your own module is raised as it is."""
    module, _, function = name.partition(":")
    opener: Opener = getattr(importlib.import_module(module), function)
    return opener
