"""Handraise: a program asks a person something, stops durably, and continues with a validated answer.

A program that asks, answers and waits finds everything here. The rest is in `handraise.errors`, `handraise.forms`,
`handraise.questions`, `handraise.outcomes`, `handraise.events`, `handraise.desks` and `handraise.callbacks`.

A name is imported when it is first used, so that a program that uses few of them starts fast.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from handraise._version import __version__ as __version__

if TYPE_CHECKING:
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
    from handraise.outcomes import (
        Answered,
        Decision,
        Declined,
        Exhausted,
        Expired,
        Outcome,
        Status,
        Withdrawn,
    )
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

_MODULES = ("errors", "outcomes", "events", "forms", "questions", "desks", "callbacks")
"""Where the names of `__all__` are, those that import least first."""


if not TYPE_CHECKING:  # else a type checker would take any name

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            return _import_module(f"{__name__}.{name}")
        if name in __all__:
            for each in _MODULES:
                module = _import_module(f"{__name__}.{each}")
                if name in module.__all__:
                    globals()[name] = found = getattr(module, name)
                    return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
