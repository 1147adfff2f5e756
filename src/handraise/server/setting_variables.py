"""Where settings come from: environment variables, and files that such variables name.

A value that cannot be read stands in its field as `Unreadable`, which no type accepts. So one validation finds every problem.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import EnvSettingsSource

from handraise.desk_factory import SIMILARITY

PREFIX = "HANDRAISE_"
"""The prefix of every variable."""
FILE_SUFFIX = "_FILE"
"""`HANDRAISE_SECRET_FILE` names a file with the value of `HANDRAISE_SECRET`."""
_OF_COMMANDS = {"KEY", "MCP_TOKEN", "MCP_STATE_KEY"}
"""What other commands and desks read."""
_OF_KUBERNETES = re.compile(r"(PORT|SERVICE_(HOST|PORT))(_[A-Z0-9_]+)?")
_LARGEST_FILE = 1_000_000


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands for a value that could not be read."""

    reason: str


class SettingVariables(EnvSettingsSource):
    """The environment, with the contents of files in the place of the variables that name them."""

    def _load_env_vars(self) -> Mapping[str, str | None]:
        given: dict[str, Any] = dict(super()._load_env_vars())
        for name in self.settings_cls.model_fields:
            variable = f"{PREFIX}{name}".lower()
            path = given.pop(f"{variable}{FILE_SUFFIX}".lower(), None)
            if path is not None:
                both = variable in given
                given[variable] = _both_given(name) if both else _content(path)
        return given

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        """Read JSON."""
        if isinstance(value, Unreadable):
            return value
        try:
            return super().decode_complex_value(field_name, field, value)
        except ValueError:
            return Unreadable("it is not JSON")


def setting_problem(found: ErrorDetails) -> str:
    """Which variable is wrong and why, without its value, which may be a secret."""
    name = "_".join(str(part) for part in found["loc"][:1]).upper()
    if isinstance(unreadable := found["input"], Unreadable):
        return f"{PREFIX}{name} cannot be used: {unreadable.reason}."
    return f"{PREFIX}{name} cannot be used: {found['msg'].removeprefix('Value error, ')}."


def unknown_settings(environment: Iterable[str], fields: Collection[str]) -> list[str]:
    """A sentence for each variable that looks like a setting and is none: most often a misspelt one."""
    settings = {name.upper() for name in fields}
    known = settings | {f"{name}{FILE_SUFFIX}" for name in settings} | _OF_COMMANDS
    given = sorted(name.removeprefix(PREFIX) for name in environment if name.startswith(PREFIX))
    return [
        f"{PREFIX}{name} is no setting of this release. {_advice(name, known)}"
        for name in given
        if name not in known
    ]


def _advice(name: str, known: Collection[str]) -> str:
    if _OF_KUBERNETES.fullmatch(name):
        return "Kubernetes sets it for a service of that name: set enableServiceLinks: false in the pod."
    nearest = get_close_matches(name, known, n=1, cutoff=SIMILARITY)
    return "".join(f"Did you mean {PREFIX}{each}?" for each in nearest) or "Unset it."


def _both_given(name: str) -> Unreadable:
    return Unreadable(f"{PREFIX}{name.upper()}{FILE_SUFFIX} is set too; unset one of them")


def _content(path: str) -> str | Unreadable:
    """What a file contains, without the line break that editors put at its end."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(_LARGEST_FILE)
    except OSError as error:
        return Unreadable(f"its file {path} cannot be read: {error.strerror}")
    except ValueError:
        return Unreadable(f"its file {path} is not text in UTF-8")
    return text.removesuffix("\n").removesuffix("\r")
