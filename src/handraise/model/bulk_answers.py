"""Several answers of one person, given together: what each is, what came of it, and what is never answered like this."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from handraise.model.errors import NotInBulk
from handraise.model.forms import Approval
from handraise.model.json_values import JsonValue
from handraise.model.problems import HandraiseError
from handraise.model.provenance import Provenance
from handraise.model.questions import Question

MOST_ANSWERS = 100
"""How many answers one request to a server can have."""


@dataclass(frozen=True, slots=True)
class BulkAnswer:
    """An answer to one of several questions. `provenance` says what its giver saw of this question."""

    question_id: str
    value: JsonValue = field(repr=False)
    provenance: Provenance | None = None


@dataclass(frozen=True, slots=True)
class BulkDecline:
    """Declines to answer one of several questions."""

    question_id: str
    reason: str | None = field(default=None, repr=False)
    provenance: Provenance | None = None


BulkItem: TypeAlias = BulkAnswer | BulkDecline
"""What a person says to one of several questions."""


@dataclass(frozen=True, slots=True)
class BulkResult:
    """What came of one of several answers: the `question` as it is then, or the `error` that `answer` would have raised.

    It is true if the answer was taken.
    """

    question_id: str
    question: Question | None = None
    error: HandraiseError | None = None

    def __bool__(self) -> bool:
        return self.question is not None


def check_bulk(question: Question) -> None:
    """Raise `NotInBulk` for a question that must be read and answered by itself."""
    if isinstance(question.form, Approval) and question.form.risk == "high":
        raise NotInBulk(question.id)
