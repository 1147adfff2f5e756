"""`handraise standing-answers`: answers that are kept for a topic, and how to end them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated

import typer

from handraise.cli.session import AsPerson, CliSession, Workspace, as_person
from handraise.cli.terminal_output import show_table, when
from handraise.cli.terminal_texts import shown
from handraise.model.standing_answers import SPOT_CHECK, StandingAnswer
from handraise.presentation.translation import gettext, local_time

app = typer.Typer(
    help="Standing answers: answers that people keep for a topic, until they end or are revoked.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_PAGE = 500
_LONGEST = 40


@app.command("list")
def list_standing_answers(
    *,
    everything: Annotated[bool, typer.Option("--all", help="Also those that have ended.")] = False,
    name: AsPerson = None,
    workspace: Workspace = None,
) -> None:
    """List the standing answers."""

    async def work(session: CliSession) -> list[StandingAnswer]:
        found: list[StandingAnswer] = []
        after: str | None = None
        while True:
            page = await session.desk.list_standing_answers(after=after, limit=_PAGE)
            found += page
            if (after := page.next) is None:
                return found

    found = as_person(work, name=name, workspace=workspace)
    listed = [each for each in found if everything or _ended(each) is None]
    if not listed:
        typer.echo(gettext("No answer is kept: people are asked each time."))
        return
    show_table(
        [gettext("ID"), gettext("TOPIC"), gettext("ANSWER"), gettext("GIVEN BY"), gettext("UNTIL")],
        [
            [each.id, each.topic, _answer(each), each.given_by, _ended(each) or when(each.expires_at)]
            for each in listed
        ],
    )


@app.command()
def keep(
    question_id: Annotated[str, typer.Argument(metavar="ID", help="The question that you answered.")],
    *,
    until: Annotated[
        datetime,
        typer.Option(
            formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M"], help="When it ends: a day, or a time on your clock."
        ),
    ],
    spot_check: Annotated[
        float, typer.Option(min=0, max=1, help="The share of new questions that people still get.")
    ] = SPOT_CHECK,
    name: AsPerson = None,
    workspace: Workspace = None,
) -> None:
    """Keep your answer to a question: new questions of its topic get it at once."""
    zone = local_time(datetime.now(UTC)).tzinfo

    async def work(session: CliSession) -> StandingAnswer:
        return await session.desk.keep_answer(
            question_id, until=until.replace(tzinfo=zone), by=session.me, spot_check=spot_check
        )

    kept = as_person(work, name=name, workspace=workspace)
    text = gettext("Until {when}, questions about {topic} get the answer {answer}. Its number is {id}.")
    typer.echo(
        text.format(when=when(kept.expires_at), topic=shown(kept.topic), answer=_answer(kept), id=kept.id)
    )


@app.command()
def revoke(
    standing_id: Annotated[
        str,
        typer.Argument(metavar="ID", help="The number of the answer, as `standing-answers list` shows it."),
    ],
    *,
    name: AsPerson = None,
    workspace: Workspace = None,
) -> None:
    """End a standing answer now. The next question of its topic goes to people again."""

    async def work(session: CliSession) -> StandingAnswer:
        return await session.desk.revoke_standing_answer(standing_id, by=session.me.id)

    ended = as_person(work, name=name, workspace=workspace)
    text = gettext("People are asked again about {topic}: the answer of {person} is revoked, since {when}.")
    typer.echo(
        text.format(topic=shown(ended.topic), person=shown(ended.given_by), when=when(ended.revoked_at))
    )


def _answer(standing: StandingAnswer) -> str:
    value = standing.value
    text = shown(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _ended(standing: StandingAnswer) -> str | None:
    if standing.revoked_at is not None:
        return gettext("revoked {when}").format(when=when(standing.revoked_at))
    if standing.expires_at <= datetime.now(UTC):
        return gettext("ended {when}").format(when=when(standing.expires_at))
    return None
