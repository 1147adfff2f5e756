"""Exit codes. An error is one sentence on stderr, and the code says what kind it is.

1: the command failed. 2: the command line is not valid. 69: something is unavailable; try again later. 78: something is
configured wrongly; trying again does not help.

Commands that ask or wait show the status of the question by their code. Only 0 means that a script may
continue: a no and a denial have their own code, so that no script mistakes them for a yes.
"""

from __future__ import annotations

import os
from typing import assert_never

from handraise.desk_factory import address_from, without_secrets
from handraise.model.errors import (
    KeyConflict,
    MissingExtra,
    QuestionNotFound,
    SchemaMismatch,
    StoreUnavailable,
    TooManyRequests,
    UnknownAddress,
    UnsafeStore,
)
from handraise.model.outcomes import Answered, Declined, Exhausted, Expired, Returned, Withdrawn
from handraise.model.problems import HandraiseError
from handraise.model.questions import Question
from handraise.presentation.error_text import error_text
from handraise.presentation.translation import gettext

REFUSED = 1
DECLINED = 3
EXPIRED = 4
WITHDRAWN = 5
EXHAUSTED = 6
STILL_PENDING = 7
ANSWERED_NO = 8
RETURNED = 9
UNAVAILABLE = 69
MISCONFIGURED = 78


class CommandError(Exception):
    """The command failed; the text says why and what to do."""


class ConfigurationError(CommandError):
    """Settings cannot be used."""


EXPECTED = (CommandError, HandraiseError, OSError)
"""What a command may raise; anything else is a bug and shows its traceback."""


def exit_of(error: BaseException) -> tuple[str, int]:
    """The message and the exit code for an error; what people have to do with is in the language of the terminal."""
    match error:
        case ConfigurationError() | UnsafeStore() | SchemaMismatch() | UnknownAddress() | MissingExtra():
            return str(error), MISCONFIGURED
        case StoreUnavailable(misconfigured=True):
            return str(error), MISCONFIGURED
        case StoreUnavailable():
            check = gettext("Check HANDRAISE_URL, and that the store is there.")
            return f"{error_text(str(error)).rstrip('.')}. {check}", UNAVAILABLE
        case TooManyRequests():
            return error_text(str(error)), UNAVAILABLE
        case QuestionNotFound():
            looked = gettext("It was looked for in {address}.").format(
                address=without_secrets(address_from(os.environ))
            )
            return f"{error_text(str(error))} {looked}", REFUSED
        case KeyConflict():  # what to write in Python helps nobody here
            return error_text(str(error).partition(" In Python,")[0]), REFUSED
        case HandraiseError():
            return error_text(str(error)), REFUSED
        case OSError(filename=str(path)):
            return f"{path}: {error.strerror}.{_where_from(path)}", MISCONFIGURED
        case OSError():
            return error.strerror or str(error), UNAVAILABLE
        case _:
            return str(error), REFUSED


def code_of(question: Question) -> int:
    """The exit code for the status of a question."""
    match question.outcome:
        case None:
            return STILL_PENDING
        case Answered(value=value):
            decision = question.decision
            refused = value is False if decision is None else not decision.approved
            return ANSWERED_NO if refused else 0
        case Declined():
            return DECLINED
        case Expired():
            return EXPIRED
        case Withdrawn():
            return WITHDRAWN
        case Exhausted():
            return EXHAUSTED
        case Returned():
            return RETURNED
        case _:
            assert_never(question.outcome)


def _where_from(path: str) -> str:
    """Which variable named a file, if one did."""
    named = (name for name, value in os.environ.items() if name.startswith("HANDRAISE_") and path in value)
    return next((f" Check {name}." for name in named), "")
