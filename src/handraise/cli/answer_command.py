"""`handraise answer`: one question, or with `--all` several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import typer

from handraise.cli.answer_prompt import answer_at_terminal
from handraise.cli.ask_commands import json_or_text
from handraise.cli.bulk_answer import Selection, answer_all
from handraise.cli.exit_codes import STILL_PENDING, CommandError, code_of
from handraise.cli.file_commands import answer_with_files
from handraise.cli.question_commands import print_result
from handraise.cli.session import CHANNEL, AsPerson, CliSession, Workspace, as_person
from handraise.cli.typed_value import value_of
from handraise.model.errors import InvalidAnswer, ThreadMoved
from handraise.model.provenance import Provenance
from handraise.model.questions import Question
from handraise.presentation.error_text import error_text, problem_text
from handraise.presentation.translation import gettext


def answer(
    question_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="The question's id, as `list` shows it.")
    ] = None,
    value: Annotated[
        str | None,
        typer.Argument(metavar="VALUE", help="The answer: a label, a number, a text, yes, approve, or JSON."),
    ] = None,
    *,
    seen: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="How many messages of its conversation you have read, as `thread` shows them. An approval is "
            "refused if there are others.",
        ),
    ] = None,
    file: Annotated[
        list[str] | None,
        typer.Option(
            "--file",
            metavar="NAME=PATH",
            help="A file for a field that takes one; PATH alone if the answer is a file itself.",
        ),
    ] = None,
    everything: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Answer all pending questions that --tool and --agent name, with one answer. Each is shown first. "
            "Those of high risk, and those with a conversation, are left out.",
        ),
    ] = False,
    tool: Annotated[
        str | None, typer.Option(metavar="TOOL", help="With --all: only approvals of this tool.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --all: only what this agent asks.")
    ] = None,
    approve: Annotated[bool, typer.Option("--approve", help="With --all: approve the actions.")] = False,
    deny: Annotated[bool, typer.Option("--deny", help="With --all: deny the actions.")] = False,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="With --deny: why.")] = None,
    same_value: Annotated[
        str | None,
        typer.Option(
            "--value", metavar="VALUE", help="With --all: the answer to questions without an action."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="With --all: do not ask for a confirmation.")] = False,
    name: AsPerson = None,
    workspace: Workspace = None,
) -> None:
    """Answer a question. Without a value, it is shown in the terminal and you are asked. With --all, answer several."""
    options = (tool, agent, approve, deny, reason, same_value, yes)
    if everything:
        if (question_id, value, seen) != (None, None, None):
            raise typer.BadParameter("--all answers all that --tool and --agent name: leave out the ID.")
        if file:
            raise typer.BadParameter("--file is for one question: handraise answer ID --file PATH.")
        selection = _selection(tool, agent, same_value, reason, approve=approve, deny=deny)
        answer_all(selection, yes=yes, name=name, workspace=workspace)
        return
    if any(options):
        raise typer.BadParameter(
            "--tool, --agent, --approve, --deny, --reason, --value and --yes need --all."
        )
    if question_id is None:
        raise typer.BadParameter("Say which: handraise answer ID, or --all for several.")
    _answer_one(question_id, value, file or (), seen=seen, name=name, workspace=workspace)


def _selection(
    tool: str | None,
    agent: str | None,
    value: str | None,
    reason: str | None,
    *,
    approve: bool,
    deny: bool,
) -> Selection:
    """What `answer --all` was told to do; raises `BadParameter` if that is not clear."""
    if approve + deny + (value is not None) != 1:
        raise typer.BadParameter("--all needs one answer: --approve, --deny or --value VALUE.")
    if tool is None and agent is None:
        raise typer.BadParameter("Say which: --tool TOOL, --agent NAME, or both.")
    if tool is not None and value is not None:
        raise typer.BadParameter("--tool is for approvals: give --approve or --deny.")
    if reason is not None and not deny:
        raise typer.BadParameter("--reason is for --deny.")
    verdict: Literal["approve", "deny"] | None = "approve" if approve else "deny" if deny else None
    return Selection(tool=tool, agent=agent, verdict=verdict, value=value, reason=reason)


def _answer_one(
    question_id: str,
    value: str | None,
    files: Sequence[str],
    *,
    seen: int | None,
    name: str | None,
    workspace: str | None,
) -> None:
    async def work(session: CliSession) -> Question:
        question = await session.desk.get(question_id)
        if files:
            given = None if value is None else json_or_text(value)
            given = await answer_with_files(session, question.form, given, files)
        elif value is None:
            return await answer_at_terminal(session, question)
        else:
            given = value_of(question, value)
        return await session.desk.answer(
            question_id,
            given,
            by=session.me,
            provenance=Provenance(channel=CHANNEL, seen=seen),
        )

    if value is None and not files and seen is not None:
        raise typer.BadParameter("--seen is for an answer that you give here: handraise answer ID VALUE.")

    try:
        question = as_person(work, name=name, workspace=workspace)
    except InvalidAnswer as misfit:
        why = "; ".join(map(problem_text, misfit.problems))
        text = gettext(
            "That answer does not fit: {problems}. It is kept as an attempt, and you can answer again."
        )
        raise CommandError(text.format(problems=why)) from None
    except ThreadMoved as moved:
        text = gettext("To read it: handraise thread {id}. To approve then: add --seen {count}")
        told = text.format(id=question_id, count=moved.thread)
        raise CommandError(f"{error_text(str(moved))} {told}") from None
    except KeyboardInterrupt:
        raise typer.Exit(STILL_PENDING) from None
    if value is not None or files:
        print_result(question)
    elif question.outcome is None and not any(vote.by for vote in question.votes):
        raise typer.Exit(code_of(question))
