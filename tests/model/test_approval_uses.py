"""Using an approval: given the facts, it can be used until an instant, or there is a reason why not."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from handraise.model.approval_uses import (
    SealedEnding,
    Use,
    UseFacts,
    UseRefusal,
    UseRefused,
    can_be_reported,
    can_be_taken_back,
    check_use,
)
from handraise.model.forms import Approval
from handraise.model.grants import Grant
from handraise.model.move_decisions import Right
from handraise.model.outcomes import Answered, Status
from handraise.model.questions import Question, Vote
from handraise.model.receipts import UsableApproval
from handraise.model.rulings import Ruling
from handraise.model.stops import Stop
from handraise.model.validation import check_answer

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
PAY = Approval.of("pay", {"amount": 1}, valid_for=7200)
VALUE = check_answer(PAY, "approve")
DENIED = check_answer(PAY, "deny")
SEALED = SealedEnding("answered", {"value": VALUE, "by": "ana"})
VOUCHED = Right(None, frozenset())
USE = Use(by="bot", digest=VALUE["digest"], request="r")
GRANT = Grant(
    id="g",
    workspace="w",
    asker="bot",
    tool="pay",
    digest="d",
    scope="always",
    conversation=None,
    granted_by="ana",
    question_id="q-0",
    created_at=NOW,
    expires_at=NOW + HOUR,
)
STOP = Stop(workspace="w", id="x", tool="pay", why="!", at=NOW, by="olga")


def approved(source: str = "person", **values: Any) -> Question:
    outcome = Answered(value=VALUE, at=NOW - HOUR, by="ana", source=source)  # type: ignore[arg-type]  # of the table
    asked = {
        "id": "q",
        "workspace": "w",
        "asker": "bot",
        "prompt": "?",
        "form": PAY,
        "asked_at": NOW - 2 * HOUR,
    }
    return Question(**{**asked, "status": Status.ANSWERED, "outcome": outcome, **values})


def facts(**values: Any) -> UseFacts:
    return UseFacts(**{"now": NOW, "endings": [SEALED], **values})


REFUSED: dict[str, tuple[Question, Use, UseFacts, UseRefusal]] = {
    "it is another asker's": (approved(), replace(USE, by="x"), facts(), UseRefusal.NOT_APPROVED),
    "another action was approved": (approved(), replace(USE, digest="x"), facts(), UseRefusal.NOT_APPROVED),
    "it was denied": (
        approved(outcome=Answered(value=DENIED, at=NOW, by="ana")),
        USE,
        facts(),
        UseRefusal.NOT_APPROVED,
    ),
    "nobody has decided": (
        approved(status=Status.PENDING, outcome=None),
        USE,
        facts(),
        UseRefusal.NOT_APPROVED,
    ),
    "it is stopped": (approved(), USE, facts(stops=[STOP]), UseRefusal.STOPPED),
    "a stop is said first": (approved(consumed_at=NOW), USE, facts(stops=[STOP]), UseRefusal.STOPPED),
    "it was used": (approved(consumed_at=NOW), USE, facts(), UseRefusal.USED),
    "it was taken back": (approved(taken_back_at=NOW), USE, facts(), UseRefusal.TAKEN_BACK),
    "its history has no ending": (approved(), USE, facts(endings=[]), UseRefusal.HISTORY_DIFFERS),
    "its history has two": (approved(), USE, facts(endings=[SEALED, SEALED]), UseRefusal.HISTORY_DIFFERS),
    "its history says denied": (
        approved(),
        USE,
        facts(endings=[SealedEnding("answered", {"value": DENIED})]),
        UseRefusal.HISTORY_DIFFERS,
    ),
    "it was not used in time": (approved(), USE, facts(now=NOW + HOUR), UseRefusal.LAPSED),
    "its grant is gone": (approved("grant"), USE, facts(), UseRefusal.GRANT_ENDED),
    "its grant was revoked": (
        approved("grant"),
        USE,
        facts(grant=(replace(GRANT, revoked_at=NOW), VOUCHED)),
        UseRefusal.GRANT_ENDED,
    ),
    "the giver of the grant is disabled": (
        approved("grant"),
        USE,
        facts(grant=(GRANT, VOUCHED), disabled={"ana"}),
        UseRefusal.GRANT_ENDED,
    ),
    "the giver of the grant was removed": (
        approved("grant"),
        USE,
        facts(grant=(GRANT, Right(True, frozenset()))),
        UseRefusal.GRANT_ENDED,
    ),
    "there is no policy any more": (approved("policy"), USE, facts(), UseRefusal.POLICY_CHANGED),
    "the caller knows an older policy": (
        approved("policy"),
        replace(USE, decided_by=Ruling(version=2)),
        facts(policy_version=3),
        UseRefusal.POLICY_CHANGED,
    ),
    "its rule is suspended": (
        approved("policy"),
        replace(USE, decided_by=Ruling(version=3)),
        facts(policy_version=3, is_rule_suspended=True),
        UseRefusal.POLICY_CHANGED,
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_an_approval_that_cannot_be_used_says_why(why: str) -> None:
    question, use, known, refusal = REFUSED[why]
    found = check_use(question, use, known)
    assert isinstance(found, UseRefused)
    assert (found.why, found.stop) == (refusal, STOP if refusal is UseRefusal.STOPPED else None)


@pytest.mark.parametrize(
    ("question", "use", "known", "ends"),
    [
        (approved(), USE, facts(), NOW + HOUR),
        (approved(form=PAY.model_copy(update={"valid_for": None})), USE, facts(), None),
        (
            approved("grant"),
            USE,
            facts(grant=(replace(GRANT, expires_at=NOW + HOUR / 2), VOUCHED)),
            NOW + HOUR / 2,
        ),
        (approved("policy"), replace(USE, decided_by=Ruling(version=3)), facts(policy_version=3), NOW + HOUR),
        (approved(), USE, facts(stops=[replace(STOP, tool="refund")]), NOW + HOUR),
    ],
    ids=["by a person", "for ever", "by a grant", "by a policy", "another tool is stopped"],
)
def test_an_approval_can_be_used_until_the_first_of_its_ends(
    question: Question, use: Use, known: UseFacts, ends: datetime | None
) -> None:
    assert check_use(question, use, known) == UsableApproval(NOW, ends)


@pytest.mark.parametrize(
    ("question", "person", "admin", "can"),
    [
        (approved(), "ana", False, True),
        (approved(), "bob", False, False),
        (approved(), "bob", True, True),
        (approved(votes=(Vote("ana", "x"), Vote("bob", "x"))), "bob", False, True),
        (approved(votes=(Vote("ana", "x"), Vote("bob", "y"))), "bob", False, False),
        (approved(consumed_at=NOW), "ana", True, False),
        (approved(taken_back_at=NOW), "ana", True, False),
        (approved(outcome=Answered(value=DENIED, at=NOW, by="ana")), "ana", True, False),
    ],
)
def test_who_gave_an_approval_or_administers_can_take_it_back_until_it_is_used(
    question: Question,
    person: str,
    admin: bool,  # noqa: FBT001 -- a column of the table
    can: bool,  # noqa: FBT001 -- a column of the table
) -> None:
    assert can_be_taken_back(question, person, administrator=admin) is can


def test_an_asker_reports_once_and_an_approval_only_after_it_was_used() -> None:
    assert can_be_reported(approved(consumed_at=NOW), "bot")
    assert not can_be_reported(approved(), "bot")
    assert not can_be_reported(approved(consumed_at=NOW), "another")
