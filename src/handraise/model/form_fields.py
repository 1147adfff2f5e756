"""The forms without an action: one value, or several named fields.

Constructing a form checks its types only. Whether it makes sense is checked when it is asked (`drafting`),
and every problem is reported at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pydantic

from handraise.model.problems import InvalidQuestion
from handraise.model.type_problems import MAX_SHOWN_CHARS, problems_of


class FormPart(pydantic.BaseModel):
    """A frozen part of a form, which takes no field that it does not know."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    if not TYPE_CHECKING:  # type checkers know the parameters of each part from its fields

        @wraps(pydantic.BaseModel.__init__)
        def __init__(self, *args: object, **parts: object) -> None:
            """A mistake is an `InvalidQuestion`, or a `TypeError` that says how to write it."""
            if args:
                raise TypeError(_by_name(type(self), args[0]))
            try:
                super().__init__(**parts)
            except pydantic.ValidationError as error:
                problems = problems_of(error, type(self), under=type(self).__name__)
                raise InvalidQuestion(problems) from None


def _by_name(part: type[FormPart], given: object) -> str:
    """How to write a part of a form whose first value was given without its name."""
    name = part.__name__
    fields = [each for each in part.model_fields if each != "kind"]
    if not fields:
        return f"{name} has no parts: write {name}()"
    if hasattr(part, "of"):
        shown = ", ".join(map(repr, given)) if isinstance(given, (list, tuple)) else repr(given)
        how = f".of({shown if len(shown) <= MAX_SHOWN_CHARS else '…'})"
    else:
        how = f"({fields[0]}={repr(given) if len(repr(given)) <= MAX_SHOWN_CHARS else '…'})"
    return f"{name} takes its parts by name: write {name}{how}"


def is_unset(value: object) -> bool:
    """Whether a part was not given. It is left out of a form then, so that the stored text of older forms stays the same."""
    return value is None or value is False or value == ()


class Option(FormPart):
    """One thing that can be chosen. The canonical answer is its `id`.

    `preview` shows in Markdown what you would get. An option that the agent recommends is `recommended`, with a `reason`.
    Nothing is chosen because of that.
    """

    id: str
    label: str
    description: str | None = None
    preview: str | None = pydantic.Field(default=None, exclude_if=is_unset)
    recommended: bool = pydantic.Field(default=False, strict=True, exclude_if=is_unset)
    reason: str | None = pydantic.Field(default=None, exclude_if=is_unset)

    @pydantic.model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"id": value.strip(), "label": value.strip()}
        return value


def _listed(options: Sequence[object]) -> Any:
    """Options that were given one by one, or as one list."""
    return options[0] if len(options) == 1 and isinstance(options[0], (list, tuple)) else options


class Choice(FormPart):
    """Exactly one option, or with `allow_other` a text of the person's own."""

    kind: Literal["choice"] = "choice"
    options: tuple[Option, ...]
    allow_other: bool = False

    @classmethod
    def of(cls, *options: Option | str, allow_other: bool = False) -> Choice:
        """A choice between options or plain texts."""
        return cls(options=_listed(options), allow_other=allow_other)


class MultiChoice(FormPart):
    """Several options, between `at_least` and `at_most` of them."""

    kind: Literal["multi_choice"] = "multi_choice"
    options: tuple[Option, ...]
    at_least: int = 1
    at_most: int | None = None
    allow_other: bool = False

    @classmethod
    def of(
        cls,
        *options: Option | str,
        at_least: int = 1,
        at_most: int | None = None,
        allow_other: bool = False,
    ) -> MultiChoice:
        """A selection among options or plain texts."""
        return cls(options=_listed(options), at_least=at_least, at_most=at_most, allow_other=allow_other)


OpenType = Literal["text", "integer", "number", "email", "uri", "date", "datetime"]


class Open(FormPart):
    """Free text, or one value typed as text. `pattern` is searched for, in linear time."""

    kind: Literal["open"] = "open"
    type: OpenType = "text"
    min_length: int = 1
    max_length: int | None = None
    pattern: str | None = None
    minimum: float | int | None = None
    maximum: float | int | None = None


class Confirm(FormPart):
    """Yes or no."""

    kind: Literal["confirm"] = "confirm"


class File(FormPart):
    """One file, which the answering person uploads.

    `accept` are the media types that fit, such as `application/pdf` or `image/*`; none means any. `max_bytes` is how large
    it may be.
    """

    kind: Literal["file"] = "file"
    accept: tuple[str, ...] = ()
    max_bytes: int | None = None


SimpleForm = Annotated[Choice | MultiChoice | Open | Confirm | File, pydantic.Field(discriminator="kind")]


class Field(FormPart):
    """A named part of a form; `default` is what a page shows in it at first."""

    name: str
    form: SimpleForm
    title: str | None = None
    description: str | None = None
    required: bool = True
    default: Any = None


class Form(FormPart):
    """Several named fields, answered together."""

    kind: Literal["form"] = "form"
    fields: tuple[Field, ...]
