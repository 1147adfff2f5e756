"""Turn a model's arguments into the questions it wants to ask, or report every reason why they cannot be asked."""

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

UNKNOWN_REPLACED = Problem(
    "replaces",
    "you have asked no such question with this tool; send the question_id of a result, or leave it out",
)
"""What is wrong with a call that is to replace a question that its tool has not asked in this conversation."""

NO_TOPIC = Problem("topic", "there is no such parameter; leave it out")
"""What is wrong with a call that has a topic, if the program does not let its model give one."""

_DEEPEST = 10
_LONGEST_ECHO = 200

Arguments = str | bytes | dict[str, Json]
"""What a model sent: the JSON text of an object, or that object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """One question that a model wants to ask. `place` is its place in a batch, None outside of one.

    `replaces` is the id of the question that it asks again, changed. `topic` names what is asked, across agents.
    """

    prompt: str = field(repr=False)
    form: AnyForm = field(repr=False)
    context: Json = field(default=None, repr=False)
    place: int | None = None
    echo: str | int | None = None
    replaces: str | None = None
    topic: str | None = None

    @property
    def digest(self) -> str:
        """Equal for questions that are the same to the person who answers them."""
        return digest(
            {"prompt": self.prompt, "form": self.form.model_dump(mode="json"), "context": self.context}
        )


ReadArguments = Callable[[Arguments], tuple[Intent, ...]]
"""Reads a tool's arguments, or raises `InvalidQuestion` with paths that its model knows."""


def read_ask_human(arguments: Arguments) -> tuple[Intent, ...]:
    """One question with or without choices and context, or a batch of them."""
    return _read_questions(_AskHuman, arguments)


def read_clarify(arguments: Arguments) -> tuple[Intent, ...]:
    """The same with few choices and without context."""
    return _read_questions(_Clarify, arguments)


def read_clarifying_question(arguments: Arguments) -> tuple[Intent, ...]:
    """One open question, and why it is asked."""
    given = _validated(_ClarifyingQuestion, arguments)
    return (
        Intent(
            prompt=given.question,
            form=Open(),
            context=given.context,
            replaces=given.replaces,
            topic=given.topic,
        ),
    )


def read_intervention(arguments: Arguments) -> tuple[Intent, ...]:
    """A decision between options."""
    given = _validated(_Intervention, arguments)
    form = Choice(options=given.options)
    return (
        Intent(
            prompt=given.prompt,
            form=form,
            context=given.context,
            replaces=given.replaces,
            topic=given.topic,
        ),
    )


def json_object(arguments: Arguments) -> dict[str, Json]:
    """The arguments as one JSON object that a store can keep."""
    given = arguments if isinstance(arguments, dict) else _parse_json(arguments)
    if not isinstance(given, dict):
        raise InvalidQuestion([Problem("", "expected one JSON object with the parameters by name")])
    if problems := _storage_problems(given):
        raise InvalidQuestion(problems)
    return given


def arguments_of(tool: str, question: Question) -> dict[str, Json]:
    """The arguments that ask this question again, as the tool's model would write them."""
    form = question.form
    choices = (
        [_argument(option) for option in form.options] if isinstance(form, (Choice, MultiChoice)) else None
    )
    prompt, options = (
        ("prompt", "options") if tool == "human_intervention_request" else ("question", "choices")
    )
    parts = {prompt: question.prompt, options: choices, "context": question.context}
    if isinstance(form, MultiChoice):
        parts["multi_select"] = True
    return {name: part for name, part in parts.items() if part is not None}


def _argument(option: Option) -> Json:
    """An option as a model would write it."""
    if option.preview is None and not option.recommended:
        return option.label
    return option.model_dump(mode="json", exclude={"id"}, exclude_none=True)


def problems_for(tool: str, place: int | None, problems: Sequence[Problem]) -> list[Problem]:
    """A desk's problems with a question, with the paths of the tool's parameters; others are left out."""
    prompt, options = (
        ("prompt", "options") if tool == "human_intervention_request" else ("question", "choices")
    )
    within = "" if place is None else f"questions[{place}]."
    names = {
        "prompt": within + prompt,
        "form.options": within + options,
        "context": within + "context",
        "replaces": within + "replaces",
        "topic": within + "topic",
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
        raise _parameter_error("none of these has a readable label; send a list of short texts")
    if most is not None and len(options) > most:
        raise _parameter_error(f"at most {most} choices are possible, not {len(options)}; offer fewer")
    if _storage_problems([option.model_dump() for option in options]):
        raise _parameter_error("has a text that cannot be kept; send plain characters")
    for option in options:
        if any(fold(option.label) == fold(other.id) for other in options if other is not option):
            raise _parameter_error(
                f"the label {option.label!r} is the id of another choice; leave the ids out"
            )
    return options


def _few_choices(raw: Json) -> tuple[Option, ...] | None:
    return None if _present(raw) is None else _choices(raw, MAX_CHOICES)


def _any_choices(raw: Json) -> tuple[Option, ...] | None:
    return None if _present(raw) is None else _choices(raw, None)


def _some_options(raw: Json) -> tuple[Option, ...]:
    return _choices(raw, None)


def _present(raw: Json) -> Json:
    """None for the empty values that models send when they mean nothing."""
    return None if isinstance(raw, (str, list, dict)) and not raw else raw


def _batch(raw: Json) -> Json:
    """A list that came as its JSON text, and questions that came as bare texts."""
    if isinstance(raw, str) and raw.lstrip().startswith("["):
        raw = _parse_json(raw)
        if _storage_problems(raw):
            raise _parameter_error("is not JSON that can be kept; send a list of questions")
    if isinstance(raw, list):
        if len(raw) > MAX_QUESTIONS:
            raise _parameter_error(
                f"at most {MAX_QUESTIONS} questions are possible, not {len(raw)}; ask fewer at once"
            )
        raw = [{"question": each} if isinstance(each, str) else each for each in raw]
    return _present(raw)


def _echo(raw: Json) -> Json:
    if isinstance(raw, bool) or not isinstance(raw, str | int | None) or len(str(raw)) > _LONGEST_ECHO:
        raise _parameter_error("expected a short text")
    return raw


_Text = Annotated[str, pydantic.StringConstraints(strip_whitespace=True, min_length=1)]
_Context = Annotated[Any, pydantic.BeforeValidator(_present)]
_Optional = Annotated[_Text | None, pydantic.BeforeValidator(_present)]


class _Parameters(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")


class _QuestionParameters(_Parameters):
    """The options of one question, besides its text. A preset leaves `context` out."""

    choices: tuple[Option, ...] | None = None
    multi_select: bool | None = None
    replaces: _Optional = None
    topic: _Optional = None

    @pydantic.model_validator(mode="after")
    def _check_choices(self) -> Self:
        if self.multi_select and self.choices is None:
            raise _parameter_error("multi_select needs choices to select from")
        return self


class _OneOrSeveral(_QuestionParameters):
    """One question or a batch of them; the type of `questions` is the preset's."""

    question: Annotated[_Text | None, pydantic.BeforeValidator(_present)] = None
    questions: tuple[Any, ...] | None = None

    @pydantic.model_validator(mode="after")
    def _check_one_way(self) -> Self:
        if (self.question is None) == (self.questions is None):
            raise _parameter_error("give either question or questions")
        if self.questions is not None and self.choices is not None:
            raise _parameter_error("choices belong in each of the questions")
        if self.questions is not None and self.replaces is not None:
            raise _parameter_error("replaces belongs in each of the questions")
        if self.questions is not None and self.topic is not None:
            raise _parameter_error("topic belongs in each of the questions")
        return self


class _AskHumanItem(_QuestionParameters):
    choices: Annotated[tuple[Option, ...] | None, pydantic.BeforeValidator(_any_choices)] = None
    context: _Context = None
    question: _Text
    id: Annotated[Any, pydantic.BeforeValidator(_echo)] = None


class _AskHuman(_OneOrSeveral):
    choices: Annotated[tuple[Option, ...] | None, pydantic.BeforeValidator(_any_choices)] = None
    context: _Context = None
    questions: Annotated[tuple[_AskHumanItem, ...] | None, pydantic.BeforeValidator(_batch)] = None

    @pydantic.model_validator(mode="after")
    def _check_context(self) -> Self:
        if self.questions is not None and self.context is not None:
            raise _parameter_error("context belongs in each of the questions")
        return self


class _ClarifyItem(_QuestionParameters):
    choices: Annotated[tuple[Option, ...] | None, pydantic.BeforeValidator(_few_choices)] = None
    question: _Text
    id: Annotated[Any, pydantic.BeforeValidator(_echo)] = None


class _Clarify(_OneOrSeveral):
    choices: Annotated[tuple[Option, ...] | None, pydantic.BeforeValidator(_few_choices)] = None
    questions: Annotated[tuple[_ClarifyItem, ...] | None, pydantic.BeforeValidator(_batch)] = None


class _ClarifyingQuestion(_Parameters):
    question: _Text
    context: _Context = None
    replaces: _Optional = None
    topic: _Optional = None


class _Intervention(_Parameters):
    prompt: _Text
    options: Annotated[tuple[Option, ...], pydantic.BeforeValidator(_some_options)]
    context: _Context = None
    replaces: _Optional = None
    topic: _Optional = None


_P = TypeVar("_P", bound=_Parameters)


def _read_questions(parameters: type[_OneOrSeveral], arguments: Arguments) -> tuple[Intent, ...]:
    given = _validated(parameters, arguments)
    if given.question is not None:
        return (_intent(given.question, given),)
    return tuple(
        _intent(each.question, each, place, each.id) for place, each in enumerate(given.questions or ())
    )


def _validated(parameters: type[_P], arguments: Arguments) -> _P:
    try:
        return parameters.model_validate(json_object(arguments))
    except pydantic.ValidationError as error:
        raise InvalidQuestion(list(_problems(error))) from None


def _storage_problems(value: Json) -> list[Problem]:
    """Every reason why this value cannot be stored."""
    return list(json_problems(value, "", depth=_DEEPEST))


def _parse_json(text: Json) -> Json:
    """The value of a JSON text, or None if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None


def _problems(error: pydantic.ValidationError) -> Iterator[Problem]:
    known = {"missing": "is required", "extra_forbidden": "there is no such parameter; leave it out"}
    for each in error.errors(include_url=False, include_input=False, include_context=False):
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in each["loc"])
        yield Problem(path.removeprefix("."), known.get(each["type"], each["msg"]))


def _intent(
    question: str, given: _QuestionParameters, place: int | None = None, echo: str | int | None = None
) -> Intent:
    form: AnyForm = Open()
    if given.choices is not None and given.multi_select:
        form = MultiChoice(options=given.choices, allow_other=True)
    elif given.choices is not None:
        form = Choice(options=given.choices, allow_other=True)
    return Intent(
        prompt=question,
        form=form,
        context=getattr(given, "context", None),
        place=place,
        echo=echo,
        replaces=given.replaces,
        topic=given.topic,
    )


def _parameter_error(message: str) -> PydanticCustomError:
    # Pydantic fills in braces in a message template, and a model's text can contain braces.
    return PydanticCustomError("misfit", "{text}", {"text": message})
