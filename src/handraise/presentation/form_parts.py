"""A form in parts, for every place in which people fill it in, and the answer from what they entered.

A place shows each part in its own way and turns what comes back into `Entered`. Parts have our names and options have
numbers, so that nothing an agent wrote is part of a protocol. The desk checks whether an answer fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from handraise.model.errors import InvalidAnswer
from handraise.model.forms import (
    AnyForm,
    Approval,
    Choice,
    Confirm,
    Field,
    File,
    Form,
    MultiChoice,
    Open,
    Option,
    SimpleForm,
)
from handraise.model.json_values import Json
from handraise.model.problems import Problem
from handraise.model.validation import check_answer
from handraise.model.visible import visible
from handraise.presentation.form_text import missing_text
from handraise.presentation.translation import gettext

YES, NO = 0, 1
"""The places of the two answers to a yes-or-no question."""
_SHORT = 120
"""A text whose longest length is at most this gets an input of one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One thing to fill in: `path` is where it is in the answer, and `key` the name of its field or argument."""

    form: SimpleForm
    place: int = 0
    path: str = ""
    key: str = ""
    title: str | None = None
    description: str | None = None
    required: bool = True
    default: Json = None
    is_argument: bool = False
    """Whether it is an argument of an action: if unchanged, it is not part of the answer."""

    @property
    def name(self) -> str:
        """Its name in a protocol."""
        return f"f{self.place}"

    @property
    def number(self) -> int:
        """Its name for people."""
        return self.place + 1

    @property
    def label(self) -> str:
        """The text above it."""
        return self.title or gettext("Your answer")

    @property
    def may_be_empty(self) -> bool:
        """Whether its own input may stay empty; there is another input for your own text."""
        form = self.form
        match form:
            case Choice():
                return form.allow_other or not self.required
            case MultiChoice():
                return form.allow_other or form.at_least == 0 or not self.required
            case Open():
                return not self.required or (form.type == "text" and form.min_length == 0)
            case Confirm() | File():
                return not self.required
            case _:
                assert_never(form)

    @property
    def has_other(self) -> bool:
        """Whether there is an input for your own text."""
        return isinstance(self.form, Choice | MultiChoice) and self.form.allow_other

    @property
    def other_label(self) -> str:
        """The text above the input for your own text."""
        return gettext("Or your own answer")

    @property
    def has_lines(self) -> bool:
        """Whether there should be room for several lines."""
        form = self.form
        if not isinstance(form, Open) or form.type != "text":
            return False
        return form.max_length is None or form.max_length > _SHORT

    @property
    def options(self) -> Sequence[Option]:
        """The options to pick from."""
        match self.form:
            case Choice(options=options) | MultiChoice(options=options):
                return options
            case Confirm():
                return (Option(id="yes", label=gettext("Yes")), Option(id="no", label=gettext("No")))
            case _:
                return ()


@dataclass(frozen=True, slots=True)
class Entered:
    """The content of a part: the numbers of the picked options, a text, and your own text.

    `other` is None if the person does not want to write one, and empty if they have not written it yet.
    """

    picked: frozenset[int] = frozenset()
    text: str = field(default="", repr=False)
    other: str | None = field(default=None, repr=False)
    file: Json = field(default=None, repr=False)
    """The description of an uploaded file."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read: the value for the desk, or the problems that can be found without the desk."""

    value: Json = field(repr=False)
    problems: tuple[Problem, ...] = ()

    def checked(self) -> Json:
        """The value; raises `InvalidAnswer` if there are problems."""
        if self.problems:
            raise InvalidAnswer(self.problems)
        return self.value


def parts_of(form: AnyForm) -> tuple[Part, ...]:
    """The parts to fill in; for an approval, the arguments that can be changed.

    An argument with invisible characters cannot be changed.
    """
    match form:
        case Form():
            return tuple(_part(place, each, each.name) for place, each in enumerate(form.fields))
        case Approval():
            return tuple(
                _part(place, each, f"arguments.{each.name}", is_argument=True)
                for place, each in enumerate(form.edits)
                if is_seen(each.default)
            )
        case _:
            return (Part(form=form),)


def initial(part: Part) -> Entered:
    """The first content of a part: its default, unless that does not fit or is partly invisible."""
    form, value = part.form, part.default
    if value is None or not is_seen(value) or isinstance(form, File):
        return Entered()
    if isinstance(form, Open):
        return Entered() if isinstance(value, bool) else Entered(text=unix_lines(str(value)))
    try:
        canonical = check_answer(form, value)
    except InvalidAnswer:
        return Entered()
    if isinstance(form, Confirm):
        return Entered(frozenset({YES if canonical else NO}))
    places = {option.id: place for place, option in enumerate(form.options)}
    chosen = canonical if isinstance(canonical, list) else [canonical]
    own = [each["other"] for each in chosen if isinstance(each, dict)]
    return Entered(
        frozenset(places[each] for each in chosen if isinstance(each, str)),
        other=", ".join(own) if own else None,
    )


def read_parts(entries: Iterable[tuple[Part, Entered]]) -> Reading:
    """The answer from what was entered, by name for fields and arguments. Empty optional parts are left out."""
    values: dict[str, Json] = {}
    problems: list[Problem] = []
    parts = []
    for part, entered in entries:
        parts.append(part)
        if part.is_argument and entered == initial(part):
            continue
        value, problem = _read(part, entered)
        if part.is_argument and value is not None and _is_same(part, value):
            continue
        if problem is None and value is None and part.required:
            problem = missing_text(part.form)
        if problem is not None:
            problems.append(Problem(part.path, problem))
        elif value is not None:
            values[part.key] = value
    is_alone = [part.path for part in parts] == [""]
    return Reading(values.get("") if is_alone else values, tuple(problems))


def is_about(part: Part, problem: Problem) -> bool:
    """Whether a problem is about this part, or about something in it."""
    path = problem.path
    inside = (f"{part.path}[", f"{part.path}.") if part.path else ("[",)
    return path == part.path or path.startswith(inside)


def is_seen(value: Json) -> bool:
    """Whether a person who looks at this value in an input sees all of it."""
    match value:
        case str():
            plain = unix_lines(value).replace("\t", " ")
            return visible(plain) == plain
        case dict():
            return all(map(is_seen, value)) and all(map(is_seen, value.values()))
        case list() | tuple():
            return all(map(is_seen, value))
        case _:
            return True


def unix_lines(text: str) -> str:
    """A text as we store it: some programs end lines with two characters."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _part(place: int, entry: Field, path: str, *, is_argument: bool = False) -> Part:
    return Part(
        form=entry.form,
        place=place,
        path=path,
        key=entry.name,
        title=entry.title or entry.name,
        description=entry.description,
        required=entry.required,
        default=entry.default,
        is_argument=is_argument,
    )


def _is_same(part: Part, value: Json) -> bool:
    """Whether a value equals the first content of the part, perhaps written in another way."""
    try:
        return bool(check_answer(part.form, value) == check_answer(part.form, part.default))
    except InvalidAnswer:
        return False


def _read(part: Part, entered: Entered) -> tuple[Json, str | None]:
    """The value in a part, None if it is empty, or what is wrong with it."""
    form = part.form
    match form:
        case Open(type="text"):
            return _text(part, form, entered.text), None
        case Open():
            return entered.text.strip() or None, None
        case Confirm() | Choice() | MultiChoice():
            return _picked(part, entered)
        case File():
            return entered.file, None
        case _:
            assert_never(form)


def _text(part: Part, form: Open, text: str) -> str | None:
    if form.min_length > 0 and not text.strip():
        return None
    # An argument that is emptied is empty; a field that is optional is left out.
    return text if text or part.required or part.is_argument else None


def _picked(part: Part, entered: Entered) -> tuple[Json, str | None]:
    form, options = part.form, part.options
    if entered.picked - set(range(len(options))):
        return None, gettext("that is not one of the options")
    if isinstance(form, Confirm):
        return (
            (None, gettext("that is not one of the options"))
            if len(entered.picked) > 1
            else (_yes_or_no(entered), None)
        )
    chosen: list[Json] = [options[place].id for place in sorted(entered.picked)]
    own = entered.other.strip() if part.has_other and entered.other is not None else None
    if own == "":
        return None, gettext("write what the other answer is")
    if own is not None:
        chosen.append({"other": own})
    if isinstance(form, MultiChoice):
        is_empty = not chosen and (form.at_least > 0 or not part.required)
        return (None if is_empty else chosen), None
    if len(chosen) > 1:
        if own:
            return None, gettext("choose one, or write your own answer, but not both")
        return None, gettext("choose only one")
    return (chosen[0] if chosen else None), None


def _yes_or_no(entered: Entered) -> bool | None:
    return None if not entered.picked else YES in entered.picked
