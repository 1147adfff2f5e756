"""How much harm an action could do: our words, whatever the agent wrote."""

from __future__ import annotations

from dataclasses import dataclass

from handraise.model.forms import Approval, Risk
from handraise.presentation.translation import gettext, gettext_noop

_RISKS: dict[Risk, tuple[str, str]] = {
    "low": (
        gettext_noop("Low risk"),
        gettext_noop(
            "The agent's author says that this can do little harm. Look at the arguments all the same."
        ),
    ),
    "medium": (
        gettext_noop("Medium risk"),
        gettext_noop(
            "Once you approve it, it is executed just as it stands here. Look at the arguments first."
        ),
    ),
    "high": (
        gettext_noop("High risk"),
        gettext_noop(
            "The agent's author says that this can do serious harm. Read every argument. If in doubt, deny."
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class RiskText:
    """The risk of an action: its name, and what to do about it."""

    level: Risk
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.name}. {self.text}"


def risk_text(form: Approval) -> RiskText:
    """The risk of an action as a person should hear it."""
    name, text = _RISKS[form.risk]
    return RiskText(form.risk, gettext(name), gettext(text))
