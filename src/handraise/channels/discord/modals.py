"""Forms that open over a conversation: their fields, and the answer in what was put into them.

Every field has a name of ours (`f0`, `f1`, …) and options go by their place, so that nothing an agent wrote is part of
the protocol. Whether an answer fits is the desk's to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from handraise.channels import message_texts
from handraise.channels.discord.components import (
    LONGEST_TEXT,
    MOST_INPUTS,
    MOST_OPTIONS,
    Component,
    modal,
    select_input,
    shown,
    shows_in_full,
    text_input,
    with_label,
)
from handraise.channels.discord.markup import length_of, quoted_start
from handraise.channels.discord.references import build_reference
from handraise.channels.payloads import InvalidPayload
from handraise.model.errors import InvalidAnswer
from handraise.model.forms import (
    AnyForm,
    Approval,
    Choice,
    Confirm,
    Form,
    MultiChoice,
    Open,
    Option,
    SimpleForm,
)
from handraise.model.json_values import Json
from handraise.model.problems import Problem
from handraise.model.questions import Question
from handraise.model.visible import visible

_PROMPT = 1_000
_SHORT = 120
_LONGEST_REASON = 2_000
_YES_OR_NO = (Option(id="yes", label="Yes"), Option(id="no", label="No"))
_WHY_NOT = "Why not? The agent is told."


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One thing to fill in: `name` is what it is called in the form, `key` in the answer."""

    name: str
    form: SimpleForm
    title: str = "Your answer"
    description: str | None = None
    required: bool = True
    default: Json = None
    key: str = ""

    @property
    def may_be_empty(self) -> bool:
        """Whether it may be left empty, as far as Discord is concerned."""
        form = self.form
        if isinstance(form, Choice):
            return form.allow_other or not self.required
        if isinstance(form, MultiChoice):
            return form.allow_other or form.at_least == 0 or not self.required
        return not self.required or (isinstance(form, Open) and form.type == "text" and form.min_length == 0)


def answer_modal(question: Question) -> Component:
    """The form that answers a question."""
    fields = [each for part in _parts(question.form) for each in _fields(part)]
    return modal(
        build_reference(question, "answer"),
        message_texts.heading_of(question),
        [*_asked(question, fields), *fields],
    )


def can_be_filled_in(question: Question) -> bool:
    """Whether a form has room for all that there is to fill in, and shows every option in full."""
    parts = _parts(question.form)
    if sum(2 if getattr(part.form, "allow_other", False) else 1 for part in parts) > MOST_INPUTS:
        return False
    menus = [part.form.options for part in parts if isinstance(part.form, (Choice, MultiChoice))]
    return all(len(options) <= MOST_OPTIONS and all(map(shows_in_full, options)) for options in menus)


def reason_modal(question: Question, verb: str) -> Component:
    """The form that declines to answer, or denies an action, with a reason or without."""
    title = "Deny" if verb == "reason" else "Decline to answer"
    field = text_input("reason", several_lines=True, required=False, longest=_LONGEST_REASON)
    fields = [with_label(_WHY_NOT, field)]
    return modal(build_reference(question, verb), title, [*_asked(question, fields), *fields])


def read_answer(form: AnyForm, components: object) -> Json:
    """The answer in what was put into a form; raises `InvalidAnswer`, or `InvalidPayload` for what no form of ours sends."""
    state = _state(components)
    read = {part.key: _read(part, state) for part in _parts(form)}
    if isinstance(form, Form):
        return {key: value for key, value in read.items() if value is not None}
    return read[""]


def read_reason(components: object) -> str | None:
    """The reason that was written, if there is one."""
    text = _state(components).get("reason", {}).get("value")
    return text.strip() or None if isinstance(text, str) else None


def _parts(form: AnyForm) -> Sequence[Part]:
    match form:
        case Form():
            return tuple(
                Part(
                    name=f"f{number}",
                    form=field.form,
                    title=field.title or field.name,
                    description=field.description,
                    required=field.required,
                    default=field.default,
                    key=field.name,
                )
                for number, field in enumerate(form.fields)
            )
        case Approval():
            return ()
        case _:
            return (Part(name="f0", form=form),)


def _asked(question: Question, fields: Sequence[Component]) -> Sequence[Component]:
    """The prompt, where there is room for it besides the fields."""
    if len(fields) >= MOST_INPUTS:
        return ()
    prompt, _ = quoted_start(question.prompt, _PROMPT)
    return (shown(prompt),)


def _fields(part: Part) -> list[Component]:
    made = [with_label(part.title, _input(part), part.description or _hint(part.form))]
    if isinstance(part.form, (Choice, MultiChoice)) and part.form.allow_other:
        other = text_input(f"{part.name}o", several_lines=False, required=False)
        made.append(with_label("Or your own answer", other))
    return made


def _hint(form: SimpleForm) -> str | None:
    """What is to be written where not any text will do."""
    return (
        message_texts.how_to_reply(form).capitalize()
        if isinstance(form, Open) and form.type != "text"
        else None
    )


def _input(part: Part) -> Component:
    form, required = part.form, not part.may_be_empty
    match form:
        case Open():
            many = form.type == "text" and (form.max_length is None or form.max_length > _SHORT)
            longest = form.max_length if form.type == "text" else None
            text = _first(part.default, longest)
            return text_input(part.name, several_lines=many, required=required, longest=longest, text=text)
        case Confirm():
            chosen = [{True: "yes", False: "no"}.get(part.default)] if isinstance(part.default, bool) else []
            return select_input(part.name, _YES_OR_NO, chosen=chosen, required=required, most=1)
        case Choice():
            return select_input(part.name, form.options, chosen=[part.default], required=required, most=1)
        case MultiChoice():
            wanted = part.default if isinstance(part.default, (list, tuple)) else []
            most = len(form.options) if form.at_most is None else form.at_most
            chosen = list(wanted)[:most]
            return select_input(part.name, form.options, chosen=chosen, required=required, most=most)
        case _:
            assert_never(form)


def _first(default: Json, longest: int | None) -> str | None:
    """What stands in a field at first; left out where something in it could not be seen, or Discord refuses it."""
    if isinstance(default, bool) or not isinstance(default, (str, int, float)):
        return None
    text = str(default)
    fits = 0 < length_of(text) <= min(longest or LONGEST_TEXT, LONGEST_TEXT)
    return text if fits and visible(text) == text else None


def _state(components: object) -> Mapping[str, Mapping[str, Any]]:
    """What is in each field, by its name."""
    found: dict[str, Mapping[str, Any]] = {}
    for each in components if isinstance(components, list) else []:
        field = each.get("component") if isinstance(each, dict) else None
        if isinstance(field, dict) and isinstance(field.get("custom_id"), str):
            found[field["custom_id"]] = field
    return found


def _read(part: Part, state: Mapping[str, Mapping[str, Any]]) -> Json:
    """What was put into a part, or None where nothing was."""
    field, form = state.get(part.name, {}), part.form
    match form:
        case Open():
            return _text(part, form, field.get("value"))
        case Confirm():
            picked = _picked(field, _YES_OR_NO)
            return picked[0].id == "yes" if picked else None
        case Choice() | MultiChoice():
            chosen: list[Json] = [option.id for option in _picked(field, form.options)]
            other = state.get(f"{part.name}o", {}).get("value")
            if form.allow_other and isinstance(other, str) and other.strip():
                chosen.append({"other": other})
            if isinstance(form, MultiChoice):
                return chosen if chosen or part.required else None
            if len(chosen) > 1:
                raise InvalidAnswer([Problem(part.key, "choose one, or write your own answer, but not both")])
            return chosen[0] if chosen else None
        case _:
            assert_never(form)


def _text(part: Part, form: Open, value: object) -> Json:
    if value is None:
        value = ""
    if not isinstance(value, str):
        raise InvalidPayload("value")
    if form.type != "text":
        return value.strip() or None
    if value:
        return value
    return "" if form.min_length == 0 and part.required else None


def _picked(field: Mapping[str, Any], options: Sequence[Option]) -> list[Option]:
    values = field.get("values") or []
    known = {str(number): option for number, option in enumerate(options)}
    if not isinstance(values, list) or any(not isinstance(each, str) or each not in known for each in values):
        raise InvalidPayload("values")
    return [known[each] for each in values]
