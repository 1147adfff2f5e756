"""Peers doing the desk's work: ask durably, answer durably, and go on with the answer in the program that asked.

    python -m benchmarks.peer.NAME ADDRESS CALLERS SECONDS

Each is the shortest program that does it with the peer's own means, in one process, and prints how many pairs a second
it made. `benchmarks.peers` starts those that are installed.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.harness import rate

QUESTION: dict[str, Any] = {"prompt": "Which strategy?", "choices": ["Blue-green", "Canary", "Rolling"]}
ANSWER: dict[str, Any] = {"value": "Canary", "by": "ana"}


async def measure(pair: Callable[[], Awaitable[object]]) -> None:
    """Make pairs for as long as the command line says, after some to warm up."""
    callers, seconds = int(sys.argv[2]), float(sys.argv[3])
    await asyncio.gather(*(pair() for _ in range(min(callers, 8))))
    print(await rate([pair] * callers, seconds), flush=True)
