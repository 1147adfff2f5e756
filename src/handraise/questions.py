"""Questions, and what belongs to them: options, limits, votes, timelines, messages, grants, rulings."""

from handraise.model.drafting import Limits, QuestionOptions
from handraise.model.grants import Grant
from handraise.model.people import Responder
from handraise.model.provenance import Provenance
from handraise.model.questions import Draft, Need, Question, Ref, Vote
from handraise.model.reports import Report
from handraise.model.rulings import Match, Ruling
from handraise.model.thread_messages import ThreadMessage
from handraise.model.timelines import Escalation, Timeline
from handraise.wire.records import question_to_dict

__all__ = [
    "Draft",
    "Escalation",
    "Grant",
    "Limits",
    "Match",
    "Need",
    "Provenance",
    "Question",
    "QuestionOptions",
    "Ref",
    "Report",
    "Responder",
    "Ruling",
    "ThreadMessage",
    "Timeline",
    "Vote",
    "question_to_dict",
]
