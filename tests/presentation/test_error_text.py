"""What was wrong, for people: every sentence that an answer can be refused with is in the catalogue."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from handraise.desk import approval_use, local_desk, question_access
from handraise.model import evidence, json_values, people, sharing_rules, thread_messages, validation
from handraise.model.errors import (
    AlreadyConsumed,
    AlreadySettled,
    CannotAskBack,
    InvalidAnswer,
    InvalidMessage,
    NotApproved,
    NothingToReply,
    NotInBulk,
    QuestionNotFound,
    ThreadMoved,
)
from handraise.model.outcomes import Answered, Declined, Exhausted, Expired, Outcome, Withdrawn
from handraise.model.problems import HandraiseError, Problem
from handraise.presentation.error_text import error_text
from handraise.presentation.translation import Locale, use_locale
from support.source_trees import tree_of
from tests.marked_language import marked_language, unmarked

DEVELOPERS = (
    "is not JSON",
    "is not a JSON number",
    "has a key that",
    "is not a usable pattern",
    "only the asker can replace it",
    "you have no question with this id",
)
"""What only a program can do wrong."""


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every translation is the English sentence in brackets."""
    with marked_language(monkeypatch):
        yield


REASONS = {"Problem": 1, "PermissionDenied": 1, "_own_question": 1, "NotApproved": 2, "ApprovalTakenBack": 2}
"""Which argument of these calls says what is wrong."""


def sentences(module: str | None) -> Iterator[str]:
    """The messages of all problems and refusals in a module, with a number in place of each value."""
    assert module is not None
    for node in ast.walk(tree_of(Path(module))):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        place = REASONS.get(called)
        if place is not None and len(node.args) > place:
            match node.args[place]:
                case ast.Constant(value=str(text)):
                    yield text
                case ast.JoinedStr(values=values):
                    yield "".join(
                        str(each.value) if isinstance(each, ast.Constant) else "7" for each in values
                    )


@pytest.mark.usefixtures("marked")
@pytest.mark.parametrize(
    "module",
    [
        validation,
        json_values,
        people,
        thread_messages,
        sharing_rules,
        local_desk,
        question_access,
        approval_use,
    ],
    ids=lambda module: module.__name__,
)
def test_every_reason_against_an_answer_is_known(module: object) -> None:
    found = [each for each in sentences(getattr(module, "__file__", None)) if not _is_for_developers(each)]
    # "expected {wanted}, got …" is of two sentences.
    unknown = [each for each in found if error_text(each) == each and each != "expected 7, got 7"]
    assert found
    assert unknown == []


@pytest.mark.usefixtures("marked")
def test_every_reason_against_weak_evidence_is_known() -> None:
    for why in evidence._WHY_WEAK.values():  # noqa: SLF001 -- these are the sentences
        assert error_text(why) == f"⟦{why}⟧"


@pytest.mark.usefixtures("marked")
def test_a_part_that_is_a_sentence_of_ours_is_translated_too() -> None:
    said = error_text("'ann' may not do this: the asker cannot answer.")
    assert said == "⟦'ann' may not do this: ⟦the asker cannot answer⟧.⟧"
    assert error_text("expected a number, got a text") == "⟦expected a number, got ⟦a text⟧⟧"
    assert error_text("must be at least {least}, is 3") == "⟦must be at least {least}, is 3⟧"


AT = datetime(2026, 11, 15, tzinfo=UTC)
OUTCOMES: list[Outcome] = [
    Answered(value="sent by mail", at=AT, by="lorem"),
    Answered(value=True, at=AT, by="lorem", source="grant"),
    Answered(value=True, at=AT, source="default"),
    Declined(at=AT, by="lorem"),
    Expired(at=AT),
    Withdrawn(at=AT, by="lorem"),
    Exhausted(at=AT, by="lorem"),
]
ERRORS: list[HandraiseError] = [
    *(AlreadySettled("1", outcome) for outcome in OUTCOMES),
    *(NotApproved("1", outcome, str(outcome)) for outcome in OUTCOMES),
    QuestionNotFound("1", "ipsum"),
    QuestionNotFound("1", "ipsum", "lorem"),
    AlreadyConsumed("1"),
    InvalidAnswer([Problem("magna", "is required"), Problem("", "is larger than 5 bytes")]),
    InvalidMessage([Problem("magna", "is empty: write something")]),
    CannotAskBack("1"),
    NotInBulk("1"),
    NothingToReply("1"),
    ThreadMoved("1", seen=2, thread=3),
]


@pytest.mark.usefixtures("marked")
@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_every_error_that_people_meet_is_known(error: HandraiseError) -> None:
    assert unmarked([error_text(str(error))]) == []


def test_what_somebody_answered_is_not_taken_for_our_words() -> None:
    with use_locale(Locale("de")):
        said = error_text(str(AlreadySettled("1", OUTCOMES[0])))
    assert "'sent by mail'" in said


@pytest.mark.usefixtures("marked")
def test_what_is_not_known_stays_as_it_is() -> None:
    assert error_text("lorem ipsum {dolor}") == "lorem ipsum {dolor}"


@pytest.mark.usefixtures("marked")
def test_each_of_several_problems_is_translated_after_the_name_of_its_field() -> None:
    said = error_text("net: amount: is required; lorem; e-mail: is not an e-mail address")
    assert said == "net: amount: ⟦is required⟧; lorem; e-mail: ⟦is not an e-mail address⟧"
    said = error_text("expected a number, got a text; net: is required")
    assert said == "⟦expected a number, got ⟦a text⟧⟧; net: ⟦is required⟧"
    said = error_text("there is no option 9; choose from 1 to 3")
    assert said == "⟦there is no option 9; choose from 1 to 3⟧"


@pytest.mark.usefixtures("marked")
@pytest.mark.parametrize("often", ["a: ", "a; ", "it ", "'ann' may not do this: "])
def test_a_message_of_very_many_parts_can_be_shown(often: str) -> None:
    assert error_text(often * 2_000 + "lorem").rstrip("⟧").endswith("lorem")


def test_english_stays_english() -> None:
    assert error_text("expected a number, got a text") == "expected a number, got a text"


def _is_for_developers(text: str) -> bool:
    return any(each in text for each in DEVELOPERS)
