"""Questions as cards: what is asked, by whom, and how to answer; then how it ended.

A card is made from what never changes about a question, so that it is the same however often it is sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from handraise.channels import message_texts
from handraise.channels.teams.card_elements import (
    MOST_BUTTONS,
    Element,
    button,
    card,
    fits,
    is_plain,
    line,
    link,
    literal,
    markdown,
    name,
    ours,
    row,
    small,
    theirs,
    with_name,
    words,
)
from handraise.channels.teams.inputs import inputs_of, labels_of, list_of, shown_parts
from handraise.channels.teams.references import SeenCodes, build_reference
from handraise.model.decisions import decision_of
from handraise.model.deliveries import Reason
from handraise.model.forms import AnyForm, Approval, Choice, Confirm, Form, MultiChoice, Open, takes_files
from handraise.model.json_values import Json
from handraise.model.outcomes import Answered
from handraise.model.questions import Draft, Question
from handraise.model.thread_messages import MessageKind, ThreadMessage
from handraise.model.visible import visible, visible_line
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
from handraise.presentation.times import moment_text
from handraise.presentation.translation import gettext, gettext_noop, in_every_language

_PROMPTS = (4_000, 800, 200)
"""How much of a prompt is shown if there is room for everything else, for some of it, and for hardly anything."""
_AFTERWARDS = 600
_LONGEST_THREAD = 3_000
_NO_CODES = SeenCodes("")
"""Only to know how large a card is, or for one that nobody presses."""
_EXCERPT = 120
_COUNTS = (15, 8, 4, 1)
_MOST_PARTS = 50
_LARGEST = 20_000
"""More characters of options than any card has room for."""
_LONGEST_CHANGE = 2_000
_HIGH = gettext_noop(
    "An action of high risk is not decided here: Teams does not sign what people press. Open it in the inbox."
)
_TOO_LARGE = gettext_noop("This action is too large to be shown here in full, so it is decided in the inbox.")
_INBOX = gettext_noop("This is too large to be answered here. Open it in the inbox.")


def render_question(
    question: Question,
    url: str,
    reason: Reason = "asked",
    *,
    thread: Sequence[ThreadMessage] = (),
    codes: SeenCodes = _NO_CODES,
    note: str | None = None,
) -> Element:
    """A question, with what can be pressed and filled in to answer it; above it a `note`, if there is one."""
    said = thread_text(question, thread, room=_LONGEST_THREAD)
    end = last_messages(question, thread, waits=said.waits) if question.thread else NO_THREAD
    cards = _candidates(question, url, reason, thread=said, end=end, codes=codes)
    made = next(each for each in cards if fits(each))
    if note is None:
        return made
    noted = {**made, "body": [ours(note, weight="Bolder"), *made["body"]]}
    return noted if fits(noted) else made


def seen_in_card(question: Question, url: str, reason: Reason, thread: Sequence[ThreadMessage]) -> int | None:
    """How many messages of its thread the card of an approval shows, if it can be decided there."""
    said = thread_text(question, thread, room=_LONGEST_THREAD)
    form = question.form
    if not isinstance(form, Approval) or form.risk == "high" or said.seen is None:
        return None
    return None if _approval(question, url, reason, said, _NO_CODES) is None else said.seen


def offer_card(url: str, text: str, offers: Sequence[MessageKind], data: dict[str, Json]) -> Element:
    """Asks somebody what they wrote: it decides nothing, but may be a message. `data` is what its buttons carry."""
    return card([ours(text), row([button(kind_label(kind), kind, data) for kind in offers])], [link(url)])


def render_bundle(notices: Sequence[Notice]) -> Element:
    """Several questions that waited, each with its link. None can be answered here: each is looked at by itself."""
    return next(each for each in _lists(notices) if fits(each))


def render_outcome(question: Question, note: str | None = None) -> Element:
    """How a question ended. Nothing can be pressed any more."""
    return next(each for each in _endings(question, note) if fits(each))


def summary_of(message: Message) -> str:
    """What a notification says of a message."""
    if len(message.notices) > 1:
        return message_texts.waiting_text(len(message.notices))
    question = message.notices[0].question
    if question.outcome is not None:
        return gettext("A question has ended")
    before, asker, after = message_texts.heading_parts(question)
    shown = asker if is_plain(asker) else gettext("An agent")
    return f"{before}{shown}{after}"


def can_be_decided(question: Question) -> bool:
    """Whether a card about an approval has its action in full, so that it can be decided here."""
    if not isinstance(question.form, Approval):
        return True
    # A link is short compared with the rest; this one is longer than any of ours.
    likely = "https://" + "x" * 500
    form, longest = question.form, message_texts.with_longest_taker(question)
    return form.risk != "high" and in_every_language(
        lambda: _approval(longest, likely, "escalated", NO_THREAD, _NO_CODES) is not None
    )


def _heading(question: Draft, **style: Any) -> Element:
    """Who asks for what."""
    before, asker, after = message_texts.heading_parts(question)
    return line(*([words(before, **style)] if before else []), name(asker), words(after, **style))


def _candidates(
    question: Question,
    url: str,
    reason: Reason,
    *,
    thread: ThreadText,
    end: ThreadText,
    codes: SeenCodes,
) -> Iterator[Element]:
    """The card in full, then with less and less of it in Teams; `end` is the end of the conversation."""
    form = question.form
    if isinstance(form, Approval):
        can_be_shown = form.risk != "high" and thread.seen is not None
        made = _approval(question, url, reason, thread, codes) if can_be_shown else None
        if made is not None:
            yield made
        why = gettext(_HIGH if form.risk == "high" else _TOO_LARGE)
        if question.thread and can_be_decided(question):
            why = too_long_to_approve()
        for longest in _PROMPTS[:2]:
            for action in (_action(form), ()) if message_texts.is_shown(form) else ((),):
                tail = [
                    *_conversation(end),
                    *(_brief(form) if action else ()),
                    *action,
                    ours(str(risk_text(form))),
                    *_facts(question),
                    small(why),
                ]
                yield card([*_head(question, reason, longest), *tail], [link(url)])
    else:
        place = build_reference(question, url)
        several = message_texts.tells_several(question, reason)
        decline = button(message_texts.decline_label(several=several), "decline", place)
        last = [*_leaving(question, url, reason), decline, link(url)]
        for said in (thread, end) if thread.messages else (thread,):
            for longest in _PROMPTS:
                if _has_room(question):
                    head = [*_head(question, reason, longest), *_conversation(said)]
                    if previews := _previews(form):
                        facts = _facts(question, previews=True)
                        yield card([*head, *previews, *facts, *_answers(question, url)], last)
                    yield card([*head, *_facts(question), *_answers(question, url)], last)
        yield card([*_head(question, reason, _PROMPTS[1]), *_facts(question), small(gettext(_INBOX))], last)
    yield card([*_head(question, reason, _PROMPTS[-1]), small(gettext(_INBOX))], [link(url)])


def _leaving(question: Question, url: str, reason: Reason) -> Iterator[Element]:
    """The buttons that send a question back, or leave it to others."""
    yield button(message_texts.send_back_label(), "send_back", build_reference(question, url))
    if message_texts.tells_several(question, reason):
        yield button(message_texts.aside_label(), "aside", build_reference(question, url))


def _conversation(thread: ThreadText) -> list[Element]:
    """What people and the agent have written, and whose turn it is."""
    made = [ours(thread.heading, weight="Bolder")] if thread.heading else []
    for each in thread.messages:
        named = name(each.name) if each.name else []
        before = words(each.before) if each.before else []
        made += [line(before, named, words(f"{each.after}:")), theirs(line(words(each.text)))]
    return [*made, *(small(each) for each in (thread.earlier, thread.waits) if each)]


def _head(question: Question, reason: Reason, longest: int) -> list[Element]:
    """Who asks, why somebody is told now, and what; cut if it is long."""
    prompt, note = message_texts.prompt_of(question)
    if len(prompt) > longest:
        prompt = message_texts.shortened(prompt, longest)
        note = message_texts.beginning_text(question)
    why = message_texts.why_now(reason)
    return [
        _heading(question, weight="Bolder"),
        *([ours(why)] if why else ()),
        markdown(prompt),
        *([small(note)] if note else ()),
    ]


def _facts(question: Question, *, previews: bool = False) -> list[Element]:
    return [small(each) for each in message_texts.facts_of(question, previews=previews)]


def _previews(form: AnyForm) -> list[Element]:
    """What the agent shows of the options, if that is short."""
    previews = message_texts.short_previews(form)
    if not previews:
        return []
    made = [ours(message_texts.previews_title(), weight="Bolder")]
    for each in previews:
        made += [theirs(line(words(each.label, weight="Bolder"))), markdown(each.text)]
    return made


def _has_room(question: Question) -> bool:
    """Whether it is worth a try to put all of a form into a card."""
    if takes_files(question.form):
        return False
    parts = shown_parts(question.form)
    options = [
        each for part in parts if isinstance(part.form, Choice | MultiChoice) for each in part.form.options
    ]
    length = sum(len(each.label) + len(option_text(each) or "") for each in options)
    return len(parts) <= _MOST_PARTS and length <= _LARGEST


def _answers(question: Question, url: str) -> Iterator[Element]:
    """What can be filled in and pressed."""
    form = question.form
    match form:
        case Confirm():
            yield row(
                [
                    button(gettext("Yes"), "yes", build_reference(question, url)),
                    button(gettext("No"), "no", build_reference(question, url)),
                ]
            )
        case Choice(options=options, allow_other=False) if len(options) < MOST_BUTTONS:
            yield from list_of(options)
            yield row(
                [
                    button(label, "option", build_reference(question, url, n=number))
                    for number, label in enumerate(labels_of(options))
                ]
            )
        case Choice() | MultiChoice() | Open() | Form():
            for part in shown_parts(form):
                yield from inputs_of(part)
            yield row([button(gettext("Send"), "send", build_reference(question, url), inputs=True)])


def _brief(form: Approval) -> list[Element]:
    """What the agent says about an action."""
    brief = message_texts.brief_of(form)
    if brief is None:
        return []
    lines = [line(words(each), spacing="Small") for each in brief.lines]
    more = [small(brief.more)] if brief.more else []
    return [ours(brief.heading, weight="Bolder"), theirs(*lines), *more]


def _action(form: Approval) -> Sequence[Element]:
    """The frozen action in full."""
    tool, rows = message_texts.action_of(form)
    shown = [line(words(tool, fontType="Monospace", weight="Bolder"))]
    for each in rows:
        text = each.text or ""
        shown.append(
            literal(f"{each.name}:\n{text}" if each.verbatim or "\n" in text else f"{each.name}: {text}")
        )
    return [ours(gettext("What will be executed"), weight="Bolder"), theirs(*shown)]


def _approval(
    question: Question, url: str, reason: Reason, thread: ThreadText, codes: SeenCodes
) -> Element | None:
    """An approval with its action and its conversation in full, or None if that does not fit.

    What is approved is named by its digest, and how much of the conversation was shown by its code.
    """
    form = question.form
    if not isinstance(form, Approval) or not message_texts.is_shown(form):
        return None
    place = build_reference(question, url, digest=form.digest, **codes.make(question, thread.seen))
    buttons = [
        button(gettext("Approve…"), "approve", place),
        button(gettext("Deny"), "deny", place),
        button(gettext("Deny with a reason…"), "reason", place),
    ]
    if shown_parts(form):
        buttons.append(button(gettext("Change and approve…"), "change", place))
    buttons += _leaving(question, url, reason)
    said = _conversation(thread)
    tail = [
        *said,
        *_brief(form),
        *_action(form),
        ours(str(risk_text(form))),
        *_facts(question),
        row(buttons),
    ]
    for longest in _PROMPTS:
        made = card([*_head(question, reason, longest), *tail], [link(url)])
        if fits(made):
            return made
    return None


def confirmation_card(question: Question, url: str, asked: str, yes: str, verb: str, **data: Json) -> Element:
    """The confirmation that is asked for before something is sent."""
    return _step(
        question, url, [ours(asked)], button(yes, verb, build_reference(question, url, sure=True, **data))
    )


def approve_card(question: Question, form: Approval, url: str, **seen: Json) -> Element:
    """The confirmation before an action is approved: it shows the action again."""
    made = _step(
        question,
        url,
        [*_action(form), ours(gettext("It is executed just as it stands here."))],
        button(gettext("Approve"), "approved", build_reference(question, url, digest=form.digest, **seen)),
    )
    return made if fits(made) else message_card(question, url, gettext(_TOO_LARGE))


def reason_card(question: Question, url: str, title: str, verb: str, **data: Json) -> Element:
    """Asks for the reason, which may be left empty."""
    label = gettext("Why not? The agent is told.")
    why = {"type": "Input.Text", "id": "reason", "label": label, "isMultiline": True}
    place = build_reference(question, url, **data)
    return _step(question, url, [why], button(title, verb, place, inputs=True))


def send_back_card(question: Question, url: str) -> Element:
    """Asks what is to be changed, which must be said."""
    asked = {
        "type": "Input.Text",
        "id": "reason",
        "label": message_texts.send_back_asks(),
        "isMultiline": True,
        "isRequired": True,
        "errorMessage": gettext("This is needed."),
    }
    yes = button(gettext("Send back"), "sent_back", build_reference(question, url), inputs=True)
    return _step(question, url, [asked], yes)


def change_card(question: Question, form: Approval, url: str, **seen: Json) -> Element:
    """Takes changes to an action's arguments; what was changed is shown before it is approved."""
    inputs = [each for part in shown_parts(form) for each in inputs_of(part)]
    shown = button(
        gettext("Show the difference"),
        "changed",
        build_reference(question, url, digest=form.digest, **seen),
        inputs=True,
    )
    made = _step(question, url, inputs, shown)
    return (
        made
        if fits(made)
        else message_card(question, url, gettext("Change it in the inbox: there is too much for here."))
    )


def difference_card(
    question: Question,
    form: Approval,
    url: str,
    approved: dict[str, Json],
    arguments: dict[str, Json],
    **seen: Json,
) -> Element:
    """What would be approved and how it differs."""
    changes = difference(form.action.arguments, arguments)
    shown = theirs(literal(changes)) if changes else ours(gettext("You changed nothing."))
    heading = line(with_name(gettext("What changes in {name}"), form.action.tool))
    place = build_reference(question, url, **approved, **seen)
    yes = button(gettext("Approve with these changes"), "approved", place)
    made = _step(question, url, [heading, shown], yes)
    return (
        made
        if fits(made)
        else message_card(
            question, url, gettext("Change it in the inbox: that is too much to be shown here.")
        )
    )


def message_card(question: Question, url: str, text: str) -> Element:
    """Says one thing, and leads back to the question."""
    return card([ours(text)], [_back(question, url), link(url)])


def _back(question: Question, url: str) -> Element:
    return button(gettext("Back"), "show", build_reference(question, url))


def difference(before: dict[str, Json], after: dict[str, Json]) -> str:
    """What was changed in some arguments."""
    lines: list[str] = []
    for key in dict.fromkeys((*before, *after)):
        if before.get(key) != after.get(key):
            for sign, value in (("-", before.get(key)), ("+", after.get(key))):
                lines.append(f"{sign} {visible_line(key)}: {visible(json.dumps(value, ensure_ascii=False))}")
    return "\n".join(lines)


def _step(question: Question, url: str, body: Sequence[Element], yes: Element) -> Element:
    """One of several steps to an answer, and the way back."""
    about = _head(question, "asked", _EXCERPT)[:2]
    return card([*about, *body, row([yes, _back(question, url)])], [link(url)])


def _endings(question: Question, note: str | None) -> Iterator[Element]:
    first = [ours(note)] if note else []
    ended, told = message_texts.ending_of(question, "")
    at = getattr(question.outcome, "at", None)
    when = "" if at is None else f", {moment_text(at)}"
    end = [
        ours(f"{ended}{when}.", weight="Bolder"),
        *([theirs(*(line(words(each), spacing="Small") for each in told))] if told else ()),
        *_changes(question),
        *_report(question),
    ]
    asked = line(with_name(gettext("Asked by {name}"), message_texts.name_of(question.asker)))
    prompt = message_texts.prompt_of(question)[0]
    for longest in (_AFTERWARDS, _EXCERPT):
        cut = markdown(message_texts.shortened(prompt, longest), isSubtle=True)
        yield card([*first, asked, cut, *end])
    yield card([*first, asked, ours(f"{message_texts.shortened(str(ended), 200)}{when}.", weight="Bolder")])


def _report(question: Question) -> Iterator[Element]:
    """What the agent says came of it."""
    if report := message_texts.report_of(question):
        says, told = report
        yield ours(f"{says}:", weight="Bolder")
        yield theirs(*(line(words(each), spacing="Small") for each in told))


def _changes(question: Question) -> Iterator[Element]:
    """What was changed in the arguments of an action that was approved."""
    match question:
        case Question(form=Approval() as form, outcome=Answered(value={"arguments": dict()} as value)):
            changes = difference(form.action.arguments, decision_of(form, value).action.arguments)
            yield theirs(literal(message_texts.shortened(changes, _LONGEST_CHANGE)))


def _lists(notices: Sequence[Notice]) -> Iterator[Element]:
    for count in _COUNTS:
        body = [ours(message_texts.waiting_text(len(notices)), weight="Bolder")]
        for notice in notices[:count]:
            question = notice.question
            excerpt = one_line(question.prompt, _EXCERPT)
            body += [
                _heading(question),
                theirs(line(words(excerpt))),
                row([link(notice.link)]),
            ]
        if len(notices) > count:
            body.append(small(message_texts.rest_text(len(notices) - count)))
        yield card(body)
