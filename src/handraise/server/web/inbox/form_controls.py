"""Forms on a page: the controls that any form is shown with, and the answer in what a browser sends back.

A page has one control for each thing to answer. Names in the HTML are ours (`v`, `v0`, …) and options go by
their place, so that nothing an agent wrote is part of the protocol. What the browser sends is read back into
the value that a desk takes; whether it fits is the desk's to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias, assert_never

from handraise.model.errors import InvalidAnswer
from handraise.model.forms import AnyForm, Approval, Choice, Confirm, Form, MultiChoice, Open, SimpleForm
from handraise.model.json_values import Json
from handraise.model.problems import Problem
from handraise.model.validation import check_answer
from handraise.model.visible import visible, visible_line

Submitted: TypeAlias = Mapping[str, Sequence[str]]
"""What a browser sent: every value under its name."""

OTHER = "other"
"""The value of the tick for a text of one's own; places of options are numbers."""
NOTHING = "none"
"""The value of the tick that leaves an optional choice open."""
YES, NO = "yes", "no"
ZONES = tuple(
    f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    for minutes in sorted(
        {*range(-720, 841, 60), -570, -210, -150, 210, 270, 330, 345, 390, 525, 570, 630, 765}
    )
)
"""The offsets from UTC that are in use somewhere."""

_SHORT = 120
"""A text that may be no longer than this gets one line to be written on."""

ControlKind = Literal["one", "several", "line", "lines", "date", "datetime"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Something to tick. `value` is what the browser sends for it."""

    value: str
    label: str
    description: str | None = None
    ticked: bool = False
    ours: bool = False
    """Whether the label is our word, not the agent's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """One thing to answer, as a page shows it. Everything in it may be shown as it is.

    `label` and `description` are the agent's words and `hint` is ours. `required` is for the browser to insist on,
    `optional` is what a person is told. `text` is what stands in it, `other` in the line for a text of one's own,
    or None where there is no such line.
    """

    kind: ControlKind
    name: str
    label: str | None
    description: str | None
    required: bool
    optional: bool
    hint: str
    ticks: tuple[Tick, ...] = ()
    text: str = ""
    other: str | None = None
    zone: str = "+00:00"
    keyboard: str | None = None
    problems: tuple[str, ...] = ()
    suggestion: str | None = None
    """What the agent would have put in, where not all of it can be seen."""

    @property
    def rows(self) -> int:
        """How many lines to show of a text: all of it, unless it is very long."""
        return max(4, min(24, 1 + sum(1 + len(line) // 70 for line in self.text.split("\n"))))


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read: the value for the desk, or the problems that nobody needs a desk for."""

    value: Json = field(repr=False)
    problems: tuple[Problem, ...] = ()


def controls_of(
    form: AnyForm, *, typed: Submitted | None = None, problems: Sequence[Problem] = ()
) -> tuple[Control, ...]:
    """The controls of a form; with what was typed before still in them, each with its own problems.

    An approval's are for the arguments that may be changed.
    """
    return tuple(
        _control(part, part.initial if typed is None else _sent(part, typed), problems)
        for part in _parts(form)
    )


def general_problems(form: AnyForm, problems: Sequence[Problem]) -> tuple[str, ...]:
    """The problems that belong to none of the controls."""
    paths = [part.path for part in _parts(form)]
    return tuple(
        visible(str(each)) for each in problems if not any(_is_about(path, each.path) for path in paths)
    )


def frozen_arguments(form: Approval) -> frozenset[str]:
    """The arguments that may be changed, but not on a page: not all of their characters can be seen."""
    shown = {part.path for part in _parts(form)}
    return frozenset(each.name for each in form.editable if f"arguments.{each.name}" not in shown)


def read_answer(form: AnyForm, submitted: Submitted) -> Reading:
    """The answer in what a browser sent. Optional fields left blank are left out."""
    match form:
        case Approval():
            return _read_approval(form, submitted)
        case Form():
            return _read_form(form, submitted)
        case _:
            [part] = _parts(form)
            value, problem = _read(part, _sent(part, submitted))
            if problem is None and value is None:
                problem = Problem("", _missing(part.form))
            return Reading(value, () if problem is None else (problem,))


@dataclass(frozen=True, slots=True)
class _State:
    """What stands in a control."""

    ticked: frozenset[str] = frozenset()
    text: str = ""
    other: str = ""
    zone: str = "+00:00"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One thing to answer: where it is in the HTML (`name`) and in the answer (`path`)."""

    name: str
    path: str
    form: SimpleForm
    title: str | None = None
    description: str | None = None
    required: bool = True
    default: Json = None
    edits: bool = False
    """Whether it is an argument that may be changed: folded away, where a browser could not insist on it."""

    @property
    def initial(self) -> _State:
        """What stands in it at first; a suggestion with something unseen in it does not."""
        return _state_of(self.form, self.default) if _is_seen(self.default) else _State()


def _parts(form: AnyForm) -> tuple[_Part, ...]:
    match form:
        case Form():
            return tuple(
                _Part(
                    name=f"v{place}",
                    path=entry.name,
                    form=entry.form,
                    title=entry.title or entry.name,
                    description=entry.description,
                    required=entry.required,
                    default=entry.default,
                )
                for place, entry in enumerate(form.fields)
            )
        case Approval():
            return tuple(
                _Part(
                    name=f"v{place}",
                    path=f"arguments.{entry.name}",
                    form=entry.form,
                    title=entry.title or entry.name,
                    description=entry.description,
                    required=entry.required,
                    default=form.action.arguments.get(entry.name, entry.default),
                    edits=True,
                )
                for place, entry in enumerate(form.editable)
                if _is_seen(form.action.arguments.get(entry.name, entry.default))
            )
        case _:
            return (_Part(name="v", path="", form=form),)


def _control(part: _Part, state: _State, problems: Sequence[Problem]) -> Control:
    form = part.form
    text, zone = state.text, state.zone
    return Control(
        kind=_kind(form, text),
        name=part.name,
        label=None if part.title is None else visible_line(part.title),
        description=None if part.description is None else visible(part.description),
        required=part.required and not part.edits and not (isinstance(form, Open) and form.min_length == 0),
        optional=not part.required,
        hint=_hint(form),
        ticks=tuple(_ticks(part, state)),
        text=text,
        other=state.other if isinstance(form, (Choice, MultiChoice)) and form.allow_other else None,
        zone=zone,
        keyboard=_keyboard(form),
        problems=tuple(visible(each.message) for each in problems if _is_about(part.path, each.path)),
        suggestion=None if _is_seen(part.default) else visible(str(part.default)),
    )


def _kind(form: SimpleForm, text: str) -> ControlKind:
    match form:
        case Choice() | Confirm():
            return "one"
        case MultiChoice():
            return "several"
        case Open(type="text"):
            short = form.max_length is not None and form.max_length <= _SHORT
            return "line" if short and "\n" not in text else "lines"
        case Open(type="date"):
            return "date"
        case Open(type="datetime"):
            return "datetime"
        case Open():
            return "line"
        case _:
            assert_never(form)


def _ticks(part: _Part, state: _State) -> Iterator[Tick]:
    form = part.form
    match form:
        case Choice() | MultiChoice():
            for place, option in enumerate(form.options):
                yield Tick(
                    value=str(place),
                    label=visible_line(option.label),
                    description=None if option.description is None else visible(option.description),
                    ticked=str(place) in state.ticked,
                )
            if form.allow_other:
                yield Tick(value=OTHER, label="Other", ticked=OTHER in state.ticked, ours=True)
        case Confirm():
            yield Tick(value=YES, label="Yes", ticked=YES in state.ticked, ours=True)
            yield Tick(value=NO, label="No", ticked=NO in state.ticked, ours=True)
        case Open():
            return
        case _:
            assert_never(form)
    if not part.required and not isinstance(form, MultiChoice):
        yield Tick(value=NOTHING, label="Leave it open", ticked=not state.ticked, ours=True)


def _hint(form: SimpleForm) -> str:
    match form:
        case MultiChoice():
            return _how_many(form)
        case Open(type="integer" | "number"):
            what = "A whole number" if form.type == "integer" else "A number"
            return what + _between(form.minimum, form.maximum, "")
        case Open(type="email"):
            return "An e-mail address"
        case Open(type="uri"):
            return "An address such as https://example.com"
        case Open(type="date"):
            return ""
        case Open(type="datetime"):
            return "With its distance from UTC"
        case Open():
            least = form.min_length if form.min_length > 1 else None
            rules = _between(least, form.max_length, " characters").strip().capitalize()
            pattern = f"Must match {visible_line(form.pattern)}" if form.pattern else ""
            return ". ".join(filter(None, (rules, pattern)))
        case _:
            return ""


def _how_many(form: MultiChoice) -> str:
    match form.at_least, form.at_most:
        case 0, None:
            return "Choose as many as you like, or none"
        case 0, most:
            return f"Choose up to {most}, or none"
        case least, None:
            return f"Choose at least {least}" if least > 1 else "Choose one or more"
        case least, most:
            return f"Choose exactly {most}" if least == most else f"Choose between {least} and {most}"


def _between(least: float | None, most: float | None, unit: str) -> str:
    if least is not None and most is not None:
        return f" between {least} and {most}{unit}"
    if least is not None:
        return f" of at least {least}{unit}" if not unit else f" at least {least}{unit}"
    if most is not None:
        return f" of at most {most}{unit}" if not unit else f" at most {most}{unit}"
    return ""


def _keyboard(form: SimpleForm) -> str | None:
    """What a phone's keyboard should be good for. Those for numbers have no minus sign."""
    match form:
        case Open(type="email"):
            return "email"
        case Open(type="uri"):
            return "url"
        case Open(type="integer", minimum=least) if least is not None and least >= 0:
            return "numeric"
        case Open(type="number", minimum=least) if least is not None and least >= 0:
            return "decimal"
        case _:
            return None


def _state_of(form: SimpleForm, value: Json) -> _State:
    """A value as it stands in a control; one that does not fit does not stand there."""
    if value is None:
        return _State()
    if isinstance(form, Open):
        text = str(value) if not isinstance(value, bool) else ""
        return _split_instant(text) if form.type == "datetime" else _State(text=_lines(text))
    try:
        canonical = check_answer(form, value)
    except InvalidAnswer:
        return _State()
    if isinstance(form, Confirm):
        return _State(ticked=frozenset({YES if canonical else NO}))
    places = {option.id: str(place) for place, option in enumerate(form.options)}
    chosen = canonical if isinstance(canonical, list) else [canonical]
    own = [each["other"] for each in chosen if isinstance(each, dict)]
    ticked = {places[each] for each in chosen if isinstance(each, str)}
    return _State(ticked=frozenset({*ticked, *([OTHER] if own else [])}), other=", ".join(own))


def _sent(part: _Part, submitted: Submitted) -> _State:
    """What stood in a control when the browser sent it."""
    values = submitted.get(part.name, ())
    if isinstance(part.form, Open):
        text = _lines(values[0]) if values else ""
        zone = next(iter(submitted.get(f"{part.name}.zone", ())), "+00:00")
        return _State(text=text, zone=zone if zone in ZONES else "+00:00")
    other = next(iter(submitted.get(f"{part.name}.other", ())), "")
    return _State(ticked=frozenset(values) - {NOTHING}, other=_lines(other))


def _read(part: _Part, state: _State) -> tuple[Json, Problem | None]:
    """The value in a control, None where it is blank, or what is wrong with it."""
    form = part.form
    match form:
        case Open():
            return _read_open(form, state), None
        case Confirm():
            return ({YES: True, NO: False}.get(next(iter(state.ticked), "")), None)
        case Choice() | MultiChoice():
            return _read_ticks(part, form, state)
        case _:
            assert_never(form)


def _read_open(form: Open, state: _State) -> str | None:
    if form.type == "text":
        return None if form.min_length > 0 and not state.text.strip() else state.text
    text = state.text.strip()
    if not text:
        return None
    if form.type == "datetime":
        try:
            if datetime.fromisoformat(text).tzinfo is None:
                return text + state.zone
        except ValueError:
            return text
    return text


def _read_ticks(part: _Part, form: Choice | MultiChoice, state: _State) -> tuple[Json, Problem | None]:
    ticked = [option.id for place, option in enumerate(form.options) if str(place) in state.ticked]
    strange = state.ticked - {str(place) for place in range(len(form.options))} - {OTHER}
    if strange:
        return None, Problem(part.path, "that is not one of the options")
    own = form.allow_other and bool(state.other.strip())
    if OTHER in state.ticked and not own:
        return None, Problem(part.path, "write what the other answer is")
    chosen: list[Json] = [*ticked, {"other": state.other.strip()}] if own else list(ticked)
    if isinstance(form, MultiChoice):
        nothing = not chosen and (form.at_least > 0 or not part.required)
        return (None if nothing else chosen), None
    if len(chosen) > 1:
        return None, Problem(part.path, "choose an option or write another answer, not both")
    return (chosen[0] if chosen else None), None


def _read_form(form: Form, submitted: Submitted) -> Reading:
    value: dict[str, Json] = {}
    problems = []
    for part in _parts(form):
        one, problem = _read(part, _sent(part, submitted))
        blank = isinstance(part.form, Open) and not part.required and one == ""
        if problem is not None:
            problems.append(problem)
        elif one is None and part.required:
            problems.append(Problem(part.path, _missing(part.form)))
        elif one is not None and not blank:
            value[part.path] = one
    return Reading(value, tuple(problems))


def _read_approval(form: Approval, submitted: Submitted) -> Reading:
    given = {name: values[0] for name, values in submitted.items() if values}
    decision = given.get("decision", "")
    value: dict[str, Json] = {"decision": decision}
    problems = []
    if decision not in ("approve", "deny"):
        problems.append(Problem("decision", "approve it or deny it"))
    if reason := _lines(given.get("reason", "")).strip():
        value["reason"] = reason
    if decision == "approve":
        value["digest"] = given.get("digest") or form.digest
        if (scope := given.get("scope", "once")) != "once":
            value["scope"] = scope
        edits: dict[str, Json] = {}
        for part in _parts(form):
            state = _sent(part, submitted)
            if state == part.initial or (isinstance(part.form, Open) and part.name not in submitted):
                continue
            one, problem = _read(part, state)
            if problem is not None:
                problems.append(problem)
            elif one is None and part.required:
                problems.append(Problem(part.path, _missing(part.form)))
            elif one is not None:
                edits[part.path.removeprefix("arguments.")] = one
        if edits:
            value["arguments"] = edits
    return Reading(value, tuple(problems))


def _missing(form: SimpleForm) -> str:
    match form:
        case MultiChoice():
            return _how_many(form).lower()
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


def _split_instant(text: str) -> _State:
    """An instant as the browser's control wants it, and its offset beside it."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return _State(text=text)
    if moment.tzinfo is None:
        return _State(text=text)
    zone = moment.isoformat()[-6:]
    if zone not in ZONES:
        return _State(text=text)
    precision = "milliseconds" if moment.microsecond else "auto"
    return _State(text=moment.replace(tzinfo=None).isoformat(timespec=precision), zone=zone)


def _lines(text: str) -> str:
    """A text as we keep it: browsers end lines in two characters."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _is_seen(value: Json) -> bool:
    """Whether a person who looks at this value in a control sees all of it."""
    match value:
        case str():
            plain = _lines(value).replace("\t", " ")
            return visible(plain) == plain
        case dict():
            return all(map(_is_seen, value.values()))
        case list() | tuple():
            return all(map(_is_seen, value))
        case _:
            return True


def _is_about(path: str, where: str) -> bool:
    return where == path or where.startswith(f"{path}[")
