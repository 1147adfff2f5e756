"""A refund that two people must approve, and that happens once.

Two workers get the same order at the same time, as happens after a restart or a message that came twice. Both ask under
the same key, so there is one question. Ana approves: that is one vote of two, and nothing moves. The agent cannot
approve its own request. Bob approves: now there is an outcome, and the desk gives the frozen action out to one worker.
The other is told that it has been given out. A refund that somebody denies is paid by nobody.

Run it with: python examples/refund_agent.py [sqlite:///file.db | postgresql://…]
"""

import asyncio
import sys
import tempfile
from pathlib import Path

import handraise
from handraise import Approval
from handraise.testing import Person

APPROVERS = ["ana", "bob", "cyd"]


def send_refund(order: str, amount: int) -> None:
    """Move the money: what must not happen twice."""
    print(f"  refunded {amount} for {order}")


async def worker(url: str, order: str, amount: int) -> None:
    """Ask for the approval, wait, and execute what is in the record."""
    async with handraise.open_desk(url, asker="refund-agent") as desk:
        try:
            action = await desk.request_approval(
                Approval.of("send_refund", {"order": order, "amount": amount}),
                prompt=f"Refund {amount} for order {order}?",
                recipients=APPROVERS,
                quorum=2,
                veto=True,
                key=f"refund-{order}",
            )
        except handraise.errors.AlreadyConsumed:
            print("  the other worker has been given it")
        except handraise.NotApproved as problem:
            print(f"  not refunded: {problem}")
        else:
            send_refund(**action.arguments)


async def main(url: str) -> None:
    """Play the workers and the people, each at a desk of their own."""
    async with handraise.open_desk(url, asker="refund-agent") as people, Person(people) as ana:
        print("A-17:")
        async with asyncio.TaskGroup() as both:
            both.create_task(worker(url, "A-17", 40))
            both.create_task(worker(url, "A-17", 40))
            question = await ana.next_question()
            try:
                await people.answer(question.id, "approve", by="refund-agent")
            except handraise.PermissionDenied:
                print("  the agent may not approve its own request")
            question = await people.answer(question.id, "approve", by="ana")
            print(f"  ana approves: {len(question.votes)} vote of {question.quorum}, {question.status}")
            question = await people.answer(question.id, "approve", by="bob")
            print(f"  bob approves: {question.status}")

        print("B-99:")
        async with asyncio.TaskGroup() as one:
            one.create_task(worker(url, "B-99", 9_000))
            question = await ana.next_question()
            await people.answer(question.id, "approve", by="ana")
            denial = {"decision": "deny", "reason": "too much"}
            await people.answer(question.id, denial, by="bob")


if __name__ == "__main__":
    here = Path(tempfile.mkdtemp()) / "questions.db"
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{here}"))
