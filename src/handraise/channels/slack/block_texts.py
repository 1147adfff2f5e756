"""What a message says in our own words: who asks for what, until when, and how it ended."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

from handraise.channels import message_texts
from handraise.channels.slack.blocks import (
    Block,
    cut,
    in_full,
    literal,
    moment,
    name,
    quote,
    shortened,
    words,
)
from handraise.channels.slack.blocks import line as paragraph
from handraise.model.deliveries import Reason
from handraise.model.forms import AnyForm, Approval, Choice, Confirm, Form, MultiChoice, Open
from handraise.model.json_values import Json, canonical_json
from handraise.model.outcomes import Answered, Declined, Exhausted, Expired, Withdrawn
from handraise.model.questions import Question
from handraise.model.visible import visible, visible_line

_LONGEST_ANSWER = 1_500
_LONGEST_CHANGE = 2_000


def opening(question: Question, reason: Reason) -> Block:
    """Who asks, and why somebody is told now."""
    if question.outcome is not None:
        return paragraph(words("The agent "), name(question.asker), words(" asked:"))
    what = " asks for your approval:" if isinstance(question.form, Approval) else " asks:"
    why: list[Block] = []
    match reason:
        case "asked":
            pass
        case "reminded":
            why = [words("Reminder", bold=True), words(": this still waits. ")]
        case "escalated":
            why = [words("Escalated", bold=True), words(": nobody has answered yet, so you are asked too. ")]
        case _:
            assert_never(reason)
    return paragraph(*why, words("The agent "), name(question.asker), words(what))


def facts(question: Question) -> str:
    """What kind of answer is wanted, from how many, and until when."""
    parts = [kind_of(question.form)]
    if question.quorum > 1:
        parts.append(f"{question.quorum} people must agree")
    if question.expires_at is not None:
        parts.append(f"expires {in_full(question.expires_at)}")
    return " · ".join(parts)


def kind_of(form: AnyForm) -> str:
    """What a person is asked to do."""
    match form:
        case Approval():
            return "Approve or deny"
        case Choice():
            return f"Choose one of {len(form.options)}"
        case MultiChoice():
            return f"Choose among {len(form.options)}"
        case Confirm():
            return "Yes or no"
        case Form():
            return "1 field" if len(form.fields) == 1 else f"{len(form.fields)} fields"
        case Open():
            return "Write an answer"
        case _:
            assert_never(form)


def risk_of(form: Approval) -> str:
    """How much harm an action could do, in our words."""
    return ("⚠ " if form.risk == "high" else "") + message_texts.risk_of(form)


def action_text(form: Approval) -> str:
    """A frozen action in full."""
    return f"{visible_line(form.action.tool)}\n{_readable(form.action.arguments)}"


def difference(before: Mapping[str, Json], after: Mapping[str, Json]) -> str | None:
    """What was changed in some arguments, or None where nothing was."""
    lines: list[str] = []
    for key in dict.fromkeys((*before, *after)):
        if before.get(key) != after.get(key):
            shown = visible_line(key)
            lines.append(f"- {shown}: {_readable(before.get(key))}")
            lines.append(f"+ {shown}: {_readable(after.get(key))}")
    return "\n".join(lines) or None


def ending(question: Question) -> Iterator[Block]:
    """How a question ended: who answered what, or why nobody did."""
    outcome = question.outcome
    match outcome:
        case Answered(source="default"):
            yield paragraph(
                words("Its time ran out", bold=True),
                words(", so the default that the agent had named was taken:"),
            )
            yield from _answer(question, outcome.value)
        case Answered(source="grant"):
            yield paragraph(
                words("Approved", bold=True), words(" by a grant of "), name(outcome.by or "somebody")
            )
        case Answered():
            yield paragraph(
                name(outcome.by or "somebody"), words(" answered on "), moment(outcome.at), words(":")
            )
            yield from _answer(question, outcome.value)
        case Declined():
            yield paragraph(
                name(outcome.by), words(" declined to answer on "), moment(outcome.at), words(".")
            )
            yield from _reason(outcome.reason)
        case Expired():
            yield paragraph(
                words("Its time ran out", bold=True),
                words(" before anybody answered, on "),
                moment(outcome.at),
            )
        case Withdrawn():
            yield paragraph(
                words("The agent withdrew it", bold=True), words(" on "), moment(outcome.at), words(".")
            )
            yield from _reason(outcome.reason)
        case Exhausted():
            yield paragraph(
                words("Closed", bold=True),
                words(" after too many answers that did not fit, the last by "),
                name(outcome.by),
            )
        case None:
            yield paragraph(words("It has ended."))
        case _:
            assert_never(outcome)


def ending_in_short(question: Question) -> str:
    """How a question ended, for a notification."""
    match question.outcome:
        case Answered(source="person", by=by):
            return f"Answered by {visible_line(by or 'somebody')}"
        case Answered():
            return "Answered"
        case Declined(by=by):
            return f"Declined by {visible_line(by)}"
        case Expired():
            return "Expired"
        case Withdrawn():
            return "Withdrawn"
        case Exhausted() | None:
            return "Closed"
        case _:
            assert_never(question.outcome)


def _answer(question: Question, value: Json) -> Sequence[Block]:
    try:
        return list(_known_answer(question.form, value))
    except (KeyError, TypeError, AttributeError, ValueError, IndexError):
        # What an older or newer release took as an answer.
        return [quote(words(_start(canonical_json(value), _LONGEST_ANSWER)))]


def _known_answer(form: AnyForm, value: Json) -> Iterator[Block]:
    if isinstance(form, Approval):
        yield from _decision(form, value)
    elif isinstance(form, Form):
        fields = {field.name: field for field in form.fields}
        for key, one in value.items():
            title = shortened(fields[key].title or key, 200)
            said = message_texts.simple_answer(fields[key].form, one)
            yield quote(
                words(title, bold=True),
                words(": " + _start(said, max(40, _LONGEST_ANSWER // len(value)))),
            )
    else:
        yield quote(words(_start(message_texts.simple_answer(form, value), _LONGEST_ANSWER)))


def _decision(form: Approval, value: Json) -> Iterator[Block]:
    decision, said = message_texts.decided(form, value)
    yield paragraph(words(said, bold=True))
    yield from _reason(decision.reason)
    if decision.edited:
        changes = difference(form.action.arguments, decision.action.arguments)
        yield literal(_start(changes or "", _LONGEST_CHANGE))


def _reason(reason: str | None) -> Iterator[Block]:
    if reason:
        yield quote(words(_start(reason, _LONGEST_ANSWER)))


def _start(text: str, most: int) -> str:
    return cut(visible(text[: most + 1]), most)


def _readable(value: Json) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
