"""What a model sent as arguments, made into the questions it means, or every reason why it cannot be asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Self, TypeVar

import pydantic
from pydantic_core import PydanticCustomError

from handraise import Choice, InvalidQuestion, MultiChoice, Open, Option, Problem, Question
from handraise.forms import AnyForm, coerce_choices
from handraise.model.json_values import Json, digest, json_problems
from handraise.model.validation import fold

MAX_CHOICES = 4
MAX_QUESTIONS = 5

_DEEPEST = 10
_LONGEST_ECHO = 200

Arguments = str | bytes | dict[str, Json]
"""What a model sent: the JSON text of an object, or that object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """One question that a model wants asked. `place` is where it stands in a batch, None outside of one."""

    prompt: str = field(repr=False)
    form: AnyForm = field(repr=False)
    context: Json = field(default=None, repr=False)
    place: int | None = None
    echo: str | int | None = None

    @property
    def digest(self) -> str:
        """Equal for questions that are the same to whoever answers them."""
        return digest(
            {"prompt": self.prompt, "form": self.form.model_dump(mode="json"), "context": self.context}
        )


Read = Callable[[Arguments], tuple[Intent, ...]]
"""Reads a tool's arguments, or raises `InvalidQuestion` with paths that its model knows."""


def read_clarify(arguments: Arguments) -> tuple[Intent, ...]:
    """One question with or without choices, or a batch of them."""
    given = _validated(_Clarify, arguments)
    if given.question is not None:
        return (_clarification(given.question, given),)
    return tuple(
        _clarification(each.question, each, place, each.id)
        for place, each in enumerate(given.questions or ())
    )


def read_clarifying_question(arguments: Arguments) -> tuple[Intent, ...]:
    """One open question, and why it is asked."""
    given = _validated(_ClarifyingQuestion, arguments)
    return (Intent(prompt=given.question, form=Open(), context=given.context),)


def read_intervention(arguments: Arguments) -> tuple[Intent, ...]:
    """A decision between options."""
    given = _validated(_Intervention, arguments)
    return (Intent(prompt=given.prompt, form=Choice(options=given.options), context=given.context),)


def json_object(arguments: Arguments) -> dict[str, Json]:
    """The arguments as one JSON object that a store could keep."""
    given = arguments if isinstance(arguments, dict) else _parsed(arguments)
    if not isinstance(given, dict):
        raise InvalidQuestion([Problem("", "expected one JSON object with the parameters by name")])
    if problems := _keeping_problems(given):
        raise InvalidQuestion(problems)
    return given


def arguments_of(tool: str, question: Question) -> dict[str, Json]:
    """The arguments that ask this question again, as the tool's model would write them."""
    form = question.form
    labels = [option.label for option in form.options] if isinstance(form, (Choice, MultiChoice)) else None
    prompt, options = (
        ("prompt", "options") if tool == "human_intervention_request" else ("question", "choices")
    )
    parts = {prompt: question.prompt, options: labels, "context": question.context}
    if isinstance(form, MultiChoice):
        parts["multi_select"] = True
    return {name: part for name, part in parts.items() if part is not None}


def problems_for(tool: str, place: int | None, problems: Sequence[Problem]) -> list[Problem]:
    """A desk's problems with a question, at the paths of the tool's parameters; others are left out."""
    prompt, options = (
        ("prompt", "options") if tool == "human_intervention_request" else ("question", "choices")
    )
    within = "" if place is None else f"questions[{place}]."
    names = {
        "prompt": within + prompt,
        "form.options": within + options,
        "context": within + "context",
        "tool_call": "call_id",
    }
    return [
        Problem(name + each.path.removeprefix(path), each.message)
        for each in problems
        for path, name in names.items()
        if each.path.startswith(path)
    ]


def _choices(raw: Json, most: int | None) -> tuple[Option, ...]:
    options = coerce_choices(raw)
    if not options:
        raise _misfit("none of these has a readable label; send a list of short texts")
    if most is not None and len(options) > most:
        raise _misfit(f"at most {most} choices are possible, not {len(options)}; offer fewer")
    if _keeping_problems([option.model_dump() for option in options]):
        raise _misfit("has a text that cannot be kept; send plain characters")
    for option in options:
        if any(fold(option.label) == fold(other.id) for other in options if other is not option):
            raise _misfit(f"the label {option.label!r} is the id of another choice; leave the ids out")
    return options


def _few_choices(raw: Json) -> tuple[Option, ...] | None:
    return None if _present(raw) is None else _choices(raw, MAX_CHOICES)


def _some_options(raw: Json) -> tuple[Option, ...]:
    return _choices(raw, None)


def _present(raw: Json) -> Json:
    """None for what models send where they mean nothing."""
    return None if isinstance(raw, (str, list, dict)) and not raw else raw


def _batch(raw: Json) -> Json:
    """A list that came as its JSON text, and questions that came as bare texts."""
    if isinstance(raw, str) and raw.lstrip().startswith("["):
        raw = _parsed(raw)
        if _keeping_problems(raw):
            raise _misfit("is not JSON that can be kept; send a list of questions")
    if isinstance(raw, list):
        if len(raw) > MAX_QUESTIONS:
            raise _misfit(
                f"at most {MAX_QUESTIONS} questions are possible, not {len(raw)}; ask fewer at once"
            )
        raw = [{"question": each} if isinstance(each, str) else each for each in raw]
    return _present(raw)


def _echo(raw: Json) -> Json:
    if isinstance(raw, bool) or not isinstance(raw, str | int | None) or len(str(raw)) > _LONGEST_ECHO:
        raise _misfit("expected a short text")
    return raw


_Text = Annotated[str, pydantic.StringConstraints(strip_whitespace=True, min_length=1)]
_Context = Annotated[Any, pydantic.BeforeValidator(_present)]


class _Parameters(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")


class _Answers(_Parameters):
    """What a valid answer to a clarification is."""

    choices: Annotated[tuple[Option, ...] | None, pydantic.BeforeValidator(_few_choices)] = None
    multi_select: bool | None = None

    @pydantic.model_validator(mode="after")
    def _selects_among_choices(self) -> Self:
        if self.multi_select and self.choices is None:
            raise _misfit("multi_select needs choices to select from")
        return self


class _OneOfBatch(_Answers):
    question: _Text
    id: Annotated[Any, pydantic.BeforeValidator(_echo)] = None


class _Clarify(_Answers):
    question: Annotated[_Text | None, pydantic.BeforeValidator(_present)] = None
    questions: Annotated[tuple[_OneOfBatch, ...] | None, pydantic.BeforeValidator(_batch)] = None

    @pydantic.model_validator(mode="after")
    def _asks_in_one_way(self) -> Self:
        if (self.question is None) == (self.questions is None):
            raise _misfit("give either question or questions")
        if self.questions is not None and self.choices is not None:
            raise _misfit("choices belong into each of the questions")
        return self


class _ClarifyingQuestion(_Parameters):
    question: _Text
    context: _Context = None


class _Intervention(_Parameters):
    prompt: _Text
    options: Annotated[tuple[Option, ...], pydantic.BeforeValidator(_some_options)]
    context: _Context = None


_Read = TypeVar("_Read", bound=_Parameters)


def _validated(parameters: type[_Read], arguments: Arguments) -> _Read:
    try:
        return parameters.model_validate(json_object(arguments))
    except pydantic.ValidationError as error:
        raise InvalidQuestion(list(_problems(error))) from None


def _keeping_problems(value: Json) -> list[Problem]:
    """Everything that keeps this value from being stored."""
    return list(json_problems(value, "", depth=_DEEPEST))


def _parsed(text: Json) -> Json:
    """The value behind a JSON text, None where it is none."""
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None


def _problems(error: pydantic.ValidationError) -> Iterator[Problem]:
    known = {"missing": "is required", "extra_forbidden": "there is no such parameter; leave it out"}
    for each in error.errors(include_url=False, include_input=False, include_context=False):
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in each["loc"])
        yield Problem(path.removeprefix("."), known.get(each["type"], each["msg"]))


def _clarification(
    question: str, answers: _Answers, place: int | None = None, echo: str | int | None = None
) -> Intent:
    form: AnyForm = Open()
    if answers.choices is not None and answers.multi_select:
        form = MultiChoice(options=answers.choices, allow_other=True)
    elif answers.choices is not None:
        form = Choice(options=answers.choices, allow_other=True)
    return Intent(prompt=question, form=form, place=place, echo=echo)


def _misfit(message: str) -> PydanticCustomError:
    # A message template in braces would be filled in; what a model sent can have braces.
    return PydanticCustomError("misfit", "{text}", {"text": message})
