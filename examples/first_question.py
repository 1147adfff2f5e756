"""Ask, be answered, carry on: the whole thing in one process.

Run it with: python examples/first_question.py [memory: | sqlite:///file.db | postgresql://…]
"""

import asyncio
import sys

import handraise

CHOICES = ["Blue-green", "Canary", "Rolling"]


async def main(url: str) -> None:
    """Post a question, refuse an answer that does not fit, take one that does."""
    async with handraise.open_desk(url) as desk:
        question = await desk.post("Which strategy?", choices=CHOICES)
        try:
            await desk.answer(question.id, "Yolo", by="ana")
        except handraise.InvalidAnswer as problem:
            print(problem)
        print((await desk.get(question.id)).status)
        await desk.answer(question.id, "Canary", by="ana")
        print(await desk.wait(question.id))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "memory:"))
