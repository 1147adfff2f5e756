"""The same program with Handraise.

Run it with: python examples/coming_from/humanlayer_after.py
"""

import handraise.blocking
from handraise.tools import requires_approval

with handraise.blocking.open_desk(asker="refunds") as desk:

    @requires_approval(desk)
    def send_refund(order: str, amount: float) -> str:
        """Send money back."""
        return f"refunded {amount} for {order}"

    order = desk.ask("Which order?")
    try:
        print(send_refund(order=order, amount=40))
    except handraise.NotApproved as refusal:
        print("not refunded:", refusal.reason)
