"""The terminal in another language: every sentence of ours is translated, and nothing that anybody else wrote is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from handraise import Approval, Choice, Confirm, Field, Form, MultiChoice, Open
from handraise.cli.inbox_command import row_parts
from handraise.cli.inbox_rows import Equal, Row
from handraise.cli.question_context import QuestionContext
from handraise.cli.question_view import StyledLine, form_lines, question_lines
from handraise.model.events import Event, EventKind
from handraise.model.forms import AnyForm
from handraise.model.outcomes import Answered, Declined, Expired
from handraise.model.timelines import Step
from handraise.testing.contract.channel import a_question, settled
from support.command import Done, handraise
from tests.marked_language import mark_german, marked_language, unmarked

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

MESSAGES = [
    Event(cursor="1", workspace="w", question_id="1", kind=kind, at=AT, by="enim", channel="web", data=data)
    for kind in (EventKind.REPLIED, EventKind.NOTED, EventKind.ASKED_BACK)
    for data in ({"text": "Lorem"}, {})
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
                replies="program",
                thread=3,
                asked_back=3,
            )
            assert (
                words([*question_lines(question, 80, QuestionContext(MESSAGES)), *form_lines(form, 80)]) == []
            )
            row = Row(question, 1, (Equal("2", AT),))
            assert words([row_parts(row, 200, me="enim", marked=True)]) == []
            for outcome in (Declined(at=AT, by="dolor", reason="ipsum"), Expired(at=AT)):
                assert words(question_lines(settled(question, outcome), 80)) == []
        answered = settled(
            a_question(Confirm(), prompt="Lorem?", asker="tempor", asked_at=AT, id="1", recipients=("enim",)),
            Answered(value=True, at=AT, by="dolor"),
        )
        assert words(question_lines(answered, 80)) == []


def test_commands_say_everything_in_the_language_of_the_terminal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mark_german(monkeypatch)
    file = f"sqlite:///{tmp_path / 'questions.db'}"

    def run(*line: str, **more: str) -> Done:
        settings = {"url": file, "language": "de", "LOGNAME": "dolor", "XDG_DATA_HOME": str(tmp_path)}
        return handraise(*line, **(settings | more))

    def asked(*line: str) -> str:
        """The id of a new question."""
        done = run("ask", "Lorem?", "--as", "tempor", *line)
        [found] = set(re.findall(r"[0-9a-f]{8}-[0-9a-f-]+", done.stderr))
        assert unmarked([done.stdout, done.stderr.replace(found, "")]) == []
        return str(found)

    answered, declined, both = asked("--confirm"), asked(), asked()
    approval = asked("--approval", "labore", "--argument", "amet=3")
    replies = asked("--replies")
    missing = str(tmp_path / "1")
    lines: list[tuple[str, ...]] = [
        ("answer", answered, "yes"),
        ("answer", answered, "no"),
        ("answer", "1", "yes"),
        ("answer", approval, "lorem"),
        ("take-back", approval),
        ("thread", approval),
        ("ask-back", approval, "Lorem?"),
        ("note", approval, "Lorem"),
        ("thread", approval),
        ("answer", approval, "approve"),
        ("reply", approval, "Lorem", "--as", "tempor"),
        ("ask-back", replies, "Lorem?"),
        ("reply", replies, "Lorem", "--as", "tempor"),
        ("answer", replies, "lorem"),
        ("report", replies, "lorem", "--failed", "--as", "tempor"),
        ("decline", declined, "--reason", "lorem"),
        ("wait", declined),
        ("wait", both, "--timeout", "0.01s"),
        ("withdraw",),
        ("withdraw", both, "--asker", "ipsum"),
        ("withdraw", both),
        ("withdraw", "--asker", "tempor"),
        ("withdraw", "--asker", "tempor"),
        ("grants", "list"),
        ("grants", "revoke", "1"),
        ("sign-in", "https://example.com/"),
        ("sign-out",),
        ("ask", "Lorem?", "--form", "{}"),
        ("ask", "Lorem?", "--form", missing),
    ]
    (tmp_path / "1").write_text("[]")
    for line in lines:
        done = run(*line)
        said = [re.sub(r"[0-9a-f]{8}-[0-9a-f-]+", "", each) for each in (done.stdout, done.stderr)]
        assert any(said), line
        assert unmarked(said) == [], line
    for more in (
        {"url": "https://example.com"},
        {"url": "https://example.com", "key": "x"},
        {"url": "memory:"},
    ):
        for line in (("list",), ("ask", "Lorem?")):
            done = run(*line, **more)
            assert (done.returncode, done.stdout, unmarked([done.stderr])) == (1, "", []), (line, more)
