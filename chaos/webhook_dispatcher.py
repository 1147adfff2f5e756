"""A life in the pool: a dispatcher that sends webhooks, for tests that stop or kill it."""

from __future__ import annotations

import asyncio
import ipaddress

from chaos.clients import link_to
from handraise.channels.inbound_replies import Replies
from handraise.channels.webhook import open_webhook
from handraise.desk.dispatcher import run_dispatcher
from handraise.desk.engine import Engine
from handraise.desk_factory import open_backend

LIFE = "chaos.webhook_dispatcher:tell"


async def tell(address: str) -> None:
    """Notify people until somebody ends it."""
    loopback = (ipaddress.ip_network("127.0.0.0/8"),)
    async with open_backend(address, connections=4) as backend:
        engine = Engine(backend.store, backend.bus, poll_interval=0.2)
        replies = Replies(None, backend.directory, backend.outbox)  # type: ignore[arg-type]  # nothing comes in
        async with (
            open_webhook(replies, allowed=loopback) as channel,
            run_dispatcher(engine, backend.outbox, backend.directory, [channel], link_to=link_to),
        ):
            await asyncio.Event().wait()
