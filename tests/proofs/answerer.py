"""A separate program that answers everything pending in a workspace, with or without ringing the bell."""

from __future__ import annotations

import asyncio
import sys
import time

from handraise import open_desk
from handraise.testing import SilentBus


async def main(address: str, workspace: str, bell: str) -> None:
    bus = SilentBus() if bell == "silent" else None
    async with open_desk(address, workspace=workspace, bus=bus) as desk:
        while questions := (await desk.list_pending(limit=500)).items:
            await asyncio.gather(*(desk.answer(each.id, each.prompt, by="ana") for each in questions))
        print(time.time(), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
