"""`handraise list`, `show`, `history`, `answer`, `decline`, `withdraw` and `watch`."""

from __future__ import annotations

import sys
from contextlib import aclosing
from typing import Annotated

import typer

from handraise.cli.answering import answer_at_terminal
from handraise.cli.asking import AsJson, json_or_text
from handraise.cli.desks import CHANNEL, AsAsker, AsPerson, Seat, Workspace, as_asker, as_person
from handraise.cli.drawing import Line, columns, form_lines, put, question_lines, wrapped
from handraise.cli.endings import STILL_PENDING, CannotDo, code_of
from handraise.cli.wording import (
    age_words,
    end_words,
    event_words,
    json_line,
    kind_words,
    outcome_words,
    shown,
    shown_lines,
)
from handraise.model.checking import check_answer
from handraise.model.errors import InvalidAnswer, QuestionNotFound
from handraise.model.events import Event
from handraise.model.forms import AnyForm
from handraise.model.json_values import Json
from handraise.model.outcomes import Status
from handraise.model.questions import Question
from handraise.model.replies import NotAnAnswer, read_reply
from handraise.wire.records import EventRecord, QuestionRecord

_LATEST = 100
_AT_A_GLANCE = 200

QuestionId = Annotated[str, typer.Argument(metavar="ID", help="The question's id, as `list` shows it.")]


def list_questions(
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Whoever may answer them; else only those that you may.")
    ] = False,
    settled: Annotated[
        bool, typer.Option("--settled", help=f"The last {_LATEST} that ended, newest first, and how.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print each as one line of JSON.")] = False,
    name: AsPerson = None,
    workspace: Workspace = None,
) -> None:
    """List pending questions, oldest first. With the key of an agent, its own."""

    async def work(seat: Seat) -> list[Question]:
        return await (settled_for if settled else pending_for)(seat, everything=everything)

    found = as_person(work, name=name, workspace=workspace)
    if as_json:
        for question in found:
            typer.echo(json_line(QuestionRecord.of(question, with_state=False)))
    elif not found and settled:
        typer.echo("Nothing has ended yet.")
    elif not found:
        typer.echo('Nothing is pending. To ask something: handraise ask "Deploy?" --confirm')
    else:
        put(line for question in found for line in summary_lines(question, columns()))


def show(
    question_id: QuestionId, *, as_json: AsJson = False, name: AsPerson = None, workspace: Workspace = None
) -> None:
    """Show a question: who asks, what, about what, and how it stands."""

    async def work(seat: Seat) -> Question:
        return await seat.desk.get(question_id)

    question = as_person(work, name=name, workspace=workspace)
    if as_json:
        typer.echo(json_line(QuestionRecord.of(question, with_state=False)))
    else:
        choices = form_lines(question.form, columns())
        put([*question_lines(question, columns()), *choices, *([[]] if choices else []), *_next(question)])


def history(
    question_id: QuestionId, *, as_json: AsJson = False, name: AsPerson = None, workspace: Workspace = None
) -> None:
    """Show everything that happened to a question, oldest first."""

    async def work(seat: Seat) -> tuple[Question, list[Event]]:
        return await seat.desk.get(question_id), list(await seat.desk.history(question_id))

    question, events = as_person(work, name=name, workspace=workspace)
    for event in events:
        if as_json:
            typer.echo(json_line(EventRecord.of(event)))
        else:
            put(_event_lines(event, question.form))


def answer(
    question_id: QuestionId,
    value: Annotated[
        str | None,
        typer.Argument(metavar="VALUE", help="The answer: a label, a number, a text, yes, approve, or JSON."),
    ] = None,
    *,
    name: AsPerson = None,
    workspace: Workspace = None,
) -> None:
    """Answer a question. Without a value, at a terminal, it is shown and you are asked."""

    async def work(seat: Seat) -> Question:
        question = await seat.desk.get(question_id)
        if value is None:
            return await answer_at_terminal(seat, question)
        return await seat.desk.answer(question_id, _value_of(question, value), by=seat.me, channel=CHANNEL)

    try:
        question = as_person(work, name=name, workspace=workspace)
    except InvalidAnswer as misfit:
        raise CannotDo(f"{misfit}. It is kept as an attempt, and you can answer again.") from None
    except KeyboardInterrupt:
        raise typer.Exit(STILL_PENDING) from None
    if value is not None:
        _tell(question)
    elif question.outcome is None and not any(vote.by for vote in question.votes):
        raise typer.Exit(code_of(question))


def decline(
    question_id: QuestionId,
    *,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why not.")] = None,
    name: AsPerson = None,
    workspace: Workspace = None,
) -> None:
    """Say that you will not answer a question."""

    async def work(seat: Seat) -> Question:
        return await seat.desk.decline(question_id, by=seat.me, reason=reason, channel=CHANNEL)

    _tell(as_person(work, name=name, workspace=workspace))


def withdraw(
    question_id: QuestionId,
    *,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why.")] = None,
    name: AsAsker = None,
    workspace: Workspace = None,
) -> None:
    """Take back a question. Only whoever asked it can."""

    async def work(seat: Seat) -> Question:
        return await seat.desk.withdraw(question_id, reason=reason)

    _tell(as_asker(work, name=name, workspace=workspace))


def watch(
    *,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Begin with everything that ever happened.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print each as one line of JSON.")] = False,
    name: AsPerson = None,
    workspace: Workspace = None,
) -> None:
    """Follow what happens to all questions, live, until Ctrl+C."""

    async def work(seat: Seat) -> None:
        known: dict[str, Question | None] = {}
        async with aclosing(seat.desk.follow(after="" if from_start else None)) as events:
            async for event in events:
                if as_json:
                    typer.echo(json_line(EventRecord.of(event)))
                    continue
                if event.question_id not in known:
                    known[event.question_id] = await _find(seat, event.question_id)
                question = known[event.question_id]
                put(_event_lines(event, None if question is None else question.form, question))
                sys.stdout.flush()

    if not as_json:
        typer.echo("Following. Stop with Ctrl+C.", err=True)
    try:
        as_person(work, name=name, workspace=workspace)
    except KeyboardInterrupt:
        raise typer.Exit from None


async def pending_for(seat: Seat, *, everything: bool = False, at_most: int = 1_000) -> list[Question]:
    """What this person may answer, or the agent at this desk has asked; everything that may be seen, if wanted."""
    found: list[Question] = []
    after: str | None = None
    recipient = seat.me if seat.may_answer and not everything else None
    while len(found) < at_most:
        page = await seat.desk.pending(recipient=recipient, after=after)
        found += page.questions
        after = page.after
        if after is None:
            break
    return found


async def settled_for(seat: Seat, *, everything: bool = False) -> list[Question]:
    """The last questions that ended, of those that this person may see or the agent at this desk has asked."""
    found: list[Question] = []
    after: str | None = None
    recipient = seat.me if seat.may_answer and not everything else None
    while len(found) < _LATEST:
        page = await seat.desk.settled(recipient=recipient, after=after, limit=_LATEST)
        found += page.questions
        after = page.after
        if after is None:
            break
    return found[:_LATEST]


def summary_lines(question: Question, width: int) -> list[Line]:
    """A question in a list: its prompt, and below that who asks, for what, since when or how it ended, and its id."""
    prompt = " ".join(part for part in shown_lines(question.prompt) if part.strip())
    told = [shown(question.asker), kind_words(question.form)]
    if question.outcome is None:
        told += [age_words(question), end_words(question)]
    else:
        ended = f"{question.outcome.at.astimezone():%Y-%m-%d %H:%M}"
        told += [ended, _glance(outcome_words(question.form, question.outcome), _AT_A_GLANCE)]
    return [
        *wrapped([("class:strong", prompt)], width),
        *wrapped([("class:soft", " · ".join(filter(None, (*told, shown(question.id)))))], width),
        [],
    ]


def _tell(question: Question) -> None:
    if question.status is Status.PENDING:
        typer.echo(f"Your vote is in: {len(question.votes)} voted, and {question.need} must agree.")
    elif question.outcome is not None:
        typer.echo(f"Settled: {outcome_words(question.form, question.outcome)}.")


def _next(question: Question) -> list[Line]:
    if question.outcome is not None:
        return []
    return [[("class:soft", f"To answer: handraise answer {shown(question.id)}")]]


def _value_of(question: Question, text: str) -> Json:
    """What a person typed: a reply as in a chat, else JSON. What is neither is kept as the text that it is."""
    read = read_reply(question, text)
    if not isinstance(read, NotAnAnswer):
        return read.value
    meant = json_or_text(text)
    try:
        return check_answer(question.form, meant)
    except InvalidAnswer:
        return text if isinstance(meant, str) or not isinstance(meant, (dict, list)) else meant


def _event_lines(event: Event, form: AnyForm | None, question: Question | None = None) -> list[Line]:
    at = f"{event.at.astimezone():%Y-%m-%d %H:%M:%S}  "
    line: Line = [("class:soft", at), ("", event_words(event, form))]
    if question is not None:
        prompt = " ".join(shown_lines(question.prompt))
        line.append(("class:soft", f" · {_glance(prompt, 60)}"))
        line.append(("class:soft", f" · {shown(event.question_id)}"))
    return wrapped(line, columns(), indent=len(at))


def _glance(text: str, longest: int) -> str:
    return f"{text[:longest]}…" if len(text) > longest else text


async def _find(seat: Seat, question_id: str) -> Question | None:
    try:
        return await seat.desk.get(question_id)
    except QuestionNotFound:
        return None
