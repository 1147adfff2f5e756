"""Questions as messages: what is asked, by whom, and what can be pressed; then how it ended.

A message is made from what never changes about a question, so that it is the same however often it is sent. All of it
is text: people can turn off the boxes that Discord calls embeds, and would then approve what they do not see.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from handraise.channels import message_texts
from handraise.channels.discord.components import (
    BUTTON,
    MOST_BUTTONS,
    MOST_OPTIONS,
    Component,
    button,
    menu,
    row,
)
from handraise.channels.discord.markup import (
    action_text,
    bold,
    escaped,
    escaped_line,
    is_short,
    length_of,
    literal,
    prompt_start,
    quoted,
    quoted_start,
)
from handraise.channels.discord.modals import can_be_filled_in
from handraise.channels.discord.references import build_reference, has_room
from handraise.model.forms import AnyForm, Approval, Choice, Confirm, Form, MultiChoice, Open, Option
from handraise.model.json_values import canonical_json
from handraise.model.questions import Question
from handraise.ports.channel import Message, Notice
from handraise.presentation.brief_text import option_text
from handraise.presentation.outcome_text import edited_arguments
from handraise.presentation.risk_text import risk_text
from handraise.presentation.thread_text import (
    NO_THREAD,
    ThreadText,
    last_messages,
    thread_text,
    too_long_to_approve,
)
from handraise.presentation.times import moment_text
from handraise.presentation.translation import gettext, gettext_noop

LONGEST = 2_000
_LEAST_OF_A_PROMPT = 300
_AFTERWARDS = 500
_EXCERPT = 160
_LONGEST_THREAD = 900
_TOO_LARGE = gettext_noop("This does not fit into a message, so it is answered in the inbox.")
_ACTION_TOO_LARGE = gettext_noop(
    "This action is too large to be shown here in full, so it is decided in the inbox."
)
_ELSEWHERE = gettext_noop("It is answered in the inbox.")
_MARGIN = 60
_LONGEST_BRIEF = 500


@dataclass(frozen=True, slots=True)
class Rendered:
    """A message: its text, and the rows of what can be pressed."""

    content: str = field(repr=False)
    rows: Sequence[Component] = field(default=(), repr=False)


def render_question(notice: Notice) -> Rendered:
    """A question, with what can be pressed to answer it."""
    question = notice.question
    thread = thread_text(question, notice.thread, room=_LONGEST_THREAD)
    end = last_messages(question, notice.thread, waits=thread.waits) if question.thread else NO_THREAD
    for each in (thread, end) if thread.seen else (end,):
        if (whole := _whole(notice, each)) is not None:
            return whole
    why = gettext(_ACTION_TOO_LARGE if isinstance(question.form, Approval) else _TOO_LARGE)
    told, rows = [why, *_facts(notice)], _rows_without(notice)
    texts = (_text(notice, _conversation(each), told) for each in (end, replace(end, messages=())))
    return Rendered(
        next((each for each in texts if length_of(each) <= LONGEST), _text(notice, [], told)), rows
    )


def _whole(notice: Notice, thread: ThreadText) -> Rendered | None:
    """A message with all that an answer needs, and this much of the conversation; None if that does not fit."""
    question, form = notice.question, notice.question.form
    # What cannot fit is not examined: it may be very long.
    if _raw_length(form) > LONGEST:
        return None
    is_cut = isinstance(form, Approval) and thread.seen is None and form.risk != "high"
    seen, told = thread.seen or 0, _facts(notice)
    if is_cut:
        noted = [too_long_to_approve(), *told]
    elif has_room(question, seen) and any(_answers(question, seen)):
        noted = told
    else:
        noted = [_elsewhere(form), *told]
    parts = [each for each in (*_conversation(thread), "\n".join(_listed(question))) if each]
    if not _fits(notice, "\n".join(parts), noted):
        return None
    rows = _writing_rows(notice) if is_cut else list(_rows(notice, seen))
    return Rendered(_text(notice, parts, noted), rows)


def _conversation(thread: ThreadText) -> list[str]:
    """What people and the agent have written, and whose turn it is."""
    parts = [bold(thread.heading)] if thread.heading else []
    for each in thread.messages:
        name = bold(each.name) if each.name else ""
        parts += [f"{escaped(each.before)}{name}{escaped(each.after)}:", quoted(each.text)]
    return [*parts, *(escaped(each) for each in (thread.earlier, thread.waits) if each)]


def _elsewhere(form: AnyForm) -> str:
    is_risky = isinstance(form, Approval) and form.risk == "high"
    return message_texts.sign_in_to_decide() if is_risky else gettext(_ELSEWHERE)


def render_bundle(message: Message) -> Rendered:
    """Several questions that waited, each with its link. None can be answered here: each is looked at by itself."""
    parts = [bold(message_texts.waiting_text(len(message.notices)))]
    for place, notice in enumerate(message.notices):
        left = len(message.notices) - place
        told, _ = prompt_start(notice.question.prompt, _EXCERPT)
        part = f"{_heading(notice.question)}:\n{told}\n<{notice.link}>"
        if length_of("\n".join((*parts, part))) > LONGEST - _MARGIN:
            parts.append(message_texts.rest_text(left))
            break
        parts.append(part)
    return Rendered("\n".join(parts))


def render_outcome(question: Question) -> Rendered:
    """How a question ended. Nothing can be pressed any more."""
    asked, _ = prompt_start(question.prompt, _AFTERWARDS)
    who = gettext("{agent} asked:").format(agent=bold(message_texts.name_of(question.asker)))
    head = f"{who}\n{asked}"
    # By name, for every reader: a message is forwarded, and shown to others.
    ending, told = message_texts.ending_of(question, "")
    at = "" if question.outcome is None else f" · {moment_text(question.outcome.at)}"
    end = f"{bold(str(ending))}{at}"
    parts = [head, end]
    if edited_arguments(question) is not None:
        parts.append(gettext("What was executed is in the inbox."))
    elif isinstance(question.form, Approval) and _raw_length(question.form) <= LONGEST:
        action = literal(action_text(question.form))
        if length_of(f"{head}\n{action}\n{end}") <= LONGEST - _AFTERWARDS:
            parts = [head, action, end]
    room = LONGEST - length_of("\n".join(parts)) - _MARGIN
    for each in told:
        shown, is_all = quoted_start(each, max(0, min(room, 2 * _AFTERWARDS)))
        room -= length_of(shown) + 1
        if room < 0:
            break
        parts.append(shown)
        if not is_all:
            break
    return Rendered("\n".join([*parts, *_report(question, LONGEST - length_of("\n".join(parts)) - _MARGIN)]))


def _report(question: Question, room: int) -> Iterator[str]:
    """What the agent says came of it, if there is room."""
    if report := message_texts.report_of(question):
        says, told = report
        lines = [bold(f"{says}:"), *(quoted_start(each, _AFTERWARDS)[0] for each in told)]
        for line in lines:
            room -= length_of(line) + 1
            if room < 0:
                return
            yield line


def labels_of(options: Sequence[Option]) -> list[str]:
    """The options as a button or a menu can show them, by number if a list has them in full."""
    if not _needs_list(options):
        return [each.label for each in options]
    return [f"{place}. {each.label}" for place, each in enumerate(options, 1)]


def _heading(question: Question) -> str:
    """Who asks for what, with the name set apart from our own words."""
    before, name, after = message_texts.heading_parts(question)
    return f"{escaped(before)}{bold(name)}{escaped(after)}"


def _fits(notice: Notice, listed: str, told: Sequence[str]) -> bool:
    """Whether there is room for what must be seen in full, and for enough of the prompt."""
    least, _ = prompt_start(notice.question.prompt, _LEAST_OF_A_PROMPT)
    fixed = "\n".join((_opening(notice), least, listed, *told, _foot(notice)))
    return length_of(listed) <= LONGEST and length_of(fixed) + _MARGIN * 2 <= LONGEST


def _text(notice: Notice, parts: Sequence[str], told: Sequence[str]) -> str:
    opening, foot = _opening(notice), _foot(notice)
    room = LONGEST - length_of("\n".join((opening, *parts, *told, foot))) - _MARGIN * 2
    prompt, is_all = prompt_start(notice.question.prompt, room)
    note = gettext("The text is longer, {count} characters: all of it is in the inbox.").format(
        count=len(notice.question.prompt)
    )
    return "\n".join((opening, prompt, *(() if is_all else (note,)), *parts, *told, foot))


def _opening(notice: Notice) -> str:
    why = message_texts.why_now(notice.reason)
    asked = f"{_heading(notice.question)}:"
    brought = message_texts.brought_of(notice)
    told = [bold(why)] if why else []
    if brought is not None:
        who, words = brought
        told += [f"{escaped_line(who)}:", quoted(words)] if words else [f"{escaped_line(who)}."]
    return "\n".join((*told, asked))


def _facts(notice: Notice) -> list[str]:
    return [escaped_line(each) for each in message_texts.facts_of(notice.question)]


def _foot(notice: Notice) -> str:
    return gettext("Open it in the inbox: {link}").format(link=f"<{notice.link}>")


def _listed(question: Question) -> Iterator[str]:
    """What must be seen before somebody presses: the options, the fields, or the action."""
    form = question.form
    match form:
        case Choice() if _needs_list(form.options):
            yield gettext("The options:")
            yield from _numbered(form.options)
        case MultiChoice():
            yield gettext("The options:")
            yield from _numbered(form.options)
        case Form():
            yield gettext("To fill in:")
            rows, more = message_texts.rows_of(form)
            yield from (f"> {bold(each.name)}: {escaped_line(each.text or '')}" for each in rows)
            if more:
                yield more
        case Approval():
            if brief := message_texts.brief_of(form, longest=_LONGEST_BRIEF):
                yield bold(brief.heading)
                yield quoted("\n".join(brief.lines))
                yield from filter(None, (brief.more,))
            yield gettext("What will be executed:")
            yield literal(action_text(form))
            yield escaped(str(risk_text(form)))
            if form.editable:
                yield gettext("Its arguments can be changed in the inbox.")
        case _:
            return


def _raw_length(form: AnyForm) -> int:
    """The least length of what must be seen in full."""
    match form:
        case Approval():
            return len(form.action.tool) + len(canonical_json(form.action.arguments))
        case MultiChoice():
            return sum(len(each.label) + len(option_text(each) or "") for each in form.options)
        case Choice() if _needs_list(form.options):
            return sum(len(each.label) + len(option_text(each) or "") for each in form.options)
        case Form():
            return sum(len(each.name) for each in form.fields)
        case _:
            return 0


def _numbered(options: Sequence[Option]) -> Iterator[str]:
    for place, each in enumerate(options, 1):
        about = option_text(each)
        described = f": {escaped_line(about)}" if about else ""
        yield f"> {place}\\. {bold(each.label)}{described}"


def _needs_list(options: Sequence[Option]) -> bool:
    return any(option_text(each) or not is_short(f"99. {each.label}", BUTTON) for each in options)


def _rows(notice: Notice, seen: int) -> Iterator[Component]:
    question = notice.question
    if not has_room(question, seen):
        return
    answers = list(_answers(question, seen))
    form = question.form
    if isinstance(form, Approval):
        if answers:
            yield row(*answers, *_writing(question))
            yield row(*_leaving(notice))
        return
    more = [*_leaving(notice), _decline(notice)]
    if isinstance(form, Choice) and form.allow_other and answers:
        more.insert(0, button(build_reference(question, "answer"), gettext("Other…")))
    together = [*answers, *more]
    if len(together) <= MOST_BUTTONS and all("options" not in each for each in answers):
        yield row(*together)
        return
    if answers:
        yield row(*answers)
    yield row(*more)


def _writing_rows(notice: Notice) -> Sequence[Component]:
    """What can be pressed if an approval is decided in the inbox, but can be talked about here."""
    question = notice.question
    return (row(*_writing(question), *_leaving(notice)),) if has_room(question) else ()


def _writing(question: Question) -> Iterator[Component]:
    """The buttons for a message: Discord does not tell us what people write in a conversation."""
    if question.replies is not None:
        yield button(build_reference(question, "ask"), gettext("Ask the agent…"))
    yield button(build_reference(question, "note"), gettext("Note for colleagues…"))


def _rows_without(notice: Notice) -> Sequence[Component]:
    """What can be pressed if an answer cannot be given here."""
    question = notice.question
    if isinstance(question.form, Approval) or not has_room(question):
        return ()
    return (row(*_leaving(notice), _decline(notice)),)


def _leaving(notice: Notice) -> Iterator[Component]:
    """The buttons that send a question back, or leave it to others."""
    question = notice.question
    yield button(build_reference(question, "send_back"), message_texts.send_back_label())
    if message_texts.tells_several(question, notice.reason):
        yield button(build_reference(question, "aside"), message_texts.aside_label())


def _decline(notice: Notice) -> Component:
    several = message_texts.tells_several(notice.question, notice.reason)
    return button(build_reference(notice.question, "decline"), message_texts.decline_label(several=several))


def _answers(question: Question, seen: int) -> Iterator[Component]:
    """The buttons, or the menu, that answer. What could not be undone must be confirmed."""
    form = question.form
    asks = "?" if question.undo_for else ""
    match form:
        case Confirm():
            yield button(build_reference(question, f"{asks}yes"), gettext("Yes"))
            yield button(build_reference(question, f"{asks}no"), gettext("No"))
        case Choice() if len(form.options) <= MOST_BUTTONS:
            for number, label in enumerate(labels_of(form.options)):
                yield button(build_reference(question, f"{asks}option-{number}"), label)
        case Choice() if len(form.options) <= MOST_OPTIONS:
            yield menu(build_reference(question, "select"), labels_of(form.options))
        case Choice():
            return
        case Approval() if form.risk == "high":
            return
        case Approval():
            yield button(build_reference(question, "?approve", seen), gettext("Approve"))
            yield button(build_reference(question, f"{asks}deny"), gettext("Deny"))
            yield button(build_reference(question, "reason"), gettext("Deny with a reason…"))
        case Open() | MultiChoice() | Form() if can_be_filled_in(question):
            named = {
                "multi_choice": gettext("Choose…"),
                "form": gettext("Fill in…"),
                "open": gettext("Answer…"),
            }
            yield button(build_reference(question, "answer"), named[form.kind])
        case _:
            return


def render_confirmation(question: Question, verb: str, seen: int = 0) -> Rendered:
    """The confirmation that one person is asked for before something is sent. `seen` is what its message showed."""
    form = question.form
    sends = gettext("It counts as soon as it is sent.")
    asked = gettext("Send this answer?")
    again = f"{asked} {sends}"
    match form:
        case Approval():
            tool = bold(message_texts.shortened(form.action.tool, 150))
            if verb == "approve":
                text = gettext("Approve {tool}? It is executed just as it stands in the message above.")
                text, label = text.format(tool=tool), gettext("Yes, approve")
            else:
                asked = gettext("Deny {tool}?").format(tool=tool)
                text, label = f"{asked} {sends}", gettext("Yes, deny")
        case Choice():
            chosen = form.options[int(verb.removeprefix("option-"))]
            text, label = f"{again}\n{quoted(chosen.label)}", gettext("Send")
        case _:
            meant = gettext("Yes") if verb == "yes" else gettext("No")
            text, label = f"{again}\n{quoted(meant)}", gettext("Send")
    return Rendered(text, (row(button(build_reference(question, verb, seen), label)),))
