"""What is exported of a settled question, as it is stored."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import datetime
from typing import NamedTuple

from handraise.model.forms import form_to_json
from handraise.model.questions import Question


class SettledRow(NamedTuple):
    """Some columns of a settled question. JSON is text here: most readers only pass it on, or parse it elsewhere."""

    id: str
    asker: str
    conversation: str | None
    topic: str | None
    tool_call: str | None
    trace: str | None
    prompt: str
    form: str
    recipients: str
    status: str
    outcome: str
    votes: str | None
    ruling: str | None
    report: str | None
    asked_at: datetime
    settled_at: datetime
    consumed_at: datetime | None
    taken_back_at: datetime | None


COLUMNS = SettledRow._fields


def settled_row(question: Question) -> SettledRow | None:
    """The row of a question; None while it is pending."""
    outcome = question.outcome
    if outcome is None:
        return None
    ended = {each.name: getattr(outcome, each.name) for each in fields(outcome) if each.name != "at"}
    return SettledRow(
        id=question.id,
        asker=question.asker,
        conversation=question.conversation,
        topic=question.topic,
        tool_call=question.tool_call,
        trace=question.trace,
        prompt=question.prompt,
        form=form_to_json(question.form),
        recipients=json.dumps(question.recipients),
        status=question.status.value,
        outcome=json.dumps(ended),
        votes=json.dumps({vote.by: vote.ballot for vote in question.votes}) if question.votes else None,
        ruling=None if question.ruling is None else question.ruling.text,
        report=None if question.report is None else json.dumps(question.report.record()),
        asked_at=question.asked_at,
        settled_at=outcome.at,
        consumed_at=question.consumed_at,
        taken_back_at=question.taken_back_at,
    )
