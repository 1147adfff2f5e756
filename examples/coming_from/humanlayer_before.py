"""A refund that waits for an approval, and a question, with the SDK of HumanLayer.

Run it with: HUMANLAYER_API_KEY=KEY HUMANLAYER_API_BASE=URL python examples/coming_from/humanlayer_before.py
It needs: pip install humanlayer
"""

from humanlayer import HumanLayer

hl = HumanLayer(run_id="refunds", verbose=True)


@hl.require_approval()
def send_refund(order: str, amount: float) -> str:
    """Send money back."""
    return f"refunded {amount} for {order}"


ask = hl.human_as_tool()
order = ask("Which order?")
print(send_refund(order=order, amount=40))
