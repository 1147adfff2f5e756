"""Questions as messages: what is asked, by whom, and what can be pressed; then how it ended.

A message is made from what never changes about a question, so that it is the same however often it is sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from handraise.channels.message_texts import SIGN_IN_TO_DECIDE
from handraise.channels.slack.block_texts import (
    action_text,
    ending,
    facts,
    opening,
    risk_of,
)
from handraise.channels.slack.blocks import (
    LABEL,
    LARGEST,
    MOST_OPTIONS,
    Block,
    actions,
    button,
    confirmation,
    escaped,
    fits,
    line,
    link,
    literal,
    name,
    plain,
    quote,
    quoted_start,
    rich,
    shortened,
    size_of,
    small,
    words,
)
from handraise.channels.slack.modals import can_be_answered, shown_parts
from handraise.channels.slack.option_labels import labels_of, length_of, list_of
from handraise.channels.slack.references import format_reference
from handraise.model.forms import Approval, Choice, Confirm, Form, MultiChoice
from handraise.model.questions import Question
from handraise.ports.channel import Message, Notice
from handraise.presentation.form_text import kind_text
from handraise.presentation.markdown import one_line
from handraise.presentation.outcome_text import outcome_title

MOST_BUTTONS = 5
_LONGEST_BLOCK_ID = 255
_LONGEST_VALUE = 2_000
_LONGEST_PROMPT = 3_000
_MOST_LINES = 30
_BESIDE_AN_ACTION = 1_200
_LINES_BESIDE_AN_ACTION = 12
_AFTERWARDS = 600
_EXCERPT = 120
_NOTIFICATION = 200
_COUNTS = (15, 10, 6, 3, 1)

_CONFIRMATION = confirmation("Send this answer?", "It counts as soon as it is sent.", "Send")


@dataclass(frozen=True, slots=True)
class Rendered:
    """A message: its blocks, and the text of its notification."""

    text: str = field(repr=False)
    blocks: Sequence[Block] = field(repr=False)


def render_question(notice: Notice) -> Rendered:
    """A question, with what can be pressed to answer it."""
    question = notice.question
    blocks = next(each for each in _candidates(notice) if fits(each))
    return Rendered(
        _notification(f"{question.asker} asks: {one_line(question.prompt, _NOTIFICATION)}"), blocks
    )


def render_bundle(message: Message) -> Rendered:
    """Several questions that waited, each with its link. None can be answered here: each is looked at by itself."""
    heading = f"{len(message.notices)} questions wait for an answer"
    blocks = next(each for each in _lists(message.notices, heading) if fits(each))
    return Rendered(heading, blocks)


def render_outcome(question: Question) -> Rendered:
    """How a question ended. Nothing can be pressed any more."""
    text = f"{outcome_title(question)}: {one_line(question.prompt, _NOTIFICATION)}"
    blocks = next(each for each in _endings(question) if fits(each))
    return Rendered(_notification(text), blocks)


def shows_action(question: Question) -> bool:
    """Whether a message about an approval has its action in full, so that it can be decided here."""
    if not isinstance(question.form, Approval):
        return True
    if size_of(question.form.action.arguments) > LARGEST:
        return False
    # A link is short beside all the rest; this one is longer than any of ours.
    likely = Notice(delivery_id="", question=question, reason="escalated", link="https://" + "x" * 1_000)
    return fits(_approval(likely, question.form))


def _notification(text: str) -> str:
    return escaped(shortened(text, _NOTIFICATION))


def _candidates(notice: Notice) -> Iterator[list[Block]]:
    """The message in full, then with less and less of it in Slack."""
    form = notice.question.form
    if isinstance(form, Approval):
        if shows_action(notice.question):
            yield _approval(notice, form)
        why = "This action is too large to be shown here in full, so it is decided in the inbox."
        yield [*_head(notice.question, notice), small(risk_of(form)), small(why), _foot(notice, thread=False)]
        return
    head = _head(notice.question, notice)
    options = form.options if isinstance(form, (Choice, MultiChoice)) else ()
    if length_of(options) <= LARGEST:
        tail = [small(facts(notice.question)), *_controls(notice.question, short=False), _foot(notice)]
        yield [*head, *list_of(options), *tail]
    yield [*head, small(facts(notice.question)), *_controls(notice.question, short=True), _foot(notice)]
    yield [*head, small(facts(notice.question)), _foot(notice)]


def _head(question: Question, notice: Notice | None = None) -> list[Block]:
    """Who asks, and what; cut where it is long."""
    acts = isinstance(question.form, Approval)
    longest = _AFTERWARDS if notice is None else _BESIDE_AN_ACTION if acts else _LONGEST_PROMPT
    most = _LINES_BESIDE_AN_ACTION if acts else _MOST_LINES
    shown, is_all = quoted_start(question.prompt, longest, most)
    parts = [opening(question, "asked" if notice is None else notice.reason), shown]
    if not is_all:
        parts.append(
            line(words(f"The text is longer, {len(question.prompt)} characters: all of it is in the inbox."))
        )
    return [rich(*parts)]


def _foot(notice: Notice, *, thread: bool = True) -> Block:
    more = " There is more about it there." if notice.question.context is not None else ""
    reply = " Or reply in the thread of this message." if thread else ""
    return rich(line(link(notice.link, "Open in the inbox"), words(f".{more}{reply}")))


def _controls(question: Question, *, short: bool) -> list[Block]:
    """What can be pressed. The short way is a button that opens a form."""
    elements = [*_answers(question, short=short), button("decline", "Decline…", format_reference(question))]
    if any(len(each.get("value", "")) > _LONGEST_VALUE for each in elements):
        return []
    block_id = None
    if any(each["type"] == "static_select" for each in elements):
        block_id = format_reference(question)
    return [actions(elements, block_id)]


def _answers(question: Question, *, short: bool) -> Iterator[Block]:
    form, place = question.form, format_reference(question)
    confirm = _CONFIRMATION if question.undo_for else None
    match form:
        case Confirm():
            yield button("yes", "Yes", format_reference(question, True), confirm=confirm)
            yield button("no", "No", format_reference(question, False), confirm=confirm)
        case Choice() if not short and len(form.options) <= MOST_BUTTONS:
            for number, label in enumerate(labels_of(form.options)):
                yield button(f"option {number}", label, format_reference(question, number), confirm=confirm)
            if form.allow_other:
                yield button("answer", "Other…", place)
        case Choice() if not short and len(form.options) <= MOST_OPTIONS and len(place) <= _LONGEST_BLOCK_ID:
            yield {
                "type": "static_select",
                "action_id": "select",
                "placeholder": plain("Choose one", 150),
                "options": [
                    {"text": plain(label, LABEL), "value": str(number)}
                    for number, label in enumerate(labels_of(form.options))
                ],
                "confirm": _CONFIRMATION,
            }
            if form.allow_other:
                yield button("answer", "Other…", place)
        case _ if not can_be_answered(question):
            return
        case Choice() | MultiChoice():
            yield button("answer", "Choose…", place)
        case Form():
            yield button("answer", "Fill in…", place)
        case _:
            yield button("answer", "Answer…", place)


def _approval(notice: Notice, form: Approval) -> list[Block]:
    """An approval with its action in full. What is approved is named by its digest."""
    question = notice.question
    action = [
        *_head(question, notice),
        rich(line(words("What will be executed", bold=True)), literal(action_text(form))),
        small(risk_of(form)),
    ]
    if form.risk == "high":
        return [*action, small(SIGN_IN_TO_DECIDE), _foot(notice, thread=False)]
    place = format_reference(question, form.digest)
    tool = shortened(form.action.tool, 150)
    asked = f"It executes {tool}, just as it stands in this message."
    elements = [
        button("approve", "Approve", place, confirm=confirmation("Approve this?", asked, "Approve")),
        button("deny", "Deny", place, confirm=_CONFIRMATION if question.undo_for else None),
        button("reason", "Deny with a reason…", place),
    ]
    if shown_parts(form):
        elements.append(button("change", "Change and approve…", place))
    return [
        *action,
        small(facts(question)),
        *([actions(elements)] if len(place) <= _LONGEST_VALUE else []),
        _foot(notice),
    ]


def _endings(question: Question) -> Iterator[list[Block]]:
    head, end = _head(question), rich(*ending(question))
    if isinstance(question.form, Approval) and shows_action(question):
        yield [*head, rich(literal(action_text(question.form))), end]
    yield [*head, end]
    yield [rich(line(words(f"{outcome_title(question)}. More about it is in the inbox.")))]


def _lists(notices: Sequence[Notice], heading: str) -> Iterator[list[Block]]:
    for count in _COUNTS:
        blocks = [rich(line(words(heading, bold=True)))]
        for notice in notices[:count]:
            question = notice.question
            what = kind_text(question.form)
            if isinstance(question.form, Approval):
                what += f", {question.form.risk} risk"
            blocks.append(
                rich(
                    line(words("The agent "), name(question.asker), words(" asks:")),
                    quote(words(one_line(question.prompt, _EXCERPT))),
                    line(link(notice.link, "Open in the inbox"), words(f" · {what}")),
                )
            )
        if len(notices) > count:
            blocks.append(small(f"And {len(notices) - count} more, in the inbox."))
        yield blocks
