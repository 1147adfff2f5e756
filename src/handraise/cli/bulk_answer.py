"""`handraise answer --all`: one answer to several questions, after showing each of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import typer

from handraise.cli.exit_codes import REFUSED, CommandError
from handraise.cli.question_view import (
    StyledLine,
    columns,
    digest_of,
    form_lines,
    put,
    question_lines,
    wrapped,
)
from handraise.cli.session import CHANNEL, CliSession, as_person
from handraise.cli.terminal_texts import shown, shown_prompt
from handraise.cli.typed_value import pending_for, value_of
from handraise.model.agreement import has_voted
from handraise.model.bulk_answers import BulkAnswer, BulkResult, check_bulk
from handraise.model.errors import InvalidAnswer, NotInBulk
from handraise.model.forms import Approval
from handraise.model.json_values import Json
from handraise.model.provenance import Provenance
from handraise.model.questions import Question
from handraise.model.validation import check_answer
from handraise.presentation.error_text import error_text, problem_text
from handraise.presentation.translation import gettext, grouped, ngettext


@dataclass(frozen=True, slots=True)
class Selection:
    """Which questions to answer, and what with: `approve` or `deny` for approvals, else a typed `value`."""

    tool: str | None
    agent: str | None
    verdict: Literal["approve", "deny"] | None
    value: str | None
    reason: str | None

    def fits(self, question: Question) -> bool:
        """Whether this is one of the questions that were meant."""
        form = question.form
        if self.agent not in (None, question.asker):
            return False
        if isinstance(form, Approval):
            return self.verdict is not None and self.tool in (None, form.action.tool)
        return self.verdict is None

    def answer_to(self, question: Question) -> Json:
        """The answer to one of them; raises `InvalidAnswer` if it does not fit."""
        if not isinstance(question.form, Approval):
            return check_answer(question.form, value_of(question, self.value or ""))
        decision: Json = {"decision": self.verdict, "digest": question.form.digest}
        return decision if self.reason is None else {**decision, "reason": self.reason}


def answer_all(selection: Selection, *, yes: bool, name: str | None, workspace: str | None) -> None:
    """Show the questions that were meant, ask once, and answer them."""

    async def find(session: CliSession) -> tuple[list[Question], str]:
        found = await pending_for(session)
        return [each for each in found if selection.fits(each)], session.me.id

    if not (yes or sys.stdin.isatty()):
        raise CommandError(
            gettext("Nobody can confirm this here. To answer without a confirmation: add --yes")
        )
    found, me = as_person(find, name=name, workspace=workspace)
    items: list[BulkAnswer] = []
    left_out: list[tuple[Question, str]] = []
    width = columns()
    for question in found:
        if why := why_left_out(question, me, selection):
            left_out.append((question, why))
            continue
        lines = [*question_lines(question, width), *form_lines(question.form, width)]
        put([*lines, [], []])
        seen = Provenance(channel=CHANNEL, shown_digest=digest_of(lines), seen=question.thread)
        items.append(BulkAnswer(question.id, selection.answer_to(question), seen))
    put(_left_out_lines(left_out, width))
    if not items:
        typer.echo(gettext("There is nothing to answer like this."))
        return
    if not yes and not typer.confirm(_confirmation(selection, len(items))):
        typer.echo(gettext("Nothing was answered."))
        raise typer.Exit(REFUSED)
    results = as_person(
        lambda session: session.desk.answer_all(items, by=session.me), name=name, workspace=workspace
    )
    _print_results(results)


def why_left_out(question: Question, me: str, selection: Selection) -> str | None:
    """Why a question is not answered together with others, or None."""
    try:
        check_bulk(question)
        selection.answer_to(question)
    except NotInBulk:
        return gettext("it is of high risk")
    except InvalidAnswer as misfit:
        return "; ".join(map(problem_text, misfit.problems))
    if question.thread:
        return gettext("there is a conversation about it")
    if question.evidence == "passkey" and selection.verdict != "deny":
        return gettext("it needs your passkey: answer it in the inbox")
    if has_voted(question, me):
        return gettext("you voted already")
    return None


def _left_out_lines(left_out: Sequence[tuple[Question, str]], width: int) -> list[StyledLine]:
    if not left_out:
        return []
    lines: list[StyledLine] = [[("class:strong", gettext("Left out. Answer each of these by itself:"))]]
    for question, why in left_out:
        told = f"{shown(question.id)} · {shown_prompt(question.prompt)}"
        lines += wrapped([("class:soft", "• "), ("", told)], width, indent=2)
        lines += wrapped([("", "  "), ("class:soft", shown(why))], width, indent=2)
    return [*lines, []]


def _confirmation(selection: Selection, count: int) -> str:
    match selection.verdict:
        case "approve":
            text = ngettext("Approve this {count} action?", "Approve these {count} actions?", count)
        case "deny":
            text = ngettext("Deny this {count} action?", "Deny these {count} actions?", count)
        case _:
            text = ngettext(
                "Answer this {count} question with {answer}?",
                "Answer these {count} questions with {answer}?",
                count,
            ).replace("{answer}", shown(selection.value or ""))
    return text.replace("{count}", grouped(count))


def _print_results(results: Sequence[BulkResult]) -> None:
    taken = sum(map(bool, results))
    text = ngettext("{count} answer was taken.", "{count} answers were taken.", taken)
    typer.echo(text.format(count=grouped(taken)))
    waiting = sum(1 for each in results if each.question is not None and each.question.outcome is None)
    if waiting:
        text = ngettext("{count} of them needs more votes.", "{count} of them need more votes.", waiting)
        typer.echo(text.format(count=grouped(waiting)))
    for each in results:
        if each.error is not None:
            typer.echo(f"{shown(each.question_id)}: {shown(error_text(str(each.error)))}", err=True)
    if taken < len(results):
        raise typer.Exit(REFUSED)
