"""What stays undone when somebody is removed or disabled, in a terminal."""

from __future__ import annotations

import typer

from handraise.cli.terminal_texts import shown
from handraise.desk.departures import MOST_QUESTIONS, Departure
from handraise.model.visible import visible_line

_NAMED = 5


def show_departure(name: str, left: Departure) -> None:
    """Print what nobody else does now; nothing if that is nothing."""
    if left.is_empty:
        return
    typer.echo("\nThis needs somebody else now:")
    if left.questions:
        number = len(left.questions)
        count = f"{number} or more" if number >= MOST_QUESTIONS else str(number)
        what = (
            "question that nobody else can answer" if number == 1 else "questions that nobody else can answer"
        )
        more = ", …" if number > _NAMED else ""
        typer.echo(f"  {count} {what}: {', '.join(map(visible_line, left.questions[:_NAMED]))}{more}")
    for rule in left.rules:
        typer.echo(f"  {shown(rule.text[:1].upper() + rule.text[1:])}")
    if left.deputy_of:
        people = ", ".join(map(visible_line, left.deputy_of))
        typer.echo(f"  {visible_line(name)} was to answer while these are away: {people}")
