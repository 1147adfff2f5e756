"""What we say of a form: what a person is asked to do, what an answer must be like, and what is missing."""

from __future__ import annotations

from typing import assert_never

from handraise.model.forms import AnyForm, Approval, Choice, Confirm, Form, MultiChoice, Open, SimpleForm
from handraise.model.visible import visible_line


def kind_text(form: AnyForm) -> str:
    """What a person is asked to do."""
    match form:
        case Approval():
            return "Approve or deny"
        case Choice():
            count = len(form.options)
            return f"Choose one of {count}"
        case MultiChoice():
            count = len(form.options)
            return f"Choose among {count}"
        case Confirm():
            return "Yes or no"
        case Form():
            count = len(form.fields)
            return "1 field" if count == 1 else f"{count} fields"
        case Open():
            return "Write an answer"
        case _:
            assert_never(form)


def typed_hint(form: SimpleForm) -> str:
    """What an answer must be like where nobody can pick a day: it is typed."""
    match form:
        case Open(type="date"):
            return "A date such as 2026-05-31"
        case Open(type="datetime"):
            return "A date and time such as 2026-05-31T14:00+02:00"
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
            return "An e-mail address"
        case Open(type="uri"):
            return "An address such as https://example.com"
        case Open(type="date" | "datetime"):
            return ""
        case Open():
            return _length_hint(form)
        case Choice() | Confirm():
            return ""
        case _:
            assert_never(form)


def pattern_hint(form: SimpleForm) -> str:
    """What a text must look like. The pattern is the agent's: not every place can set it off from our words."""
    if not isinstance(form, Open) or form.pattern is None:
        return ""
    pattern = visible_line(form.pattern)
    return f"Must match {pattern}"


def missing_text(form: SimpleForm) -> str:
    """What to do about a part that must not be empty."""
    match form:
        case MultiChoice(at_least=least, at_most=None) if least > 1:
            return f"choose at least {least}"
        case MultiChoice(at_most=None):
            return "choose one or more"
        case MultiChoice(at_least=least, at_most=most) if least == most:
            return f"choose exactly {most}"
        case MultiChoice(at_least=least, at_most=most):
            return f"choose between {least} and {most}"
        case Choice(allow_other=True):
            return "choose one of the options, or write your own answer"
        case Choice():
            return "choose one of the options"
        case Confirm():
            return "choose yes or no"
        case Open(type="text"):
            return "write an answer first"
        case Open():
            return "fill this in first"
        case _:
            assert_never(form)


def _count_hint(form: MultiChoice) -> str:
    match form.at_least, form.at_most:
        case 0, None:
            return "Choose as many as you like, or none"
        case 0, most:
            return f"Choose up to {most}, or none"
        case least, None if least > 1:
            return f"Choose at least {least}"
        case _, None:
            return "Choose one or more"
        case least, most if least == most:
            return f"Choose exactly {most}"
        case least, most:
            return f"Choose between {least} and {most}"


def _integer_hint(form: Open) -> str:
    match form.minimum, form.maximum:
        case None, None:
            return "A whole number"
        case least, None:
            return f"A whole number of at least {least}"
        case None, most:
            return f"A whole number of at most {most}"
        case least, most:
            return f"A whole number between {least} and {most}"


def _number_hint(form: Open) -> str:
    match form.minimum, form.maximum:
        case None, None:
            return "A number"
        case least, None:
            return f"A number of at least {least}"
        case None, most:
            return f"A number of at most {most}"
        case least, most:
            return f"A number between {least} and {most}"


def _length_hint(form: Open) -> str:
    match (form.min_length if form.min_length > 1 else None), form.max_length:
        case None, None:
            return ""
        case least, None:
            return f"At least {least} characters"
        case None, most:
            return f"At most {most} characters"
        case least, most:
            return f"Between {least} and {most} characters"
