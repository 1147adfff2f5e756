"""Ids of questions: time-ordered and unguessable by default, counted for replay and tests."""

from __future__ import annotations

import itertools
import os
import threading
import time

from handraise.ports import IdFactory

_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
"""Two bits of a digit are always the same, the other two are random."""


def uuid7_ids() -> IdFactory:
    """Version 7 UUIDs. Those of one factory sort in the order in which they were made.

    The standard library has them from Python 3.14 on.
    """
    lock = threading.Lock()
    last = 0

    def new_id() -> str:
        nonlocal last
        # 48 bits of milliseconds and 12 bits of a fraction of one, never the same twice.
        now = (time.time_ns() << 12) // 1_000_000
        with lock:
            last = ticks = now if now > last else last + 1
        # The same as `str(uuid.UUID(…))`, in a third of the time.
        high, low = f"{ticks:015x}", os.urandom(8).hex()
        return f"{high[:8]}-{high[8:12]}-7{high[12:]}-{_VARIANT[low[0]]}{low[1:4]}-{low[4:]}"

    return new_id


def numbered_id(made: str, number: int) -> str:
    """An id next to one of `uuid7_ids`: the same for the same number, another one for every number below 65,536."""
    return f"{made[:-4]}{(int(made[-4:], 16) + number) % 65_536:04x}"


def counted_ids(prefix: str = "q") -> IdFactory:
    """`prefix-1`, `prefix-2` and so on: the same in every run. Beyond 9 they sort as texts, not as numbers."""
    numbers = itertools.count(1)
    return lambda: f"{prefix}-{next(numbers)}"
