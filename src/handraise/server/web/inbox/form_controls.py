"""Forms on a page: the controls of every form, and the answer from what a browser sends back.

A page has one control for each thing to answer. Names in the HTML are ours (`v`, `v0`, …) and options have
numbers, so that nothing an agent wrote is part of the protocol. What the browser sends is read back into
the value that a desk takes; the desk checks whether it fits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias, assert_never

from markupsafe import Markup

from handraise.model.attachments import MAX_FILE_BYTES
from handraise.model.forms import (
    AnyForm,
    Approval,
    Choice,
    Confirm,
    File,
    MultiChoice,
    Open,
    Option,
    SimpleForm,
)
from handraise.model.json_values import Json
from handraise.model.problems import Problem
from handraise.model.visible import visible, visible_line
from handraise.presentation.brief_text import Preview, preview_title
from handraise.presentation.form_parts import (
    Entered,
    Part,
    Reading,
    initial,
    is_about,
    is_seen,
    parts_of,
    read_parts,
    unix_lines,
)
from handraise.presentation.form_text import hint_of, pattern_hint
from handraise.presentation.translation import gettext
from handraise.server.web.inbox.agent_text import formatted

Submitted: TypeAlias = Mapping[str, Sequence[str]]
"""What a browser sent: every value under its name."""

OTHER = "other"
"""The value of the tick for your own text; options have numbers."""
NOTHING = "none"
"""The value of the tick that leaves an optional choice open."""
_YES_OR_NO = ("yes", "no")
"""The values of those ticks, by their place."""
ZONES = tuple(
    f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    for minutes in sorted(
        {*range(-720, 841, 60), -570, -210, -150, 210, 270, 330, 345, 390, 525, 570, 630, 765}
    )
)
"""The offsets from UTC that are in use somewhere."""

_LONG_PREVIEW, _LONG_LINES = 1_500, 25
ControlKind = Literal["one", "several", "line", "lines", "date", "datetime", "file"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Something to tick. `value` is what the browser sends for it.

    `recommended` is our sentence that the agent recommends it, `reason` the agent's reason, and `preview` what the agent
    shows of it.
    """

    value: str
    label: str
    description: str | None = None
    recommended: str | None = None
    reason: str | None = None
    preview: Markup | None = None
    preview_title: str = ""
    is_long: bool = False
    """Whether the preview is folded away at first."""
    ticked: bool = False
    ours: bool = False
    """Whether the label is our word, not the agent's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """One thing to answer, as a page shows it. Everything in it may be shown as it is.

    `label` and `description` are the agent's words and `hint` is ours. `required` is for the browser to insist on,
    `optional` is what a person is told. `text` is its content. `other` is the content of the line for your own text,
    or None if there is no such line.
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
    file: str | None = None
    """The name of the file that was uploaded before, with its description as `text`."""
    accept: str = ""
    most_bytes: int = 0
    suggestion: str | None = None
    """The agent's default, if not all of it can be seen."""

    @property
    def rows(self) -> int:
        """How many lines to show of a text: all of it, unless it is very long."""
        return max(4, min(24, 1 + sum(1 + len(line) // 70 for line in self.text.split("\n"))))


def controls_of(
    form: AnyForm, *, typed: Submitted | None = None, problems: Sequence[Problem] = ()
) -> tuple[Control, ...]:
    """The controls of a form, with what was typed before and with the problems of each.

    Those of an approval are for the arguments that may be changed.
    """
    return tuple(
        _control(part, _state_of(part) if typed is None else _sent(part, typed), problems)
        for part in parts_of(form)
    )


def general_problems(form: AnyForm, problems: Sequence[Problem]) -> tuple[str, ...]:
    """The problems that do not belong to any control."""
    parts = parts_of(form)
    return tuple(visible(str(each)) for each in problems if not any(is_about(part, each) for part in parts))


def frozen_arguments(form: Approval) -> frozenset[str]:
    """The arguments that may be changed, but not on a page: not all of their characters can be seen."""
    shown = {part.key for part in parts_of(form)}
    return frozenset(each.name for each in form.editable if each.name not in shown)


def read_answer(form: AnyForm, submitted: Submitted) -> Reading:
    """The answer in what a browser sent. Optional fields left blank are left out."""
    if isinstance(form, Approval):
        return _read_approval(form, submitted)
    return read_parts((part, _entered(part, _sent(part, submitted))) for part in parts_of(form))


@dataclass(frozen=True, slots=True)
class _State:
    """The content of a control."""

    ticked: frozenset[str] = frozenset()
    text: str = ""
    other: str = ""
    zone: str = "+00:00"


def _name(part: Part) -> str:
    """The name of a part in the HTML; without a number if the question has only one part."""
    return f"v{part.place}" if part.path else "v"


def _control(part: Part, state: _State, problems: Sequence[Problem]) -> Control:
    form = part.form
    text, zone = state.text, state.zone
    misfits = tuple(visible(each.message) for each in problems if is_about(part, each))
    if misfits and isinstance(form, File):
        text = ""  # another one must be chosen
    return Control(
        kind=_kind(part, text),
        name=_name(part),
        label=None if part.title is None else visible_line(part.title),
        description=None if part.description is None else visible(part.description),
        # An argument is folded away, and a browser cannot insist on a hidden control.
        required=part.required
        and not part.is_argument
        and not (isinstance(form, Open) and part.may_be_empty)
        and not (isinstance(form, File) and bool(text)),
        optional=not part.required,
        hint=_hint(form),
        ticks=tuple(_ticks(part, state)),
        text=text,
        other=state.other if part.has_other else None,
        zone=zone,
        keyboard=_keyboard(form),
        file=_file_name(form, text),
        accept=",".join(form.accept) if isinstance(form, File) else "",
        most_bytes=(form.max_bytes or MAX_FILE_BYTES) if isinstance(form, File) else 0,
        problems=misfits,
        suggestion=None if is_seen(part.default) else visible(str(part.default)),
    )


def _kind(part: Part, text: str) -> ControlKind:
    form = part.form
    match form:
        case Choice() | Confirm():
            return "one"
        case MultiChoice():
            return "several"
        case Open(type="text"):
            return "lines" if part.has_lines or "\n" in text else "line"
        case Open(type="date"):
            return "date"
        case Open(type="datetime"):
            return "datetime"
        case Open():
            return "line"
        case File():
            return "file"
        case _:
            assert_never(form)


def _ticks(part: Part, state: _State) -> Iterator[Tick]:
    form = part.form
    if isinstance(form, Open | File):
        return
    is_ours = isinstance(form, Confirm)
    for value, option in zip(_values(part), part.options, strict=True):
        yield Tick(
            value=value,
            label=visible_line(option.label),
            description=None if option.description is None else visible(option.description),
            recommended=gettext("The agent recommends this") if option.recommended else None,
            reason=None if option.reason is None else visible_line(option.reason),
            ticked=value in state.ticked,
            ours=is_ours,
            **_preview(option),
        )
    if part.has_other:
        yield Tick(value=OTHER, label=gettext("Other"), ticked=OTHER in state.ticked, ours=True)
    if not part.required and not isinstance(form, MultiChoice):
        yield Tick(value=NOTHING, label=gettext("Leave it open"), ticked=not state.ticked, ours=True)


def _preview(option: Option) -> dict[str, Any]:
    """What the agent shows of an option."""
    if option.preview is None:
        return {}
    return {
        "preview": formatted(option.preview),
        "preview_title": preview_title(Preview(visible_line(option.label), option.preview)),
        "is_long": len(option.preview) > _LONG_PREVIEW or option.preview.count("\n") >= _LONG_LINES,
    }


def _values(part: Part) -> Sequence[str]:
    """What a browser sends for each option."""
    return (
        _YES_OR_NO if isinstance(part.form, Confirm) else [str(place) for place in range(len(part.options))]
    )


def _hint(form: SimpleForm) -> str:
    """What an answer must be like."""
    match form:
        case Open(type="datetime"):
            return gettext("With its distance from UTC")
        case _:
            return ". ".join(filter(None, (hint_of(form), pattern_hint(form))))


def _keyboard(form: SimpleForm) -> str | None:
    """The keyboard that a phone should show. Keyboards for numbers have no minus sign."""
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


def _state_of(part: Part) -> _State:
    """The first content of a control."""
    first = initial(part)
    if isinstance(part.form, File):
        return _State()
    if isinstance(part.form, Open):
        return _split_instant(first.text) if part.form.type == "datetime" else _State(text=first.text)
    values = _values(part)
    ticked = {values[place] for place in first.picked} | (set() if first.other is None else {OTHER})
    return _State(ticked=frozenset(ticked), other=first.other or "")


def _sent(part: Part, submitted: Submitted) -> _State:
    """The content of a control when the browser sent it."""
    name = _name(part)
    values = submitted.get(name, ())
    if isinstance(part.form, File):
        return _State(text=next(iter(submitted.get(f"{name}.file", ())), ""))
    if isinstance(part.form, Open):
        text = unix_lines(values[0]) if values else ""
        zone = next(iter(submitted.get(f"{name}.zone", ())), "+00:00")
        return _State(text=text, zone=zone if zone in ZONES else "+00:00")
    other = next(iter(submitted.get(f"{name}.other", ())), "")
    return _State(ticked=frozenset(values) - {NOTHING}, other=unix_lines(other))


def _entered(part: Part, state: _State) -> Entered:
    """The content of a control, in the form that every place uses."""
    if isinstance(part.form, File):
        return Entered(file=_file_in(state.text))
    if isinstance(part.form, Open):
        return Entered(text=_instant(state) if part.form.type == "datetime" else state.text)
    places = {value: place for place, value in enumerate(_values(part))}
    # An unknown option gets a number that no option has.
    picked = frozenset(places.get(each, len(places)) for each in state.ticked - {OTHER})
    wants_other = OTHER in state.ticked or bool(state.other.strip())
    return Entered(picked, other=state.other if wants_other else None)


def file_names(form: AnyForm) -> Mapping[str, str]:
    """The names in the HTML of the controls that take a file, and where each is in the answer."""
    return {_name(part): part.path for part in parts_of(form) if isinstance(part.form, File)}


def _file_name(form: SimpleForm, text: str) -> str | None:
    """The name of the file that was uploaded before."""
    found = _file_in(text) if isinstance(form, File) else None
    return None if found is None else visible_line(str(found.get("name")))


def _file_in(text: str) -> dict[str, Json] | None:
    """The description of a file in a hidden control. The desk checks it."""
    if not text:
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _instant(state: _State) -> str:
    """An instant with its offset. Any other text stays as it is, and the desk refuses it."""
    text = state.text.strip()
    try:
        return text + state.zone if datetime.fromisoformat(text).tzinfo is None else text
    except ValueError:
        return text


def _read_approval(form: Approval, submitted: Submitted) -> Reading:
    given = {name: values[0] for name, values in submitted.items() if values}
    decision = given.get("decision", "")
    value: dict[str, Json] = {"decision": decision}
    problems: tuple[Problem, ...] = ()
    if decision not in ("approve", "deny"):
        problems = (Problem("decision", gettext("approve it or deny it")),)
    if reason := unix_lines(given.get("reason", "")).strip():
        value["reason"] = reason
    if decision == "approve":
        value["digest"] = given.get("digest") or form.digest
        if (scope := given.get("scope", "once")) != "once":
            value["scope"] = scope
        edits = read_parts(_edits(form, submitted))
        problems += edits.problems
        if edits.value:
            value["arguments"] = edits.value
    return Reading(value, problems)


def _edits(form: Approval, submitted: Submitted) -> Iterator[tuple[Part, Entered]]:
    """What was entered for the arguments. A text that the browser did not send was not changed."""
    for part in parts_of(form):
        if not isinstance(part.form, Open) or _name(part) in submitted:
            yield part, _entered(part, _sent(part, submitted))


def _split_instant(text: str) -> _State:
    """An instant as the browser's control needs it, and its offset."""
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
