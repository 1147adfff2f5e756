"""Questions, and what belongs to them: options, limits, votes, timelines, grants, rulings."""

from handraise.model.drafting import Limits, QuestionOptions
from handraise.model.grants import Grant
from handraise.model.people import Responder
from handraise.model.provenance import Provenance
from handraise.model.questions import Draft, Need, Question, Ref, Vote
from handraise.model.reports import Report
from handraise.model.rulings import Match, Ruling
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
    "Timeline",
    "Vote",
    "question_to_dict",
]
