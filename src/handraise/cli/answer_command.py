"""`handraise answer`: one question, or with `--all` several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from handraise.cli.answer_prompt import answer_at_terminal
from handraise.cli.ask_commands import json_or_text, named_texts
from handraise.cli.bulk_answer import Selection, answer_all
from handraise.cli.exit_codes import STILL_PENDING, CommandError, code_of
from handraise.cli.file_commands import answer_with_files
from handraise.cli.question_commands import print_result
from handraise.cli.session import CHANNEL, AsPerson, CliSession, Workspace, as_person
from handraise.cli.typed_value import (
    own_words_hint,
    takes_own_words,
    value_of,
    with_arguments,
    with_own_words,
)
from handraise.model.errors import InvalidAnswer, ThreadMoved
from handraise.model.json_values import Json
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
    other: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="An answer in your own words, if the question takes one besides its options.",
        ),
    ] = None,
    argument: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="With approve: another value for an argument that you may change; VALUE may be JSON.",
        ),
    ] = None,
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
        if other is not None or argument:
            raise typer.BadParameter("--other and --argument are for one question: handraise answer ID.")
        selection = _selection(tool, agent, same_value, reason, approve=approve, deny=deny)
        answer_all(selection, yes=yes, name=name, workspace=workspace)
        return
    if any(options):
        raise typer.BadParameter(
            "--tool, --agent, --approve, --deny, --reason, --value and --yes need --all."
        )
    if question_id is None:
        raise typer.BadParameter("Say which: handraise answer ID, or --all for several.")
    if bool(file) + bool(argument) + (other is not None) > 1:
        raise typer.BadParameter("Give only one of --file, --other and --argument.")
    if argument and value is None:
        raise typer.BadParameter("Say it: handraise answer ID approve --argument NAME=VALUE.")
    given = _Given(value, other, named_texts(argument or ()), file or ())
    _answer_one(question_id, given, seen=seen, name=name, workspace=workspace)


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


@dataclass(frozen=True, slots=True)
class _Given:
    """The answer on the command line."""

    value: str | None
    other: str | None
    arguments: Mapping[str, str]
    files: Sequence[str]

    @property
    def is_nothing(self) -> bool:
        """Whether the person is asked for it."""
        return self.value is None and self.other is None and not self.files

    async def as_value(self, session: CliSession, question: Question) -> Json:
        """The value that it stands for."""
        if self.files:
            value = None if self.value is None else json_or_text(self.value)
            return await answer_with_files(session, question.form, value, self.files)
        if self.other is not None:
            return with_own_words(question, self.value, self.other)
        text = self.value or ""
        return with_arguments(question, text, self.arguments) if self.arguments else value_of(question, text)


def _answer_one(
    question_id: str,
    given: _Given,
    *,
    seen: int | None,
    name: str | None,
    workspace: str | None,
) -> None:
    async def work(session: CliSession) -> Question:
        question = await session.desk.get(question_id)
        if given.is_nothing:
            return await answer_at_terminal(session, question)
        value = await given.as_value(session, question)
        provenance = Provenance(channel=CHANNEL, seen=seen)
        try:
            return await session.desk.answer(question_id, value, by=session.me, provenance=provenance)
        except InvalidAnswer as misfit:
            is_plain = given.other is None and takes_own_words(question.form)
            raise _explained(misfit, own_words_hint(question_id) if is_plain else "") from None

    if given.is_nothing and seen is not None:
        raise typer.BadParameter("--seen is for an answer that you give here: handraise answer ID VALUE.")

    try:
        question = as_person(work, name=name, workspace=workspace)
    except InvalidAnswer as misfit:
        raise _explained(misfit) from None
    except ThreadMoved as moved:
        text = gettext("To read it: handraise thread {id}. To approve then: add --seen {count}")
        told = text.format(id=question_id, count=moved.thread)
        raise CommandError(f"{error_text(str(moved))} {told}") from None
    except KeyboardInterrupt:
        raise typer.Exit(STILL_PENDING) from None
    if not given.is_nothing:
        print_result(question)
    elif question.outcome is None and not any(vote.by for vote in question.votes):
        raise typer.Exit(code_of(question))


def _explained(misfit: InvalidAnswer, hint: str = "") -> CommandError:
    """What does not fit, that it was kept, and perhaps how to answer instead."""
    why = "; ".join(map(problem_text, misfit.problems))
    text = gettext(
        "That answer does not fit: {problems}. It is kept as an attempt, and you can answer again."
    )
    return CommandError(f"{text.format(problems=why)} {hint}".rstrip())
