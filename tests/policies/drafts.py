"""Questions to apply policies to."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from handraise.model.drafting import Limits, compose
from handraise.model.forms import Approval
from handraise.model.questions import Draft
from handraise.policies.decide import CompiledPolicy, compile_document

NOON = datetime(2026, 11, 17, 12, 0, tzinfo=UTC)
"""A Tuesday."""


def refund(amount: object = 50, *, asker: str = "support", **options: Any) -> Draft:
    """A question whether to pay an amount back. Options of the form begin with `form_`."""
    shape = {name.removeprefix("form_"): options.pop(name) for name in [*options] if name.startswith("form_")}
    asked: Any = {"form": Approval.of("refund", {"amount": amount}, **shape), **options}
    return compose("Refund?", asked, new_id="q1", workspace="w", asker=asker, limits=Limits())


def open_question(**options: Any) -> Draft:
    """A question that asks for no approval."""
    asked: Any = {"choices": ["a", "b"], **options}
    return compose(
        "Which?",
        asked,
        new_id="q2",
        workspace="w",
        asker="support",
        limits=Limits(),
    )


def policy(*rules: dict[str, Any], **more: Any) -> CompiledPolicy:
    """A compiled policy with these rules. Those without a name get a number."""
    named = [{"name": f"rule {place}", **rule} for place, rule in enumerate(rules, 1)]
    return compile_document({"rules": named, **more})


def require(**fields: Any) -> dict[str, Any]:
    """A rule that requires this of every question."""
    return {"then": {"require": fields}}
