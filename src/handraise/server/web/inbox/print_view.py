"""What a printed question has in addition to its page: numbers, digests and exact times, for a file on paper."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from handraise.model.forms import Approval
from handraise.model.questions import Question
from handraise.model.visible import visible_line
from handraise.presentation.translation import gettext


def print_facts(question: Question, now: datetime) -> tuple[tuple[str, str], ...]:
    """Names and values, all of which may be shown as they are."""
    return tuple(_facts(question, now))


def _facts(question: Question, now: datetime) -> Iterator[tuple[str, str]]:
    yield gettext("Question"), visible_line(question.id)
    yield gettext("Workspace"), visible_line(question.workspace)
    if isinstance(question.form, Approval):
        yield gettext("Digest of the action"), question.form.digest
        decision = question.decision
        if decision is not None and decision.edited:
            yield gettext("Digest of the action as it was approved"), decision.action.digest
    if question.ruling is not None:
        yield gettext("Version of the policy"), str(question.ruling.version)
    yield gettext("Asked"), question.asked_at.isoformat()
    if question.outcome is not None:
        yield gettext("Settled"), question.outcome.at.isoformat()
    elif question.expires_at is not None:
        yield gettext("Expires"), question.expires_at.isoformat()
    if question.consumed_at is not None:
        yield gettext("Taken to execute it"), question.consumed_at.isoformat()
    if question.taken_back_at is not None:
        yield gettext("Taken back"), question.taken_back_at.isoformat()
    yield gettext("Printed"), now.replace(microsecond=0).isoformat()
