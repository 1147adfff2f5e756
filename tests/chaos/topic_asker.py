"""One of many processes that ask the same: its arguments are the address and its name. It prints what it got."""

from __future__ import annotations

import asyncio
import json
import sys

from handraise import open_desk


async def main(address: str, name: str) -> None:
    async with open_desk(address, workspace="topic", asker=name, connections=2, poll_interval=1) as desk:
        rate = await desk.ask(
            "Which VAT rate?", into=int, key="rate", topic="vat-rate:DE", recipients=["ana"]
        )
    print(json.dumps([type(rate).__name__, rate]), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
