"""`handraise send-back`, `take`, `release`, `bring-in`, `hand-over`, `snooze`, `not-for-me` and `put-back`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from handraise.cli.ask_commands import AsJson
from handraise.cli.question_commands import QuestionId, print_result
from handraise.cli.session import CHANNEL, AsPerson, CliSession, Workspace, as_person
from handraise.cli.terminal_texts import future_of, json_line, moment_words, names_words, shown
from handraise.model.provenance import Provenance
from handraise.model.questions import Question
from handraise.presentation.translation import gettext
from handraise.wire.records import QuestionRecord

People = Annotated[
    list[str], typer.Argument(metavar="PERSON…", help="People, and groups as group:NAME.", show_default=False)
]
Why = Annotated[str | None, typer.Option(metavar="TEXT", help="Why; they read it.")]

_HERE = Provenance(channel=CHANNEL)


def send_back(
    question_id: QuestionId,
    *,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="What to change; the agent reads it.")],
    as_json: AsJson = False,
    name: AsPerson = None,
    workspace: Workspace = None,
) -> None:
    """Send a question back, so that the agent changes something and asks again. This approves nothing."""
    question = _do(
        lambda session: session.desk.send_back(question_id, by=session.me, reason=reason, provenance=_HERE),
        as_json=as_json,
        name=name,
        workspace=workspace,
    )
    if not as_json:
        print_result(question)


def take(
    question_id: QuestionId, *, as_json: AsJson = False, name: AsPerson = None, workspace: Workspace = None
) -> None:
    """Say that you are working on the answer, for ten minutes. Others see it and may still answer."""
    question = _do(
        lambda session: session.desk.take(question_id, by=session.me, provenance=_HERE),
        as_json=as_json,
        name=name,
        workspace=workspace,
    )
    if not as_json and question.taken_until is not None:
        text = gettext("Taken: the others see until {when} that you are on this.")
        typer.echo(text.format(when=moment_words(question.taken_until)))


def release(
    question_id: QuestionId, *, as_json: AsJson = False, name: AsPerson = None, workspace: Workspace = None
) -> None:
    """Say that you are not working on the answer any more."""
    _do(
        lambda session: session.desk.release(question_id, by=session.me, provenance=_HERE),
        as_json=as_json,
        name=name,
        workspace=workspace,
    )
    if not as_json:
        typer.echo(gettext("Released."))


def bring_in(
    question_id: QuestionId,
    people: People,
    *,
    reason: Why = None,
    as_json: AsJson = False,
    name: AsPerson = None,
    workspace: Workspace = None,
) -> None:
    """Have other people or groups asked too. They may answer like you."""
    _do(
        lambda session: session.desk.bring_in(
            question_id, people, by=session.me, reason=reason, provenance=_HERE
        ),
        as_json=as_json,
        name=name,
        workspace=workspace,
    )
    if not as_json:
        typer.echo(gettext("Brought in: {names}.").format(names=names_words(people)))


def hand_over(
    question_id: QuestionId,
    people: People,
    *,
    reason: Why = None,
    as_json: AsJson = False,
    name: AsPerson = None,
    workspace: Workspace = None,
) -> None:
    """Have other people or groups asked, and take the question out of your inbox."""
    _do(
        lambda session: session.desk.hand_over(
            question_id, people, by=session.me, reason=reason, provenance=_HERE
        ),
        as_json=as_json,
        name=name,
        workspace=workspace,
    )
    if not as_json:
        text = gettext("Handed over to {names}. It is not in your inbox any more.")
        typer.echo(text.format(names=names_words(people)))


def snooze(
    question_id: QuestionId,
    until: Annotated[
        str,
        typer.Argument(
            metavar="WHEN", help="A span such as 2h, or a time such as 2026-11-20T09:00, in your time zone."
        ),
    ],
    *,
    as_json: AsJson = False,
    name: AsPerson = None,
    workspace: Workspace = None,
) -> None:
    """Take a question out of your inbox until a time. Nobody else notices."""
    at = future_of(until)
    _do(
        lambda session: session.desk.set_aside(question_id, by=session.me, until=at, provenance=_HERE),
        as_json=as_json,
        name=name,
        workspace=workspace,
    )
    if not as_json:
        typer.echo(gettext("Snoozed until {when}.").format(when=moment_words(at)))


def not_for_me(
    question_id: QuestionId, *, as_json: AsJson = False, name: AsPerson = None, workspace: Workspace = None
) -> None:
    """Take a question out of your inbox for good. The others are still asked."""
    _do(
        lambda session: session.desk.set_aside(question_id, by=session.me, provenance=_HERE),
        as_json=as_json,
        name=name,
        workspace=workspace,
    )
    if not as_json:
        text = gettext("It is not in your inbox any more. To put it back: handraise put-back {id}")
        typer.echo(text.format(id=shown(question_id)))


def put_back(
    question_id: QuestionId, *, as_json: AsJson = False, name: AsPerson = None, workspace: Workspace = None
) -> None:
    """Put a question that you took out of your inbox back into it."""
    _do(
        lambda session: session.desk.put_back(question_id, by=session.me, provenance=_HERE),
        as_json=as_json,
        name=name,
        workspace=workspace,
    )
    if not as_json:
        typer.echo(gettext("It is in your inbox again."))


def _do(
    work: Callable[[CliSession], Awaitable[Question]],
    *,
    as_json: bool,
    name: str | None,
    workspace: str | None,
) -> Question:
    question = as_person(work, name=name, workspace=workspace)
    if as_json:
        typer.echo(json_line(QuestionRecord.of(question, with_state=False)))
    return question
