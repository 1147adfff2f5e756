"""Errors outlive a process: engines keep them, and pools send them."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime

import pytest

from handraise import AlreadySettled, InvalidAnswer, PermissionDenied, QuestionNotFound, Withdrawn
from handraise.model.errors import TooManyRequests
from handraise.model.problems import HandraiseError, Problem

ERRORS: list[HandraiseError] = [
    AlreadySettled("q1", Withdrawn(at=datetime(2026, 1, 5, tzinfo=UTC), by="bot", reason=None)),
    InvalidAnswer([Problem("a.b", "is missing")]),
    PermissionDenied("ann", "nobody asked her"),
    QuestionNotFound("q1", "default"),
    TooManyRequests(3.0),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_is_the_same_in_another_process(error: HandraiseError) -> None:
    pickled = pickle.loads(pickle.dumps(error))  # noqa: S301 -- our own
    for again in (pickled, copy.copy(error)):
        assert type(again) is type(error)
        assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))
