from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from handraise import (
    Answered,
    Approval,
    Confirm,
    Expired,
    Open,
    Outcome,
    PermissionDenied,
    Question,
    Responder,
    Withdrawn,
)
from handraise.model.evidence import CLIENT_ASSERTED, EMAIL_SENDER, check_evidence
from handraise.model.people import check_may_respond, may_respond, may_see, responder_of
from handraise.model.timelines import Step
from handraise.questions import Vote

OPS = Responder("ana", groups=frozenset({"ops", "dev"}))


def question(*recipients: str, steps_taken: int = 0) -> Question:
    return Question(
        id="q",
        workspace="w",
        asker="agent",
        prompt="What?",
        form=Open(),
        recipients=recipients,
        steps=(Step(timedelta(hours=1), "escalate", ("zoe", "group:leads")),),
        steps_taken=steps_taken,
        asked_at=datetime(2026, 11, 15, tzinfo=UTC),
    )


@pytest.mark.parametrize("recipients", [(), ("ana",), ("bob", "ana"), ("group:ops",), ("bob", "group:dev")])
def test_a_person_may_answer_by_name_by_group_or_where_anyone_may(recipients: tuple[str, ...]) -> None:
    assert may_respond(question(*recipients), OPS)


@pytest.mark.parametrize("recipients", [("group:leads",), ("ops",), ("group:ana",), ("bob",), ("Ana",)])
def test_a_person_to_whom_it_is_not_addressed_may_not(recipients: tuple[str, ...]) -> None:
    assert not may_respond(question(*recipients), OPS)
    with pytest.raises(PermissionDenied, match="addressed to others"):
        check_may_respond(question(*recipients), OPS)


@pytest.mark.parametrize("recipients", [(), ("agent",), ("group:ops",), ("ana", "agent")])
def test_the_asker_never_may(recipients: tuple[str, ...]) -> None:
    asker = Responder("agent", groups=frozenset({"ops"}))
    assert not may_respond(question(*recipients), asker)
    with pytest.raises(PermissionDenied, match="the asker"):
        check_may_respond(question(*recipients), asker)


def test_those_escalated_to_may_answer_from_then_on() -> None:
    zoe, lead = Responder("zoe"), Responder("lee", groups=frozenset({"leads"}))
    assert not any(may_respond(question("ana"), person) for person in (zoe, lead))
    assert all(may_respond(question("ana", steps_taken=1), person) for person in (zoe, lead, OPS))


def test_an_escalation_does_not_narrow_a_question_that_anyone_may_answer() -> None:
    assert question(steps_taken=1).audience == ()
    assert may_respond(question(steps_taken=1), OPS)


@pytest.mark.parametrize(
    "by",
    [
        "",
        " ",
        "group:ops",
        "command line",
        "command line (root)",
        "a\x00b",
        "\ud800",
        Responder("ana", frozenset({"\x00"})),
    ],
)
def test_a_name_that_no_store_could_keep_or_that_is_no_person_is_refused(by: str | Responder) -> None:
    with pytest.raises(PermissionDenied):
        responder_of(by)
    assert responder_of("ana") == Responder("ana")
    assert responder_of(OPS) is OPS


AT = datetime(2026, 11, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("outcome", "votes", "seen"),
    [
        (None, (), False),
        (Answered(value="a", at=AT, by="ana"), (), True),
        (Answered(value="a", at=AT, by="bob"), (), False),
        (Answered(value="a", at=AT, by="bob"), (Vote("ana", "1"),), True),
        (Answered(value="a", at=AT, source="default"), (Vote("bob", "1"),), False),
        (Withdrawn(at=AT, by="agent"), (), False),
        (Expired(at=AT), (), False),
    ],
)
def test_whoever_took_part_may_look_though_they_may_answer_no_more(
    outcome: Outcome | None,
    votes: tuple[Vote, ...],
    seen: bool,  # noqa: FBT001 -- a case
) -> None:
    ended = replace(question("bob"), outcome=outcome, votes=votes)
    assert may_see(ended, Responder("ana")) is seen
    assert may_see(ended, Responder("bob"))
    assert may_see(replace(ended, recipients=()), Responder("ana"))


@pytest.mark.parametrize(
    "weak",
    [
        CLIENT_ASSERTED,
        EMAIL_SENDER,
        "webhook-signature",
        "signed-link",
        "session-vouched-by:boss",
        "",
        "matrix-sender",
        "slack-signature",
        "slack-socket",
        "discord-signature",
        "Session",
        "session ",
    ],
)
def test_the_word_of_a_program_is_too_little_for_an_action_of_high_risk_only(weak: str) -> None:
    high = replace(question(), form=Approval.of("pay", risk="high"))
    with pytest.raises(PermissionDenied, match="of high risk"):
        check_evidence(high, OPS, weak)
    for evidence in (None, "session", "session-vouched-by:command line (root)"):
        check_evidence(high, OPS, evidence)
    for form in (Approval.of("pay"), Approval.of("pay", risk="low"), Confirm()):
        check_evidence(replace(high, form=form), OPS, weak)
