"""What a replay and the suggestions say, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import typer

from handraise.cli.progress_bar import progress_bar
from handraise.cli.terminal_output import show_table, when
from handraise.cli.terminal_texts import shown, shown_prompt
from handraise.desk.past_questions import Progress
from handraise.model.questions import Question
from handraise.policies.policy_replay import PastQuestion, ReplayReport
from handraise.policies.suggestions import Suggestion

_WIDEST_PROMPT = 60
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


@contextmanager
def reading_progress(label: str, since: datetime) -> Iterator[Progress]:
    """A bar that shows how far back the questions were read."""
    with progress_bar(label, datetime.now(UTC), since) as advance:

        def show(page: Sequence[Question]) -> None:
            if (last := page[-1].outcome) is not None:
                advance(last.at)

        yield show


def show_report(report: ReplayReport) -> None:
    """Print what a policy would have done to past questions."""
    if not report.questions:
        typer.echo("Nothing was settled in this time.")
        return
    typer.echo(f"{_questions(report.questions)}, asked from {when(report.oldest)} to {when(report.newest)}")
    typer.echo("")
    sign = "fewer" if report.fewer >= 0 else "more"
    typer.echo(f"{_questions(abs(report.fewer))} {sign} for people")
    typer.echo(f"  {report.allowed:,} would be allowed at once, {report.denied:,} denied")
    if report.checked:
        typer.echo(f"  about {round(report.checked):,} of them would still go to people, as spot checks")
    typer.echo(f"{_questions(report.required)} would need what a rule requires")
    for name, count in report.sent_elsewhere.most_common():
        typer.echo(f"  {count:,} would go to {shown(name)}, and did not")
    _show_list(
        "that people denied would be allowed", report.denied_but_allowed, report.denied_but_allowed_list
    )
    _show_list(
        "that people approved would be denied", report.approved_but_denied, report.approved_but_denied_list
    )
    if report.rules:
        typer.echo("")
        show_table(
            ["RULE", "DOES", "MODE", "MATCHES", "FAILED"],
            [
                [each.name, each.effect, each.mode, f"{each.matches:,}", f"{each.failed:,}"]
                for each in report.rules.values()
            ],
        )


def show_suggestions(suggestions: Sequence[Suggestion], days: float) -> None:
    """Print what each suggestion is based on."""
    for each in suggestions:
        bounds = "".join(f", {bound}" for bound in each.bounds)
        span = f"{days:g} {'day' if days == 1 else 'days'}"
        people = "1 person" if each.people == 1 else f"{each.people:,} people"
        typer.echo(
            f"# {shown(each.agent)}, {shown(each.tool)}{shown(bounds)}: {each.decisions:,} of {each.decisions:,} approved "
            f"by {people} in {span}, median wait {_span(each.median_wait)}"
        )
        if each.unbounded:
            typer.echo(f"#   The rule does not limit: {shown(', '.join(each.unbounded))}")


def _show_list(what: str, count: int, listed: Sequence[PastQuestion]) -> None:
    if not count:
        return
    typer.echo("")
    typer.secho(f"{_questions(count)} {what}:", bold=True)
    show_table(
        ["QUESTION", "ASKED", "AGENT", "TOOL", "DECIDED BY", "RULE", "PROMPT"],
        [
            [
                each.id,
                when(each.asked_at),
                each.agent,
                each.tool,
                each.decided_by,
                each.rule,
                _short(shown_prompt(each.prompt)),
            ]
            for each in listed
        ],
    )
    if count > len(listed):
        typer.echo(f"and {count - len(listed):,} more")


def _short(text: str) -> str:
    return text if len(text) <= _WIDEST_PROMPT else f"{text[: _WIDEST_PROMPT - 1]}…"


def _questions(count: int) -> str:
    return "1 question" if count == 1 else f"{count:,} questions"


def _span(seconds: float) -> str:
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    return f"{seconds / _HOUR:.1f} h" if seconds < _DAY else f"{seconds / _DAY:.1f} days"
