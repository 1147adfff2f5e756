"""The text of a question that a search reads: everything that its page shows, and nothing else.

The asker's `state`, its key and the digests are on no page, so no search finds them. An erased question is gone from
the store, and nothing of it is kept for searching.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from typing import assert_never

from handraise.model.forms import AnyForm, Approval, Choice, Confirm, Field, File, Form, MultiChoice, Open
from handraise.model.json_values import Json
from handraise.model.outcomes import Answered, Declined, Returned, Withdrawn
from handraise.model.questions import Question


def search_text(question: Question) -> str:
    """Everything that can be found in a question, as `normalized` makes it."""
    return normalized("\n".join(filter(None, _texts(question))))


def normalized(text: str) -> str:
    """A text as searches compare it: letters that mean the same become the same."""
    return text.casefold() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def _texts(question: Question) -> Iterator[str | None]:
    yield from (question.prompt, question.asker, question.conversation)
    yield from _values(question.context)
    yield from _form_texts(question.form)
    outcome = question.outcome
    yield getattr(outcome, "by", None)
    if question.report is not None:
        yield question.report.text
    match outcome:
        case Answered(value=value):
            yield from _answer_texts(question.form, value)
        case Declined(reason=reason) | Withdrawn(reason=reason) | Returned(reason=reason):
            yield reason
        case _:
            pass


def _form_texts(form: AnyForm) -> Iterator[str | None]:
    match form:
        case Choice() | MultiChoice():
            for option in form.options:
                yield from (option.label, option.description, option.reason, option.preview)
        case Form():
            yield from _field_texts(form.fields)
        case Approval():
            yield form.action.tool
            yield from _values(form.action.arguments)
            yield from _field_texts(form.editable)
            if form.brief is not None:
                yield from (form.brief.why, form.brief.affects, *form.brief.checked)
                yield from (each.label for each in form.brief.links)
        case Open() | Confirm() | File():
            pass
        case _:
            assert_never(form)


def _field_texts(fields: Sequence[Field]) -> Iterator[str | None]:
    for field in fields:
        yield from (field.title or field.name, field.description)
        yield from _values(field.default)
        yield from _form_texts(field.form)


def _answer_texts(form: AnyForm, value: Json) -> Iterator[str]:
    """What a person wrote. Chosen options are searched by their labels already."""
    match form, value:
        case (Choice() | MultiChoice() | Confirm(), _):
            written = value if isinstance(value, (list, tuple)) else [value]
            yield from (str(each["other"]) for each in written if isinstance(each, dict) and "other" in each)
        case Form(), dict():
            forms = {field.name: field.form for field in form.fields}
            for name, one in value.items():
                if name in forms:
                    yield from _answer_texts(forms[name], one)
        case Approval(), dict():
            yield str(value.get("reason") or "")
            yield from _values(value.get("arguments"))
        case _:
            yield from _values(value)


def _values(value: Json) -> Iterator[str]:
    """The names, texts and numbers in a value; yes and no are too frequent to search for."""
    match value:
        case dict():
            for name, one in value.items():
                yield name
                yield from _values(one)
        case list() | tuple():
            for one in value:
                yield from _values(one)
        case None | bool():
            return
        case _:
            yield str(value)
