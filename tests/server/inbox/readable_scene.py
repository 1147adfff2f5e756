"""Questions that are long to read: code, changes, votes with edits, and what was executed."""

from __future__ import annotations

from datetime import timedelta

from handraise import Approval, Question
from handraise.desk.local_desk import LocalDesk
from handraise.model.briefs import Brief
from handraise.model.provenance import Provenance
from handraise.testing import ManualClock

SQL = """-- Close the accounts that nobody uses
UPDATE accounts
SET status = 'closed', closed_at = now()
WHERE last_seen < '2025-01-01'
  AND balance = 0;"""
PYTHON = '''import logging

def close(accounts: list[str], *, dry_run: bool = True) -> int:
    """Close accounts, and say how many."""
    for each in accounts:
        logging.info("closing %s", each)  # one line each
    return len(accounts)
'''
LETTER = "Dear Ann,\n\nyour account will be closed on Monday.\nYou can keep it: sign in once before then.\n\nBest, Finance"


async def risky_approval(desk: LocalDesk) -> Question:
    """Code to run at high risk, with votes that change it."""
    form = Approval.of(
        "database.execute",
        {"sql": SQL, "database": "billing", "path": "jobs/close.py", "content": PYTHON, "body": LETTER},
        risk="high",
        editable=["sql"],
        brief=Brief(
            why="The accounts cost 120 EUR a month.", checked=("A backup of today exists",), reversible=False
        ),
    )
    question = await desk.post(
        "Close the **212 accounts** that nobody has used since 2024?\n\n" + "They are empty. " * 110,
        form=form,
        quorum=2,
        recipients=["ann", "bob", "cid"],
        context={
            "plan": {"before": "212 accounts\nopen", "after": "212 accounts\nclosed"},
            "log": "x" * 2_500,
        },
    )
    edited = SQL.replace("2025-01-01", "2024-01-01").replace("balance = 0", "balance = 0 AND NOT locked")
    await desk.answer(
        question.id,
        {"decision": "approve", "arguments": {"sql": edited}, "reason": "Only the really old ones."},
        by="bob",
        provenance=Provenance(channel="slack"),
    )
    return question


async def replacing_question(desk: LocalDesk) -> Question:
    """A question that replaces one that was sent back, with a long text that changed in a few words."""
    before = Approval.of("mail.send", {"to": "ann@example.com", "subject": "Your account", "body": LETTER})
    after = {
        "to": "ann@example.com",
        "subject": "Your account",
        "body": LETTER.replace("on Monday", "on Friday").replace(
            "\n\nBest, Finance", "\nWe are sorry.\n\nBest, Support"
        ),
    }
    old = await desk.post("Send this?", form=before)
    await desk.send_back(old.id, by="ann", reason="Friday, and say sorry.")
    return await desk.post("Send this instead?", form=Approval.of("mail.send", after), replaces=old.id)


async def ended_questions(desk: LocalDesk, clock: ManualClock) -> dict[str, Question]:
    """One question a day, each ended in another way."""
    pay = Approval.of("payments.transfer", {"to": "ACME Ltd", "amount": 250}, editable=["amount"])
    made: dict[str, Question] = {}
    made["executed"] = await desk.post("Pay the rent?", form=pay)
    decision = {"decision": "approve", "arguments": {"amount": 200}}
    await desk.answer(made["executed"].id, decision, by="bob", provenance=Provenance(channel="slack"))
    await desk.consume_approval(made["executed"].id)
    await desk.report(made["executed"].id, ok=True, text="200 EUR are on their way")
    clock.advance(timedelta(days=1))
    made["denied"] = await desk.post("Pay it twice?", form=pay)
    await desk.answer(made["denied"].id, "deny", by="ann", provenance=Provenance(channel="web"))
    clock.advance(timedelta(days=1))
    made["waiting"] = await desk.post("Pay the next one?", form=pay)
    await desk.answer(made["waiting"].id, "approve", by="ann", provenance=Provenance(channel="web"))
    made["expired"] = await desk.post("Anyone?", expires_in=60)
    clock.advance(timedelta(minutes=2))
    await desk.run_due()
    return made
