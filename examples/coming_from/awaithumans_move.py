"""Ask here what still waits at awaithumans, and cancel it there. Running it again asks nothing twice.

Run it with: AWAITHUMANS_URL=URL AWAITHUMANS_ADMIN_API_TOKEN=TOKEN python examples/coming_from/awaithumans_move.py
It needs: pip install httpx2
"""

import asyncio
import os

import httpx2

import handraise

ENDED = {"completed", "timed_out", "cancelled", "verification_exhausted"}


async def main() -> None:
    """Post each task under its own key, then cancel it."""
    headers = {"Authorization": f"Bearer {os.environ['AWAITHUMANS_ADMIN_API_TOKEN']}"}
    async with (
        handraise.open_desk(asker="refunds") as desk,
        httpx2.AsyncClient(base_url=os.environ["AWAITHUMANS_URL"], headers=headers) as there,
    ):
        for task in (await there.get("/api/tasks")).raise_for_status().json():
            if task["status"] in ENDED:
                continue
            question = await desk.post(
                task["task"],
                form=task["response_schema"],
                context=task["payload"],
                key=task["idempotency_key"],
                expires_in=task["timeout_seconds"],
            )
            (await there.post(f"/api/tasks/{task['id']}/cancel")).raise_for_status()
            print(f"{task['id']} is {question.id} now")


asyncio.run(main())
