"""The terminal in another language: every sentence of ours is translated, and nothing that anybody else wrote is."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest

from handraise import Approval, Choice, Confirm, Field, Form, MultiChoice, Open
from handraise.cli.inbox_command import row_parts
from handraise.cli.inbox_rows import Equal, Row
from handraise.cli.question_view import StyledLine, form_lines, question_lines
from handraise.model.forms import AnyForm
from handraise.model.outcomes import Answered, Declined, Expired
from handraise.model.timelines import Step
from handraise.testing.contract.channel import a_question, settled
from tests.marked_language import marked_language, unmarked

AT = datetime.now(UTC) - timedelta(hours=3)
FORMS: list[AnyForm] = [
    Choice.of("Ipsum", "Dolor"),
    MultiChoice.of("Ipsum", "Dolor", at_most=1),
    Open(),
    Open(type="date"),
    Confirm(),
    Form(fields=(Field(name="magna", form=Confirm(), required=False), Field(name="enim", form=Open()))),
    Approval.of("labore", {"amet": 3}, editable=["amet"], risk="high"),
    Approval.of("labore", {}),
]


def words(lines: Iterable[StyledLine]) -> list[str]:
    return unmarked(text for line in lines for style, text in line if style != "[SetCursorPosition]")


def test_questions_are_shown_in_the_language_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    with marked_language(monkeypatch):
        for form in FORMS:
            question = a_question(
                form,
                prompt="Lorem ipsum?",
                asker="tempor",
                asked_at=AT,
                quorum=2,
                conversation="elit",
                attempts=1,
                recipients=("enim",),
                steps=(Step(timedelta(hours=8), "expire"),),
                id="1",
            )
            assert words([*question_lines(question, 80), *form_lines(form, 80)]) == []
            row = Row(question, 1, (Equal("2", AT),))
            assert words([row_parts(row, 200, me="enim", marked=True)]) == []
            for outcome in (Declined(at=AT, by="dolor", reason="ipsum"), Expired(at=AT)):
                assert words(question_lines(settled(question, outcome), 80)) == []
        answered = settled(
            a_question(Confirm(), prompt="Lorem?", asker="tempor", asked_at=AT, id="1", recipients=("enim",)),
            Answered(value=True, at=AT, by="dolor"),
        )
        assert words(question_lines(answered, 80)) == []
