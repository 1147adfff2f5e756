"""Dispatchers that are meant to be killed: a process that has everything loaded, and begins another one for each life.

A line on standard input begins a life. Two lines come out: `born` with its process id, then, once it is over, `dead`
with the signal that ended it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import sys

from handraise.channels.replies import Replies
from handraise.channels.webhook import open_webhook
from handraise.desk.dispatching import dispatching
from handraise.desk.engine import Engine
from handraise.model.deliveries import Delivery
from handraise.opening import open_backend


async def live(address: str) -> None:
    """Tell people until somebody ends it."""
    loopback = (ipaddress.ip_network("127.0.0.0/8"),)
    async with open_backend(address, connections=4) as backend:
        engine = Engine(backend.store, backend.bus, poll_interval=0.2)
        replies = Replies(None, backend.directory, backend.outbox)  # type: ignore[arg-type]  # nothing comes in
        async with (
            open_webhook(replies, allowed=loopback) as channel,
            dispatching(engine, backend.outbox, backend.directory, [channel], link_to=link_to),
        ):
            await asyncio.Event().wait()


async def link_to(delivery: Delivery) -> str:
    return f"http://desk.example/questions/{delivery.question_id}"


def main() -> None:
    while sys.stdin.readline():
        child = os.fork()
        if child == 0:
            asyncio.run(live(sys.argv[1]))
            os._exit(0)
        print(f"born {child}", flush=True)
        _, status = os.waitpid(child, 0)
        print(f"dead {os.WTERMSIG(status)}", flush=True)


main()
