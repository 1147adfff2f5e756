"""Questions, and what belongs to them: options, limits, bulk and standing answers, votes, timelines, messages, grants, rulings."""

from __future__ import annotations

from typing import Any

from handraise.model.attachments import Attachment
from handraise.model.bulk_answers import BulkAnswer, BulkDecline, BulkItem, BulkResult
from handraise.model.drafting import Limits, QuestionOptions
from handraise.model.grants import Grant
from handraise.model.pending_views import VIEWS, Order, PendingFilters, ViewCounts, ViewName
from handraise.model.people import Responder
from handraise.model.provenance import Provenance
from handraise.model.questions import Aside, Draft, Need, Question, Ref, Vote
from handraise.model.reports import Report
from handraise.model.rulings import Match, Ruling
from handraise.model.standing_answers import StandingAnswer
from handraise.model.thread_messages import ThreadMessage
from handraise.model.timelines import Escalation, Timeline

__all__ = [
    "VIEWS",
    "Aside",
    "Attachment",
    "BulkAnswer",
    "BulkDecline",
    "BulkItem",
    "BulkResult",
    "Draft",
    "Escalation",
    "Grant",
    "Limits",
    "Match",
    "Need",
    "Order",
    "PendingFilters",
    "Provenance",
    "Question",
    "QuestionOptions",
    "Ref",
    "Report",
    "Responder",
    "Ruling",
    "StandingAnswer",
    "ThreadMessage",
    "Timeline",
    "ViewCounts",
    "ViewName",
    "Vote",
    "question_to_dict",
]


def question_to_dict(question: Question) -> dict[str, Any]:
    """A question as the HTTP API writes it, ready for `json.dumps`; the asker's private `state` is left out."""
    from handraise.wire.records import QuestionRecord  # noqa: PLC0415 -- only who writes questions needs the records

    return QuestionRecord.of(question, with_state=False).model_dump(mode="json", exclude_none=True)
