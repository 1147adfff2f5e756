"""Ids of questions: time-ordered and unguessable by default, counted for replay and tests."""

from __future__ import annotations

import itertools
import os
import threading
import time

from handraise.ports import IdFactory


def uuid7_ids() -> IdFactory:
    """Version 7 UUIDs. Those of one factory sort in the order in which they were made.

    The standard library has them from Python 3.14 on.
    """
    lock = threading.Lock()
    last = 0

    def new_id() -> str:
        nonlocal last
        with lock:
            # 48 bits of milliseconds and 12 of a fraction of one, never twice the same.
            last = max(last + 1, (time.time_ns() << 12) // 1_000_000)
            ticks = last
        low = (0b10 << 62) | (int.from_bytes(os.urandom(8)) >> 2)
        # What `str(uuid.UUID(…))` gives, in half the time.
        return (
            f"{ticks >> 28:08x}-{ticks >> 12 & 0xFFFF:04x}-7{ticks & 0xFFF:03x}"
            f"-{low >> 48:04x}-{low & 0xFFFF_FFFF_FFFF:012x}"
        )

    return new_id


def counted_ids(prefix: str = "q") -> IdFactory:
    """`prefix-1`, `prefix-2` and so on: the same in every run. Beyond 9 they sort as texts, not as numbers."""
    numbers = itertools.count(1)
    return lambda: f"{prefix}-{next(numbers)}"
