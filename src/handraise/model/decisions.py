"""What a person decided about an action."""

from __future__ import annotations

from dataclasses import dataclass, field

from handraise.model.forms import Action, Approval
from handraise.model.json_values import Json


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person decided about an action. It is truthy only if the action was approved.

    `action` is what was approved, edits included: execute this and nothing else.
    """

    approved: bool
    action: Action = field(repr=False)
    reason: str | None = field(default=None, repr=False)
    edited: bool = False

    def __bool__(self) -> bool:
        return self.approved


def decision_of(approval: Approval, value: Json) -> Decision:
    """The decision in an approval's canonical answer."""
    edited = value.get("arguments")
    action = approval.action if edited is None else Action(tool=approval.action.tool, arguments=edited)
    return Decision(value["decision"] == "approve", action, value.get("reason"), edited is not None)
