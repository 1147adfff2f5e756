"""Handraise: a program asks a person something, stops durably, and carries on with a validated answer."""

from handraise.desk.ids import counted_ids, uuid7_ids
from handraise.desk.local import LocalDesk
from handraise.model.checking import Decision
from handraise.model.coercing import coerce_choices
from handraise.model.composing import Limits, QuestionOptions
from handraise.model.errors import (
    AlreadyConsumed,
    AlreadySettled,
    DeskClosed,
    GrantNotFound,
    HandraiseError,
    InvalidAnswer,
    InvalidQuestion,
    InvalidRequest,
    KeyConflict,
    MissingExtra,
    NotAnswered,
    NotApproved,
    NotEntitled,
    NotFound,
    NotSignedIn,
    Problem,
    QuestionNotFound,
    RequestConflict,
    SchemaMismatch,
    StillPending,
    StoreUnavailable,
    TooManyRequests,
    UnknownAddress,
    UnsafeStore,
    UnusableAnswer,
)
from handraise.model.events import Event, EventKind
from handraise.model.forms import (
    Action,
    AnyForm,
    Approval,
    Choice,
    Confirm,
    Field,
    Form,
    MultiChoice,
    Open,
    Option,
    Risk,
    Scope,
)
from handraise.model.grants import Grant
from handraise.model.outcomes import (
    Answered,
    Declined,
    Exhausted,
    Expired,
    Outcome,
    Status,
    Withdrawn,
)
from handraise.model.people import Responder
from handraise.model.questions import Draft, Question, Ref, Vote
from handraise.model.replies import NotAnAnswer, Reply, Understood, read_reply
from handraise.model.schemas import form_from_schema, form_to_schema
from handraise.model.timelines import Escalation, Timeline
from handraise.opening import DeskOptions, open_desk, open_desk_on
from handraise.ports import Durability, Recovered
from handraise.ports.desk import Desk, Page
from handraise.wire.credentials import Credentials

__version__ = "0.1.0"

__all__ = [
    "Action",
    "AlreadyConsumed",
    "AlreadySettled",
    "Answered",
    "AnyForm",
    "Approval",
    "Choice",
    "Confirm",
    "Credentials",
    "Decision",
    "Declined",
    "Desk",
    "DeskClosed",
    "DeskOptions",
    "Draft",
    "Durability",
    "Escalation",
    "Event",
    "EventKind",
    "Exhausted",
    "Expired",
    "Field",
    "Form",
    "Grant",
    "GrantNotFound",
    "HandraiseError",
    "InvalidAnswer",
    "InvalidQuestion",
    "InvalidRequest",
    "KeyConflict",
    "Limits",
    "LocalDesk",
    "MissingExtra",
    "MultiChoice",
    "NotAnAnswer",
    "NotAnswered",
    "NotApproved",
    "NotEntitled",
    "NotFound",
    "NotSignedIn",
    "Open",
    "Option",
    "Outcome",
    "Page",
    "Problem",
    "Question",
    "QuestionNotFound",
    "QuestionOptions",
    "Recovered",
    "Ref",
    "Reply",
    "RequestConflict",
    "Responder",
    "Risk",
    "SchemaMismatch",
    "Scope",
    "Status",
    "StillPending",
    "StoreUnavailable",
    "Timeline",
    "TooManyRequests",
    "Understood",
    "UnknownAddress",
    "UnsafeStore",
    "UnusableAnswer",
    "Vote",
    "Withdrawn",
    "coerce_choices",
    "counted_ids",
    "form_from_schema",
    "form_to_schema",
    "open_desk",
    "open_desk_on",
    "read_reply",
    "uuid7_ids",
]
