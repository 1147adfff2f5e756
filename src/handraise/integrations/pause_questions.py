"""Questions for people when a run pauses: a model's or a program's question, or the approval of a tool call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pydantic

from handraise import Approval, Choice, Confirm, Field, Form, InvalidQuestion, MultiChoice, Open, Problem
from handraise.forms import AnyForm, coerce_choices, form_from_schema
from handraise.model.json_values import Json
from handraise.questions import QuestionOptions
from handraise.tools import ApprovalOptions
from handraise.tools.reply_tool import REPLY

ASK_HUMAN = (
    "Ask a person when you cannot go on without knowing. Put what can be chosen into choices, never into the text of the "
    "question. If a person sent your question back, change it and set replaces to its question_id. This is not an approval: do "
    "not use it before a dangerous action."
)
"""The description of the tool `ask_human` for a model."""

REPLY_TO_PERSON = REPLY.description
"""The description of the tool `reply_to_person` for a model."""

Askable = Choice | MultiChoice | Open | Confirm | Form
"""The forms that a program can describe; an approval is only made from an action that waits."""
_NO_APPROVAL = (
    "ask() cannot ask for an approval: put the action behind a tool that waits for its approval, or write "
    "`action = await desk.request_approval(Approval.of(…), key=…)`"
)
_FORM: pydantic.TypeAdapter[Askable] = pydantic.TypeAdapter(Askable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """One thing that a run waits for; `id` is the framework's id for it, `call` the model's if it is a tool call.

    `problems` say why it cannot be asked. If a model wrote it (`by_model`), they go back to the model;
    otherwise they are the program's mistake and are raised. A `reply` has the arguments
    of a model's reply: it waits for a question that was asked before.
    """

    id: str
    prompt: str = field(default="", repr=False)
    options: QuestionOptions = field(default_factory=QuestionOptions, repr=False)
    by_model: bool = True
    problems: tuple[Problem, ...] = ()
    call: str | None = None
    reply: dict[str, Json] | None = field(default=None, repr=False)


def asking(pause_id: str, arguments: Json) -> Pause:
    """A model's call of `ask_human`: one question, perhaps with choices; a person may also use their own words.

    `replaces` is the id of the question that it asks again, changed.
    """
    match arguments:
        case {"question": str(question), **rest} if set(rest) <= {"choices", "replaces"}:
            options = coerce_choices(rest.get("choices"))
            about: QuestionOptions = {
                "form": Choice(options=options, allow_other=True) if options else Open()
            }
            replaces: Json = rest.get("replaces")
            if replaces:
                about["replaces"] = replaces
            return Pause(id=pause_id, prompt=question, options=about)
        case _:
            return Pause(
                id=pause_id, problems=(Problem("question", "expected a text, and perhaps a list of choices"),)
            )


def replying(pause_id: str, arguments: Json) -> Pause:
    """A model's call of `reply_to_person`: a reply to people who asked something about an earlier question."""
    return Pause(id=pause_id, reply=arguments if isinstance(arguments, dict) else {})


def approving(
    pause_id: str,
    tool: str,
    arguments: Mapping[str, Json],
    said: ApprovalOptions,
    *,
    prompt: str | None = None,
    editable: Sequence[str] = (),
    schema: Mapping[str, Json] | None = None,
) -> Pause:
    """A tool call that waits for its approval; the tool's own options (`said`) override the others.

    The tool's `schema` defines the forms of editable arguments.
    """
    more: Any = {name: value for name, value in said.items() if name in _APPROVAL}
    if callable(brief := said.get("brief")):
        more["brief"] = brief(arguments)
    about: Any = {name: value for name, value in said.items() if name in QuestionOptions.__annotations__}
    try:
        fields = [
            _field(name, arguments[name], schema or {})
            for name in said.get("editable", editable)
            if name in arguments
        ]
        about["form"] = Approval.of(tool, arguments, editable=fields, **more)
    except InvalidQuestion as refusal:
        return Pause(id=pause_id, problems=tuple(refusal.problems))
    return Pause(id=pause_id, prompt=said.get("prompt") or prompt or f"May I run {tool}?", options=about)


def described(
    prompt: str,
    *,
    choices: Sequence[str] | None = None,
    form: Askable | Mapping[str, Json] | None = None,
    context: Json = None,
) -> dict[str, Json]:
    """A question as JSON, to be part of a framework's pause. `form` may be a flat JSON Schema.

    A question that cannot be asked is refused here, before the framework stores it in a checkpoint.
    """
    if isinstance(form, Approval):
        raise InvalidQuestion([Problem("form", _NO_APPROVAL)])
    given: object = prompt  # from a graph, whose types are not checked
    if not isinstance(given, str):
        raise InvalidQuestion([Problem("prompt", "expected a text")])
    if not given.strip():
        raise InvalidQuestion([Problem("prompt", "is empty")])
    if isinstance(form, Mapping):
        form = form_from_schema(dict(form))
    elif form is None:
        form = Open() if choices is None else Choice.of(*choices)
    return {
        "handraise": {
            "prompt": prompt,
            "form": form.model_dump(mode="json", exclude_none=True),
            "context": context,
        }
    }


def pause_in(pause_id: str, value: Json) -> Pause | None:
    """The question in a value that `described` made, or None if it has none."""
    match value:
        case {"handraise": {"prompt": str(prompt), "form": dict(form), **rest}}:
            context: Json = rest.get("context")
            try:
                about: QuestionOptions = {"form": _FORM.validate_python(form), "context": context}
            except pydantic.ValidationError:
                kind = form.get("kind")
                why = (
                    _NO_APPROVAL
                    if kind == "approval"
                    else f"this run was paused with a form of kind {kind!r}"
                )
                raise InvalidQuestion([Problem("form", why)]) from None
            return Pause(id=pause_id, prompt=prompt, options=about, by_model=False)
        case _:
            return None


def form_of(schema: Mapping[str, Json]) -> AnyForm:
    """The form for a JSON Schema: a flat object, or one value."""
    if schema.get("type") == "object":
        return form_from_schema(dict(schema))
    return _form_of_value("answer", schema, schema).form


_APPROVAL = ("scopes", "remember_by", "remember_for", "valid_for", "risk", "brief")


def _field(name: str, value: Json, schema: Mapping[str, Json]) -> Field | str:
    """The form of an editable argument: from the tool's schema, if that can be shown to people."""
    if name not in schema.get("properties", {}):
        return name
    try:
        shown = _form_of_value(name, schema["properties"][name], schema)
    except InvalidQuestion:
        return name
    return Field(name=name, form=shown.form, default=value)


def _form_of_value(name: str, schema: Mapping[str, Json], whole: Mapping[str, Json]) -> Field:
    around = {"type": "object", "properties": {name: dict(schema)}, "$defs": whole.get("$defs", {})}
    form: Form = form_from_schema(around)
    return form.fields[0]
