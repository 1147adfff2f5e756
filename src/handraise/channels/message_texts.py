"""What a message says in our own words, and which parts of it are the agent's, whatever the medium.

Everything given out here is free of characters that hide or move something; each channel escapes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from handraise.model.argument_order import reading_order
from handraise.model.attachments import Attachment
from handraise.model.deliveries import Reason
from handraise.model.events import EventKind
from handraise.model.forms import (
    AnyForm,
    Approval,
    Choice,
    Confirm,
    File,
    Form,
    MultiChoice,
    Open,
    SimpleForm,
)
from handraise.model.json_values import Json
from handraise.model.people import GROUP
from handraise.model.questions import Draft, Question
from handraise.model.visible import visible, visible_line
from handraise.ports.channel import Notice
from handraise.presentation.agreement_text import required_people
from handraise.presentation.brief_text import Preview, brief_lines, brief_title, option_text, previews_of
from handraise.presentation.file_text import file_text
from handraise.presentation.form_text import hint_of
from handraise.presentation.names import display_name
from handraise.presentation.outcome_text import OutcomeText, outcome_details, outcome_text
from handraise.presentation.report_text import report_words
from handraise.presentation.times import moment_text
from handraise.presentation.translation import gettext, gettext_noop, ngettext

_MOST_FILES, _LONGEST_FILE_NAME = 5, 60
_LONGEST_TAKER = 60
_LONGEST_PREVIEWS, _MOST_PREVIEW_LINES = 1_500, 40
_LONGEST_PROMPT, _MOST_LINES = 4_000, 100
_LONGEST_LABEL = 300
_MOST_OPTIONS, _MOST_FIELDS = 40, 40
_LONGEST_ACTION, _MOST_ARGUMENTS = 4_000, 40
_LONGEST_ANSWER = 1_500
_LONGEST_WHY = 300
_LONGEST_BRIEF = 1_200
_LONGEST_REPORT, _LONGEST_LINK = 600, 300
_WRITE = {
    "text": gettext_noop("write your answer."),
    "integer": gettext_noop("write a whole number."),
    "number": gettext_noop("write a number."),
    "email": gettext_noop("write an e-mail address."),
    "uri": gettext_noop("write a web address."),
    "date": gettext_noop("write a date, such as 2026-05-31."),
    "datetime": gettext_noop("write a date and time, such as 2026-05-31T14:00+02:00."),
}


@dataclass(frozen=True, slots=True)
class Row:
    """Something that an agent lists: an option, a field, an argument.

    `verbatim` is a text of several lines that is shown as it is, and not as JSON.
    """

    name: str
    text: str | None = None
    verbatim: bool = False


@dataclass(frozen=True, slots=True)
class BriefText:
    """What an agent says about an action: our `heading`, the agent's `lines`, and our note if there are `more`."""

    heading: str
    lines: Sequence[str]
    more: str | None


def name_of(asker: str) -> str:
    """The agent's verified name."""
    return display_name(asker)


def heading_of(question: Draft) -> str:
    """Who asks for what."""
    return "".join(heading_parts(question))


def heading_parts(question: Draft) -> tuple[str, str, str]:
    """The same, with the agent's name in the middle, so that a channel can set it apart from our own words."""
    before, _, after = _asks(question.form).partition("{agent}")
    return before, name_of(question.asker), after


def send_back_label() -> str:
    """The button that sends a question back."""
    return gettext("Send back…")


def send_back_asks() -> str:
    """What somebody is asked who sends a question back."""
    return gettext("What is to be changed? The agent is told.")


def tells_several(question: Draft, reason: Reason) -> bool:
    """Whether a message says that several may answer. It follows from what never changes about the message."""
    names = question.recipients
    return reason in ("escalated", "brought_in") or len(names) != 1 or names[0].startswith(GROUP)


def aside_label() -> str:
    """The button that leaves a question to others, if there are any."""
    return gettext("Not for me")


def decline_label(*, several: bool) -> str:
    """The button that ends a question without an answer: if several may answer, for all of them."""
    return gettext("End for everyone…") if several else gettext("Decline…")


def sign_in_to_decide() -> str:
    """An administrator chose which account of a chat is whose, and could have chosen their own."""
    return gettext("An action of high risk is decided in the inbox, where people sign in. Open it there.")


def waiting_text(count: int) -> str:
    """The beginning of a message about several questions."""
    return ngettext(
        "{count} question waits for an answer", "{count} questions wait for an answer", count
    ).format(count=count)


def rest_text(count: int) -> str:
    """The end of a message that has no room for all questions."""
    return ngettext("And {count} more, in the inbox.", "And {count} more, in the inbox.", count).format(
        count=count
    )


def beginning_text(question: Draft) -> str:
    """A note that a prompt is longer than what is shown of it."""
    count = len(question.prompt)
    return gettext("This is the beginning; all {count} characters are on the page.").format(count=count)


def why_now(reason: Reason) -> str | None:
    """Why somebody is told now, if it is not the first time."""
    match reason:
        case "asked":
            return None
        case "reminded":
            return gettext("A reminder: this still waits for an answer.")
        case "escalated":
            return gettext("Nobody has answered yet, so you are asked too.")
        case "brought_in":
            return gettext("Somebody wants you to answer this.")
        case "noted":
            return gettext("Somebody has written a note about this.")
        case "replied":
            return gettext("The agent has replied. This waits for an answer again.")
        case _:
            assert_never(reason)


def brought_of(notice: Notice) -> tuple[str, str | None] | None:
    """Who brought somebody in, without a full stop, and why in their own words; None if that is not the reason."""
    event = notice.brought
    if event is None:
        return None
    if event.kind is EventKind.HANDED_OVER:
        text = gettext("{person} has handed it over")
    else:
        text = gettext("{person} has brought you in")
    reason = event.data.get("reason") if isinstance(event.data, dict) else None
    words = shortened(visible(reason), _LONGEST_WHY) if isinstance(reason, str) else None
    return text.format(person=display_name(event.by or "")), words


def prompt_of(question: Draft, *, longest: int = _LONGEST_PROMPT) -> tuple[str, str | None]:
    """What the agent wrote, and our own note if that is not all of it."""
    text = visible(question.prompt)
    lines = text.split("\n")
    cut = "\n".join(lines[:_MOST_LINES])[:longest]
    if cut == text:
        return text, None
    return f"{cut.rstrip()} …", beginning_text(question)


def rows_of(form: AnyForm) -> tuple[Sequence[Row], str | None]:
    """What there is to choose or to fill in, and our own note if that is not all of it."""
    match form:
        case Choice() | MultiChoice():
            rows = [
                Row(_label(each.label), None if (about := option_text(each)) is None else _label(about))
                for each in form.options[:_MOST_OPTIONS]
            ]
            more = len(form.options) - len(rows)
            return rows, _more(more) if more else None
        case Form():
            rows = [
                Row(_label(each.name), _field(each.title, each.description, each.form))
                for each in form.fields
            ]
            more = len(rows) - _MOST_FIELDS
            return rows[:_MOST_FIELDS], _more(more) if more > 0 else None
        case Open() | Confirm() | File() | Approval():
            return (), None
        case _:
            assert_never(form)


def is_shown(form: Approval) -> bool:
    """Whether a mail has room for the whole action, so that it can be approved on sight of it."""
    texts = [form.action.tool, *form.action.arguments, *map(_value, form.action.arguments.values())]
    return (
        sum(map(len, map(visible, texts))) <= _LONGEST_ACTION
        and len(form.action.arguments) <= _MOST_ARGUMENTS
        and sum(text.count("\n") for text in texts) <= _MOST_LINES
    )


def action_of(form: Approval) -> tuple[str, Sequence[Row]]:
    """The frozen action in full: its tool and its arguments."""
    rows = [
        Row(visible_line(name), visible(_value(value)), verbatim=_is_verbatim(value))
        for name, value in reading_order(form.action.arguments).items()
    ]
    return visible_line(form.action.tool), rows


def brief_of(form: AnyForm, *, longest: int = _LONGEST_BRIEF) -> BriefText | None:
    """What the agent says about an action, as far as there is room. A link is complete or left out."""
    if not isinstance(form, Approval) or form.brief is None:
        return None
    lines, room = [], longest
    told = [line for text in brief_lines(form.brief) for line in text.split("\n")]
    for line in told:
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
    is_all = len(lines) == len(told)
    if not lines and form.brief.why is not None:
        lines = [shortened(told[0], longest)]
    more = None if is_all else gettext("The rest of what the agent says is on the page.")
    return BriefText(f"{brief_title()}:", lines, more)


def how_to_reply(form: AnyForm) -> str:
    """What a reply must look like; `read_reply` understands just that."""
    before, theirs, after = how_to_reply_parts(form)
    quoted_example = gettext("“{text}”").format(text=theirs) if theirs else ""
    return f"{before}{quoted_example}{after}"


def how_to_reply_parts(form: AnyForm) -> tuple[str, str, str]:
    """The same, with an example in the middle that has an agent's words in it, or nothing."""
    if isinstance(form, Form) and len(form.fields) > 1:
        name = _label(form.fields[0].name)
        before, _, after = gettext("write a line for each, such as {example}.").partition("{example}")
        return before, f"{name}: …", after
    return _how_to_reply(form), "", ""


def _how_to_reply(form: AnyForm) -> str:
    match form:
        case Choice():
            if form.allow_other:
                return gettext("write the number or the name of one. Or write “other:” and your own answer.")
            return gettext("write the number or the name of one.")
        case MultiChoice():
            if form.allow_other:
                return gettext(
                    "write the numbers, with commas between. One of them may be “other:” and your own answer."
                )
            return gettext("write the numbers, with commas between.")
        case Open():
            return gettext(_WRITE[form.type])
        case Confirm():
            return gettext("write yes or no.")
        case File():
            return gettext("upload the file on the page.")
        case Form():
            return gettext("write just that.")
        case Approval():
            return gettext("write “approve” or “deny”, or “deny:” and the reason.")
        case _:
            assert_never(form)


def sharing_notes(question: Question) -> Iterator[str]:
    """Who is working on the answer, and that it replaces another question."""
    if question.taken_by is not None and question.outcome is None:
        person = shortened(display_name(question.taken_by), _LONGEST_TAKER)
        yield f"{gettext('{person} is on this').format(person=person)}."
    if question.replaces is not None:
        yield gettext("This replaces an earlier question: the page shows what has changed.")


def with_longest_taker(question: Question) -> Question:
    """The same question with as long a note about who is on it as there can be, to know how much room a message needs."""
    return replace(question, taken_by="x" * _LONGEST_TAKER)


def previews_title() -> str:
    """The heading above previews of options."""
    return gettext("What you would get, as the agent shows it:")


def short_previews(form: AnyForm) -> Sequence[Preview]:
    """The previews of all options if there are some and they are short enough for a message, else none."""
    found = [Preview(each.label, visible(each.text)) for each in previews_of(form)]
    length = sum(len(each.label) + len(each.text) for each in found)
    lines = sum(each.text.count("\n") + 2 for each in found)
    return found if length <= _LONGEST_PREVIEWS and lines <= _MOST_PREVIEW_LINES else ()


def facts_of(question: Question, *, previews: bool = False) -> Iterator[str]:
    """What else counts: how many must agree, how much may be chosen, until when. `previews` says that they are shown."""
    form = question.form
    yield from sharing_notes(question)
    if isinstance(form, MultiChoice) and (form.at_least, form.at_most) != (1, None):
        yield f"{hint_of(form)}."
    if question.takes_votes:
        yield agreement_text(question)
    if question.attachments:
        yield attached_text(question.attachments)
    if question.context is not None:
        yield gettext("The agent has said more about it; that is on the page.")
    if not previews and previews_of(form):
        yield gettext("The agent shows what you would get; that is on the page.")
    if question.expires_at is not None:
        end = moment_text(question.expires_at)
        match (question.steps[-1].do, isinstance(form, Approval)):
            case ("default", _):
                text = gettext(
                    "Please answer before {end}. After that, the default that the agent has named is taken."
                )
            case (_, True):
                text = gettext("Please answer before {end}. After that, it is not approved.")
            case _:
                text = gettext("Please answer before {end}.")
        yield text.format(end=end)


def attached_text(files: Sequence[Attachment]) -> str:
    """Which files belong to something. Their names are the uploader's."""
    shown = [file_text(each, longest=_LONGEST_FILE_NAME) for each in files[:_MOST_FILES]]
    more = len(files) - len(shown)
    if more:
        shown.append(_more(more))
    return gettext("Files, on the page: {files}").format(files=", ".join(shown))


def agreement_text(question: Draft) -> str:
    """How many must agree, and who must be among them."""
    count, people = question.quorum, required_people(question)
    if people is None:
        return gettext("{count} people must agree.").format(count=count)
    if count == 1:
        return gettext("These must agree: {people}.").format(people=people)
    return gettext("{count} people must agree, among them {people}.").format(count=count, people=people)


def ending_of(question: Question, recipient: str) -> tuple[OutcomeText, Sequence[str]]:
    """How a question ended, in our words, and what was answered or why not, in theirs."""
    details = [shortened(str(part), _LONGEST_ANSWER) for part in outcome_details(question)]
    return outcome_text(question, viewer=recipient), details


def report_of(question: Question) -> tuple[str, Sequence[str]] | None:
    """What the agent says came of the answer: a sentence of ours without its full stop, and the agent's words.

    A link is complete or left out.
    """
    report = question.report
    if report is None:
        return None
    says = gettext("The agent reports: done") if report.ok else gettext("The agent reports: failed")
    text, *link = report_words(report)
    words = [shortened(text, _LONGEST_REPORT), *(each for each in link if len(each) <= _LONGEST_LINK)]
    return says, words


def quoted(text: str) -> str:
    """What somebody wrote, short enough to read in passing."""
    return shortened(visible(text), _LONGEST_ANSWER)


def _asks(form: AnyForm) -> str:
    match form:
        case Choice():
            return gettext("{agent} asks you to choose one")
        case MultiChoice():
            return gettext("{agent} asks you to choose")
        case Open():
            return gettext("{agent} asks you")
        case Confirm():
            return gettext("{agent} asks you yes or no")
        case File():
            return gettext("{agent} asks you for a file")
        case Form():
            return gettext("{agent} asks you to fill something in")
        case Approval():
            return gettext("{agent} asks for your approval")
        case _:
            assert_never(form)


def _field(title: str | None, description: str | None, form: SimpleForm) -> str:
    parts = [each for each in (title, description) if each]
    if isinstance(form, (Choice, MultiChoice)):
        parts.append(" / ".join(each.label for each in form.options[:_MOST_OPTIONS]))
    return _label(" · ".join(parts)) or "…"


def _more(count: int) -> str:
    return ngettext("{count} more is on the page.", "{count} more are on the page.", count).format(
        count=count
    )


def _value(value: Json) -> str:
    """A value as it is: a text of several lines line by line, anything else as JSON."""
    return value if _is_verbatim(value) else json.dumps(value, ensure_ascii=False, indent=2)


def _is_verbatim(value: Json) -> bool:
    return isinstance(value, str) and "\n" in value.strip("\n")


def _label(text: str) -> str:
    return shortened(visible_line(text), _LONGEST_LABEL)


def shortened(text: str, longest: int) -> str:
    """At most so many characters of a text."""
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"
