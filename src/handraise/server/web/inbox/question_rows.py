"""A question as a row of a list, pending or settled, and the rows of each day."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import groupby
from urllib.parse import quote, urlencode

from handraise.model.lookalike_names import mixes_alphabets
from handraise.model.outcomes import Exhausted, Expired
from handraise.model.questions import Question
from handraise.model.visible import visible_line
from handraise.ports.settled_filter import has_failed
from handraise.presentation.markdown import one_line
from handraise.presentation.outcome_text import outcome_details
from handraise.presentation.report_text import report_title, shortened_line
from handraise.presentation.times import day_in_words, moment_text, span
from handraise.presentation.translation import gettext, local_time
from handraise.server.auth.authenticator import PersonCaller
from handraise.server.web.inbox.executed_view import Executed, executed_of
from handraise.server.web.inbox.name_links import agent_href, conversation_href_of, tool_href_of
from handraise.server.web.inbox.page_texts import HistoryLine, When, outcome_in_words, since
from handraise.server.web.inbox.question_kind import kind_in_words
from handraise.server.web.inbox.status_view import status_name, verdict_of

_EXCERPT = 180
_LONGEST_SAID = 200
_NEWEST = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionRow:
    """One question in a list. Everything in it may be shown as it is."""

    id: str
    href: str
    asker: str
    asker_href: str
    asker_mixed: bool
    text: str
    what: str
    tool_href: str | None
    is_pending: bool
    verdict: str
    verdict_name: str
    how: str
    """How it ended, in our words."""
    said: str | None
    """What was answered, or why it was not."""
    report: tuple[str, str] | None
    """Whether it worked, in our words, and what the agent says came of it."""
    executed: Executed | None
    """The action that was approved, and whether the agent took it to execute it."""
    badge: str | None
    """A label for questions that ended without an answer, or whose answer led to a failure."""
    at: When
    took: str | None
    """How long it took until it ended."""
    conversation: str | None
    conversation_href: str | None
    replaces: tuple[str, str] | None = None
    """What it replaces or is replaced by, in our words, and the address of that question, which may be empty."""
    steps: Sequence[tuple[When, HistoryLine]] = ()
    """What happened to it, and when."""


@dataclass(frozen=True, slots=True)
class Day:
    """The questions of one day."""

    name: str
    iso: str
    rows: tuple[QuestionRow, ...]


def question_row(
    question: Question,
    *,
    me: str,
    at: When,
    longest: int = _EXCERPT,
    replaces: tuple[str, str] | None = None,
    steps: Sequence[tuple[When, HistoryLine]] = (),
) -> QuestionRow:
    """A question as a row; `at` is the time that the list shows."""
    outcome = question.outcome
    return QuestionRow(
        id=question.id,
        href=f"/questions/{quote(question.id, safe='')}",
        asker=visible_line(question.asker),
        asker_href=agent_href(question.asker),
        asker_mixed=mixes_alphabets(question.asker),
        text=one_line(question.prompt, longest),
        what=kind_in_words(question.form),
        tool_href=tool_href_of(question),
        is_pending=outcome is None,
        verdict=verdict_of(question),
        verdict_name=status_name(verdict_of(question)),
        how=gettext("Waiting") if outcome is None else outcome_in_words(question, me),
        said=_said(question),
        report=_report(question),
        executed=executed_of(question),
        badge=_badge(question),
        at=at,
        took=None if outcome is None else span(outcome.at - question.asked_at),
        conversation=None if question.conversation is None else visible_line(question.conversation),
        conversation_href=conversation_href_of(question),
        replaces=replaces,
        steps=steps,
    )


def clock_time(at: datetime) -> When:
    """An instant of a day that a heading names."""
    here = local_time(at)
    return When(here.isoformat(), f"{here:%H:%M}", moment_text(here))


def ended_at(question: Question) -> datetime:
    """When a question ended, or was asked if it is pending."""
    return question.asked_at if question.outcome is None else question.outcome.at


def days_of(
    questions: Iterable[Question],
    row: Callable[[Question], QuestionRow],
    *,
    today: date,
    at: Callable[[Question], datetime] = ended_at,
) -> list[Day]:
    """The rows of each day, in the order of the questions."""
    return [
        Day(day_in_words(day, today), day.isoformat(), tuple(map(row, some)))
        for day, some in groupby(questions, key=lambda each: local_time(at(each)).date())
    ]


def ended_row(question: Question, me: str) -> QuestionRow:
    """A question as a row under the day on which it ended."""
    return question_row(question, me=me, at=clock_time(ended_at(question)))


def newest_rows(
    questions: Sequence[Question], me: str, now: datetime, *, most: int = _NEWEST
) -> Sequence[QuestionRow]:
    """The first of these questions as rows that say how long ago they were asked or ended."""
    return [question_row(each, me=me, at=since(ended_at(each), now)) for each in questions[:most]]


def failed_rows(questions: Sequence[Question], me: str, now: datetime) -> Sequence[QuestionRow]:
    """Those of which the asker reported that what was approved failed."""
    return newest_rows([each for each in questions if has_failed(each)], me, now)


def list_address(path: str, caller: PersonCaller, **filters: str) -> str:
    """The address of a list with filters: for administrators that of the whole workspace."""
    return f"{path}?{urlencode({**filters, **({'all': '1'} if caller.is_admin else {})})}"


def _badge(question: Question) -> str | None:
    if isinstance(question.outcome, (Expired, Exhausted)):
        return status_name(question.outcome.status.value)
    return report_title(ok=False) if question.report is not None and not question.report.ok else None


def _report(question: Question) -> tuple[str, str] | None:
    report = question.report
    if report is None:
        return None
    return report_title(ok=report.ok), shortened_line(report.text, _LONGEST_SAID)


def _said(question: Question) -> str | None:
    if question.outcome is None:
        return None
    text = "; ".join(map(str, outcome_details(question)))
    return shortened_line(text, _LONGEST_SAID) if text else None
