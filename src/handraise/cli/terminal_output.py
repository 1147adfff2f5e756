"""Print to a terminal: names come from elsewhere and must not move the cursor."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import typer

from handraise.model.visible import visible_line


def show_table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows below their headings, each column as wide as its widest text."""
    lines = [list(heading), *([visible_line(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for number, line in enumerate(lines):
        text = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        typer.secho(text, bold=number == 0)


def show_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Print facts below each other, each after its name."""
    width = max(len(name) for name, _ in facts)
    for name, text in facts:
        typer.echo(f"  {typer.style(name.ljust(width), bold=True)}  {text}")


def when(instant: datetime | None, *, never: str = "never") -> str:
    """A time in the local time zone."""
    return never if instant is None else f"{instant.astimezone():%Y-%m-%d %H:%M}"
