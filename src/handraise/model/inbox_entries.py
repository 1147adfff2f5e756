"""The entries of a pending question in the inbox: a function of the question, so that a store only keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from handraise.model.people import ANYONE
from handraise.model.questions import Aside, Question
from handraise.model.urgency import urgency_of


class InboxEntry(NamedTuple):
    """The entry of somebody who is asked, or who will be when the question escalates, as far as it can change.

    The first one is the `main` one: it stands for the question itself, and has what is due and which other question it
    follows, or for which `topic_key` others can follow it. `step` is the step of the timeline that opens the entry.
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
    topic_key: str | None
    follows: str | None


def inbox_of(question: Question) -> Mapping[str, InboxEntry]:
    """The entries of a pending question by their recipients: those who are asked, brought in, and escalated to.

    A question that follows another one has its entries too, but they are not open.
    """
    entries: dict[str, InboxEntry] = {}

    def add(name: str, *, is_open: bool, step: int | None = None) -> None:
        is_main = not entries
        if name in entries:
            return
        entries[name] = InboxEntry(
            recipient=name,
            main=is_main,
            open=is_open,
            step=step,
            urgency=urgency,
            due_at=question.due_at if is_main else None,
            taken_by=question.taken_by,
            taken_until=question.taken_until,
            aside=question.aside,
            topic_key=question.topic_key if is_main and leads else None,
            follows=question.follows if is_main else None,
        )

    urgency, leads, stage = urgency_of(question), question.follows is None, question.stage
    asked = question.asked_in(stage)
    for name in (*(question.recipients or (ANYONE,)), *question.added):
        add(name, is_open=leads and (stage is None or name in asked))
    for place, step in enumerate(question.steps if question.recipients else ()):
        for name in step.to:
            add(name, is_open=place < question.steps_taken, step=place)
    return entries


def changed_entries(before: Question, after: Question) -> tuple[InboxEntry, ...]:
    """The entries of a pending question that a change has made different."""
    if _decides_entries(before) == _decides_entries(after):
        return ()
    entries = inbox_of(before)
    return tuple(entry for name, entry in inbox_of(after).items() if entries.get(name) != entry)


def _decides_entries(question: Question) -> tuple[object, ...]:
    """What the entries are made from, as far as it changes while a question is pending."""
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
