"""DBOS: a workflow waits with `recv`, somebody answers with `send`. On the same PostgreSQL, with its own durability."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from dbos import DBOS

from benchmarks.peer import ANSWER, QUESTION, measure


@DBOS.workflow()
async def ask(question: dict[str, Any]) -> dict[str, Any] | None:
    """Wait for the answer."""
    del question
    answer: dict[str, Any] | None = await DBOS.recv_async("answer", timeout_seconds=600)
    return answer


async def pair() -> None:
    """Ask, answer, and go on with it."""
    handle = await DBOS.start_workflow_async(ask, QUESTION)
    await DBOS.send_async(handle.workflow_id, ANSWER, "answer")
    if await handle.get_result() != ANSWER:
        raise RuntimeError("the answer did not arrive")


async def main() -> None:
    """Launch, measure, and end."""
    DBOS(
        config={
            "name": "bench",
            "system_database_url": sys.argv[1],
            "application_version": "1",
            "sys_db_pool_size": 32,
            "notification_listener_polling_interval_sec": 0.02,
            "log_level": "ERROR",
        }
    )
    DBOS.launch()
    await measure(pair)
    DBOS.destroy()


asyncio.run(main())
