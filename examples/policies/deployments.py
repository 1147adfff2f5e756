"""A policy for deployments, tried on a month of deployments that one person each had approved.

Staging would no longer be asked about. Production would need somebody of each group, and would be refused at the weekend.

Run it with: python examples/policies/deployments.py
"""

from datetime import timedelta

from past_questions import Past, replay  # type: ignore[import-not-found] # beside this file

from handraise import Approval


def deployments() -> list[Past]:
    """Six deployments a day, also at the weekend: one in three to production."""
    history = []
    for number in range(168):
        environment = "production" if number % 3 == 0 else "staging"
        history.append(
            Past(
                after=timedelta(days=number // 6, hours=8 + number % 6),
                agent="release-bot",
                prompt=f"Deploy build {number} to {environment}?",
                action=Approval.of("deploy", {"build": number, "environment": environment}),
                decision="deny" if number in (21, 63, 105) else "approve",
                by="ann",
            )
        )
    return history


if __name__ == "__main__":
    replay("deployments.yaml", deployments())
