"""Ask, be answered, carry on: the whole thing in one process.

Run it with: python examples/first_question.py [memory: | sqlite:///file.db | postgresql://…]
"""

import asyncio
import sys

import handraise


async def main(url: str) -> None:
    """Post a question twice, refuse an answer that does not fit, take one that does."""
    async with handraise.open_desk(url) as desk:
        q = await desk.post("Which strategy?", choices=["Blue-green", "Canary", "Rolling"], key="deploy-42")
        same = await desk.post(
            "Which strategy?", choices=["Blue-green", "Canary", "Rolling"], key="deploy-42"
        )
        assert same.id == q.id
        try:
            await desk.answer(q.id, "Yolo", by="ana")
        except handraise.InvalidAnswer as problem:
            print(problem)
        assert (await desk.get(q.id)).status == "pending"
        await desk.answer(q.id, "Canary", by="ana")
        print(await desk.wait(q.id))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "memory:"))
