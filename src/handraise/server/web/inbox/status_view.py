"""The status of a question on its page: pending and what comes next, or settled and how."""

from __future__ import annotations

from datetime import datetime
from typing import Any, assert_never

from handraise.model.forms import Approval
from handraise.model.lifecycle import wants_grant
from handraise.model.outcomes import Answered
from handraise.model.questions import Question
from handraise.model.reports import Report
from handraise.model.timelines import Step
from handraise.model.visible import visible, visible_line
from handraise.presentation.answer_text import answer_parts
from handraise.presentation.outcome_text import edited_arguments, outcome_details
from handraise.presentation.report_text import report_source, report_title
from handraise.presentation.translation import gettext, gettext_noop
from handraise.server.web.inbox.page_texts import (
    evidence_in_words,
    outcome_in_words,
    since,
    when,
)
from handraise.server.web.inbox.value_view import changed, shown

_NAMES = {
    "pending": gettext_noop("Pending"),
    "answered": gettext_noop("Answered"),
    "declined": gettext_noop("Declined"),
    "expired": gettext_noop("Expired"),
    "withdrawn": gettext_noop("Withdrawn"),
    "exhausted": gettext_noop("Exhausted"),
    "returned": gettext_noop("Sent back"),
    "approved": gettext_noop("Approved"),
    "denied": gettext_noop("Denied"),
    "taken back": gettext_noop("Taken back"),
}


def verdict_of(question: Question) -> str:
    """The status of a question in one word; for an action that was decided, the decision."""
    if question.decision is None:
        return question.status.value
    if question.taken_back_at is not None:
        return "taken back"
    return "approved" if question.decision.approved else "denied"


def status_name(verdict: str) -> str:
    """The text of a badge for a status or a decision."""
    known = _NAMES.get(verdict)
    return verdict.capitalize() if known is None else gettext(known)


def action_heading(question: Question) -> str:
    """What the page calls the action: as it will be executed, was approved or executed, or was only asked for."""
    if question.outcome is None:
        return gettext("What will be executed")
    if question.decision is None or not question.decision.approved:
        return gettext("What was asked for, and is not approved")
    if question.taken_back_at is not None:
        return gettext("What was approved, and taken back")
    if question.consumed_at is not None:
        return gettext("What was approved and taken to execute it")
    return gettext("What was approved")


def settled_of(question: Question, now: datetime, me: str) -> dict[str, Any] | None:
    """How a question ended, or None while it is pending."""
    outcome = question.outcome
    if outcome is None:
        return None
    details = outcome_details(question)
    is_answer = isinstance(outcome, Answered) and not isinstance(question.form, Approval)
    edited = edited_arguments(question)
    return {
        "text": outcome_in_words(question, me),
        "entries": details if is_answer else (),
        "changes": changed(question.form.action.arguments, edited)
        if isinstance(question.form, Approval) and edited is not None
        else None,
        "reason": "" if is_answer else "\n".join(each.text for each in details),
        "at": since(outcome.at, now),
        "evidence": evidence_in_words(outcome),
        "consumed": None if question.consumed_at is None else since(question.consumed_at, now),
        "taken_back": None if question.taken_back_at is None else since(question.taken_back_at, now),
        "report": None if question.report is None else _report_of(question.report, now),
        "remembered": isinstance(outcome, Answered) and wants_grant(question.form, outcome.value),
        "mine": getattr(outcome, "by", None) == me,
    }


def _report_of(report: Report, now: datetime) -> dict[str, Any]:
    return {
        "ok": report.ok,
        "title": report_title(ok=report.ok),
        "text": visible(report.text),
        "link": None if report.link is None else visible_line(report.link),
        "details": None if report.details is None else shown(report.details),
        "source": report_source(),
        "at": since(report.at, now),
    }


def ahead_of(question: Question, now: datetime) -> list[tuple[Any, str]]:
    """What will happen by itself if nobody answers."""
    left = question.steps[question.steps_taken :]
    return [(when(question.asked_at + step.after, now), _deed(question, step)) for step in left]


def _deed(question: Question, step: Step) -> str:
    match step.do:
        case "remind":
            return gettext("a reminder")
        case "escalate":
            names = ", ".join(visible_line(each) for each in step.to)
            return gettext("it is also put before {names}").format(names=names)
        case "expire":
            if isinstance(question.form, Approval):
                return gettext("it expires and is not approved")
            return gettext("it expires without an answer")
        case "default":
            words = answer_parts(question.form, (step.record or {}).get("value"))
            value = "; ".join(each.text for each in words)
            return gettext("the default is taken: {value}").format(value=value)
        case _:
            assert_never(step.do)
