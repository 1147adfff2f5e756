"""The forms without an action: one value, or several named fields.

Constructing a form checks its types only. Whether it makes sense is checked when it is asked (`drafting`),
and every problem is reported at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import pydantic


class FormPart(pydantic.BaseModel):
    """A frozen part of a form, which takes no field that it does not know."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")


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


def options_of(options: Sequence[Option | str]) -> tuple[Option, ...]:
    """Options from options or plain texts; a plain text is its own id. A list in the place of one option is taken too."""
    if len(options) == 1 and isinstance(options[0], (list, tuple)):
        options = options[0]
    return tuple(Option.model_validate(option) for option in options)


class Choice(FormPart):
    """Exactly one option, or with `allow_other` a text of the person's own."""

    kind: Literal["choice"] = "choice"
    options: tuple[Option, ...]
    allow_other: bool = False

    @classmethod
    def of(cls, *options: Option | str, allow_other: bool = False) -> Choice:
        """A choice between options or plain texts."""
        return cls(options=options_of(options), allow_other=allow_other)


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
        return cls(options=options_of(options), at_least=at_least, at_most=at_most, allow_other=allow_other)


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
