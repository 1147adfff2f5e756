"""Questions, answers and events in words, for people. Invisible characters in foreign text are made visible."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pydantic
import typer
from prompt_toolkit.utils import get_cwidth

from handraise.model import durations
from handraise.model.events import Event
from handraise.model.forms import AnyForm, Approval, Choice, MultiChoice, Open
from handraise.model.json_values import Json
from handraise.model.outcomes import Answered
from handraise.model.questions import Question
from handraise.model.visible import visible, visible_line
from handraise.presentation.answer_text import answer_parts
from handraise.presentation.event_text import event_text
from handraise.presentation.form_text import hint_of, kind_text, typed_hint
from handraise.presentation.markdown import one_line
from handraise.presentation.markdown_text import text_lines
from handraise.presentation.names import listed, recipient_name
from handraise.presentation.outcome_text import outcome_details, outcome_text
from handraise.presentation.translation import current_locale, gettext, gettext_noop

_NAMES = (
    (gettext_noop("{count} d"), 86_400),
    (gettext_noop("{count} h"), 3_600),
    (gettext_noop("{count} min"), 60),
    (gettext_noop("{count} s"), 1),
)
_FEW = 10
_UNSURE = str.maketrans(dict.fromkeys((0x200D, *range(0xFE00, 0xFE10))))
"""Characters that join or vary emoji: terminals disagree on their width, which would shift the text after them."""


def shown(text: str) -> str:
    """A text from elsewhere on one line of a terminal."""
    return visible_line(text).translate(_UNSURE)


def shown_lines(text: str) -> list[str]:
    """A text from elsewhere, line by line."""
    return visible(text).translate(_UNSURE).split("\n")


def shown_markdown(text: str, width: int) -> list[list[tuple[str, str]]]:
    """An agent's text with its Markdown, as lines of at most this width."""
    return [
        [
            (" ".join(f"class:{name}" for name in style.split()), part.translate(_UNSURE))
            for style, part in line
        ]
        for line in text_lines(text, width, measure=get_cwidth)
    ]


def shown_prompt(text: str) -> str:
    """An agent's text on one line, without the marks of its Markdown."""
    return one_line(text).translate(_UNSURE)


def span_of(text: str) -> timedelta:
    """A span as a person writes it: 90, 90s, 15m, 2h, 3d, 1w or 1h30m."""
    try:
        span = durations.span_of(text)
    except (ValueError, OverflowError):
        span = timedelta(0)
    if not span:
        raise typer.BadParameter(f"{text!r} is not a span such as 90s, 15m, 2h, 3d or 1w.")
    return span


def future_of(text: str) -> datetime:
    """A time in the future as a person writes it: a span from now, or a date and time, in local time without an offset."""
    now = datetime.now(UTC)
    try:
        at = datetime.fromisoformat(text.strip()).astimezone(UTC)
    except (ValueError, OverflowError):
        try:
            at = now + span_of(text)
        except (typer.BadParameter, OverflowError):
            raise typer.BadParameter(
                f"{text!r} is not a span such as 2h, or a time such as 2026-11-20T09:00."
            ) from None
    if at <= now:
        raise typer.BadParameter(f"{text!r} is in the past.")
    return at


def names_words(people: Sequence[str]) -> str:
    """People and groups in a sentence."""
    return shown(listed([recipient_name(each) for each in people]))


def span_words(span: timedelta) -> str:
    """A span as people say it: in its largest unit, and also in the next one if it is short."""
    seconds = int(abs(span.total_seconds()))
    for (name, size), (smaller, part) in pairwise(_NAMES):
        if seconds >= size:
            count, rest = divmod(seconds, size)
            text = gettext(name).format(count=count)
            if count < _FEW and rest >= part > 1:
                return f"{text} {gettext(smaller).format(count=rest // part)}"
            return text
    return gettext("{count} s").format(count=seconds)


def age_words(question: Question) -> str:
    """How long ago it was asked."""
    age = datetime.now(UTC) - question.asked_at
    return ago_words(age)


def ago_words(age: timedelta) -> str:
    """How long ago something was."""
    if age < timedelta(seconds=5):
        return gettext("just now")
    return gettext("{span} ago").format(span=span_words(age))


def moment_words(at: datetime) -> str:
    """A time in the time zone of the terminal; without its day if that is today."""
    local = at.astimezone()
    return (
        f"{local:%H:%M}" if local.date() == datetime.now().astimezone().date() else f"{local:%Y-%m-%d %H:%M}"
    )


def end_words(question: Question) -> str:
    """When it expires or takes its default; empty if it never does."""
    if question.expires_at is None or question.outcome is not None:
        return ""
    left = question.expires_at - datetime.now(UTC)
    is_over, has_default = left <= timedelta(0), question.steps[-1].do == "default"
    if is_over:
        return gettext("takes its default now") if has_default else gettext("expires now")
    text = gettext("takes its default in {span}") if has_default else gettext("expires in {span}")
    return text.format(span=span_words(left))


def kind_words(form: AnyForm) -> str:
    """What kind of answer is wanted."""
    match form:
        case Approval():
            tool = shown(form.action.tool)
            return gettext("Approve {tool}").format(tool=tool)
        case Choice(allow_other=True):
            return _or_own(kind_text(form))
        case MultiChoice(allow_other=True):
            return _or_own(hint_of(form))
        case MultiChoice():
            return hint_of(form)
        case Open() if form.type != "text":
            return typed_hint(form)
        case _:
            return kind_text(form)


def _or_own(kind: str) -> str:
    return gettext("{kind}, or answer in your own words").format(kind=kind)


def answer_words(form: AnyForm, value: Json) -> str:
    """An answer on one line."""
    return "; ".join(shown(str(part)) for part in answer_parts(form, value))


def json_words(value: Json) -> str:
    """A value on one line: a text as it is if it cannot be mistaken for anything else, else as JSON."""
    if isinstance(value, str) and _is_plainly_text(shown(value)):
        return shown(value)
    return shown(json.dumps(value, ensure_ascii=False))


def json_line(record: pydantic.BaseModel) -> str:
    """A record as one line of JSON in plain ASCII, which is harmless at a terminal too."""
    return json.dumps(record.model_dump(mode="json", exclude_none=True))


def outcome_words(question: Question) -> str:
    """How a question ended, as a sentence without its full stop."""
    sentence = shown(str(outcome_text(question)))
    if current_locale().language == "en":  # in others it may begin with a noun
        sentence = sentence[0].lower() + sentence[1:]
    details = "; ".join(shown(str(part)) for part in outcome_details(question))
    if not details:
        return sentence
    is_reason = isinstance(question.form, Approval) or not isinstance(question.outcome, Answered)
    return f"{sentence} ({details})" if is_reason else f"{sentence}: {details}"


def settled_words(question: Question) -> str:
    """How a question ended, as a whole sentence."""
    return gettext("Settled: {sentence}.").format(sentence=outcome_words(question))


def event_words(event: Event, form: AnyForm | None, asker: str | None = None) -> str:
    """What happened, as a sentence without its full stop, and what was written; values need the question's form."""
    told = event_text(event, form, asker=asker)
    details = "; ".join(map(shown, told.quoted))
    return f"{shown(told.text)}: {details}" if details else shown(told.text)


def _is_plainly_text(text: str) -> bool:
    if not text or text != text.strip() or text.startswith(('"', "{", "[")):
        return False
    try:
        json.loads(text)
    except ValueError:
        return True
    return False
