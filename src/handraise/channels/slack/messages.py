"""Questions as messages: what is asked, by whom, and what can be pressed; then how it ended.

A message is made from what never changes about a question, so that it is the same however often it is sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from handraise.channels.message_texts import (
    aside_label,
    attached_text,
    brought_of,
    decline_label,
    previews_title,
    rest_text,
    send_back_label,
    sharing_notes,
    short_previews,
    sign_in_to_decide,
    tells_several,
    waiting_text,
    with_longest_taker,
)
from handraise.channels.slack.block_texts import (
    action_text,
    brief_said,
    conversation,
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
    plain,
    quote,
    quoted_start,
    rich,
    shortened,
    size_of,
    small,
    with_name,
    words,
)
from handraise.channels.slack.modals import can_be_answered, shown_parts
from handraise.channels.slack.option_labels import labels_of, length_of, list_of
from handraise.channels.slack.references import decision_extra, format_reference
from handraise.model.forms import Approval, Choice, Confirm, Form, MultiChoice
from handraise.model.json_values import Json
from handraise.model.questions import Question
from handraise.model.thread_messages import MessageKind
from handraise.ports.channel import Message, Notice
from handraise.presentation.brief_text import previews_of
from handraise.presentation.form_text import kind_text
from handraise.presentation.markdown import one_line
from handraise.presentation.outcome_text import outcome_title
from handraise.presentation.risk_text import risk_text
from handraise.presentation.thread_text import (
    NO_THREAD,
    ThreadText,
    kind_label,
    last_messages,
    thread_text,
    too_long_to_approve,
)
from handraise.presentation.translation import gettext, in_every_language

MOST_BUTTONS = 5
_LONGEST_BLOCK_ID = 255
_LONGEST_VALUE = 2_000
_LONGEST_PROMPT = 3_000
_MOST_LINES = 30
_BESIDE_AN_ACTION = 1_200
_LINES_BESIDE_AN_ACTION = 12
_MOST_PREVIEW_LINES = 60
_AFTERWARDS = 600
_LONGEST_THREAD = 2_500
_EXCERPT = 120
_NOTIFICATION = 200
_COUNTS = (15, 10, 6, 3, 1)


@dataclass(frozen=True, slots=True)
class Rendered:
    """A message: its blocks, the text of its notification, and how many messages of a thread it shows."""

    text: str = field(repr=False)
    blocks: Sequence[Block] = field(repr=False)
    seen: int | None = None


def render_question(notice: Notice) -> Rendered:
    """A question, with what can be pressed to answer it."""
    question = notice.question
    blocks, seen = next(each for each in _candidates(notice) if fits(each[0]))
    return Rendered(
        _notification(
            gettext("{agent} asks: {prompt}").format(
                agent=question.asker, prompt=one_line(question.prompt, _NOTIFICATION)
            )
        ),
        blocks,
        seen,
    )


def render_bundle(message: Message) -> Rendered:
    """Several questions that waited, each with its link. None can be answered here: each is looked at by itself."""
    heading = waiting_text(len(message.notices))
    blocks = next(each for each in _lists(message.notices, heading) if fits(each))
    return Rendered(heading, blocks)


def render_outcome(question: Question) -> Rendered:
    """How a question ended. Nothing can be pressed any more."""
    text = f"{outcome_title(question)}: {one_line(question.prompt, _NOTIFICATION)}"
    blocks = next(each for each in _endings(question) if fits(each))
    return Rendered(_notification(text), blocks)


def offered(question: Question, offers: Sequence[MessageKind], extra: Json) -> Sequence[Block] | None:
    """The buttons that say what a text is that decides nothing; None if it is too long for them."""
    place = format_reference(question, extra)
    if len(place) > _LONGEST_VALUE:
        return None
    return [actions([button(kind, kind_label(kind), place) for kind in offers])]


def shows_action(question: Question) -> bool:
    """Whether a message about an approval has its action in full, so that it can be decided here."""
    if not isinstance(question.form, Approval):
        return True
    if size_of(question.form.action.arguments) > LARGEST:
        return False
    # A link is short compared with the rest; this one is longer than any of ours.
    longest = with_longest_taker(question)
    likely = Notice(delivery_id="", question=longest, reason="escalated", link="https://" + "x" * 1_000)
    form = question.form
    return in_every_language(lambda: fits(_approval(likely, form, NO_THREAD)))


def _notification(text: str) -> str:
    return escaped(shortened(text, _NOTIFICATION))


def _candidates(notice: Notice) -> Iterator[tuple[list[Block], int | None]]:
    """The message in full, then with less and less of it in Slack; and how much of the conversation it has."""
    question, form = notice.question, notice.question.form
    thread = thread_text(question, notice.thread, room=_LONGEST_THREAD)
    if isinstance(form, Approval):
        is_shown = shows_action(question)
        if is_shown and thread.seen is not None:
            yield _approval(notice, form, thread), thread.seen
        last = last_messages(question, notice.thread, waits=thread.waits) if question.thread else NO_THREAD
        end = conversation(last)
        why = gettext("This action is too large to be shown here in full, so it is decided in the inbox.")
        elsewhere = small(too_long_to_approve() if is_shown else why)
        about = [small(risk_of(form)), *_notes(question), elsewhere]
        yield [*_head(question, notice), *end, *about, _foot(notice, thread=False)], None
        return
    head, said = _head(question, notice), conversation(thread)
    told = [small(facts(question)), *_notes(question)]
    options = form.options if isinstance(form, (Choice, MultiChoice)) else ()
    if length_of(options) <= LARGEST:
        asked, controls = [*head, *said, *list_of(options)], [*told, *_controls(notice, short=False)]
        if previews := _previews(question):
            yield [*asked, *previews, *controls, _foot(notice, previews=True)], thread.seen
        yield [*asked, *controls, _foot(notice)], thread.seen
    yield [*head, *said, *told, *_controls(notice, short=True), _foot(notice)], thread.seen
    yield [*head, *told, *_controls(notice, short=True), _foot(notice)], None
    yield [*head, *told, _foot(notice)], None


def _head(question: Question, notice: Notice | None = None) -> list[Block]:
    """Who asks, and what; cut if it is long."""
    acts = isinstance(question.form, Approval)
    longest = _AFTERWARDS if notice is None else _BESIDE_AN_ACTION if acts else _LONGEST_PROMPT
    most = _LINES_BESIDE_AN_ACTION if acts else _MOST_LINES
    shown, is_all = quoted_start(question.prompt, longest, most)
    brought = None if notice is None else brought_of(notice)
    why = list(_brought(*brought)) if brought else []
    parts = [*why, opening(question, "asked" if notice is None else notice.reason), shown]
    if not is_all:
        text = gettext("The text is longer, {count} characters: all of it is in the inbox.")
        parts.append(line(words(text.format(count=len(question.prompt)))))
    return [rich(*parts)]


def _notes(question: Question) -> list[Block]:
    """Who is on it, what it replaces, and which files belong to it."""
    files = [attached_text(question.attachments)] if question.attachments else []
    return [small(each) for each in (*sharing_notes(question), *files)]


def _previews(question: Question) -> list[Block]:
    """What the agent shows of the options, if that is short."""
    previews = short_previews(question.form)
    if not previews:
        return []
    parts = [line(words(previews_title(), bold=True))]
    for each in previews:
        shown, _ = quoted_start(each.text, _LONGEST_PROMPT, _MOST_PREVIEW_LINES)
        parts += [quote(words(each.label, bold=True)), shown]
    return [rich(*parts)]


def _brought(who: str, reason: str | None) -> Iterator[Block]:
    """Who brought somebody in, and why."""
    yield line(words(f"{who}:" if reason else f"{who}."))
    if reason:
        yield quote(words(reason))


def _foot(notice: Notice, *, thread: bool = True, previews: bool = False) -> Block:
    has_more = notice.question.context is not None or (previews_of(notice.question.form) and not previews)
    more = [gettext("There is more about it there.")] if has_more else []
    reply = [gettext("Or reply in the thread of this message.")] if thread else []
    return rich(line(_page_link(notice), words(" ".join((".", *more, *reply)))))


def _page_link(notice: Notice) -> Block:
    return link(notice.link, gettext("Open in the inbox"))


def _confirmation() -> Block:
    return confirmation(
        gettext("Send this answer?"), gettext("It counts as soon as it is sent."), gettext("Send")
    )


def _controls(notice: Notice, *, short: bool) -> list[Block]:
    """What can be pressed. The short way is a button that opens a form."""
    question, several = notice.question, tells_several(notice.question, notice.reason)
    elements = [
        *_answers(question, short=short),
        *_leaving(question, several=several),
        button("decline", decline_label(several=several), format_reference(question)),
    ]
    if any(len(each.get("value", "")) > _LONGEST_VALUE for each in elements):
        return []
    block_id = None
    if any(each["type"] == "static_select" for each in elements):
        block_id = format_reference(question)
    return [actions(elements, block_id)]


def _leaving(question: Question, *, several: bool) -> Iterator[Block]:
    """The buttons that send a question back, or leave it to others."""
    yield button("send_back", send_back_label(), format_reference(question))
    if several:
        yield button("aside", aside_label(), format_reference(question))


def _answers(question: Question, *, short: bool) -> Iterator[Block]:
    form, place = question.form, format_reference(question)
    confirm = _confirmation() if question.undo_for else None
    match form:
        case Confirm():
            yield button("yes", gettext("Yes"), format_reference(question, True), confirm=confirm)
            yield button("no", gettext("No"), format_reference(question, False), confirm=confirm)
        case Choice() if not short and len(form.options) <= MOST_BUTTONS:
            for number, label in enumerate(labels_of(form.options)):
                yield button(f"option {number}", label, format_reference(question, number), confirm=confirm)
            if form.allow_other:
                yield button("answer", gettext("Other…"), place)
        case Choice() if not short and len(form.options) <= MOST_OPTIONS and len(place) <= _LONGEST_BLOCK_ID:
            yield {
                "type": "static_select",
                "action_id": "select",
                "placeholder": plain(gettext("Choose one"), 150),
                "options": [
                    {"text": plain(label, LABEL), "value": str(number)}
                    for number, label in enumerate(labels_of(form.options))
                ],
                "confirm": _confirmation(),
            }
            if form.allow_other:
                yield button("answer", gettext("Other…"), place)
        case _ if not can_be_answered(question):
            return
        case Choice() | MultiChoice():
            yield button("answer", gettext("Choose…"), place)
        case Form():
            yield button("answer", gettext("Fill in…"), place)
        case _:
            yield button("answer", gettext("Answer…"), place)


def _approval(notice: Notice, form: Approval, thread: ThreadText) -> list[Block]:
    """An approval with its action and its conversation in full. What is approved is named by its digest."""
    question = notice.question
    action = [
        *_head(question, notice),
        *conversation(thread),
        *brief_said(form),
        rich(line(words(gettext("What will be executed"), bold=True)), literal(action_text(form))),
        small(risk_of(form)),
        *_notes(question),
    ]
    if form.risk == "high":
        return [*action, small(sign_in_to_decide()), _foot(notice, thread=False)]
    place = format_reference(question, decision_extra(form.digest, thread.seen))
    tool = shortened(form.action.tool, 150)
    asked = gettext("It executes {tool}, just as it stands in this message.").format(tool=tool)
    sure = confirmation(gettext("Approve this?"), asked, gettext("Approve"))
    elements = [
        button("approve", gettext("Approve"), place, confirm=sure),
        button("deny", gettext("Deny"), place, confirm=_confirmation() if question.undo_for else None),
        button("reason", gettext("Deny with a reason…"), place),
    ]
    if shown_parts(form):
        elements.append(button("change", gettext("Change and approve…"), place))
    elements += _leaving(question, several=tells_several(question, notice.reason))
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
    more = gettext("More about it is in the inbox.")
    yield [rich(line(words(f"{outcome_title(question)}. {more}")))]


def _lists(notices: Sequence[Notice], heading: str) -> Iterator[list[Block]]:
    for count in _COUNTS:
        blocks = [rich(line(words(heading, bold=True)))]
        for notice in notices[:count]:
            question = notice.question
            what = kind_text(question.form)
            if isinstance(question.form, Approval):
                what = f"{what} · {risk_text(question.form).name}"
            blocks.append(
                rich(
                    line(*with_name(gettext("The agent {name} asks:"), question.asker)),
                    quote(words(one_line(question.prompt, _EXCERPT))),
                    line(_page_link(notice), words(f" · {what}")),
                )
            )
        if len(notices) > count:
            blocks.append(small(rest_text(len(notices) - count)))
        yield blocks
