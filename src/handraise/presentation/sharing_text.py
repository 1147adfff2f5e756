"""How the work on a question is shared, in words: who is on it, who was brought in, and what it replaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from handraise.model.events import Event, EventKind
from handraise.model.forms import Approval
from handraise.model.json_values import Json
from handraise.model.outcomes import Returned
from handraise.model.questions import Question
from handraise.model.sharing_rules import may_be_several
from handraise.model.visible import visible
from handraise.presentation.names import display_name, person_name
from handraise.presentation.outcome_text import outcome_text
from handraise.presentation.translation import gettext

_BROUGHT = (EventKind.BROUGHT_IN, EventKind.HANDED_OVER)


def taken_text(question: Question, now: datetime, *, viewer: str = "") -> str:
    """Who is working on the answer now; empty if nobody has said so, or it has ended."""
    person = question.taker(now) if question.outcome is None else None
    if person is None:
        return ""
    if person == viewer:
        return gettext("you are on this")
    return gettext("{person} is on this").format(person=display_name(person))


def decline_text(question: Question) -> str:
    """What ends a question without an answer: if several may answer, it ends for all of them."""
    return gettext("End for everyone") if may_be_several(question) else gettext("Decline")


def brought_text(events: Sequence[Event], principals: Sequence[str]) -> tuple[str, str | None] | None:
    """Who brought this person in, without a full stop, and why; None if nobody did. The last one counts."""
    for event in reversed(events):
        names = event.data.get("to") if event.kind in _BROUGHT and isinstance(event.data, dict) else None
        if not isinstance(names, list) or not set(names) & set(principals):
            continue
        if event.kind is EventKind.BROUGHT_IN:
            text = gettext("You were brought in by {person}")
        else:
            text = gettext("This was handed over to you by {person}")
        reason = event.data.get("reason")
        return text.format(person=person_name(event.by)), visible(str(reason)) if reason else None
    return None


@dataclass(frozen=True, slots=True)
class ReplacementText:
    """What a question replaces: our sentence without its full stop, and why the other one was sent back.

    `before` and `after` are the arguments of both actions, if both have one and it is the same tool.
    """

    sentence: str
    reason: str | None = field(default=None, repr=False)
    before: dict[str, Json] | None = field(default=None, repr=False)
    after: dict[str, Json] | None = field(default=None, repr=False)


def replacement_text(question: Question, old: Question | None, *, viewer: str = "") -> ReplacementText | None:
    """What to say of the question that this one replaces; None if it replaces none. `old` is None if it is not known."""
    if question.replaces is None:
        return None
    if old is None or old.id != question.replaces:
        return ReplacementText(gettext("Replaces an earlier question"))
    before = after = None
    if (
        isinstance(old.form, Approval)
        and isinstance(question.form, Approval)
        and old.form.action.tool == question.form.action.tool
    ):
        before, after = dict(old.form.action.arguments), dict(question.form.action.arguments)
    if isinstance(old.outcome, Returned):
        text = gettext("Replaces an earlier question, which {person} sent back")
        if old.outcome.by == viewer:
            text = gettext("Replaces an earlier question, which you sent back")
        sentence = text.format(person=display_name(old.outcome.by))
        return ReplacementText(sentence, visible(old.outcome.reason), before, after)
    ended = str(outcome_text(old, viewer=viewer))
    text = gettext("Replaces an earlier question ({ended})")
    return ReplacementText(text.format(ended=ended), None, before, after)
