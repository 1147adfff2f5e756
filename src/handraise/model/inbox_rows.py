"""The rows by which a pending question is in the inbox: a function of the question, so that a store only keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from handraise.model.people import ANYONE
from handraise.model.questions import Aside, Question
from handraise.model.urgency import urgency_of


class InboxRow(NamedTuple):
    """One row of the inbox, as far as it can change: of somebody who is asked, or who will be when the question escalates.

    The first row is the `main` one: it stands for the question itself. `step` is the step of the timeline that opens the row.
    """

    recipient: str
    main: bool
    open: bool
    step: int | None
    urgency: int
    due_at: datetime | None
    taken_by: str | None
    taken_until: datetime | None
    aside: tuple[Aside, ...]


def inbox_of(question: Question) -> Mapping[str, InboxRow]:
    """The rows of a pending question by their recipients: those who are asked, brought in, and escalated to.

    A question that follows another one has its rows too, but they are not open.
    """
    rows: dict[str, InboxRow] = {}

    def add(name: str, *, is_open: bool, step: int | None = None) -> None:
        is_main = not rows
        if name in rows:
            return
        rows[name] = InboxRow(
            recipient=name,
            main=is_main,
            open=is_open,
            step=step,
            urgency=urgency,
            due_at=question.due_at if is_main else None,
            taken_by=question.taken_by,
            taken_until=question.taken_until,
            aside=question.aside,
        )

    urgency, leads, stage = urgency_of(question), question.follows is None, question.stage
    asked = question.asked_in(stage)
    for name in (*(question.recipients or (ANYONE,)), *question.added):
        add(name, is_open=leads and (stage is None or name in asked))
    for place, step in enumerate(question.steps if question.recipients else ()):
        for name in step.to:
            add(name, is_open=place < question.steps_taken, step=place)
    return rows


def changed_rows(before: Question, after: Question) -> tuple[InboxRow, ...]:
    """The rows of a pending question that a change has made different."""
    if _decides_rows(before) == _decides_rows(after):
        return ()
    rows = inbox_of(before)
    return tuple(row for name, row in inbox_of(after).items() if rows.get(name) != row)


def _decides_rows(question: Question) -> tuple[object, ...]:
    """What the rows are made from, as far as it changes while a question is pending."""
    return (
        question.asked_back > 0,
        question.steps_taken,
        question.stepped_at,
        question.follows,
        question.added,
        question.aside,
        question.taken_by,
        question.taken_until,
        question.stage,
    )
