"""When the pending questions of an asker must be counted again.

The time to count them grows with the rows of the inbox, including those of settled questions that PostgreSQL has not
cleaned up yet. So the statement counts only now and then. In between, an asker has an allowance: a quarter of what was
left of its quota, for one second. A single process therefore never exceeds a quota. Each other process that posts for
the same asker in the same second may exceed it by its allowance. A quota that is changed holds after that second.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from handraise.model.questions import Draft

_SHARE = 4
_LASTS = 1.0
_MOST = 10_000
_UNLIMITED = 2**62

_Asker = tuple[str, str]


class QuotaCache:
    """How many questions each asker, by its workspace and name, may still post before it is counted."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._left: dict[_Asker, tuple[int, float]] = {}

    def cover(self, drafts: Iterable[Draft]) -> bool:
        """Whether these may be posted without counting; if so, they are subtracted."""
        wanted = Counter((draft.workspace, draft.asker) for draft in drafts)
        now = self._monotonic()
        left = {asker: self._left.get(asker, (0, now)) for asker in wanted}
        if any(number < wanted[asker] or ends <= now for asker, (number, ends) in left.items()):
            return False
        for asker, (number, ends) in left.items():
            self._left[asker] = (number - wanted[asker], ends)
        return True

    def counted(self, room: Mapping[_Asker, int | None]) -> None:
        """Give allowances to askers of whom it is now known how many more questions they may have; None for any number."""
        if len(self._left) > _MOST:
            self._left.clear()
        ends = self._monotonic() + _LASTS
        for asker, number in room.items():
            self._left[asker] = (_UNLIMITED if number is None else max(0, number) // _SHARE, ends)
