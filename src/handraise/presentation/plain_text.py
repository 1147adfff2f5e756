"""A question as plain text, with the possible replies. Invisible characters in an agent's text are shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from handraise.model.forms import Approval, Choice, Confirm, File, Form, MultiChoice, Open, Option
from handraise.model.json_values import canonical_json
from handraise.model.outcomes import Outcome, Status
from handraise.model.questions import Draft
from handraise.model.visible import visible, visible_line
from handraise.presentation.brief_text import (
    brief_lines,
    brief_title,
    option_text,
    preview_title,
    previews_of,
)
from handraise.presentation.translation import gettext


def plain_text(question: Draft) -> str:
    """The prompt, what the agent shows of its options, and below it the possible replies; `read_reply` understands exactly those."""
    return "\n".join((visible(question.prompt), *_previews(question), *reply_hints(question)))


def reply_hints(question: Draft) -> Iterator[str]:
    """The possible replies to a question, line by line."""
    match question.form:
        case Open():
            pass
        case File():
            yield gettext("It is answered with a file, on its page.")
        case Confirm():
            yield gettext("Reply with yes or no.")
        case Choice(options=options, allow_other=allow_other):
            yield from _numbered(options)
            if allow_other:
                yield gettext("Or reply with “other:” and your own answer.")
        case MultiChoice(options=options):
            yield from _numbered(options)
            yield gettext("Reply with the numbers, with commas between.")
        case Form(fields=fields):
            yield gettext("Reply with one line for each:")
            for entry in fields:
                what = entry.title or entry.description or "…"
                yield f"{visible_line(entry.name)}: {visible_line(what)}"
        case Approval(action=action, brief=brief):
            if brief is not None:
                yield f"{brief_title()}:"
                yield from (f"> {line}" for text in brief_lines(brief) for line in text.split("\n"))
            yield f"{visible_line(action.tool)} {visible_line(canonical_json(action.arguments))}"
            yield gettext("Reply with “approve”, or with “deny: ” and the reason.")
        case _:
            assert_never(question.form)


def too_late(outcome: Outcome) -> str:
    """Say that the question ended before a reply, without saying what others answered."""
    match outcome.status:
        case Status.ANSWERED:
            return gettext("That question has already been answered, so your reply was not used.")
        case Status.DECLINED:
            return gettext("That question has already been declined, so your reply was not used.")
        case Status.EXPIRED:
            return gettext("That question has expired, so your reply was not used.")
        case Status.WITHDRAWN:
            return gettext("That question was withdrawn, so your reply was not used.")
        case Status.RETURNED:
            return gettext("That question was sent back, so your reply was not used.")
        case Status.EXHAUSTED | Status.PENDING:
            return gettext("That question is closed, so your reply was not used.")
        case _:
            assert_never(outcome.status)


def _numbered(options: Sequence[Option]) -> Iterator[str]:
    for place, option in enumerate(options, 1):
        about = option_text(option)
        yield f"{place}. {visible_line(option.label)}" + (f": {visible_line(about)}" if about else "")


def _previews(question: Draft) -> Iterator[str]:
    for preview in previews_of(question.form):
        yield f"{preview_title(preview)}:"
        yield from (f"> {line}" for line in visible(preview.text).split("\n"))
