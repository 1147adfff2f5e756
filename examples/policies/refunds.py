"""A policy for refunds, tried on a month of refunds that people decided.

Small refunds would no longer be asked about by day. Two of those people denied: the command lists them, and its exit code
is 1, so that a script does not apply the policy.

Run it with: python examples/policies/refunds.py
"""

from datetime import timedelta

from past_questions import Past, replay  # type: ignore[import-not-found] # beside this file

from handraise import Approval

AMOUNTS = (12, 25, 38, 60, 90, 250, 700, 6_000)


def refunds() -> list[Past]:
    """A refund every two hours. Nobody approves the huge ones, and two small ones looked odd."""
    history = []
    for number in range(300):
        amount = AMOUNTS[number % len(AMOUNTS)]
        denied = amount == AMOUNTS[-1] or number in (17, 66)
        history.append(
            Past(
                after=timedelta(hours=2 * number, minutes=40),
                agent="support-agent",
                prompt=f"Refund {amount} EUR for order A-{number}?",
                action=Approval.of("refund", {"order": f"A-{number}", "amount": amount}),
                decision="deny" if denied else "approve",
                by=("ann", "bo", "cy")[number % 3],
            )
        )
    return history


if __name__ == "__main__":
    replay("refunds.yaml", refunds())
