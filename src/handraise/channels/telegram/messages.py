"""Questions as messages: what is asked, by whom, and what can be pressed; then how it ended.

A message is made from what never changes about a question, so that it is the same however often it is sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from handraise.channels.message_texts import (
    Row,
    action_of,
    aside_label,
    brief_of,
    decline_label,
    ending_of,
    facts_of,
    heading_parts,
    how_to_reply_parts,
    is_shown,
    name_of,
    prompt_of,
    report_of,
    rest_text,
    rows_of,
    tells_several,
    waiting_text,
    why_now,
    with_longest_taker,
)
from handraise.channels.telegram.entities import (
    Piece,
    Text,
    bold,
    box,
    code,
    compose,
    cut,
    link,
    markdown,
    mention,
    ours,
)
from handraise.channels.telegram.references import QuestionReferences
from handraise.model.deliveries import Reason
from handraise.model.forms import AnyForm, Approval, Choice, Confirm, Form, MultiChoice, takes_files
from handraise.model.questions import Question
from handraise.model.sharing_rules import may_be_several
from handraise.model.thread_messages import MessageKind
from handraise.model.visible import visible_line
from handraise.ports.channel import Message, Notice
from handraise.presentation.brief_text import option_text
from handraise.presentation.markdown import one_line
from handraise.presentation.risk_text import risk_text
from handraise.presentation.thread_text import (
    NO_THREAD,
    ThreadText,
    kind_label,
    last_messages,
    thread_text,
    too_long_to_approve,
)
from handraise.presentation.translation import gettext, gettext_noop, in_every_language

Keyboard: TypeAlias = list[list[dict[str, str]]]
"""Rows of buttons."""

_LONGEST_LABEL, _MOST_LABELS = 24, 8
"""What a button shows on a phone; and how many such buttons there are before they go by number."""
_IN_A_ROW = 5
_EXCERPT = 200
_LONGEST_LINK = 200
"""No link of ours is longer, except for the place after it."""
_AFTERWARDS = 500
_LONGEST_THREAD = 1_200
WRITING: dict[MessageKind, str] = {"asked_back": "q", "noted": "c"}
"""The buttons that say what somebody has written: they make a message of it."""
_LONGEST_ANSWER = 1_200
_LONGEST_BRIEF = 800
_COUNTS = (15, 10, 6, 3, 1)
_PAGE = gettext_noop("Open the page")
_MORE_IN_MESSAGE = {
    "w": gettext_noop("Answer…"),
    "t": gettext_noop("Other…"),
    "r": gettext_noop("Decline with a reason…"),
    "e": gettext_noop("Deny with a reason…"),
    "s": gettext_noop("Send back…"),
}
"""The buttons for which somebody must write something."""
_TOO_LARGE = gettext_noop("It is too large to be shown here in full, so it is decided on the page.")
_HIGH = gettext_noop(
    "An action of high risk is decided on the page, where you are signed in, or in the terminal."
)
_NOT_HERE = gettext_noop("There is too much to choose from or to fill in for a message: that is on the page.")


@dataclass(frozen=True, slots=True)
class Level:
    """How much of a question is in its message: so much of the prompt, and all or nothing of the rest."""

    prompt: int
    is_full: bool


_LEVELS = (Level(3_500, True), Level(1_500, True), Level(600, True), Level(3_000, False), Level(600, False))


@dataclass(frozen=True, slots=True)
class Rendered:
    """A message, and what can be pressed in it or must be replied to it."""

    text: Text = field(repr=False)
    markup: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def body(self) -> dict[str, Any]:
        """The same as a part of a request."""
        return self.text.body | ({} if self.markup is None else {"reply_markup": self.markup})


def render_question(notice: Notice, references: QuestionReferences, *, room: bool) -> Rendered:
    """A question, with what can be pressed to answer it. In a `room` people talk: replies are not answers there."""
    question = notice.question
    shown = _Shown.of(notice)
    where = link(references.link(notice.link, question, number=shown.thread.seen or 0), gettext(_PAGE))
    text = compose(_question_pieces(question, notice.reason, where, shown, room=room))
    several = tells_several(question, notice.reason)
    rows = keyboard(question, references, shown.thread.seen, room=room, several=several)
    return Rendered(text, {"inline_keyboard": rows} if rows else None)


def render_offer(
    question: Question,
    url: str,
    references: QuestionReferences,
    text: str,
    offers: Sequence[MessageKind],
    *,
    seen: int,
) -> Rendered:
    """Asks somebody what they wrote: it decides nothing, but may be a message. A reply to this one counts as well."""
    pieces = [ours(f"{text} "), link(references.link(url, question, number=seen), gettext(_PAGE))]
    rows = [[_button(question, references, kind_label(kind), WRITING[kind])] for kind in offers]
    return Rendered(compose(pieces), {"inline_keyboard": rows})


def render_bundle(message: Message) -> Rendered:
    """Several questions that waited, each with its link. None can be answered here: each is looked at by itself."""
    texts = (compose(_bundle_pieces(message.notices, count)) for count in _COUNTS)
    return Rendered(next(each for each in texts if each.fits))


def render_outcome(question: Question, url: str, references: QuestionReferences) -> Rendered:
    """How a question ended. Nothing can be pressed any more."""
    where = link(references.link(url, question), gettext(_PAGE))
    form = question.form
    if isinstance(form, Approval) and is_shown(form):
        text = compose(_outcome_pieces(question, where, action=form))
        if text.fits:
            return Rendered(text)
    return Rendered(compose(_outcome_pieces(question, where, action=None)))


def render_reply_prompt(
    question: Question,
    url: str,
    references: QuestionReferences,
    action: str,
    *,
    user: int,
    name: str | None,
    problem: Sequence[Piece],
) -> Rendered:
    """A message that one person is to reply to. In a room it says their name, and asks nobody else."""
    whose = () if name is None else (mention(user, name), ours(", "))
    pieces = [
        *problem,
        *whose,
        *_heading(question),
        box(one_line(question.prompt, _EXCERPT)),
        ours("\n"),
        *_wanted(question.form, action),
        ours(" "),
        link(references.link(url, question, action, user), gettext(_PAGE)),
    ]
    placeholder = {
        "w": gettext("Your answer"),
        "t": gettext("Your own answer"),
        "s": gettext("What is to be changed"),
    }.get(action, gettext("The reason"))
    markup = {"force_reply": True, "input_field_placeholder": placeholder, "selective": name is not None}
    return Rendered(compose(pieces), markup)


def keyboard(
    question: Question, references: QuestionReferences, seen: int | None = 0, *, room: bool, several: bool
) -> Keyboard:
    """What can be pressed in the message of a question. `seen` is how much of an approval's thread it shows.

    `several` says whether others may answer. In a `room` nobody leaves a question to others: what a button says there is for all who read it.
    """
    is_whole = seen is not None or not isinstance(question.form, Approval)
    here = can_be_answered(question) and is_whole
    answers = list(_answers(question, references, seen or 0)) if here else []
    carried = _carried(question, seen)
    decline = [_button(question, references, decline_label(several=several), "x", carried)]
    if isinstance(question.form, Approval) and question.form.risk == "high":
        return [*answers, decline]
    back = [_button(question, references, _writing_label("s"), "s")]
    if several and not room:
        back.append(_button(question, references, aside_label(), "Z", carried))
    return [*answers, back, decline]


def render_confirmation(
    question: Question, references: QuestionReferences, action: str, number: int
) -> Keyboard:
    """What is asked before a press counts."""
    carried = _carried(question, number)
    back = [_button(question, references, gettext("Go back"), "b", carried)]
    if action == "x":
        reason = [_button(question, references, _writing_label("r"), "r")]
        ends = gettext("Yes, end it for everyone") if may_be_several(question) else gettext("Yes, decline")
        yes = _button(question, references, ends, "X", carried)
        return [[yes], reason, back]
    return [[_button(question, references, _meaning(question, action, number), action.upper(), number)], back]


def _carried(question: Question, seen: int | None) -> int:
    """What the buttons of an approval carry, so that the way back leads to the same ones."""
    return (seen or 0) if isinstance(question.form, Approval) else 0


def can_be_answered(question: Question) -> bool:
    """Whether a message has all that an answer needs; else it is answered on the page."""
    form = question.form
    if takes_files(form):
        return False
    risky = isinstance(form, Approval) and form.risk == "high"
    return not risky and (_level(question, NO_THREAD).is_full or _is_short(form))


def text_pieces(text: str) -> list[Piece]:
    """What a person is told; what follows a colon may be somebody else's words."""
    before, colon, theirs = text.partition(": ")
    return [ours(before + colon), *([code(cut(theirs, 1_000))] if colon else [])]


@dataclass(frozen=True, slots=True)
class _Shown:
    """How much of a question and of its conversation is in a message."""

    level: Level
    thread: ThreadText

    @classmethod
    def of(cls, notice: Notice) -> _Shown:
        """All of the conversation if that fits, and else its end."""
        question = notice.question
        thread = thread_text(question, notice.thread, room=_LONGEST_THREAD)
        level = _level(question, thread)
        if thread.seen is None or level.is_full or not _level(question, NO_THREAD).is_full:
            return cls(level, thread)
        thread = last_messages(question, notice.thread, waits=thread.waits)
        return cls(_level(question, thread), thread)


def _level(question: Question, thread: ThreadText) -> Level:
    """The most that fits, whatever the reason and the link."""
    form, question = question.form, with_longest_taker(question)
    for each in _LEVELS:
        if each.is_full and isinstance(form, Approval) and not is_shown(form):
            continue
        # The place after a link is written out if the link is.
        room = ours("x" * (_LONGEST_LINK + len(_MEASURING_REFERENCES.link("", question, number=200))))
        if in_every_language(partial(_fits, question, room, _Shown(each, thread))):
            return each
    return _LEVELS[-1]


def _fits(question: Question, where: Piece, shown: _Shown) -> bool:
    return compose(_question_pieces(question, "escalated", where, shown, room=False)).fits


_MEASURING_REFERENCES = QuestionReferences("")
"""Only to know how long a place is."""


def _question_pieces(
    question: Question, reason: Reason, where: Piece, shown: _Shown, *, room: bool
) -> Iterator[Piece]:
    form, level, thread = question.form, shown.level, shown.thread
    if why := why_now(reason):
        yield ours(f"{why}\n")
    yield from _heading(question)
    prompt, note = prompt_of(question, longest=level.prompt)
    yield from (markdown(prompt), ours("\n"))
    if note:
        yield ours(f"{note}\n")
    yield from _conversation(thread)
    if isinstance(form, Approval):
        yield from _action(form, is_full=level.is_full)
    elif level.is_full:
        yield from _rows(form)
    elif not _is_short(form):
        yield ours(f"{gettext(_NOT_HERE)}\n")
    for fact in facts_of(question):
        yield ours(f"{fact}\n")
    risky = isinstance(form, Approval) and form.risk == "high"
    is_cut = isinstance(form, Approval) and thread.seen is None
    if is_cut and not risky:
        yield ours(f"{too_long_to_approve()}\n")
    yield where
    if not room and not risky and not is_cut and (level.is_full or _is_short(form)):
        yield ours("\n")
        yield from _reply_pieces(gettext("Or reply to this message: {how}"), form)


def _conversation(thread: ThreadText) -> Iterator[Piece]:
    """What people and the agent have written, and whose turn it is."""
    if thread.heading:
        yield from (bold(thread.heading), ours("\n"))
    for each in thread.messages:
        named = [code(each.name)] if each.name else []
        yield from (ours(each.before), *named, ours(f"{each.after}:\n"), box(each.text), ours("\n"))
    for line in filter(None, (thread.earlier, thread.waits)):
        yield ours(f"{line}\n")


def _heading(question: Question) -> Iterator[Piece]:
    before, name, after = heading_parts(question)
    if before:
        yield bold(before)
    yield from (code(name), bold(f"{after}:"), ours("\n"))


def _rows(form: AnyForm) -> Iterator[Piece]:
    rows, more = rows_of(form)
    if isinstance(form, Choice) and _labels(form) is not None:
        return
    if rows:
        numbered = isinstance(form, (Choice, MultiChoice))
        yield box("\n".join(_line(row, place if numbered else None) for place, row in enumerate(rows, 1)))
        yield ours("\n")
    if more:
        yield ours(f"{more}\n")


def _line(row: Row, number: int | None) -> str:
    text = f"{row.name}: {row.text}" if row.text else row.name
    return text if number is None else f"{number}. {text}"


def _action(form: Approval, *, is_full: bool) -> Iterator[Piece]:
    """The frozen action in full, and how much harm it could do."""
    if not is_full:
        yield from (bold(str(risk_text(form))), ours(f"\n{gettext(_TOO_LARGE)}\n"))
        return
    if brief := brief_of(form, longest=_LONGEST_BRIEF):
        yield from (bold(brief.heading), ours("\n"), box("\n".join(brief.lines)), ours("\n"))
        if brief.more:
            yield ours(f"{brief.more}\n")
    tool, rows = action_of(form)
    before, _, after = gettext("This is what will be executed: {tool}").partition("{tool}")
    yield from (ours(before), code(tool), ours(f"{after}\n"))
    if rows:
        yield from (box("\n".join(_argument(row) for row in rows)), ours("\n"))
    yield from (bold(str(risk_text(form))) if form.risk == "high" else ours(str(risk_text(form))), ours("\n"))
    if form.risk == "high":
        yield ours(f"{gettext(_HIGH)}\n")


def _argument(row: Row) -> str:
    text = row.text or ""
    if "\n" not in text and not row.verbatim:
        return f"{row.name}: {text}"
    # Every line has an edge, so that none looks like another argument.
    lines = "\n".join(f"│ {line}" for line in text.split("\n"))
    name = gettext("{name} (text)").format(name=row.name) if row.verbatim else row.name
    return f"{name}:\n{lines}"


def _wanted(form: AnyForm, action: str) -> Iterator[Piece]:
    """What a reply must look like."""
    match action:
        case "t":
            yield ours(gettext("Reply to this message with your own answer."))
        case "s":
            yield ours(gettext("Reply to this message with what is to be changed. The agent is told."))
        case "r":
            yield ours(gettext("Reply to this message with the reason why you decline."))
        case "e":
            yield ours(gettext("Reply to this message with the reason why you deny it."))
        case _:
            yield from _reply_pieces(gettext("Reply to this message: {how}"), form)


def _reply_pieces(sentence: str, form: AnyForm) -> Iterator[Piece]:
    """A sentence that says how to reply. An example in it has an agent's words."""
    before, _, after = sentence.partition("{how}")
    start, example, end = how_to_reply_parts(form)
    yield ours(f"{before}{start}")
    if example:
        yield code(example)
    yield ours(f"{end}{after}")


def _answers(question: Question, references: QuestionReferences, seen: int) -> Iterator[list[dict[str, str]]]:
    form = question.form
    match form:
        case Confirm():
            yield [
                _choosing(question, references, gettext("Yes"), "y"),
                _choosing(question, references, gettext("No"), "n"),
            ]
        case Choice() if (labels := _labels(form)) is not None:
            for number, label in enumerate(labels):
                yield [_choosing(question, references, label, "o", number)]
        case Choice() if rows_of(form)[1] is None:
            numbers = range(len(form.options))
            for start in numbers[::_IN_A_ROW]:
                yield [
                    _choosing(question, references, str(number + 1), "o", number)
                    for number in numbers[start : start + _IN_A_ROW]
                ]
        case Approval():
            yield [
                _button(question, references, gettext("Approve…"), "a", seen),
                _choosing(question, references, gettext("Deny"), "d", seen),
            ]
            yield [_button(question, references, _writing_label("e"), "e")]
        case _:
            yield [_button(question, references, _writing_label("w"), "w")]
    if isinstance(form, Choice) and form.allow_other:
        yield [_button(question, references, _writing_label("t"), "t")]


def _writing_label(action: str) -> str:
    text = _MORE_IN_MESSAGE[action]
    return gettext(text)


def _choosing(
    question: Question, references: QuestionReferences, label: str, action: str, number: int = 0
) -> dict[str, str]:
    """A button that answers; if there would be time to undo it, it asks for confirmation."""
    return _button(question, references, label, action if question.undo_for else action.upper(), number)


def _button(
    question: Question, references: QuestionReferences, label: str, action: str, number: int = 0
) -> dict[str, str]:
    return {"text": label, "callback_data": references.data(question, action, number)}


def _labels(form: Choice) -> list[str] | None:
    """The options as buttons show them in full, or None if they cannot: then they go by their number."""
    labels = [visible_line(each.label).strip() or "…" for each in form.options]
    short = all(cut(each, _LONGEST_LABEL) == each for each in labels)
    plain = not any(option_text(each) for each in form.options)
    return labels if short and plain and len(labels) <= _MOST_LABELS else None


def _is_short(form: AnyForm) -> bool:
    """Whether an answer needs nothing to be listed in the message."""
    return not isinstance(form, (Approval, MultiChoice, Form)) and not (
        isinstance(form, Choice) and _labels(form) is None
    )


def _meaning(question: Question, action: str, number: int) -> str:
    match question.form, action:
        case Choice(options=options), "o" if number < len(options):
            label = cut(visible_line(options[number].label).strip() or "…", _LONGEST_LABEL)
            return gettext("Send “{label}”").format(label=label)
        case _, "y":
            return gettext("Send “{label}”").format(label=gettext("Yes"))
        case _, "n":
            return gettext("Send “{label}”").format(label=gettext("No"))
        case _, "a":
            return gettext("Yes, approve")
        case _, "d":
            return gettext("Yes, deny")
        case _:
            return gettext("Send")


def _outcome_pieces(question: Question, where: Piece, *, action: Approval | None) -> Iterator[Piece]:
    before, _, after = gettext("{agent} asked:").partition("{agent}")
    if before:
        yield bold(before)
    yield from (code(name_of(question.asker)), bold(after), ours("\n"))
    prompt, _ = prompt_of(question, longest=_AFTERWARDS)
    yield from (markdown(prompt), ours("\n"))
    if action is not None:
        tool, rows = action_of(action)
        yield from (code(tool), ours("\n"))
        if rows:
            yield from (box("\n".join(_argument(row) for row in rows)), ours("\n"))
    how, theirs = ending_of(question, "")
    if how.before:
        yield bold(how.before)
    if how.person:
        yield from (code(how.person), *([bold(how.after)] if how.after else []))
    yield ours(":\n" if theirs else ".\n")
    if theirs:
        yield from (box(cut("\n".join(theirs), _LONGEST_ANSWER)), ours("\n"))
    if report := report_of(question):
        says, words = report
        yield from (bold(f"{says}:"), ours("\n"), box("\n".join(words)), ours("\n"))
    yield where


def _bundle_pieces(notices: Sequence[Notice], count: int) -> Iterator[Piece]:
    yield from (bold(waiting_text(len(notices))), ours("\n"))
    for notice in notices[:count]:
        yield ours("\n")
        yield from _heading(notice.question)
        yield from (box(one_line(notice.question.prompt, _EXCERPT)), ours("\n"))
        yield from (link(notice.link, gettext(_PAGE)), ours("\n"))
    if len(notices) > count:
        yield ours(f"\n{rest_text(len(notices) - count)}")
