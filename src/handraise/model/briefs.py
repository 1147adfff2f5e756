"""What an agent tells people who decide about an action: why, what it checked, what is at stake."""

from __future__ import annotations

from typing import Any

import pydantic
from pydantic.dataclasses import dataclass

from handraise.model.form_fields import FormPart, is_unset


@dataclass(frozen=True, config=pydantic.ConfigDict(extra="forbid"))
class Link:
    """A page where people can read more. It is shown with its host."""

    label: str
    url: str


class Brief(FormPart):
    """What an agent says about an action, in its own words, for the people who decide. Nobody has checked it.

    `why` says why it wants to do this, `checked` what it has checked, `affects` whom or what it concerns. `reversible` says
    whether it can be undone; None if the agent does not know.
    """

    why: str | None = pydantic.Field(default=None, exclude_if=is_unset)
    checked: tuple[str, ...] = pydantic.Field(default=(), exclude_if=is_unset)
    reversible: bool | None = pydantic.Field(default=None, strict=True, exclude_if=lambda said: said is None)
    affects: str | None = pydantic.Field(default=None, exclude_if=is_unset)
    links: tuple[Link, ...] = pydantic.Field(default=(), exclude_if=is_unset)

    def record(self) -> dict[str, Any]:
        """As it is stored in a form."""
        return self.model_dump(mode="json")
