"""A page of a person's inbox, first and deep, against the same statement without the desk.

Half of the pending questions are for anyone, half for a group of the person. What the desk adds is making fifty
questions of fifty rows.
"""

from __future__ import annotations

from typing import Any

from benchmarks import bare
from benchmarks.database import fill, vacuum
from benchmarks.harness import Run, latencies, main, timed
from handraise import Desk, Responder, open_desk
from support.database import own_database

RATIOS = {
    "ratio_of_page": ("page_desk_p50_ms", "page_bare_p50_ms"),
    "ratio_of_deep_page": ("deep_page_desk_p50_ms", "deep_page_bare_p50_ms"),
}
ANA = Responder("ana", groups=frozenset({"ops"}))
PAGE = 50


async def page(desk: Desk, after: str | None) -> None:
    """One page of the inbox, which must be full."""
    found = await desk.list_pending(recipient=ANA, after=after, limit=PAGE)
    if len(found.items) != PAGE:
        raise RuntimeError("the page is not full")


async def pages(address: str, after: str | None, count: int) -> dict[str, float]:
    """How long a page takes through the desk and bare, in turns."""
    desk_times, bare_times = [], []
    async with open_desk(address, workspace="bench") as desk, bare.connected(address, 1) as (connection,):
        with bare.recorded() as sent:
            await page(desk, after)
        sql, arguments = sent[-1]

        async def bare_page() -> Any:
            return await connection.fetch(sql, *arguments)

        for _ in range(count):
            desk_times.append(await timed(lambda: page(desk, after)))
            bare_times.append(await timed(bare_page))
    return {
        f"{who}_{name}": value
        for who, times in (("desk", desk_times), ("bare", bare_times))
        for name, value in latencies(times[count // 10 :]).items()
    }


async def measure(run: Run) -> None:
    """Measure everything in each round."""
    async with own_database() as address:
        for recipients in ([], ["group:ops"]):
            ask = (await bare.desk_pair(address, recipients=recipients, by=ANA)).ask
            ids = await fill(address, ask, run.options["pending"] // 2)
        await vacuum(address)
        count = run.options["pages"]
        await run.mixed(
            {
                "page": lambda: pages(address, None, count),
                "deep_page": lambda: pages(address, ids[len(ids) // 2], count),
            }
        )


if __name__ == "__main__":
    main(measure, RATIOS, quick_rounds=5, rounds=7, pending=(200_000, 100_000), pages=(500, 200))
