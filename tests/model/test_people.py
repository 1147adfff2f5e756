from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from handraise import NotEntitled, Open, Question, Responder
from handraise.model.people import check_may_respond, may_respond, responder_of
from handraise.model.timelines import Step

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
    with pytest.raises(NotEntitled, match="addressed to others"):
        check_may_respond(question(*recipients), OPS)


@pytest.mark.parametrize("recipients", [(), ("agent",), ("group:ops",), ("ana", "agent")])
def test_the_asker_never_may(recipients: tuple[str, ...]) -> None:
    asker = Responder("agent", groups=frozenset({"ops"}))
    assert not may_respond(question(*recipients), asker)
    with pytest.raises(NotEntitled, match="whoever asks"):
        check_may_respond(question(*recipients), asker)


def test_those_escalated_to_may_answer_from_then_on() -> None:
    zoe, lead = Responder("zoe"), Responder("lee", groups=frozenset({"leads"}))
    assert not any(may_respond(question("ana"), person) for person in (zoe, lead))
    assert all(may_respond(question("ana", steps_taken=1), person) for person in (zoe, lead, OPS))


def test_an_escalation_does_not_narrow_a_question_that_anyone_may_answer() -> None:
    assert question(steps_taken=1).audience == ()
    assert may_respond(question(steps_taken=1), OPS)


@pytest.mark.parametrize(
    "by", ["", " ", "group:ops", "a\x00b", "\ud800", Responder("ana", frozenset({"\x00"}))]
)
def test_a_name_that_no_store_could_keep_or_that_is_no_person_is_refused(by: str | Responder) -> None:
    with pytest.raises(NotEntitled):
        responder_of(by)
    assert responder_of("ana") == Responder("ana")
    assert responder_of(OPS) is OPS
