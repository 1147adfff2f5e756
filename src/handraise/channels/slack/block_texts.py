"""What a message says in our own words: who asks for what, until when, and how it ended."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import assert_never

from handraise.channels.message_texts import brief_of, report_of
from handraise.channels.slack.blocks import (
    Block,
    cut,
    literal,
    moment,
    name,
    quote,
    rich,
    shortened,
    with_name,
    words,
)
from handraise.channels.slack.blocks import line as paragraph
from handraise.model.argument_order import reading_order
from handraise.model.deliveries import Reason
from handraise.model.forms import Approval
from handraise.model.json_values import Json
from handraise.model.questions import Question
from handraise.model.visible import visible, visible_line
from handraise.presentation.agreement_text import required_people
from handraise.presentation.form_text import kind_text
from handraise.presentation.outcome_text import edited_arguments, outcome_details, outcome_text
from handraise.presentation.risk_text import risk_text
from handraise.presentation.thread_text import ThreadText
from handraise.presentation.times import moment_text
from handraise.presentation.translation import gettext

_LONGEST_ANSWER = 1_500
_LONGEST_CHANGE = 2_000


def opening(question: Question, reason: Reason) -> Block:
    """Who asks, and why somebody is told now."""
    if question.outcome is not None:
        return paragraph(*with_name(gettext("The agent {name} asked:"), question.asker))
    if isinstance(question.form, Approval):
        what = gettext("The agent {name} asks for your approval:")
    else:
        what = gettext("The agent {name} asks:")
    why: list[Block] = []
    match reason:
        case "asked":
            pass
        case "reminded":
            why = _with_bold_start(gettext("Reminder: this still waits."))
        case "escalated":
            why = _with_bold_start(gettext("Escalated: nobody has answered yet, so you are asked too."))
        case "brought_in":
            why = _with_bold_start(gettext("For you too: somebody wants you to answer this."))
        case "noted":
            why = _with_bold_start(gettext("Note: somebody has written something about this."))
        case "replied":
            why = _with_bold_start(
                gettext("Reply: the agent has replied, and this waits for an answer again.")
            )
        case _:
            assert_never(reason)
    return paragraph(*why, *with_name(what, question.asker))


def conversation(thread: ThreadText) -> list[Block]:
    """What people and the agent have written, and whose turn it is."""
    parts: list[Block] = []
    for place, each in enumerate(thread.messages):
        heading = [words(thread.heading or "", bold=True), words("\n")] if place == 0 else []
        who = [words(each.before)] if each.before else []
        named = [name(each.name)] if each.name else []
        parts += [paragraph(*heading, *who, *named, words(f"{each.after}:")), quote(words(each.text))]
    parts += [paragraph(words(each)) for each in (thread.earlier, thread.waits) if each]
    return [rich(*parts)] if parts else []


def facts(question: Question) -> str:
    """What kind of answer is wanted, from how many, and until when."""
    parts = [kind_text(question.form)]
    if question.quorum > 1:
        parts.append(gettext("{count} people must agree").format(count=question.quorum))
    if people := required_people(question):
        parts.append(gettext("needed: {people}").format(people=people))
    if question.expires_at is not None:
        parts.append(gettext("expires {when}").format(when=moment_text(question.expires_at)))
    return " · ".join(parts)


def risk_of(form: Approval) -> str:
    """How much harm an action could do, in our words."""
    return ("⚠ " if form.risk == "high" else "") + str(risk_text(form))


def action_text(form: Approval) -> str:
    """A frozen action in full."""
    return f"{visible_line(form.action.tool)}\n{_readable(reading_order(form.action.arguments))}"


def brief_said(form: Approval) -> list[Block]:
    """What the agent says about an action."""
    brief = brief_of(form)
    if brief is None:
        return []
    more = [paragraph(words(brief.more))] if brief.more else []
    heading = paragraph(words(brief.heading, bold=True))
    return [rich(heading, quote(words("\n".join(brief.lines))), *more)]


def difference(before: Mapping[str, Json], after: Mapping[str, Json]) -> str | None:
    """What was changed in some arguments, or None if nothing was."""
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
    text = outcome_text(question)
    person = [name(text.person)] if text.person else []
    after = [words(text.after)] if text.after else []
    between, _, end = gettext("{ended} on {when}.").removeprefix("{ended}").partition("{when}")
    when = [words(".")] if outcome is None else [words(between), moment(outcome.at), words(end)]
    before = [words(text.before, bold=True)] if text.before else []
    yield paragraph(*before, *person, *after, *when)
    details = outcome_details(question)
    for part in details:
        said = _start(part.text, max(40, _LONGEST_ANSWER // len(details)))
        title = [] if part.name is None else [words(shortened(part.name, 200), bold=True), words(": ")]
        yield quote(*title, words(said))
    edited = edited_arguments(question)
    if edited is not None and isinstance(question.form, Approval):
        changes = difference(question.form.action.arguments, edited)
        yield literal(_start(changes or "", _LONGEST_CHANGE))
    if report := report_of(question):
        says, theirs = report
        yield paragraph(words(f"{says}:", bold=True))
        yield quote(words("\n".join(theirs)))


def _with_bold_start(text: str) -> list[Block]:
    """A sentence whose words before the colon matter most."""
    start, colon, rest = text.partition(":")
    return [words(start, bold=True), words(f"{colon}{rest} ")]


def _start(text: str, most: int) -> str:
    return cut(visible(text[: most + 1]), most)


def _readable(value: Json) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
