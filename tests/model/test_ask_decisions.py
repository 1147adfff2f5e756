"""What may be asked: given the facts, a question may be, or there is a reason why not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from handraise.errors import PolicyChanged, Stopped
from handraise.model.ask_decisions import AskFacts, check_ask
from handraise.model.errors import QuotaExceeded
from handraise.model.forms import Approval, Open
from handraise.model.move_decisions import Right
from handraise.model.questions import Draft
from handraise.model.rulings import Ending, Ruling
from handraise.model.standing_answers import StandingAnswer
from handraise.model.stops import Stop

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
VOUCHED, BACKED = Right(None, frozenset()), Right(True, frozenset())


def draft(**values: Any) -> Draft:
    return Draft(**{"id": "q", "workspace": "w", "asker": "bot", "prompt": "?", "form": Open(), **values})


def standing(**values: Any) -> StandingAnswer:
    kept = {
        "id": "s",
        "workspace": "w",
        "topic": "t",
        "value": "yes",
        "given_by": "ana",
        "question_id": "q-0",
    }
    return StandingAnswer(**{**kept, "created_at": NOW, "expires_at": NOW + timedelta(days=1), **values})


def stop(**values: Any) -> Stop:
    return Stop(**{"workspace": "w", "id": "x", "why": "!", "at": NOW, "by": "olga", **values})


BY_STANDING = draft(recipients=("group:ops",), ruling=Ruling(version=0, ending=standing().ending))
BY_RULE = Ruling(version=3, ending=Ending("answered", {"value": "yes", "by": "policy:small"}, rule="r"))
PAY = Approval.of("pay", {"amount": 1})

REFUSED: dict[str, tuple[Draft, dict[str, Any], type[Exception]]] = {
    "everything is stopped": (draft(), {"stops": [stop()]}, Stopped),
    "its tool is stopped": (draft(form=PAY), {"stops": [stop(tool="pay")]}, Stopped),
    "a newer policy": (draft(), {"policy_version": 1}, PolicyChanged),
    "an older policy": (draft(ruling=Ruling(version=3)), {"policy_version": 2}, PolicyChanged),
    "its rule is suspended": (
        draft(ruling=BY_RULE),
        {"policy_version": 3, "is_rule_suspended": True},
        PolicyChanged,
    ),
    "its standing answer is not there": (BY_STANDING, {}, PolicyChanged),
    "it was revoked": (BY_STANDING, {"standing": (standing(revoked_at=NOW), VOUCHED)}, PolicyChanged),
    "it has ended": (BY_STANDING, {"standing": (standing(expires_at=NOW), VOUCHED)}, PolicyChanged),
    "it is the asker's own": (BY_STANDING, {"standing": (standing(given_by="bot"), VOUCHED)}, PolicyChanged),
    "its giver is disabled": (
        BY_STANDING,
        {"standing": (standing(), VOUCHED), "disabled": {"ana"}},
        PolicyChanged,
    ),
    "its giver has left the group": (
        BY_STANDING,
        {"standing": (standing(), BACKED), "known": {"ana": frozenset[str]()}},
        PolicyChanged,
    ),
    "the quota is full": (draft(), {"quota": 2, "pending": 2}, QuotaExceeded),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_question_that_may_not_be_asked_says_why(why: str) -> None:
    about, facts, error = REFUSED[why]
    assert isinstance(check_ask(about, AskFacts(now=NOW, **facts)), error)


MAY_BE_ASKED: dict[str, tuple[Draft, dict[str, Any]]] = {
    "nothing is known": (draft(), {}),
    "other stops": (
        draft(),
        {"stops": [stop(agent="another"), stop(tool="pay"), stop(workspace="elsewhere")]},
    ),
    "the latest policy": (draft(ruling=BY_RULE), {"policy_version": 3}),
    "its giver is in the group": (
        BY_STANDING,
        {"standing": (standing(), BACKED), "known": {"ana": frozenset({"ops"})}},
    ),
    "there is room": (draft(), {"quota": 2, "pending": 1}),
    "what is settled at once needs no room": (
        draft(ruling=BY_RULE),
        {"policy_version": 3, "quota": 2, "pending": 2},
    ),
}


@pytest.mark.parametrize("case", MAY_BE_ASKED)
def test_what_does_not_concern_a_question_does_not_refuse_it(case: str) -> None:
    about, facts = MAY_BE_ASKED[case]
    assert check_ask(about, AskFacts(now=NOW, **facts)) is None
