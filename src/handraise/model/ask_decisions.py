"""Deciding whether a question may be asked: what its policy, a stop or a quota has against it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from handraise.model.errors import PolicyChanged, QuotaExceeded, Stopped
from handraise.model.move_decisions import Right
from handraise.model.people import Responder, still_may_respond
from handraise.model.questions import Draft, posted
from handraise.model.standing_answers import StandingAnswer
from handraise.model.stops import Stop, stop_for


@dataclass(frozen=True, slots=True, kw_only=True)
class AskFacts:
    """What decides about a new question.

    `policy_version` is the latest of the workspace, 0 for none. `is_rule_suspended` is about the rule that decided, and
    `standing` is the standing answer that did, with the right of its giver. Without a `quota`, its asker may have any number
    of pending questions; else it has `pending` already.
    """

    now: datetime
    policy_version: int = 0
    is_rule_suspended: bool = False
    stops: Sequence[Stop] = ()
    standing: tuple[StandingAnswer, Right] | None = None
    known: Mapping[str, frozenset[str]] = field(default_factory=dict)
    disabled: Collection[str] = ()
    quota: int | None = None
    pending: int = 0


def check_ask(draft: Draft, facts: AskFacts) -> PolicyChanged | QuotaExceeded | Stopped | None:
    """Return why a question may not be asked, or None."""
    if (stop := stop_for(facts.stops, draft)) is not None:
        return Stopped(stop)
    ending = None if draft.ruling is None else draft.ruling.ending
    version = 0 if draft.ruling is None else draft.ruling.version
    if version != facts.policy_version or facts.is_rule_suspended:
        return PolicyChanged(draft.workspace)
    if ending is not None and ending.standing is not None:
        if facts.standing is None:
            return PolicyChanged(draft.workspace)
        if not standing_holds(draft, *facts.standing, facts):
            return PolicyChanged(draft.workspace)
    if ending is None and facts.quota is not None and facts.pending >= facts.quota:
        return QuotaExceeded(draft.asker, draft.workspace, facts.quota)
    return None


def standing_holds(draft: Draft, standing: StandingAnswer, right: Right, facts: AskFacts) -> bool:
    """Whether a standing answer answers a new question of its topic: it has not ended, and its giver may still answer."""
    giver = standing.given_by
    if not standing.holds(facts.now) or giver == draft.asker or giver in facts.disabled:
        return False
    question = posted(draft, facts.now)
    given = Responder(giver, right.groups)
    return still_may_respond(question, given, backed=right.backed, known=facts.known.get(giver))
