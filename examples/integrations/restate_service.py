"""A Restate service that asks. Kill it while it waits, start it again, and it goes on with the answer.

Run it with: python examples/integrations/restate_service.py
It needs: pip install "handraise[restate]" hypercorn, and restate-server
"""

import asyncio

import restate
from hypercorn.asyncio import serve
from hypercorn.config import Config

from handraise import Desk, open_desk
from handraise.integrations.restate import ask


def deploys(desk: Desk) -> restate.Service:
    """The service, on a desk."""
    service = restate.Service("deploys")

    @service.handler()
    async def deploy(ctx: restate.Context, version: str) -> str:
        await ctx.run_typed("build", lambda: print("built", version, flush=True))
        strategy = await ask(ctx, desk, f"How shall {version} go out?", choices=["Canary", "Rolling"])
        return f"{version} goes out as {strategy}"

    return service


async def main() -> None:
    """Serve until killed."""
    config = Config()
    config.bind = ["localhost:9080"]
    async with open_desk() as desk:
        await serve(restate.app([deploys(desk)]), config)


if __name__ == "__main__":
    asyncio.run(main())
