"""Which evidence of a person is strong enough to decide a question, and to administer."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from handraise.model.errors import PermissionDenied
from handraise.model.evidence import check_may_administer, why_too_weak
from handraise.model.forms import Approval, Risk
from handraise.model.people import responder_of
from handraise.model.questions import Need, Question

NOW = datetime(2030, 1, 1, tzinfo=UTC)
VOUCHED = "session-vouched-by:boss"
VOUCHED_PASSKEY = "passkey-vouched-by:boss"
BY_OPERATOR = "session-vouched-by:command line (root)"
BY_ADDRESS = "session-vouched-by:address:boss"
PASSKEY_BY_ADDRESS = "passkey-vouched-by:address:boss"


def asked(risk: Risk = "medium", *, quorum: int = 1, needs: tuple[Need, ...] = ()) -> Question:
    return Question(
        workspace="w",
        id="q",
        asker="bot",
        prompt="Go?",
        form=Approval.of("pay", {"eur": 1}, risk=risk),
        quorum=quorum,
        needs=needs,
        asked_at=NOW,
    )


@pytest.mark.parametrize(
    ("question", "evidence", "refuses", "why"),
    [
        (asked(), VOUCHED, False, None),
        (asked(quorum=2), VOUCHED, False, "several people must agree, and 'boss' made the link"),
        (asked(quorum=2), VOUCHED_PASSKEY, False, "several people must agree, and 'boss' made the link"),
        (asked(quorum=2), VOUCHED, True, None),
        (asked(quorum=2), BY_OPERATOR, False, None),
        (asked(quorum=2), "session", False, None),
        (asked(quorum=2), "slack-signature", False, None),
        (asked(quorum=2), None, False, None),
        (asked(needs=(Need(("ana",)),)), VOUCHED, False, None),
        (asked(needs=(Need(("ana",)), Need(("bo",), stage=1))), VOUCHED, False, "several people"),
        (asked("high"), VOUCHED, False, "the action is of high risk"),
        (
            asked(quorum=2),
            BY_ADDRESS,
            False,
            "several people must agree, and 'boss' chose the e-mail address",
        ),
        (
            asked(quorum=2),
            PASSKEY_BY_ADDRESS,
            False,
            "several people must agree, and 'boss' chose the e-mail",
        ),
        (asked("high", quorum=2), BY_ADDRESS, False, "several people must agree, and 'boss' chose"),
        (asked(needs=(Need(("ana",)), Need(("bo",), stage=1))), BY_ADDRESS, False, "several people"),
        (asked(quorum=2), BY_ADDRESS, True, None),
        (asked(), BY_ADDRESS, False, None),
        (asked("high"), BY_ADDRESS, False, None),
        (asked("high"), PASSKEY_BY_ADDRESS, False, None),
    ],
)
def test_where_several_people_agree_nobody_can_be_two_of_them(
    question: Question, evidence: str | None, *, refuses: bool, why: str | None
) -> None:
    found = why_too_weak(question, evidence, refuses=refuses)
    assert (found is None) if why is None else (found or "").startswith(why)


@pytest.mark.parametrize("evidence", [VOUCHED, VOUCHED_PASSKEY, "client-asserted", "signed-link"])
def test_weak_evidence_administers_nothing(evidence: str) -> None:
    with pytest.raises(PermissionDenied, match="this changes the workspace"):
        check_may_administer("ann", evidence)


@pytest.mark.parametrize("evidence", ["session", "passkey", BY_OPERATOR, BY_ADDRESS])
def test_strong_evidence_administers(evidence: str) -> None:
    check_may_administer("ann", evidence)


@pytest.mark.parametrize("name", ["address:boss", "address:"])
def test_nobody_has_a_name_that_says_who_chose_an_address(name: str) -> None:
    with pytest.raises(PermissionDenied, match="reserved"):
        responder_of(name)
