"""What changed between a question and the one that replaces it, part by part, in words that people read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from handraise.model.argument_order import reading_order
from handraise.model.forms import AnyForm, Approval, Choice, Field, Form, MultiChoice, Option
from handraise.model.json_values import Json, canonical_json
from handraise.model.questions import Draft
from handraise.model.visible import visible, visible_line
from handraise.presentation.brief_text import brief_title
from handraise.presentation.names import display_name, listed, recipient_name
from handraise.presentation.times import span
from handraise.presentation.translation import gettext, gettext_noop

_RISKS = {
    "low": gettext_noop("low"),
    "medium": gettext_noop("medium"),
    "high": gettext_noop("high"),
}
_KINDS = {
    "approval": gettext_noop("approve or deny"),
    "choice": gettext_noop("one option"),
    "multi_choice": gettext_noop("several options"),
    "open": gettext_noop("a written answer"),
    "confirm": gettext_noop("yes or no"),
    "form": gettext_noop("several fields"),
}
_STEPS = {
    "remind": gettext_noop("a reminder after {span}"),
    "escalate": gettext_noop("escalated after {span} to {names}"),
    "expire": gettext_noop("it expires after {span}"),
    "default": gettext_noop("a default is taken after {span}"),
}
_SHORT = 60
_SHOWN_APART = frozenset({"kind", "action", "digest", "editable", "options", "fields", "risk", "brief"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One part that changed. Everything in it may be shown as it is; None means that the part was not there."""

    part: str
    """What kind of part it is, in our words."""
    name: str | None
    """Which of several, such as the name of an argument, in the agent's words."""
    before: str | None
    after: str | None

    @property
    def is_short(self) -> bool:
        """Whether both fit on one line."""
        return all("\n" not in each and len(each) <= _SHORT for each in (self.before, self.after) if each)


class _Part(NamedTuple):
    part: str
    name: str | None
    value: Json


_Key: TypeAlias = tuple[str, ...]


def changes_between(earlier: Draft, later: Draft) -> tuple[Change, ...]:
    """The parts in which a question differs from an earlier one, in the order in which a page shows them."""
    old, new = dict(_parts(earlier)), dict(_parts(later))
    found: list[Change] = []
    for key in _in_order(old, new):
        before, after = old.get(key), new.get(key)
        named = after or before
        if named is None or (before and after and _is_same(before.value, after.value)):
            continue
        before_text, after_text = _texts(before, after)
        found.append(Change(part=named.part, name=named.name, before=before_text, after=after_text))
    return tuple(found)


def _in_order(old: Mapping[_Key, _Part], new: Mapping[_Key, _Part]) -> Iterator[_Key]:
    """The keys of both: as in the later one, and what is gone after what it followed."""
    gone: dict[_Key, list[_Key]] = {}
    last: _Key = ()
    for key in old:
        if key in new:
            last = key
        else:
            gone.setdefault(last, []).append(key)
    yield from gone.get((), ())
    for key in new:
        yield key
        yield from gone.get(key, ())


def _is_same(before: Json, after: Json) -> bool:
    return canonical_json(before) == canonical_json(after)


def _parts(draft: Draft) -> Iterator[tuple[_Key, _Part]]:
    yield ("prompt",), _Part(gettext("Question"), None, draft.prompt)
    yield from _form_parts(draft.form)
    context = draft.context
    if isinstance(context, dict):
        for name, value in context.items():
            yield ("context", name), _Part(gettext("Context"), visible_line(name), value)
    elif context is not None:
        yield ("context",), _Part(gettext("Context"), None, context)
    if draft.recipients:
        names = listed([recipient_name(each) for each in draft.recipients])
        yield ("recipients",), _Part(gettext("For"), None, names)
    if draft.quorum > 1:
        yield ("quorum",), _Part(gettext("People who must agree"), None, draft.quorum)
    if draft.veto:
        yield ("veto",), _Part(gettext("One refusal ends it"), None, True)
    if draft.conversation is not None:
        yield ("conversation",), _Part(gettext("Conversation"), None, draft.conversation)
    if draft.steps:
        yield ("steps",), _Part(gettext("If nobody answers"), None, _steps(draft))


def _form_parts(form: AnyForm) -> Iterator[tuple[_Key, _Part]]:
    yield ("kind",), _Part(gettext("Kind of answer"), None, gettext(_KINDS[form.kind]))
    match form:
        case Approval():
            yield ("tool",), _Part(gettext("Tool"), None, form.action.tool)
            for name, value in reading_order(form.action.arguments).items():
                yield ("argument", name), _Part(gettext("Argument"), visible_line(name), value)
            yield ("risk",), _Part(gettext("Risk"), None, gettext(_RISKS[form.risk]))
            if form.brief is not None:
                for name, value in form.brief.model_dump(mode="json", exclude_defaults=True).items():
                    yield ("brief", name), _Part(brief_title(), visible_line(name), value)
            for field in form.editable:
                made = _asked(field, default=False)
                yield (
                    ("editable", field.name),
                    _Part(gettext("Can be changed"), visible_line(field.name), made),
                )
        case Choice() | MultiChoice():
            for option in form.options:
                yield ("option", option.id), _Part(gettext("Option"), None, _offered(option))
        case Form():
            for field in form.fields:
                yield (
                    ("field", field.name),
                    _Part(gettext("Field"), visible_line(field.name), _asked(field, default=True)),
                )
        case _:
            pass
    for name, value in form.model_dump(mode="json", exclude_none=True, exclude_defaults=True).items():
        if name not in _SHOWN_APART:
            yield ("form", name), _Part(gettext("Other"), visible_line(name), value)


def _offered(option: Option) -> str:
    """An option with everything that is said about it."""
    around = option.model_dump(
        mode="json", exclude={"id", "label", "description"}, exclude_none=True, exclude_defaults=True
    )
    first = [option.label] if option.description is None else [option.label, option.description]
    return "\n".join([*first, *(f"{name}: {_text(value)}" for name, value in around.items())])


def _asked(field: Field, *, default: bool) -> str:
    """What a field asks for, on a few lines. The default of an argument that can be changed is the argument."""
    form = field.form.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    first = str(form.pop("type", None) or gettext(_KINDS[field.form.kind]))
    left_out = {"name", "form"} if default else {"name", "form", "default"}
    around = field.model_dump(mode="json", exclude=left_out, exclude_none=True, exclude_defaults=True)
    return "\n".join([first, *(f"{name}: {_line(value)}" for name, value in (form | around).items())])


def _steps(draft: Draft) -> str:
    return "\n".join(
        gettext(_STEPS[step.do]).format(
            span=span(step.after),
            names=", ".join(map(display_name, step.to)),
        )
        for step in draft.steps
    )


def _texts(before: _Part | None, after: _Part | None) -> tuple[str | None, str | None]:
    """Both as texts. If they read the same but are not, such as 30 and "30", as they are recorded."""
    old = None if before is None else _text(before.value)
    new = None if after is None else _text(after.value)
    if before is not None and after is not None and old == new:
        return visible(canonical_json(before.value)), visible(canonical_json(after.value))
    return old, new


def _text(value: Json) -> str:
    match value:
        case "":
            return gettext("an empty text")
        case str():
            return visible(value)
        case None:
            return gettext("nothing")
        case bool():
            return gettext("yes") if value else gettext("no")
        case dict() if value:
            return "\n".join(f"{visible_line(name)}: {_line(one)}" for name, one in value.items())
        case list() | tuple() if value:
            return "\n".join(map(_line, value))
        case dict() | list() | tuple():
            return canonical_json(value)
        case _:
            return str(value)


def _line(value: Json) -> str:
    return visible_line(value if isinstance(value, str) else canonical_json(value))
