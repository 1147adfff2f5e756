"""Handraise: a program asks a person something, stops durably, and continues with a validated answer.

A program that asks, answers and waits finds everything here. The rest is in `handraise.errors`, `handraise.forms`,
`handraise.questions`, `handraise.outcomes`, `handraise.events` and `handraise.desks`.
"""

from handraise._version import __version__ as __version__
from handraise.desks import Credentials, Desk, Page, open_desk
from handraise.errors import (
    AlreadySettled,
    HandraiseError,
    InvalidAnswer,
    InvalidQuestion,
    KeyConflict,
    NotAnswered,
    NotApproved,
    PermissionDenied,
    Problem,
    QuestionNotFound,
    StillPending,
    StoreUnavailable,
)
from handraise.events import Event
from handraise.forms import Action, Approval, Choice, Confirm, Field, Form, MultiChoice, Open, Option
from handraise.outcomes import Answered, Decision, Declined, Exhausted, Expired, Outcome, Status, Withdrawn
from handraise.questions import Escalation, Grant, Provenance, Question, Responder, Timeline

__all__ = [
    "Action",
    "AlreadySettled",
    "Answered",
    "Approval",
    "Choice",
    "Confirm",
    "Credentials",
    "Decision",
    "Declined",
    "Desk",
    "Escalation",
    "Event",
    "Exhausted",
    "Expired",
    "Field",
    "Form",
    "Grant",
    "HandraiseError",
    "InvalidAnswer",
    "InvalidQuestion",
    "KeyConflict",
    "MultiChoice",
    "NotAnswered",
    "NotApproved",
    "Open",
    "Option",
    "Outcome",
    "Page",
    "PermissionDenied",
    "Problem",
    "Provenance",
    "Question",
    "QuestionNotFound",
    "Responder",
    "Status",
    "StillPending",
    "StoreUnavailable",
    "Timeline",
    "Withdrawn",
    "open_desk",
]
