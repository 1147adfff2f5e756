"""`handraise search`: find questions by words."""

from __future__ import annotations

from typing import Annotated

import typer

from handraise.cli.question_commands import summary_lines
from handraise.cli.question_view import columns, put
from handraise.cli.session import AsPerson, CliSession, Workspace, as_person
from handraise.cli.terminal_texts import json_line
from handraise.model.questions import Question
from handraise.presentation.translation import gettext
from handraise.wire.records import QuestionRecord

_AT_ONCE = 100
_FOUND = 50


def search(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="WORDS", help="All of them must be there; the last one may be the beginning of one."
        ),
    ],
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that only others may see; for administrators.")
    ] = False,
    asker: Annotated[
        str | None, typer.Option("--asker", metavar="NAME", help="Only questions of this agent.")
    ] = None,
    conversation: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only questions of this conversation.")
    ] = None,
    limit: Annotated[
        int, typer.Option(metavar="N", min=0, help="The most questions to list; 0 for all.")
    ] = _FOUND,
    as_json: Annotated[bool, typer.Option("--json", help="Print each as one line of JSON.")] = False,
    name: AsPerson = None,
    workspace: Workspace = None,
) -> None:
    """Find pending and settled questions by words, the newest first. With the key of an agent, its own.

    Searched are what was asked, its context, arguments and options, the answer, the reason and the report. An argument with
    spaces is a phrase: handraise search refund "two weeks".
    """
    text = " ".join(f'"{each}"' if len(each.split()) > 1 and len(words) > 1 else each for each in words)

    async def work(session: CliSession) -> tuple[list[Question], bool, str]:
        found: list[Question] = []
        after: str | None = None
        recipient = session.me if session.may_answer and not everything else None
        while True:
            page = await session.desk.search(
                text,
                conversation=conversation,
                recipient=recipient,
                asker=asker,
                after=after,
                limit=min(limit or _AT_ONCE, _AT_ONCE),
            )
            found += page.items
            after = page.next
            if after is None or (limit and len(found) >= limit):
                return found[: limit or None], after is not None, session.me.id

    found, more, me = as_person(work, name=name, workspace=workspace)
    if as_json:
        for question in found:
            typer.echo(json_line(QuestionRecord.of(question, with_state=False)))
    elif not found:
        typer.echo(gettext("Nothing was found."))
    else:
        put(line for question in found for line in summary_lines(question, columns(), me))
        if more:
            typer.echo(gettext("There are more. To see them: --limit 0"))
