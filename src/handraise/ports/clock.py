"""Where time and ids come from."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Where time comes from. None, as in production, means the store's own clock."""

    def now(self) -> datetime | None:
        """The current time, or None to let the store decide."""
        ...


IdFactory = Callable[[], str]
"""Makes the id of a new question; ids made later must sort later."""
