"""Bars that show how far a command has come: in time, or of a number of things."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

import typer

_STEPS = 1_000


@contextmanager
def progress_bar(label: str, begin: datetime | None, end: datetime) -> Iterator[Callable[[datetime], None]]:
    """Show how far things were read from one instant to another, which may be earlier. Without a terminal there is no bar.

    With None as the beginning, the first instant that is told is it.
    """
    if not sys.stderr.isatty():
        yield lambda _at: None
        return
    first = begin
    with typer.progressbar(length=_STEPS, label=label, file=sys.stderr) as bar:

        def advance(at: datetime) -> None:
            nonlocal first
            first = first or at
            whole = (end - first).total_seconds()
            place = round(_STEPS * (at - first).total_seconds() / whole) if whole else 0
            bar.update(max(0, min(place, _STEPS) - bar.pos))

        yield advance
        bar.update(_STEPS - bar.pos)


@contextmanager
def share_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """Show what is done of a whole; each call tells both. Without a terminal there is no bar."""
    with count_bar(label, _STEPS) as advance:
        done = 0

        def show(part: int, whole: int) -> None:
            nonlocal done
            now = _STEPS * part // max(whole, 1)
            advance(now - done)
            done = now

        yield show


@contextmanager
def count_bar(label: str, whole: int) -> Iterator[Callable[[int], None]]:
    """Show how many of `whole` things are done; each call tells how many more are. Without a terminal there is no bar."""
    if not sys.stderr.isatty():
        yield lambda _more: None
        return
    with typer.progressbar(length=max(whole, 1), label=label, file=sys.stderr) as bar:
        yield bar.update
        bar.update(bar.length - bar.pos if bar.length else 0)
