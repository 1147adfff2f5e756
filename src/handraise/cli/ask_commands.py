"""`handraise ask` and `handraise wait`, for scripts. Only the answer is printed to stdout."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import pydantic
import typer

from handraise.cli.answer_prompt import answer_at_terminal
from handraise.cli.conversation_prompt import message_problem
from handraise.cli.exit_codes import STILL_PENDING, CommandError, code_of
from handraise.cli.file_commands import attach_paths
from handraise.cli.prompts import Back, Refuses, Terminal
from handraise.cli.question_view import columns, message_lines
from handraise.cli.session import AsAsker, CliSession, Workspace, as_asker, as_person, person_session
from handraise.cli.terminal_texts import json_line, outcome_words, shown, shown_lines, span_of
from handraise.model.answer_types import FormSource
from handraise.model.drafting import QuestionOptions
from handraise.model.durations import WorkingSpan
from handraise.model.errors import StillPending
from handraise.model.forms import FORM, Action, Approval, Confirm, MultiChoice
from handraise.model.json_values import Json
from handraise.model.outcomes import Answered
from handraise.model.questions import Question
from handraise.model.thread_messages import ThreadMessage
from handraise.model.timelines import Escalation, Timeline
from handraise.model.type_problems import problems_of
from handraise.ports.desk import ReplyWith
from handraise.presentation.translation import gettext
from handraise.wire.records import QuestionRecord

Timeout = Annotated[
    str | None,
    typer.Option(
        metavar="SPAN", help="Wait at most this long, such as 90s, 15m or 2h; then it stays pending."
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print the question as one line of JSON, pending or settled.")
]


def ask(
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="What you want to know.")],
    *,
    choice: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="An option; give it once for each.")
    ] = None,
    several: Annotated[bool, typer.Option("--several", help="More than one option may be chosen.")] = False,
    confirm: Annotated[bool, typer.Option("--confirm", help="Ask for yes or no.")] = False,
    form: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="A form or a flat JSON Schema, as JSON in a file; - reads it from stdin."
        ),
    ] = None,
    recipients: Annotated[
        list[str] | None,
        typer.Option(
            "--recipient", metavar="NAME", help="Who may answer: a person or group:NAME; anyone if not given."
        ),
    ] = None,
    context: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Background for the answer; may be JSON.")
    ] = None,
    approval: Annotated[
        str | None,
        typer.Option(metavar="TOOL", help="Ask for the approval of an action: the tool that would run."),
    ] = None,
    argument: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="An argument of that action; VALUE may be JSON."),
    ] = None,
    quorum: Annotated[int, typer.Option(metavar="N", help="How many people must agree.")] = 1,
    remind: Annotated[
        list[str] | None, typer.Option(metavar="SPAN", help="When to remind people; give it once for each.")
    ] = None,
    escalate: Annotated[
        list[str] | None,
        typer.Option(metavar="SPAN=NAME", help="When others may answer too, such as 2h=group:leads."),
    ] = None,
    expires_in: Annotated[
        str | None, typer.Option(metavar="SPAN", help="When it ends unanswered, such as 15m, 2h or 3d.")
    ] = None,
    default: Annotated[
        str | None,
        typer.Option(metavar="VALUE", help="The answer to record when it expires, marked as a default."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY", help="A name for it: asking again with the same key is the same question."
        ),
    ] = None,
    conversation: Annotated[
        str | None, typer.Option(metavar="NAME", help="The conversation it belongs to.")
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(
            help="What is asked, across agents: equal pending questions with one topic share one answer."
        ),
    ] = None,
    replaces: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Your question that this one replaces. If that is pending, it is withdrawn."
        ),
    ] = None,
    heartbeat: Annotated[
        str | None,
        typer.Option(
            metavar="SPAN",
            help="After how long without a sign of you nobody waits any more, such as 5m. --wait is a sign.",
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is settled.")] = False,
    timeout: Timeout = None,
    here: Annotated[
        bool,
        typer.Option(
            "--here", help="Show it in this terminal too; the first answer counts, wherever it is given."
        ),
    ] = False,
    replies: Annotated[
        bool,
        typer.Option(
            "--replies",
            help="Let people ask back. With --wait you reply in this terminal, else with `handraise reply`.",
        ),
    ] = False,
    attach: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="A file that belongs to the question; give it once for each."),
    ] = None,
    as_json: AsJson = False,
    name: AsAsker = None,
    workspace: Workspace = None,
) -> None:
    """Ask a person, and print the answer.

    Without --wait, --timeout or --here the question is stored and the command ends at once; with a --key, the
    same command later prints the answer.

    An approval can be used once: if the same command runs again, it ends with 1.

    Ends with 0 if it is answered, 3 declined, 4 expired, 5 withdrawn, 6 exhausted (too many answers did not
    fit), 7 still pending, 8 if the answer is no or deny, and 9 if it was sent back to be changed.
    """
    options = _options(
        choice=choice,
        several=several,
        confirm=confirm,
        form=form,
        to=recipients,
        context=context,
        approval=_approval(approval, argument or []),
        quorum=quorum,
        timeline=_timeline(remind or [], escalate or [], expires_in, default),
        key=key,
        conversation=conversation,
        replies=replies,
        replaces=replaces,
        heartbeat=heartbeat,
        topic=topic,
    )
    patience = None if timeout is None else span_of(timeout)

    async def work(session: CliSession) -> Question:
        if attach:
            options["attachments"] = await attach_paths(session, attach)
        question = await session.desk.post(prompt, **options)
        posted.append(question)
        if here and question.outcome is None:
            await _ask_here(question, patience, workspace=workspace)
        elif wait or patience is not None:
            text = gettext("Waiting for an answer. To give it: handraise answer {id}")
            _print_status(text.format(id=question.id))
            await _until_settled(
                session, question.id, patience, reply_with=_reply_to(question, replies=replies)
            )
        question = await session.desk.get(question.id)
        if question.decision:
            await session.desk.consume_approval(
                question.id
            )  # if a script runs again, it must not do this again
        return question

    posted: list[Question] = []
    try:
        question = as_asker(work, name=name, workspace=workspace)
    except KeyboardInterrupt:
        if not posted:
            raise
        if not here:
            _print_left_pending(posted[0].id)
        raise typer.Exit(STILL_PENDING) from None
    _end(question, as_json=as_json)


def wait_for(
    question_id: Annotated[str, typer.Argument(metavar="ID", help="The question's id.")],
    *,
    timeout: Timeout = None,
    as_json: AsJson = False,
    workspace: Workspace = None,
) -> None:
    """Wait until a question is settled, and print the answer; ends with the same codes as `ask`."""
    patience = None if timeout is None else span_of(timeout)

    async def work(session: CliSession) -> Question:
        await _until_settled(session, question_id, patience)
        return await session.desk.get(question_id)

    try:
        question = as_person(work, name=None, workspace=workspace)
    except KeyboardInterrupt:
        _print_left_pending(question_id)
        raise typer.Exit(STILL_PENDING) from None
    _end(question, as_json=as_json)


async def _until_settled(
    session: CliSession,
    question_id: str,
    patience: timedelta | None,
    *,
    reply_with: ReplyWith | None = None,
) -> None:
    try:
        await session.desk.wait(question_id, timeout=patience, reply_with=reply_with)
    except StillPending:
        return


def _reply_to(question: Question, *, replies: bool) -> ReplyWith | None:
    """What shows a message of a person and gives the reply that is written in this terminal; None if it is not wanted."""
    if not replies:
        return None

    async def reply(message: ThreadMessage) -> str | None:
        later = gettext("To reply: handraise reply {id} TEXT --to {number}")
        told = later.format(id=shown(question.id), number=message.number)
        if not any(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
            for line in message_lines(message, columns()):
                _print_status("".join(text for _, text in line))
            _print_status(told)
            return None
        terminal = Terminal()
        terminal.put(message_lines(message, terminal.width))
        hint = gettext("enter sends the reply · ctrl-j new line · esc replies nothing")
        try:
            return await terminal.write(hint=hint, check=message_problem)
        except (Back, Refuses):
            terminal.put([[("class:soft", told)]])
            return None

    return reply


async def _ask_here(question: Question, patience: timedelta | None, *, workspace: str | None) -> None:
    """Let the person at this terminal answer, until somebody has answered, here or elsewhere."""
    async with person_session(name=None, workspace=workspace, ignore_key=True) as person:
        with suppress(TimeoutError):
            async with asyncio.timeout(None if patience is None else patience.total_seconds()):
                await answer_at_terminal(person, question)


def _end(question: Question, *, as_json: bool) -> None:
    """Print the answer, anything else on stderr, and exit with the code for the question's status."""
    code = code_of(question)
    outcome = question.outcome
    if as_json:
        typer.echo(json_line(QuestionRecord.of(question, with_state=False)))
    elif outcome is None:
        _print_status(gettext("Pending: {id}").format(id=question.id))
        _print_status(gettext("To answer: handraise answer {id}").format(id=question.id))
    elif not isinstance(outcome, Answered):
        _print_status(gettext("Not answered: {sentence}.").format(sentence=outcome_words(question)))
    else:
        if outcome.source != "person":
            words = outcome_words(question)
            _print_status(f"{words[0].upper()}{words[1:]}.")
        text = plain_answer(question)
        # A script gets the exact answer; a terminal gets nothing that could move its cursor.
        typer.echo("\n".join(shown_lines(text)) if sys.stdout.isatty() else text)
    raise typer.Exit(code)


def plain_answer(question: Question) -> str:
    """The answer for scripts: plain texts, one per line, and JSON only if there are several fields."""
    assert isinstance(question.outcome, Answered)  # noqa: S101 -- for the type checker
    value = question.outcome.value
    if question.form.kind == "multi_choice":
        return "\n".join(map(_bare, value))
    if question.decision is not None:
        edited = question.decision.edited
        return json.dumps(value, ensure_ascii=False) if edited else str(value["decision"])
    return _bare(value)


def _bare(value: Json) -> str:
    match value:
        case str():
            return value
        case bool():
            return "yes" if value else "no"
        case {"other": str(text), **rest} if not rest:
            return text
        case _:
            return json.dumps(value, ensure_ascii=False)


def _options(
    *,
    choice: list[str] | None,
    several: bool,
    confirm: bool,
    form: str | None,
    to: list[str] | None,
    context: str | None,
    approval: Approval | None,
    quorum: int,
    timeline: Timeline | None,
    key: str | None,
    conversation: str | None,
    replies: bool,
    replaces: str | None,
    heartbeat: str | None,
    topic: str | None,
) -> QuestionOptions:
    if sum((bool(choice), confirm, form is not None, approval is not None)) > 1:
        raise typer.BadParameter("Give --choice, --confirm, --form or --approval, and only one of them.")
    if several and not choice:
        raise typer.BadParameter("--several needs options: give each as --choice TEXT.")
    options: QuestionOptions = {"recipients": to or [], "quorum": quorum}
    if approval is not None:
        options["form"] = approval
    if choice and several:
        options["form"] = MultiChoice.of(*choice)
    elif choice:
        options["choices"] = choice
    elif confirm:
        options["form"] = Confirm()
    elif form is not None:
        options["form"] = _read_form(form)
    if context is not None:
        options["context"] = json_or_text(context)
    if timeline is not None:
        options["timeline"] = timeline
    if key is not None:
        options["key"] = key
    if conversation is not None:
        options["conversation"] = conversation
    if replies:
        options["replies"] = "program"
    if replaces is not None:
        options["replaces"] = replaces
    if heartbeat is not None:
        options["heartbeat"] = span_of(heartbeat)
    if topic is not None:
        options["topic"] = topic
    return options


def _approval(tool: str | None, arguments: list[str]) -> Approval | None:
    if tool is None and arguments:
        raise typer.BadParameter("--argument needs the tool it is for: --approval TOOL.")
    if tool is None:
        return None
    return Approval.of(tool, {name: json_or_text(value) for name, value in named_texts(arguments).items()})


def named_texts(arguments: Sequence[str]) -> dict[str, str]:
    """The texts of `--argument NAME=VALUE`, by name."""
    named = [each.partition("=") for each in arguments]
    if not all(name and equals for name, equals, _ in named):
        raise typer.BadParameter("Give each argument as --argument NAME=VALUE.")
    return {name: text for name, _, text in named}


def _timeline(
    remind: list[str], escalate: list[str], expires: str | None, default: str | None
) -> Timeline | None:
    if not (remind or escalate or expires or default):
        return None
    steps = [each.partition("=") for each in escalate]
    if not all(names for _, _, names in steps):
        raise typer.BadParameter("Give each step as --escalate SPAN=NAME, such as 2h=group:leads.")
    return Timeline(
        remind=[_step_span(each) for each in remind],
        escalate=[Escalation(after=_step_span(after), to=names.split(",")) for after, _, names in steps],
        expire=None if expires is None else _step_span(expires),
        default=None if default is None else json_or_text(default),
    )


def _step_span(text: str) -> timedelta:
    """A span of a timeline, which may count working time."""
    try:
        return WorkingSpan(text.strip())
    except ValueError:
        return span_of(text)


def json_or_text(text: str) -> Json:
    """The value of a JSON text, or the text itself if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _read_form(file: str) -> FormSource:
    if file.lstrip().startswith(("{", "[")):
        raise CommandError(
            gettext(
                "--form takes the name of a file. To give the form itself: echo '…' | handraise ask … --form -"
            )
        )
    text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    try:
        found = json.loads(text)
    except ValueError as error:
        raise CommandError(gettext("{file} is not JSON: {reason}.").format(file=file, reason=error)) from None
    if not isinstance(found, dict):
        text = gettext("{file} is not a form: expected an object with a kind, or a JSON Schema.")
        raise CommandError(text.format(file=file))
    if "kind" not in found:
        return found
    try:
        if found["kind"] == "approval" and "digest" not in found:
            found["digest"] = Action.model_validate(found.get("action")).digest
        return FORM.validate_python(found)
    except pydantic.ValidationError as error:
        problems = "; ".join(map(str, problems_of(error)))
        text = gettext("{file} is not a form: {problems}")
        raise CommandError(text.format(file=file, problems=problems)) from None


def _print_left_pending(question_id: str) -> None:
    text = gettext("Left pending. To wait again: handraise wait {id}")
    _print_status(f"\n{text.format(id=shown(question_id))}")


def _print_status(text: str) -> None:
    typer.echo(text, err=True)
