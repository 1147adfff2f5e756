"""A question on a terminal, as styled lines of a given width.

The text of an agent, or of a person who wrote about the question, has a bar in front of it and a name above; text
without a bar is Handraise's own.
Nothing is ever cut: a long word is broken, and continues after the same bar.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias, assert_never

import typer
from prompt_toolkit import print_formatted_text
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.output import Output
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import get_cwidth

from handraise.cli.question_context import QuestionContext
from handraise.cli.terminal_texts import (
    age_words,
    ago_words,
    answer_words,
    end_words,
    json_words,
    kind_words,
    settled_words,
    shown,
    shown_lines,
    shown_markdown,
)
from handraise.model.agreement import can_still_agree, cast_votes
from handraise.model.argument_order import reading_order
from handraise.model.attachments import Attachment
from handraise.model.briefs import Brief
from handraise.model.events import Event
from handraise.model.forms import AnyForm, Approval, Choice, Confirm, File, Form, MultiChoice, Open
from handraise.model.json_values import Json
from handraise.model.lifecycle import RETURNED_BALLOT
from handraise.model.questions import Question
from handraise.model.reports import Report
from handraise.model.thread_messages import ThreadMessage, messages_of
from handraise.presentation import line_wrap
from handraise.presentation.agreement_text import still_needed
from handraise.presentation.brief_text import (
    Preview,
    brief_links,
    brief_rows,
    brief_title,
    preview_title,
    previews_of,
    recommended_text,
)
from handraise.presentation.file_text import file_text
from handraise.presentation.form_parts import parts_of
from handraise.presentation.heartbeat_text import orphan_text
from handraise.presentation.names import person_name, through
from handraise.presentation.outcome_text import edited_arguments
from handraise.presentation.report_text import report_source, report_title, report_words
from handraise.presentation.risk_text import risk_text
from handraise.presentation.ruling_text import ruling_lines
from handraise.presentation.sharing_text import brought_text, replacement_text, taken_text
from handraise.presentation.translation import gettext, ngettext

StyledLine: TypeAlias = list[tuple[str, str]]

WIDEST = 100
STYLE = Style.from_dict(
    {
        "name": "bold ansicyan",
        "bar": "ansicyan",
        "action": "ansiyellow",
        "strong": "bold",
        "soft": "ansibrightblack",
        "good": "ansigreen",
        "bad": "ansired",
        "cursor": "bold ansicyan",
        "emphasis": "italic",
        "code": "ansimagenta",
    }
)

_BAR = "│ "
_ACTION_BAR = "┃ "
_LONGEST_NAME = 24
_DEEPEST = 6
_DIGEST = 12


_ALONE = QuestionContext()


def question_lines(question: Question, width: int, context: QuestionContext = _ALONE) -> list[StyledLine]:
    """The whole question: who asks, what, why, its status, and the votes and messages in its history."""
    events = context.events
    lines = [_heading(question), *_brought_lines(context, width), []]
    prompt = shown_markdown(question.prompt, width - len(_BAR))
    lines += [[("class:bar", _BAR), *line] for line in prompt]
    if question.context is not None:
        lines += [[("class:bar", _BAR.rstrip())], *_with_bar(value_lines(question.context), width)]
    if previews := previews_of(question.form):
        lines += [[("class:bar", _BAR.rstrip())], *_preview_lines(previews, width)]
    if names := _names(question):
        lines += [[("class:bar", _BAR.rstrip())], *_with_bar(names, width)]
    if question.attachments:
        lines += [[("class:bar", _BAR.rstrip())], *_with_bar(_file_lines(question.attachments), width)]
        how = gettext("To save one: handraise save {id} DIGEST PATH").format(id=shown(question.id))
        lines += wrapped([("class:soft", how)], width)
    lines += [[], *_standing(question, width, context), *_votes(question, events, width)]
    lines += _replacement_lines(question, context, width)
    if messages := messages_of(events):
        lines += [[], *thread_lines(question, messages, width)]
    if isinstance(question.form, Approval) and question.form.brief is not None:
        lines += [[], *_brief_lines(question.form.brief, width)]
    if isinstance(question.form, Approval):  # last, so that it is right above the decision
        lines += [[], *_action_lines(question, question.form, width)]
    return lines


def _brief_lines(brief: Brief, width: int) -> list[StyledLine]:
    """What the agent says about the action, in its own words."""
    told: list[StyledLine] = []
    for row in brief_rows(brief):
        words = [line for each in row.words for line in each.split("\n")]
        if len(words) == 1:
            told.append([("class:soft", f"{row.name}  "), ("", words[0])])
        else:
            mark = "• " if len(row.words) > 1 else ""
            told += [
                [("class:soft", row.name)],
                *([("class:soft", f"  {mark}"), ("", each)] for each in words),
            ]
    for link in brief_links(brief):
        told.append([("", f"{link.label} "), ("class:strong", link.host)])
        told.append([("class:soft", "  "), ("", link.url)])
    return [
        [("class:strong", brief_title()), ("class:soft", f" · {gettext('Nobody has checked it.')}")],
        *_with_bar(told, width),
    ]


def _preview_lines(previews: Sequence[Preview], width: int) -> list[StyledLine]:
    """What the agent shows of its options."""
    lines: list[StyledLine] = []
    for place, preview in enumerate(previews):
        if place:
            lines.append([("class:bar", _BAR.rstrip())])
        lines += _with_bar([[("class:strong", preview_title(preview))]], width)
        inner = width - len(_BAR) - 2
        lines += [[("class:bar", _BAR), ("", "  "), *line] for line in shown_markdown(preview.text, inner)]
    return lines


def thread_lines(question: Question, messages: Sequence[ThreadMessage], width: int) -> list[StyledLine]:
    """The conversation about a question, oldest first, and whether it is the agent's turn."""
    lines: list[StyledLine] = [[("class:strong", gettext("The conversation"))]]
    for message in messages:
        lines += message_lines(message, width)
    return [*lines, *turn_lines(question, width)]


def message_lines(message: ThreadMessage, width: int) -> list[StyledLine]:
    """One message: what it is, by whom and since when, then its text behind a bar."""
    match message.kind:
        case "asked_back":
            text = gettext("{person} asked the agent")
        case "noted":
            text = gettext("A note by {person}")
        case "replied":
            text = gettext("A reply by {person}")
        case _:
            assert_never(message.kind)
    head = shown(text.format(person=through(person_name(message.by), message.channel)))
    age = ago_words(datetime.now(UTC) - message.at)
    hidden = [("class:soft", gettext("Only people can read it."))]
    told: list[StyledLine] = (
        [[("", line)] for line in shown_lines(message.text)] if message.text else [hidden]
    )
    told += _file_lines(message.attachments)
    return [
        *wrapped([("", f"{message.number}. {head}"), ("class:soft", f" · {age}")], width),
        *_with_bar(told, width),
    ]


def _file_lines(files: Sequence[Attachment]) -> list[StyledLine]:
    """Files with their sizes, and how their digests begin."""
    return [[("", shown(file_text(each))), ("class:soft", f"  {each.digest[:_DIGEST]}")] for each in files]


def turn_lines(question: Question, width: int) -> list[StyledLine]:
    """That the agent has to reply, if it has."""
    if question.outcome is not None or not question.is_askers_turn:
        return []
    return wrapped([("class:strong", gettext("Waiting for the agent's reply."))], width)


def form_lines(form: AnyForm, width: int) -> list[StyledLine]:
    """The possible answers, if there is no menu: the options, or the fields with their options."""
    match form:
        case Choice() | MultiChoice():
            return _with_bar(list(_option_lines(form)), width)
        case Form():
            lines: list[StyledLine] = []
            for field in form.fields:
                kind = kind_words(field.form)
                told = kind if field.required else gettext("{kind}, optional").format(kind=kind)
                lines.append(
                    [("class:strong", shown(field.title or field.name)), ("class:soft", f"  {told}")]
                )
                if field.description:
                    lines.append([("", "  "), ("", shown(field.description))])
                if isinstance(field.form, Choice | MultiChoice):
                    lines += [[("", "  "), *line] for line in _option_lines(field.form)]
            return _with_bar(lines, width)
        case Open() | Confirm() | File() | Approval():
            return []
        case _:
            assert_never(form)


def value_lines(value: Json, depth: int = 0) -> list[StyledLine]:
    """A value as a table, a list or a text, rather than as JSON."""
    match value:
        case dict() if value and depth < _DEEPEST:
            return list(_table(value, depth))
        case list() | tuple() if value and depth < _DEEPEST:
            lines: list[StyledLine] = []
            for each in value:
                first, *rest = value_lines(each, depth + 1)
                lines += [[("class:soft", "• "), *first], *([("", "  "), *line] for line in rest)]
            return lines
        case str() if "\n" in value:
            return _text_block(value)
        case _:
            return [[("", json_words(value))]]


def difference_lines(before: dict[str, Json], after: dict[str, Json], width: int) -> list[StyledLine]:
    """What was changed, argument by argument."""
    lines: list[StyledLine] = []
    for name in dict.fromkeys((*after, *before)):
        if name in before and name in after and before[name] == after[name]:
            continue
        lines += wrapped([("class:strong", shown(name))], width)
        for arguments, sign, style in ((before, "- ", "class:bad"), (after, "+ ", "class:good")):
            if name in arguments:
                lines += _with_bar([[(style, json_words(arguments[name]))]], width, bar=sign, style=style)
    return lines


def wrapped(line: StyledLine, width: int, *, indent: int = 0) -> list[StyledLine]:
    """Wrap a line, with the later lines indented; it is broken at blanks if there are any."""
    return line_wrap.wrapped(line, width, indent=indent, measure=get_cwidth)


def say(text: str, **style: Any) -> None:
    """Print a text in a style, or without one if the person wants no colours."""
    typer.secho(text, color=False if "NO_COLOR" in os.environ else None, **style)


def put(lines: Iterable[StyledLine], *, output: Output | None = None) -> None:
    """Print lines: with colours at a terminal, as plain text elsewhere."""
    if output is None and (not sys.stdout.isatty() or "NO_COLOR" in os.environ):
        for line in lines:
            typer.echo(_plain_text(line))
        return
    parts = [part for line in lines for part in (*line, ("", "\n"))]
    print_formatted_text(FormattedText(parts), style=STYLE, output=output, end="")


def digest_of(lines: Iterable[StyledLine]) -> str:
    """The SHA-256 of lines as they are read, without their colours."""
    return hashlib.sha256("\n".join(map(_plain_text, lines)).encode()).hexdigest()


def _plain_text(line: StyledLine) -> str:
    return "".join(text for _, text in line).rstrip()


def columns() -> int:
    """The width to use: that of the terminal, but not wider than is easy to read."""
    return min(shutil.get_terminal_size().columns, WIDEST)


def _action_lines(question: Question, form: Approval, width: int) -> list[StyledLine]:
    """The frozen action in full: while it is pending, this and nothing else is what runs."""
    action, edited = form.action, edited_arguments(question)
    lines: list[StyledLine] = [[("class:strong", _action_heading(question))]]
    if question.outcome is None and form.risk != "medium":
        lines += wrapped([("class:strong", str(risk_text(form)))], width)
    told: list[StyledLine] = [[("class:strong", shown(action.tool))]]
    arguments = (
        value_lines(reading_order(action.arguments))
        if action.arguments
        else [[("class:soft", gettext("without arguments"))]]
    )
    told += [[("", "  "), *line] for line in arguments]
    if question.outcome is None and (names := ", ".join(shown(part.key) for part in parts_of(form))):
        told.append([("class:soft", gettext("You may change: {names}").format(names=names))])
    lines += _with_bar(told, width, bar=_ACTION_BAR, style="class:action")
    if edited is not None and (changes := difference_lines(action.arguments, edited, width)):
        lines += [[], [("class:strong", gettext("What was changed before it was approved"))], *changes]
    return lines


def _action_heading(question: Question) -> str:
    if question.outcome is None:
        return gettext("If approved, exactly this runs")
    is_unchanged = edited_arguments(question) is None
    if question.decision and is_unchanged:
        return gettext("What was approved")
    return gettext("What was asked for")


def _heading(question: Question) -> StyledLine:
    is_approval = isinstance(question.form, Approval)
    what = gettext("{agent} asks for an approval") if is_approval else gettext("{agent} asks")
    before, _, after = what.partition("{agent}")
    told = " · ".join(filter(None, (age_words(question), end_words(question))))
    return [
        ("", before),
        ("class:name", shown(question.asker)),
        ("", after),
        ("class:soft", f" · {told}"),
    ]


def _names(question: Question) -> list[StyledLine]:
    """The recipients and the conversation: names that the agent chose."""
    told = []
    if question.audience:
        told.append(gettext("To {names}").format(names=", ".join(map(shown, question.audience))))
    if question.conversation:
        told.append(gettext("In the conversation {name}").format(name=shown(question.conversation)))
    return [[("class:soft", each)] for each in told]


def _brought_lines(context: QuestionContext, width: int) -> list[StyledLine]:
    """Who brought the reader in, and why."""
    found = None if context.reader is None else brought_text(context.events, context.reader.principals)
    if found is None:
        return []
    text, reason = found
    told: list[StyledLine] = [[("", line)] for line in shown_lines(reason or "")] if reason else []
    said = shown(text)
    return [
        *wrapped([("class:strong", f"{said}:" if reason else f"{said}.")], width),
        *_with_bar(told, width),
    ]


def _replacement_lines(question: Question, context: QuestionContext, width: int) -> list[StyledLine]:
    """What it replaces, why that was sent back, and what is different now."""
    viewer = "" if context.reader is None else context.reader.id
    found = replacement_text(question, context.replaced, viewer=viewer)
    if found is None:
        return []
    said = shown(found.sentence)
    lines = [[], *wrapped([("class:strong", f"{said}:" if found.reason else f"{said}.")], width)]
    if found.reason:
        lines += _with_bar([[("", line)] for line in shown_lines(found.reason)], width)
    if found.before is not None and found.after is not None:
        changes = difference_lines(found.before, found.after, width)
        told = gettext("What is different now") if changes else gettext("The action is the same as before.")
        lines += [[], [("class:strong", told)], *changes]
    return lines


def _standing(question: Question, width: int, context: QuestionContext) -> list[StyledLine]:
    """The facts about it: the kind of answer, and its status."""
    facts = [] if question.audience else [gettext("To anyone")]
    facts.append(gettext("An approval") if isinstance(question.form, Approval) else kind_words(question.form))
    if question.quorum > 1:
        text = gettext("{count} people must agree, {votes} voted")
        facts.append(text.format(count=question.quorum, votes=len(question.votes)))
    if question.attempts:
        count = question.attempts
        text = ngettext("{count} answer did not fit", "{count} answers did not fit", count)
        facts.append(text.format(count=count))
    facts.append(shown(question.id))
    lines = wrapped([("class:soft", " · ".join(facts))], width)
    viewer = "" if context.reader is None else context.reader.id
    if told := taken_text(question, datetime.now(UTC), viewer=viewer):
        said = gettext("You are on this.") if question.taken_by == viewer else f"{shown(told)}."
        lines += wrapped([("class:strong", said)], width)
    if told := orphan_text(question, datetime.now(UTC)):
        still = gettext("You can still answer it.")
        lines += wrapped([("class:strong", f"{shown(told)} {still}")], width)
    if question.replaced_by is not None:
        told = gettext("Another question was asked instead: {id}").format(id=shown(question.replaced_by))
        lines += wrapped([("class:strong", told)], width)
    for line in ruling_lines(question):
        lines += wrapped([("class:soft", line)], width)
    if question.outcome is not None:
        lines += wrapped([("class:strong", settled_words(question))], width)
    if question.report is not None:
        lines += _report_lines(question.report, width)
    return lines


def _report_lines(report: Report, width: int) -> list[StyledLine]:
    """What the agent says came of it, in its own words."""
    style = "class:good" if report.ok else "class:bad"
    told: list[StyledLine] = [[("", line)] for text in report_words(report) for line in shown_lines(text)]
    if report.details is not None:
        told += value_lines(report.details)
    return [
        [(style, report_title(ok=report.ok))],
        *_with_bar(told, width),
        *wrapped([("class:soft", report_source())], width),
    ]


def _votes(question: Question, events: Sequence[Event], width: int) -> Iterator[StyledLine]:
    """Who voted how, with the arguments they changed, and whether enough people can still agree."""
    form = question.form
    for vote in cast_votes(question, events):
        if vote.value is None:
            sent_back = vote.ballot == RETURNED_BALLOT
            what = gettext("{person} sent it back") if sent_back else gettext("{person} declined")
        else:
            what = gettext("{person} voted: {answer}").replace("{answer}", answer_words(form, vote.value))
        start, _, end = what.partition("{person}")
        yield from wrapped([("", start), ("class:strong", shown(vote.by)), ("", end)], width)
        if isinstance(form, Approval) and isinstance(vote.value, dict) and "arguments" in vote.value:
            before = form.action.arguments
            for line in difference_lines(before, vote.value["arguments"], width - 2):
                yield [("", "  "), *line]
    if told := still_needed(question):
        yield from wrapped([("class:strong", told)], width)
    if question.takes_votes and question.outcome is None and not can_still_agree(question, {}):
        told = gettext("These votes cannot lead to an agreement. Somebody has to change their vote.")
        yield from wrapped([("class:bad", told)], width)


def _table(value: dict[str, Json], depth: int) -> Iterator[StyledLine]:
    names = {name: shown(name) for name in value}
    width = min(max(get_cwidth(name) for name in names.values()), _LONGEST_NAME)
    for name, each in value.items():
        told = value_lines(each, depth + 1)
        label = names[name]
        if len(told) == 1 and not isinstance(each, (dict, list)) and get_cwidth(label) <= width:
            yield [("class:soft", label + " " * (width - get_cwidth(label) + 2)), *told[0]]
        else:
            yield [("class:soft", label)]
            yield from ([("", "  "), *line] for line in told)


def _option_lines(form: Choice | MultiChoice) -> Iterator[StyledLine]:
    for place, option in enumerate(form.options, 1):
        yield [("class:soft", f"{place:>2}  "), ("", shown(option.label))]
        if option.description:
            yield [("", "    "), ("class:soft", shown(option.description))]
        if told := recommended_text(option):
            yield [("", "    "), ("class:good", shown(told))]


def _text_block(text: str) -> list[StyledLine]:
    """A text of several lines; a diff is shown as such."""
    lines = shown_lines(text)
    is_difference = any(line.startswith("@@") for line in lines)
    styles = {"+": "class:good", "-": "class:bad", "@": "class:soft"}
    return [[(styles.get(line[:1], "") if is_difference else "", line)] for line in lines]


def _with_bar(
    lines: Sequence[StyledLine], width: int, *, bar: str = _BAR, style: str = "class:bar"
) -> list[StyledLine]:
    inner_width = width - len(bar)
    return [
        [(style, bar), *part] for line in lines for part in wrapped(line, inner_width, indent=_indent(line))
    ]


def _indent(line: StyledLine) -> int:
    """The indent of the later lines of a long one: below its text, not below its name."""
    first = "".join(text for style, text in line[:-1])
    return min(get_cwidth(first), _LONGEST_NAME + 2)
