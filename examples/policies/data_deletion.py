"""A policy for deleting data, tried on a month of deletions that one person each had decided.

All of them would need two people with passkeys. Four that were approved would be refused: the law says to keep them.

Run it with: python examples/policies/data_deletion.py
"""

from datetime import timedelta

from past_questions import Past, replay  # type: ignore[import-not-found] # beside this file

from handraise import Approval

TABLES = ("sessions", "carts", "tickets", "visits", "invoices")


def deletions() -> list[Past]:
    """A deletion each day, and nobody noticed which of them were not allowed."""
    history = []
    for number in range(24):
        table = TABLES[number % len(TABLES)]
        history.append(
            Past(
                after=timedelta(days=number, hours=10),
                agent="cleanup-agent",
                prompt=f"Delete 1,000 rows of {table}?",
                action=Approval.of("delete_records", {"table": table, "rows": 1_000}),
                decision="approve",
                by="dana",
            )
        )
    return history


if __name__ == "__main__":
    replay("data-deletion.yaml", deletions())
