"""When the pending questions of an asker must be counted again.

To count them takes as long as there are rows of the inbox to pass over, also those of settled questions that PostgreSQL
has not cleaned up yet. So the statement counts now and then, and in between an asker has an allowance: a quarter of what
was left of its quota, for a second. One process never exceeds a quota like that. Each other one that posts for the same
asker in the same second may exceed it by its allowance.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from handraise.model.questions import Draft

_SHARE = 4
_LASTS = 1.0
_MOST = 10_000

_Asker = tuple[str, str]


class QuotaCache:
    """How many questions each asker, by its workspace and name, may still post before it is counted."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._left: dict[_Asker, tuple[int, float]] = {}

    def cover(self, drafts: Iterable[Draft]) -> bool:
        """Whether these may be posted without counting; then they are taken off."""
        wanted = Counter((draft.workspace, draft.asker) for draft in drafts)
        now = self._monotonic()
        left = {asker: self._left.get(asker, (0, now)) for asker in wanted}
        if any(number < wanted[asker] or ends <= now for asker, (number, ends) in left.items()):
            return False
        for asker, (number, ends) in left.items():
            self._left[asker] = (number - wanted[asker], ends)
        return True

    def counted(self, pending: Mapping[_Asker, int], quota: int) -> None:
        """Give allowances to askers of whom it is known now how many questions they have pending."""
        if len(self._left) > _MOST:
            self._left.clear()
        ends = self._monotonic() + _LASTS
        for asker, number in pending.items():
            self._left[asker] = (max(0, quota - number) // _SHARE, ends)
