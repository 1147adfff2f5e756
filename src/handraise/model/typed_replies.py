"""What a typed reply means. A reply that is not clearly an answer does not count as one: it never guesses."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from handraise.model.errors import InvalidAnswer
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
from handraise.model.questions import Draft, Question
from handraise.model.sharing_rules import may_be_several
from handraise.model.validation import check_answer, fold

_YES = frozenset({"yes", "y", "yes please", "yep", "yeah", "ok", "okay", "sure", "true"}) | {"ja", "ja bitte"}
_NO = frozenset({"no", "n", "no thanks", "nope", "nah", "false"}) | {"nein", "nein danke", "nein, danke"}
_APPROVE = frozenset({"approve", "approved", "yes", "y"}) | {"genehmigen", "genehmigt", "ja"}
_DENY = frozenset({"deny", "denied", "reject", "rejected", "no", "n"}) | {"ablehnen", "abgelehnt", "nein"}
_NONE = frozenset({"none", "keine"})
_OTHER = re.compile(r"\s*(?:other|andere)\s*:(.+)", re.DOTALL | re.IGNORECASE)
_SEND_BACK = re.compile(r"\s*(?:send back|zurückgeben|zurückschicken)\s*:(.*)", re.DOTALL | re.IGNORECASE)
_NOT_FOR_ME = frozenset({"not for me", "nichts für mich", "nicht für mich"})
"""English and German words count for everybody, whatever their language is."""


@dataclass(frozen=True, slots=True)
class Understood:
    """The reply is an answer; `value` is canonical and fits the question."""

    value: Json = field(repr=False)


@dataclass(frozen=True, slots=True)
class NotAnAnswer:
    """The reply is not an answer to this question; `reason` says why, to the person who wrote it."""

    reason: str


Reply: TypeAlias = Understood | NotAnAnswer
"""The meaning of a typed text."""


@dataclass(frozen=True, slots=True)
class SendsBack:
    """The reply sends the question back; `reason` says what to change."""

    reason: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class SetsAside:
    """The reply says that the question is not for this person."""


def read_deed(question: Question, text: str) -> SendsBack | SetsAside | None:
    """What a typed text does instead of answering; None if it is an answer, or nothing that can be done.

    The name of an option is always an answer. If any text is an answer, the words that every message names are not.
    """
    sends_back = _SEND_BACK.fullmatch(text)
    sets_aside = _word(text) in _NOT_FOR_ME and may_be_several(question)
    if not sends_back and not sets_aside:
        return None
    if not accepts_any_text(question.form) and isinstance(read_reply(question, text), Understood):
        return None
    return SendsBack(sends_back[1].strip()) if sends_back else SetsAside()


def accepts_any_text(form: AnyForm) -> bool:
    """Whether anything that somebody says would be an answer."""
    if isinstance(form, Form):
        return len(form.fields) == 1 and accepts_any_text(form.fields[0].form)
    return isinstance(form, Open) and form.type == "text"


def read_reply(question: Draft, text: str) -> Reply:
    """What `text`, typed by a person, means as an answer to `question`."""
    value = _read(question.form, text)
    if isinstance(value, NotAnAnswer):
        return value
    try:
        return Understood(check_answer(question.form, value))
    except InvalidAnswer as error:
        return NotAnAnswer("; ".join(map(str, error.problems)))


def _read(form: AnyForm, text: str) -> Json | NotAnAnswer:
    match form:
        case Form():
            return _read_form(form, text)
        case Approval():
            return _read_approval(text)
        case _:
            return _read_simple(form, text)


def _read_simple(form: SimpleForm, text: str) -> Json | NotAnAnswer:
    match form:
        case Choice():
            return _read_option(form, text)
        case MultiChoice():
            return _read_options(form, text)
        case Open():
            return text if form.type == "text" else text.strip()
        case Confirm():
            return _read_yes_or_no(text)
        case File():
            return NotAnAnswer("a file cannot be typed: upload it on the page of the question")
        case _:
            assert_never(form)


def _read_option(form: Choice | MultiChoice, text: str) -> Json | NotAnAnswer:
    """A label, an id, or the number of an option. A reply that could mean two options means none."""
    name = text.strip()
    number = re.fullmatch(r"(#?)([0-9]{1,3})[.)]?", name)
    place = int(number[2]) if number else 0
    # After a # it is the number of an option. Without the # it may also be the option's name.
    names = {name, number[2]} if number and not number[1] else {name}
    folded = {fold(each) for each in names}
    meant = {
        at: option
        for at, option in enumerate(form.options, 1)
        if at == place or fold(option.label) in folded or option.id in names
    }
    if len(meant) == 1:
        return next(iter(meant.values())).id
    if meant:
        ways = ", ".join(f"#{at} (“{option.label}”)" for at, option in meant.items())
        return NotAnAnswer(f"{name} could mean two options; reply with one of: {ways}")
    if number:
        return NotAnAnswer(f"there is no option {place}; choose from 1 to {len(form.options)}")
    if form.allow_other and (other := _OTHER.fullmatch(text)):
        return {"other": other[1].strip()}
    if form.allow_other:
        return NotAnAnswer(
            'reply with the number or the name of an option, or write "other:" and your own answer'
        )
    return NotAnAnswer("reply with the number or the name of an option")


def _read_options(form: MultiChoice, text: str) -> Json | NotAnAnswer:
    """A list separated by commas. If one part is not an option, the whole reply is not an answer."""
    whole = _read_option(form, text)
    if not isinstance(whole, NotAnAnswer):
        return [whole]
    if form.at_least == 0 and fold(text) in _NONE:
        return []
    chosen = []
    for part in filter(str.strip, text.split(",")):
        one = _read_option(form, part)
        if isinstance(one, NotAnAnswer):
            return one
        chosen.append(one)
    return chosen or NotAnAnswer("reply with the numbers or names of your options, with commas between")


def _read_yes_or_no(text: str) -> bool | NotAnAnswer:
    word = _word(text)
    if word in _YES:
        return True
    if word in _NO:
        return False
    return NotAnAnswer("reply with yes or no, and nothing else")


def _read_approval(text: str) -> Json | NotAnAnswer:
    """Only the word alone decides; a denial may have a reason after a colon."""
    word, colon, reason = text.partition(":")
    if _word(text) in _APPROVE:
        return {"decision": "approve"}
    if _word(word) in _DENY and (not colon or reason.strip()):
        return {"decision": "deny", "reason": reason.strip() or None}
    return NotAnAnswer('reply with "approve" or "deny" and nothing else; "deny: because …" gives a reason')


def _read_form(form: Form, text: str) -> Json | NotAnAnswer:
    """One `name: value` a line; a form of one field takes the bare value."""
    if len(form.fields) == 1:
        only = form.fields[0]
        value = _read_simple(only.form, text)
        return value if isinstance(value, NotAnAnswer) else {only.name: value}
    values: dict[str, Json] = {}
    for line in filter(str.strip, text.splitlines()):
        name, colon, rest = line.partition(":")
        meant = [
            entry
            for entry in form.fields
            if fold(name) in (fold(entry.name), fold(entry.title or entry.name))
        ]
        if not colon or not meant:
            return _one_line_each(form)
        entry = meant[0]
        if len(meant) > 1 or entry.name in values:
            return NotAnAnswer(f"{name.strip()}: say once, and plainly, which field this is for")
        value = _read_simple(entry.form, rest.strip())
        if isinstance(value, NotAnAnswer):
            return NotAnAnswer(f"{entry.name}: {value.reason}")
        values[entry.name] = value
    return values or _one_line_each(form)


def _one_line_each(form: Form) -> NotAnAnswer:
    names = ", ".join(entry.name for entry in form.fields)
    return NotAnAnswer(f"reply with one line for each of {names}, such as “{form.fields[0].name}: …”")


def _word(text: str) -> str:
    return fold(text).rstrip(".! ")
