"""Messages as plain lines, for media without markup: the agent's words are behind a bar, everything else is ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from handraise.channels.message_texts import (
    Row,
    action_of,
    beginning_text,
    brief_of,
    brought_of,
    ending_of,
    facts_of,
    heading_of,
    name_of,
    prompt_of,
    report_of,
    rows_of,
    shortened,
    why_now,
)
from handraise.model.forms import AnyForm, Approval, Choice, MultiChoice
from handraise.model.questions import Question
from handraise.ports.channel import Notice
from handraise.presentation.markdown import one_line
from handraise.presentation.markdown_chat import chat_text
from handraise.presentation.risk_text import risk_text
from handraise.presentation.thread_text import ThreadText, thread_text
from handraise.presentation.translation import gettext

_EDGE = "│ "
"""The mark before every line that is not ours."""
_LONGEST_PROMPT = 600
_LONGEST_THREAD = 600
_LONGEST_TOOL = 120
_LONGEST_MENTION = 80


def lines_of(notice: Notice, *, longest: int = _LONGEST_PROMPT) -> Iterator[str]:
    """What is asked, without its heading and its link. For an action it gives the name: it is decided on the page."""
    question = notice.question
    if why := why_now(notice.reason):
        yield why
    if brought := brought_of(notice):
        who, words = brought
        yield f"{who}:" if words else f"{who}."
        yield from theirs([words] if words else ())
    yield from _prompt(question, longest)
    yield from thread_lines(thread_text(question, notice.thread, room=_LONGEST_THREAD))
    yield from brief_said(question.form)
    if isinstance(question.form, Approval):
        tool, arguments = action_of(question.form)
        yield (
            gettext("What will be executed, with what is on the page:")
            if arguments
            else gettext("What will be executed:")
        )
        yield from theirs([shortened(tool, _LONGEST_TOOL)])
        yield str(risk_text(question.form))
    else:
        yield from choices_of(question)
    yield from facts_of(question)


def thread_lines(thread: ThreadText) -> Iterator[str]:
    """What people and the agent have written, and whose turn it is."""
    if thread.heading:
        yield thread.heading
    for each in thread.messages:
        yield f"{each.heading}:"
        yield from theirs([each.text])
    yield from filter(None, (thread.earlier, thread.waits))


def brief_said(form: AnyForm) -> Iterator[str]:
    """What the agent says about an action."""
    if brief := brief_of(form):
        yield brief.heading
        yield from theirs(brief.lines)
        if brief.more:
            yield brief.more


def choices_of(question: Question) -> Iterator[str]:
    """What there is to choose or to fill in."""
    rows, more = rows_of(question.form)
    numbered = isinstance(question.form, (Choice, MultiChoice))
    for place, row in enumerate(rows, 1):
        text = f"{row.name}: {row.text}" if row.text else row.name
        yield from theirs([f"{place}. {text}" if numbered else text])
    if more:
        yield more


def arguments_of(rows: Iterable[Row]) -> Iterator[str]:
    """The arguments of an action. A text of several lines has its own edge, so that no line passes for an argument."""
    for row in rows:
        text = row.text or ""
        if "\n" not in text and not row.verbatim:
            yield from theirs([f"{row.name}: {text}"])
        else:
            name = gettext("{name} (text)").format(name=row.name) if row.verbatim else row.name
            yield from theirs([f"{name}:"])
            yield from theirs(f"{_EDGE}{line}" for line in text.split("\n"))


def mention_of(notice: Notice) -> Iterator[str]:
    """One of several questions that are told together, with its link."""
    yield f"{heading_of(notice.question)}:"
    yield from theirs([one_line(notice.question.prompt, _LONGEST_MENTION)])
    yield notice.link


def ended_lines(question: Question) -> tuple[str, Sequence[str]]:
    """How a question ended, what was answered, and what had been asked."""
    ended, words = ending_of(question, "")
    asked = gettext("{agent} had asked:").format(agent=name_of(question.asker))
    return str(ended), [*theirs(words), *_report(question), asked, *_prompt(question, _LONGEST_PROMPT)]


def _report(question: Question) -> Iterator[str]:
    if report := report_of(question):
        says, words = report
        yield f"{says}:"
        yield from theirs(words)


def theirs(texts: Iterable[str]) -> Iterator[str]:
    """Lines that somebody else wrote."""
    for text in texts:
        yield from (f"{_EDGE}{line}" for line in text.split("\n"))


def fitting(lines: Iterable[str], room: int, size_of: Callable[[str], int] = len) -> str:
    """As many of the lines as there is room for, with a note if that is not all. A link is complete or left out."""
    rest = gettext("… The rest is on the page.")
    room -= size_of(rest) + 1
    taken: list[str] = []
    for line in lines:
        if size_of(line) >= room:
            cut = line if line.startswith(_EDGE) else ""
            while cut and size_of(f"{cut}…") >= room:
                cut = cut[: len(cut) * 3 // 4]
            return "\n".join((*taken, *([f"{cut}…"] if cut.strip(_EDGE) else ()), rest))
        room -= size_of(line) + 1
        taken.append(line)
    return "\n".join(taken)


def _prompt(question: Question, longest: int) -> Iterator[str]:
    prompt, more = prompt_of(question)
    text = chat_text(prompt)
    yield from theirs([shortened(text, longest)])
    if len(text) > longest:
        more = beginning_text(question)
    if more:
        yield more
