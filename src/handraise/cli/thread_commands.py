"""`handraise thread`, `ask-back`, `note` and `reply`: the conversation about a question."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from handraise.cli.file_commands import attach_paths
from handraise.cli.question_view import StyledLine, columns, put, thread_lines, wrapped
from handraise.cli.session import CHANNEL, AsAsker, AsPerson, CliSession, Workspace, as_asker, as_person
from handraise.cli.terminal_texts import json_line, shown
from handraise.model.forms import Approval
from handraise.model.provenance import Provenance
from handraise.model.questions import Question
from handraise.model.thread_messages import ThreadMessage
from handraise.presentation.translation import gettext
from handraise.wire.records import MessageRecord

QuestionId = Annotated[str, typer.Argument(metavar="ID", help="The question's id, as `list` shows it.")]
Text = Annotated[str, typer.Argument(metavar="TEXT", help="What you want to say.")]


def thread(
    question_id: QuestionId,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print each message as one line of JSON.")] = False,
    name: AsPerson = None,
    workspace: Workspace = None,
) -> None:
    """Show what people and the agent have written about a question, oldest first."""

    async def work(session: CliSession) -> tuple[Question, Sequence[ThreadMessage]]:
        question = await session.desk.get(question_id)
        return question, await session.desk.thread(question_id)

    question, messages = as_person(work, name=name, workspace=workspace)
    if as_json:
        for message in messages:
            typer.echo(json_line(MessageRecord.of(message)))
    elif not messages:
        typer.echo(gettext("Nobody has written anything about this question."))
    else:
        put([*thread_lines(question, messages, columns()), *_how_to_approve(question, len(messages))])


def ask_back(
    question_id: QuestionId, text: Text, *, name: AsPerson = None, workspace: Workspace = None
) -> None:
    """Ask the agent something about its question, which stays pending. Only if the agent can reply."""
    question = as_person(
        lambda session: session.desk.ask_back(
            question_id, text, by=session.me, provenance=Provenance(channel=CHANNEL)
        ),
        name=name,
        workspace=workspace,
    )
    told = gettext("Sent. It is {agent}'s turn. To see the reply: handraise thread {id}")
    typer.echo(told.format(agent=shown(question.asker), id=shown(question.id)))


def note(question_id: QuestionId, text: Text, *, name: AsPerson = None, workspace: Workspace = None) -> None:
    """Note something for the other people who may answer. Agents do not see its text."""
    as_person(
        lambda session: session.desk.note(
            question_id, text, by=session.me, provenance=Provenance(channel=CHANNEL)
        ),
        name=name,
        workspace=workspace,
    )
    typer.echo(gettext("Noted for the other people. The agent does not see it."))


def reply(
    question_id: QuestionId,
    text: Text,
    *,
    to: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="The number of the message that you reply to, and all before it. Default: all so far.",
        ),
    ] = None,
    attach: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="A file that belongs to the reply; give it once for each."),
    ] = None,
    name: AsAsker = None,
    workspace: Workspace = None,
) -> None:
    """Reply to what people asked about your question. Who had approved it must approve it again."""

    async def work(session: CliSession) -> Question:
        files = await attach_paths(session, attach or ())
        return await session.desk.reply(question_id, text, to=to, attachments=files)

    question = as_asker(work, name=name, workspace=workspace)
    if question.is_askers_turn:
        told = gettext("Replied. Somebody has asked something else since: handraise thread {id}")
        typer.echo(told.format(id=shown(question.id)))
    else:
        typer.echo(gettext("Replied."))


def _how_to_approve(question: Question, seen: int) -> list[StyledLine]:
    """An approval covers the conversation, so it says how much of it there is."""
    if question.outcome is not None or not isinstance(question.form, Approval):
        return []
    told = gettext("To approve after reading this: handraise answer {id} approve --seen {seen}")
    return [[], *wrapped([("class:soft", told.format(id=shown(question.id), seen=seen))], columns())]
