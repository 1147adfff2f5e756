"""An agent that wants to pay a refund: it explains, changes what is sent back, and reports. It can be killed at any moment.

Arguments: the address of the server. The key comes from HANDRAISE_KEY.
"""

from __future__ import annotations

import asyncio
import sys

from handraise import Answered, Approval, Desk, Question, open_desk
from handraise.outcomes import Returned
from handraise.questions import ThreadMessage

INVOICE = b"Invoice 17: 300 EUR, of which 270 EUR were paid back in May.\n"


async def decided(desk: Desk, question: Question) -> Returned | Answered:
    """Wait until people have decided, and send the invoice to those who ask back."""

    async def explain(message: ThreadMessage) -> None:
        invoice = await desk.attach(INVOICE, name="invoice-17.txt", media_type="text/plain")
        await desk.reply(
            question.id, "For customer 12. Here is the invoice.", to=message.number, attachments=[invoice]
        )

    outcome = await desk.wait(question.id, reply_with=explain)
    assert isinstance(outcome, (Returned, Answered)), outcome
    return outcome


async def ask(desk: Desk, amount: int, **options: str) -> Question:
    form = Approval.of("refund", {"customer": 12, "amount": amount})
    question = await desk.post(
        "May I refund the order?",
        form=form,
        key=f"refund-{amount}",
        recipients=["ann"],
        replies="program",
        **options,  # type: ignore[arg-type]  # only `replaces` is passed here
    )
    print("asked", question.id, flush=True)
    return question


async def main(address: str) -> None:
    async with open_desk(address) as desk:
        question = await ask(desk, 300)
        outcome = await decided(desk, question)
        if isinstance(outcome, Returned):
            print("sent back:", outcome.reason, flush=True)
            question = await ask(desk, 30, replaces=question.id)
            await decided(desk, question)
        action = await desk.consume_approval(question.id, request="the one refund")
        await desk.report(question.id, ok=False, text="The bank is closed: nothing was paid.")
        print("failed: {amount} for customer {customer}".format(**action.arguments), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
