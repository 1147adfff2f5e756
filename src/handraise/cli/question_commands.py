"""`handraise list`, `show`, `history`, `decline`, `take-back`, `report`, `withdraw` and `watch`."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Annotated

import typer

from handraise.cli.ask_commands import AsJson
from handraise.cli.exit_codes import CommandError
from handraise.cli.question_context import QuestionContext, context_of
from handraise.cli.question_view import StyledLine, columns, form_lines, put, question_lines, wrapped
from handraise.cli.session import (
    CHANNEL,
    AsAsker,
    AsPerson,
    CliSession,
    Workspace,
    as_asker,
    as_person,
    shown_address,
)
from handraise.cli.terminal_texts import (
    age_words,
    end_words,
    event_words,
    json_line,
    kind_words,
    outcome_words,
    settled_words,
    shown,
    shown_prompt,
    span_of,
)
from handraise.cli.typed_value import pending_for, takes_own_words
from handraise.model.agreement import has_voted
from handraise.model.errors import PermissionDenied, QuestionNotFound
from handraise.model.events import Event
from handraise.model.forms import AnyForm, Approval
from handraise.model.outcomes import Status
from handraise.model.provenance import Provenance
from handraise.model.questions import Question
from handraise.ports.settled_filter import ANY_END, ENDED, SettledFilter
from handraise.presentation.agreement_text import still_needed
from handraise.presentation.form_parts import parts_of
from handraise.presentation.heartbeat_text import orphan_mark
from handraise.presentation.sharing_text import taken_text
from handraise.presentation.translation import gettext, grouped, ngettext
from handraise.wire.records import EventRecord, QuestionRecord

_LATEST = 100
_AT_A_GLANCE = 200

QuestionId = Annotated[str, typer.Argument(metavar="ID", help="The question's id, as `list` shows it.")]


def list_questions(
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that only others may answer.")
    ] = False,
    settled: Annotated[
        bool, typer.Option("--settled", help="Settled questions, latest first, and how they ended.")
    ] = False,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="Only questions settled since then: a date, a date and time, or a span such as 7d.",
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Only questions settled before then; like --since.")
    ] = None,
    outcome: Annotated[
        str | None,
        typer.Option(metavar="HOW", help=f"Only questions settled like this: {', '.join(ENDED)}."),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="PERSON", help="Only questions that this person settled or voted on."),
    ] = None,
    aside: Annotated[
        bool, typer.Option("--aside", help="Only those that you snoozed, or that are not for you.")
    ] = False,
    limit: Annotated[
        int, typer.Option(metavar="N", min=0, help="The most settled questions to list; 0 for all.")
    ] = _LATEST,
    as_json: Annotated[bool, typer.Option("--json", help="Print each as one line of JSON.")] = False,
    name: AsPerson = None,
    workspace: Workspace = None,
) -> None:
    """List pending questions, most urgent first. With the key of an agent, its own."""

    async def work(session: CliSession) -> tuple[list[Question], bool, str]:
        if not settled:
            found = await pending_for(session, everything=everything, aside=aside)
        else:
            found = [
                each
                async for each in settled_for(
                    session, everything=everything, ending=ending, at_most=limit or None
                )
            ]
        others = not (found or settled or everything or aside) and await _others_wait(session)
        return found, others, session.me.id

    if (since or until or outcome or by) and not settled:
        raise typer.BadParameter(
            "--since, --until, --outcome and --by are for settled questions: give --settled too."
        )
    if outcome is not None and outcome not in ENDED:
        raise typer.BadParameter(f"--outcome is one of {', '.join(ENDED)}.")
    if aside and (settled or everything):
        raise typer.BadParameter("--aside is for pending questions of yours: leave --settled and --all out.")
    ending = SettledFilter(
        since=None if since is None else instant_of(since),
        until=None if until is None else instant_of(until),
        outcome=outcome,
        by=by,
    )
    found, others, me = as_person(work, name=name, workspace=workspace)
    if as_json:
        for question in found:
            typer.echo(json_line(QuestionRecord.of(question, with_state=False)))
    elif not found and aside:
        typer.echo(gettext("You have set nothing aside."))
    elif not found and settled:
        typer.echo(_nothing_settled(everything=everything, ending=ending))
    elif others:
        typer.echo(gettext("Nothing is pending for you. To see what others may answer: handraise list --all"))
    elif not found:
        text = gettext('Nothing is pending in {address}. To ask something: handraise ask "Deploy?" --confirm')
        typer.echo(text.format(address=shown_address()))
    else:
        put(line for question in found for line in summary_lines(question, columns(), me))


def _nothing_settled(*, everything: bool, ending: SettledFilter) -> str:
    if ending != ANY_END:
        return gettext("Nothing fits this.")
    if everything:
        return gettext("Nothing has ended yet.")
    return gettext("Nothing of yours has ended yet. To see what others had: handraise list --settled --all")


def show(
    question_id: QuestionId, *, as_json: AsJson = False, name: AsPerson = None, workspace: Workspace = None
) -> None:
    """Show a question: who asks, what, why, its status, and the conversation about it."""

    async def work(session: CliSession) -> tuple[Question, QuestionContext]:
        question = await session.desk.get(question_id)
        return question, await context_of(session, question)

    question, context = as_person(work, name=name, workspace=workspace)
    if as_json:
        typer.echo(json_line(QuestionRecord.of(question, with_state=False)))
    else:
        choices = form_lines(question.form, columns())
        put(
            [
                *question_lines(question, columns(), context),
                *choices,
                *([[]] if choices else []),
                *_next_steps(question),
            ]
        )


def history(
    question_id: QuestionId, *, as_json: AsJson = False, name: AsPerson = None, workspace: Workspace = None
) -> None:
    """Show everything that happened to a question, oldest first."""

    async def work(session: CliSession) -> tuple[Question, list[Event]]:
        return await session.desk.get(question_id), list(await session.desk.history(question_id))

    question, events = as_person(work, name=name, workspace=workspace)
    for event in events:
        if as_json:
            typer.echo(json_line(EventRecord.of(event)))
        else:
            put(_event_lines(event, question.form))


def decline(
    question_id: QuestionId,
    *,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why not.")] = None,
    name: AsPerson = None,
    workspace: Workspace = None,
) -> None:
    """Decline to answer a question: it ends for everyone. To leave it to the others: not-for-me."""

    async def work(session: CliSession) -> Question:
        return await session.desk.decline(
            question_id, by=session.me, reason=reason, provenance=Provenance(channel=CHANNEL)
        )

    print_result(as_person(work, name=name, workspace=workspace))


def take_back(
    question_id: QuestionId,
    *,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why.")] = None,
    name: AsPerson = None,
    workspace: Workspace = None,
) -> None:
    """Take back an approval that the agent has not used. For people who approved it and administrators."""

    async def work(session: CliSession) -> Question:
        return await session.desk.take_back(question_id, by=session.me, reason=reason)

    question = as_person(work, name=name, workspace=workspace)
    text = gettext("Taken back: {agent} cannot execute the action.")
    typer.echo(text.format(agent=shown(question.asker)))


def report(
    question_id: QuestionId,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What came of it, in a few words for people.")],
    *,
    ok: Annotated[bool, typer.Option("--ok/--failed", help="Whether it worked.")],
    link: Annotated[
        str | None, typer.Option(metavar="URL", help="Where people can read more: https://… or http://…")
    ] = None,
    name: AsAsker = None,
    workspace: Workspace = None,
) -> None:
    """Report what came of the answer to a question that you asked. A report is final."""
    as_asker(
        lambda session: session.desk.report(question_id, ok=ok, text=text, link=link),
        name=name,
        workspace=workspace,
    )
    typer.echo(gettext("Reported as done.") if ok else gettext("Reported as failed."))


def withdraw(
    question_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="The question's id, as `list` shows it.")
    ] = None,
    *,
    asker: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="As an administrator: all pending questions of this agent, or with an ID that one.",
        ),
    ] = None,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why.")] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--as", metavar="NAME", help="Who asked or, with --asker, who you are; only on a store."
        ),
    ] = None,
    workspace: Workspace = None,
) -> None:
    """Withdraw a question that you asked or, as an administrator, those of an agent."""
    if asker is None:
        if question_id is None:
            raise CommandError(
                gettext("Say which: handraise withdraw ID, or --asker NAME for all that an agent asked.")
            )
        print_result(
            as_asker(
                lambda session: session.desk.withdraw(question_id, reason=reason),
                name=name,
                workspace=workspace,
            )
        )
        return

    async def one(session: CliSession) -> Question:
        found = await session.desk.get(question_id or "")
        if found.asker != asker:
            text = gettext("{agent} asked that question, not {name}.")
            raise CommandError(text.format(agent=shown(found.asker), name=shown(asker)))
        return await session.desk.withdraw(found.id, reason=reason, by=session.me)

    if question_id is not None:
        print_result(as_person(one, name=name, workspace=workspace))
        return
    number = as_person(
        lambda session: session.desk.withdraw_all(asker, by=session.me, reason=reason),
        name=name,
        workspace=workspace,
    )
    text = ngettext(
        "Withdrawn: {count} question of {agent}.", "Withdrawn: {count} questions of {agent}.", number
    )
    typer.echo(text.format(count=grouped(number), agent=shown(asker)))


def watch(
    *,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Start with everything that ever happened.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print each as one line of JSON.")] = False,
    name: AsPerson = None,
    workspace: Workspace = None,
) -> None:
    """Follow what happens to all questions, live, until Ctrl+C."""

    async def work(session: CliSession) -> None:
        known: dict[str, Question | None] = {}
        async with aclosing(session.desk.follow(after="" if from_start else None)) as events:
            async for event in events:
                if as_json:
                    typer.echo(json_line(EventRecord.of(event)))
                    continue
                if event.question_id not in known:
                    known[event.question_id] = await _find(session, event.question_id)
                question = known[event.question_id]
                put(_event_lines(event, None if question is None else question.form, question))
                sys.stdout.flush()

    if not as_json:
        typer.echo(gettext("Following. Stop with Ctrl+C."), err=True)
    try:
        as_person(work, name=name, workspace=workspace)
    except KeyboardInterrupt:
        raise typer.Exit from None


async def _others_wait(session: CliSession) -> bool:
    """Whether there are pending questions that this person may see but not answer."""
    try:
        return bool((await session.desk.list_pending(limit=1)).items)
    except PermissionDenied:
        return False


async def settled_for(
    session: CliSession,
    *,
    everything: bool = False,
    ending: SettledFilter = ANY_END,
    at_most: int | None = _LATEST,
) -> AsyncIterator[Question]:
    """The last settled questions that this person may see, or that this agent has asked."""
    count, after = 0, None
    recipient = session.me if session.may_answer and not everything else None
    while True:
        page = await session.desk.list_settled(
            recipient=recipient,
            since=ending.since,
            until=ending.until,
            outcome=ending.outcome,
            by=ending.by,
            after=after,
            limit=_LATEST,
        )
        for question in page.items:
            yield question
            count += 1
            if count == at_most:
                return
        after = page.next
        if after is None:
            return


def instant_of(text: str) -> datetime:
    """A time as a person writes it: a date, a date and time, or how long ago. Without an offset it is local time."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    try:
        return datetime.now(UTC) - span_of(text)
    except (typer.BadParameter, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is not a date such as 2026-11-01, a date and time, or a span such as 7d."
        ) from None


def summary_lines(question: Question, width: int, me: str) -> list[StyledLine]:
    """A question in a list: its prompt, then who asks, for what, since when or how it ended, and its id."""
    prompt = shown_prompt(question.prompt)
    told = [shown(question.asker), kind_words(question.form)]
    if question.outcome is None:
        told += [age_words(question), end_words(question)]
        told += [gettext("you voted")] if has_voted(question, me) else []
        told += [gettext("waiting for the agent's reply")] if question.is_askers_turn else []
        told.append(orphan_mark(question, datetime.now(UTC)))
        told.append(shown(taken_text(question, datetime.now(UTC), viewer=me)))
    else:
        ended = f"{question.outcome.at.astimezone():%Y-%m-%d %H:%M}"
        told += [ended, _shorten(outcome_words(question), _AT_A_GLANCE)]
    return [
        *wrapped([("class:strong", prompt)], width),
        *wrapped([("class:soft", " · ".join(filter(None, (*told, shown(question.id)))))], width),
        [],
    ]


def print_result(question: Question) -> None:
    """Print how a question ended, or what it still needs."""
    if question.status is Status.PENDING:
        text = gettext("Your vote is in: {votes} voted, and {count} must agree.")
        typer.echo(text.format(votes=len(question.votes), count=question.quorum))
        if told := still_needed(question):
            typer.echo(told)
    elif question.outcome is not None:
        typer.echo(settled_words(question))


def _next_steps(question: Question) -> list[StyledLine]:
    if question.outcome is not None:
        return []
    texts = [gettext("To answer: handraise answer {id}").format(id=shown(question.id))]
    if takes_own_words(question.form):
        texts.append(gettext("To answer in your own words, add: --other TEXT"))
    if isinstance(question.form, Approval) and parts_of(question.form):
        texts.append(gettext("To approve with a changed argument, add: approve --argument NAME=VALUE"))
    return [[("class:soft", text)] for text in texts]


def _event_lines(event: Event, form: AnyForm | None, question: Question | None = None) -> list[StyledLine]:
    at = f"{event.at.astimezone():%Y-%m-%d %H:%M:%S}  "
    line: StyledLine = [("class:soft", at), ("", event_words(event, form))]
    if question is not None:
        line.append(("class:soft", f" · {_shorten(shown_prompt(question.prompt), 60)}"))
        line.append(("class:soft", f" · {shown(event.question_id)}"))
    return wrapped(line, columns(), indent=len(at))


def _shorten(text: str, longest: int) -> str:
    return f"{text[:longest]}…" if len(text) > longest else text


async def _find(session: CliSession, question_id: str) -> Question | None:
    try:
        return await session.desk.get(question_id)
    except QuestionNotFound:
        return None
