"""How a question ended: one sentence, and what stands beside it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from handraise import (
    Answered,
    Approval,
    Choice,
    Confirm,
    Declined,
    Exhausted,
    Expired,
    Field,
    Form,
    Open,
    Outcome,
    Question,
    Withdrawn,
)
from handraise.forms import AnyForm
from handraise.presentation.outcome_text import (
    edited_arguments,
    outcome_details,
    outcome_text,
    outcome_title,
)
from handraise.testing.contract.channel import AT, a_question, settled

PAY = Approval.of("pay", {"amount": 5}, editable=["amount"], scopes=("once", "always"))


def ended(outcome: Outcome, form: AnyForm | None = None) -> Question:
    return settled(a_question(form or Open()), outcome)


def approval(**value: object) -> Answered:
    return Answered(value={"decision": "approve", "digest": PAY.digest, **value}, at=AT, by="ann")


ENDINGS: dict[str, tuple[Question, str, list[str]]] = {
    "an answer": (ended(Answered(value="soon", at=AT, by="ann")), "Answered by ann", ["soon"]),
    "a yes": (ended(Answered(value=True, at=AT, by="ann"), Confirm()), "Answered by ann", ["Yes"]),
    "a choice": (
        ended(Answered(value="a", at=AT, by="ann"), Choice.of("a", "b")),
        "Answered by ann",
        ["a"],
    ),
    "a form": (
        ended(
            Answered(value={"reason": "late"}, at=AT, by="ann"),
            Form(fields=(Field(name="reason", form=Open(), title="Reason"),)),
        ),
        "Answered by ann",
        ["Reason: late"],
    ),
    "an approval": (ended(approval(), PAY), "Approved by ann", []),
    "an approval for longer": (ended(approval(scope="always"), PAY), "Approved by ann, always", []),
    "an approval with a reason": (ended(approval(reason="fine"), PAY), "Approved by ann", ["fine"]),
    "an edited approval": (
        ended(approval(arguments={"amount": 4}), PAY),
        "Approved with changed arguments by ann",
        [],
    ),
    "a denial": (ended(approval(decision="deny", reason="no"), PAY), "Denied by ann", ["no"]),
    "a decision that this release cannot read": (
        ended(Answered(value=["approve"], at=AT, by="ann"), PAY),
        "Answered by ann",
        ['["approve"]'],
    ),
    "a default": (
        ended(Answered(value="b", at=AT, source="default")),
        "Nobody answered in time, so the agent's default was taken",
        ["b"],
    ),
    "a grant": (
        ended(replace(approval(), source="grant"), PAY),
        "Approved by a grant that ann gave before",
        [],
    ),
    "a refusal to answer": (ended(Declined(at=AT, by="ann", reason="busy")), "Declined by ann", ["busy"]),
    "an expiry": (ended(Expired(at=AT)), "Expired without an answer", []),
    "withdrawn by an administrator": (ended(Withdrawn(at=AT, by="boss")), "Withdrawn by boss", []),
    "too many attempts": (
        ended(Exhausted(at=AT, by="ann")),
        "Closed after too many answers that did not fit, the last by ann",
        [],
    ),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_each_ending_has_its_sentence_and_what_was_said(name: str) -> None:
    question, sentence, details = ENDINGS[name]
    assert str(outcome_text(question)) == sentence
    assert [str(part) for part in outcome_details(question)] == details


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("an answer", "Answered by ann"),
        ("a denial", "Denied by ann"),
        ("a default", "Answered"),
        ("a grant", "Approved"),
        ("an expiry", "Expired"),
        ("withdrawn by an administrator", "Withdrawn"),
        ("too many attempts", "Closed"),
    ],
)
def test_a_notification_has_a_short_title(name: str, title: str) -> None:
    assert outcome_title(ENDINGS[name][0]) == title


def test_the_agent_has_no_name_in_our_own_words() -> None:
    question = a_question(Open())
    withdrawn = settled(question, Withdrawn(at=AT, by=question.asker, reason="solved"))
    assert str(outcome_text(withdrawn)) == "Withdrawn by the agent"


def test_the_reader_is_you_and_a_name_hides_nothing() -> None:
    question = ended(Answered(value="x", at=AT, by="a\u202enn" + "n" * 200))
    assert str(outcome_text(ended(Answered(value="x", at=AT, by="ann")), viewer="ann")) == "Answered by you"
    shown = outcome_text(question).person
    assert "\u202e" not in shown
    assert len(shown) <= 80


def test_edited_arguments_are_those_that_were_approved() -> None:
    assert edited_arguments(ENDINGS["an edited approval"][0]) == {"amount": 4}
    for name in ("an approval", "an answer", "a decision that this release cannot read"):
        assert edited_arguments(ENDINGS[name][0]) is None
