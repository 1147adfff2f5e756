"""What the policy of the workspace did with a question, as sentences for people."""

from __future__ import annotations

import json
from collections.abc import Iterator

from handraise.model.forms import Approval
from handraise.model.questions import Question
from handraise.model.rulings import Effect, Match, RuleMode, Ruling
from handraise.presentation.names import display_name, recipient_name
from handraise.presentation.translation import gettext, gettext_noop

_DID: dict[Effect, str] = {
    "deny": gettext_noop("Rule “{rule}” of the policy denied it."),
    "require": gettext_noop("Rule “{rule}” of the policy decides what it needs."),
    "allow": gettext_noop("Rule “{rule}” of the policy allows it."),
}
_WOULD: dict[Effect, str] = {
    "deny": gettext_noop("Rule “{rule}” would deny it, but only observes."),
    "require": gettext_noop("Rule “{rule}” would decide what it needs, but only observes."),
    "allow": gettext_noop("Rule “{rule}” would allow it, but only observes."),
}

_EFFECTS: dict[Effect, str] = {
    "deny": gettext_noop("denies"),
    "require": gettext_noop("requires"),
    "allow": gettext_noop("allows"),
}
_MODES: dict[RuleMode, str] = {
    "enforce": gettext_noop("enforced"),
    "observe": gettext_noop("only observed"),
}


def effect_text(effect: Effect) -> str:
    """What a rule does, in one word."""
    return gettext(_EFFECTS[effect])


def mode_text(mode: RuleMode) -> str:
    """Whether a rule is enforced."""
    return gettext(_MODES[mode])


def ruling_lines(question: Question) -> tuple[str, ...]:
    """Which rules matched, and what they changed. Empty if no rule matched."""
    ruling = question.ruling
    if ruling is None or not ruling.matches:
        return ()
    return (
        *map(_match_line, ruling.matches),
        *_changes(question, ruling),
        *_checked(ruling),
        gettext("This was version {version} of the policy.").format(version=ruling.version),
    )


def _match_line(match: Match) -> str:
    text = gettext((_DID if match.mode == "enforce" else _WOULD)[match.effect])
    line = text.format(rule=display_name(match.rule))
    if match.failed:
        line += " " + gettext("Its condition could not be checked, so it counts.")
    return line


def _changes(question: Question, ruling: Ruling) -> Iterator[str]:
    asked = ruling.asked
    if "recipients" in asked:
        names = [recipient_name(name) for name in asked["recipients"]]
        if names:
            yield gettext("The agent had asked {names}.").format(names=", ".join(names))
        else:
            yield gettext("The agent had asked anyone.")
    if "quorum" in asked:
        yield gettext("{count} people must agree; the agent had asked for {asked}.").format(
            count=question.quorum, asked=asked["quorum"]
        )
    if isinstance(question.form, Approval) and "form" in asked:
        given = json.loads(asked["form"])
        said = given.get("risk", "medium")
        if said != question.form.risk:
            yield _risk_line(question.form.risk, said)
        if given.get("editable") and not question.form.editable:
            yield gettext("Nobody may change the arguments.")


def _risk_line(risk: str, said: str) -> str:
    names = {"low": gettext("low"), "medium": gettext("medium"), "high": gettext("high")}
    return gettext("The risk is {risk}; the agent had said {said}.").format(
        risk=names[risk], said=names.get(said, said)
    )


def _checked(ruling: Ruling) -> Iterator[str]:
    if ruling.checked is not None:
        yield gettext(
            "You are asked because a share of what this rule allows is checked by people. If it is denied, the rule is "
            "suspended."
        )
