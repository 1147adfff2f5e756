from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from handraise import Choice, Confirm, KeyConflict, Open, Question, Status, Timeline
from handraise.model.lifecycle import same_question
from handraise.model.questions import changed, posted
from handraise.model.timelines import steps_of
from handraise.questions import Draft

DRAFT = Draft(
    id="q-1",
    workspace="w",
    asker="agent",
    prompt="Which?",
    form=Choice.of("a", "b"),
    key="k",
    steps=steps_of(Timeline(expire=timedelta(hours=1))),
)


def stored(draft: Draft) -> Question:
    values = {name: getattr(draft, name) for name in Draft.__dataclass_fields__}
    return Question(**values, asked_at=datetime(2026, 11, 15, tzinfo=UTC))


@pytest.mark.parametrize(
    "changes",
    [
        {"prompt": "Which one?"},
        {"form": Choice.of("a", "b", "c")},
        {"form": Choice.of("a", "b", allow_other=True)},
        {"form": Confirm()},
        {"conversation": "c"},
        {"recipients": ("ana",)},
        {"quorum": 2},
        {"veto": True},
        {"steps": ()},
        {"steps": steps_of(Timeline(expire=timedelta(hours=2)))},
        {"steps": steps_of(Timeline(expire=timedelta(hours=1), default="a"))},
    ],
    ids=" ".join,
)
def test_what_a_person_is_asked_makes_it_another_question(changes: dict[str, Any]) -> None:
    known, posted = stored(DRAFT), replace(DRAFT, **changes)
    conflict = same_question(posted, known)
    assert isinstance(conflict, KeyConflict)
    assert conflict.existing is known
    assert conflict.differences
    for each in conflict.differences:
        assert f"{each.field}: stored {each.stored}, posted {each.posted}" in str(conflict)


@pytest.mark.parametrize("changes", [{"id": "q-2"}, {"context": {"run": 2}}, {"state": {"run": 2}}])
def test_what_only_the_asker_remembers_does_not(changes: dict[str, Any]) -> None:
    known = stored(DRAFT)
    assert same_question(replace(DRAFT, **changes), known) is known


def test_another_asker_does_not_see_what_is_stored() -> None:
    conflict = same_question(
        replace(DRAFT, asker="another"), stored(replace(DRAFT, prompt="My secret plan?"))
    )
    assert isinstance(conflict, KeyConflict)
    assert conflict.existing is None
    assert "secret" not in str(conflict)


def test_a_question_hides_what_it_is_about_from_logs() -> None:
    secretive = replace(stored(DRAFT), prompt="hush", context="hush", state="hush", form=Choice.of("hush"))
    assert "hush" not in repr(secretive)


def test_posted_and_changed_questions_are_as_if_made_field_by_field() -> None:
    at = datetime(2026, 11, 15, tzinfo=UTC)
    given = Draft(
        id="q", workspace="w", asker="a", prompt="?", form=Open(), quorum=2, recipients=("ana", "bob")
    )
    values = {each.name: getattr(given, each.name) for each in fields(Draft)}
    question = posted(given, at)
    assert question == Question(**values, asked_at=at)
    assert repr(question) == repr(Question(**values, asked_at=at))
    later = changed(question, attempts=3, status=Status.EXHAUSTED)
    assert later == replace(question, attempts=3, status=Status.EXHAUSTED)
    assert (question.attempts, question.status) == (0, Status.PENDING)
    with pytest.raises(FrozenInstanceError):
        later.attempts = 4  # type: ignore[misc]  # that is what is refused
