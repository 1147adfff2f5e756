"""What became of an approved action: whether the agent took it to execute it, and which action that was."""

from __future__ import annotations

from dataclasses import dataclass

from handraise.model.argument_order import reading_order
from handraise.model.json_values import canonical_json
from handraise.model.questions import Question
from handraise.presentation.report_text import shortened_line
from handraise.presentation.times import moment_text
from handraise.presentation.translation import gettext, local_time
from handraise.server.web.inbox.page_texts import When

_LONGEST = 160
_LONGEST_VALUE = 60


@dataclass(frozen=True, slots=True)
class Executed:
    """An approved action. `text` is ours, `action` has the agent's words; both may be shown as they are."""

    text: str
    action: str
    at: When | None
    edited: bool


def executed_of(question: Question) -> Executed | None:
    """What became of the action of a question; None if nothing was approved."""
    decision = question.decision
    if decision is None or not decision.approved:
        return None
    if question.taken_back_at is not None:
        text, moment = gettext("Taken back, not executed"), question.taken_back_at
    elif question.consumed_at is not None:
        text, moment = gettext("Taken to execute it"), question.consumed_at
    else:
        text, moment = gettext("Not executed yet"), None
    at = None if moment is None else local_time(moment)
    given = reading_order(decision.action.arguments)
    parts = (
        f"{name}: {shortened_line(one if isinstance(one, str) else canonical_json(one), _LONGEST_VALUE)}"
        for name, one in list(given.items())[:10]
    )
    return Executed(
        text,
        shortened_line(f"{decision.action.tool} {', '.join(parts)}", _LONGEST),
        None if at is None else When(at.isoformat(), f"{at:%H:%M}", moment_text(at)),
        decision.edited,
    )
