"""What crosses between a server and a desk arrives as it left."""

from __future__ import annotations

from dataclasses import MISSING, fields
from datetime import UTC, datetime, timedelta

import pytest

from handraise import (
    Answered,
    Choice,
    Declined,
    Escalation,
    Exhausted,
    Expired,
    Option,
    Outcome,
    Question,
    Status,
    Timeline,
    Withdrawn,
)
from handraise.model.attachments import Attachment
from handraise.model.timelines import steps_of
from handraise.questions import Aside, Match, Need, Report, Ruling, Vote
from handraise.wire.records import LEFT_OUT, OutcomeRecord, QuestionRecord

AT = datetime(2026, 11, 16, 12, tzinfo=UTC)
ENDS = Timeline(
    remind=(timedelta(minutes=5),),
    escalate=(Escalation(after=timedelta(hours=1), to=("boss",)),),
    expire=timedelta(hours=2),
    default="a",
)
OUTCOMES: tuple[Outcome, ...] = (
    Answered(value="a", at=AT, by="ana", source="grant", channel="slack", evidence="session"),
    Declined(at=AT, by="ana", reason="no time", channel="slack", evidence="session"),
    Expired(at=AT),
    Withdrawn(at=AT, by="bot", reason="not needed"),
    Exhausted(at=AT, by="ana"),
)
FULL = Question(
    id="q1",
    workspace="acme",
    asker="bot",
    prompt="Which?",
    form=Choice(options=(Option(id="a", label="A"), Option(id="b", label="B"))),
    context={"why": "because"},
    state=[1, 2],
    key="k",
    shared=True,
    conversation="c",
    tool_call="call_1",
    recipients=("ana", "bob"),
    quorum=2,
    veto=True,
    max_attempts=3,
    steps=steps_of(ENDS),
    trace="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    undo_for=5.0,
    heartbeat=60.0,
    replies="model",
    replaces="q0",
    topic="vat-rate:DE",
    added=("cy",),
    needs=(Need(("ana",)), Need(("group:legal", "bob"), 2, 1)),
    evidence="session",
    ruling=Ruling(
        version=3,
        matches=(Match(rule="two groups", effect="require", failed=True),),
        asked={"quorum": 1},
        checked="digest",
        names_people=True,
        close_orphans=600.0,
    ),
    asked_at=AT,
    heard_at=AT,
    status=Status.ANSWERED,
    attempts=1,
    votes=(Vote("ana", "x"),),
    missing=(0, 2),
    thread=3,
    asked_back=2,
    replied=3,
    steps_taken=2,
    stepped_at=AT,
    taken_by="ana",
    taken_until=AT,
    aside=(Aside("ana", None), Aside("bob", AT)),
    follows="q3",
    replaced_by="q2",
    outcome=OUTCOMES[0],
    consumed_at=AT,
    unreached_at=AT,
    sent_at=AT,
    taken_back_at=AT,
    report=Report(
        ok=False, text="the disk is full", link="https://jobs.example/7", details={"code": 28}, at=AT
    ),
    url="https://desk.example/questions/q1",
    attachments=(Attachment("report.pdf", "application/pdf", 12, "0a" * 32),),
)


def test_every_field_of_a_question_crosses_or_is_listed_as_left_out() -> None:
    for each in fields(Question):
        if each.name not in LEFT_OUT and each.default is not MISSING:
            assert getattr(FULL, each.name) != each.default, f"give the question of this test a {each.name}"
    sent = QuestionRecord.of(FULL, with_state=True).model_dump_json()
    there = QuestionRecord.model_validate_json(sent).question()
    for each in fields(Question):
        if each.name not in LEFT_OUT:
            assert getattr(there, each.name) == getattr(FULL, each.name), each.name


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: outcome.status.value)
def test_every_field_of_an_outcome_crosses(outcome: Outcome) -> None:
    for each in fields(outcome):
        if each.default is not MISSING:
            assert getattr(outcome, each.name) != each.default, f"give the outcome of this test a {each.name}"
    sent = OutcomeRecord.of(outcome).model_dump_json()
    assert OutcomeRecord.model_validate_json(sent).outcome() == outcome
