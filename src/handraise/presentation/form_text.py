"""What we say of a form: what a person is asked to do, what an answer must be like, and what is missing."""

from __future__ import annotations

from typing import assert_never

from handraise.model.attachments import MAX_FILE_BYTES
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
from handraise.model.visible import visible_line
from handraise.presentation.file_text import size_text
from handraise.presentation.translation import gettext, ngettext


def kind_text(form: AnyForm) -> str:
    """What a person is asked to do."""
    match form:
        case Approval():
            return gettext("Approve or deny")
        case Choice():
            return gettext("Choose one of {count}").format(count=len(form.options))
        case MultiChoice():
            return gettext("Choose among {count}").format(count=len(form.options))
        case Confirm():
            return gettext("Yes or no")
        case Form():
            count = len(form.fields)
            return ngettext("{count} field", "{count} fields", count).format(count=count)
        case Open():
            return gettext("Write an answer")
        case File():
            return gettext("Upload a file")
        case _:
            assert_never(form)


def typed_hint(form: SimpleForm) -> str:
    """What an answer must be like if nobody can pick a day and it is typed."""
    match form:
        case Open(type="date"):
            return gettext("A date such as 2026-05-31")
        case Open(type="datetime"):
            return gettext("A date and time such as 2026-05-31T14:00+02:00")
        case _:
            return hint_of(form)


def hint_of(form: SimpleForm) -> str:
    """What an answer must be like, or nothing if its input says it all."""
    match form:
        case MultiChoice():
            return _count_hint(form)
        case Open(type="integer"):
            return _integer_hint(form)
        case Open(type="number"):
            return _number_hint(form)
        case Open(type="email"):
            return gettext("An e-mail address")
        case Open(type="uri"):
            return gettext("An address such as https://example.com")
        case Open(type="date" | "datetime"):
            return ""
        case Open():
            return _length_hint(form)
        case Choice() | Confirm():
            return ""
        case File():
            return _file_hint(form)
        case _:
            assert_never(form)


def pattern_hint(form: SimpleForm) -> str:
    """What a text must look like. The pattern is the agent's: not every place can separate it from our words."""
    if not isinstance(form, Open) or form.pattern is None:
        return ""
    return gettext("Must match {pattern}").format(pattern=visible_line(form.pattern))


def missing_text(form: SimpleForm) -> str:
    """What to do about a part that must not be empty."""
    match form:
        case MultiChoice(at_least=least, at_most=None) if least > 1:
            return gettext("choose at least {least}").format(least=least)
        case MultiChoice(at_most=None):
            return gettext("choose one or more")
        case MultiChoice(at_least=least, at_most=most) if least == most:
            return gettext("choose exactly {most}").format(most=most)
        case MultiChoice(at_least=least, at_most=most):
            return gettext("choose between {least} and {most}").format(least=least, most=most)
        case Choice(allow_other=True):
            return gettext("choose one of the options, or write your own answer")
        case Choice():
            return gettext("choose one of the options")
        case Confirm():
            return gettext("choose yes or no")
        case Open(type="text"):
            return gettext("write an answer first")
        case Open():
            return gettext("fill this in first")
        case File():
            return gettext("choose a file first")
        case _:
            assert_never(form)


def _file_hint(form: File) -> str:
    most = size_text(MAX_FILE_BYTES if form.max_bytes is None else form.max_bytes)
    if not form.accept:
        return gettext("At most {size}").format(size=most)
    types = visible_line(", ".join(_type_name(each) for each in form.accept))
    return gettext("{types}, at most {size}").format(types=types, size=most)


def _type_name(pattern: str) -> str:
    """A media type in the words that people have for it."""
    match pattern:
        case "image/*":
            return gettext("images")
        case "text/*":
            return gettext("texts")
        case "application/pdf":
            return "PDF"
        case _:
            return pattern


def _count_hint(form: MultiChoice) -> str:
    match form.at_least, form.at_most:
        case 0, None:
            return gettext("Choose as many as you like, or none")
        case 0, most:
            return gettext("Choose up to {most}, or none").format(most=most)
        case least, None if least > 1:
            return gettext("Choose at least {least}").format(least=least)
        case _, None:
            return gettext("Choose one or more")
        case least, most if least == most:
            return gettext("Choose exactly {most}").format(most=most)
        case least, most:
            return gettext("Choose between {least} and {most}").format(least=least, most=most)


def _integer_hint(form: Open) -> str:
    match form.minimum, form.maximum:
        case None, None:
            return gettext("A whole number")
        case least, None:
            return gettext("A whole number of at least {least}").format(least=least)
        case None, most:
            return gettext("A whole number of at most {most}").format(most=most)
        case least, most:
            return gettext("A whole number between {least} and {most}").format(least=least, most=most)


def _number_hint(form: Open) -> str:
    match form.minimum, form.maximum:
        case None, None:
            return gettext("A number")
        case least, None:
            return gettext("A number of at least {least}").format(least=least)
        case None, most:
            return gettext("A number of at most {most}").format(most=most)
        case least, most:
            return gettext("A number between {least} and {most}").format(least=least, most=most)


def _length_hint(form: Open) -> str:
    match (form.min_length if form.min_length > 1 else None), form.max_length:
        case None, None:
            return ""
        case least, None:
            return gettext("At least {least} characters").format(least=least)
        case None, most:
            return gettext("At most {most} characters").format(most=most)
        case least, most:
            return gettext("Between {least} and {most} characters").format(least=least, most=most)
