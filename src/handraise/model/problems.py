"""What is wrong with a question or an answer, and the errors that everything else in the model builds on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a question or an answer, and where."""

    path: str
    message: str

    def __str__(self) -> str:
        if self.path:
            return f"{self.path}: {self.message}"
        # Alone, "is not an instant" would not say what is not.
        return f"it {self.message}" if self.message.startswith(("is ", "has ")) else self.message


class HandraiseError(Exception):
    """The root of every error that Handraise raises on purpose."""

    code: ClassVar[str] = "error"

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle all attributes, for programs that keep errors or send them to another process."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(
    kind: type[HandraiseError], args: tuple[object, ...], kept: dict[str, object]
) -> HandraiseError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(kept)
    return error


_MOST_PROBLEMS = 100


class ProblemsError(HandraiseError, ValueError):
    """An error that lists what is wrong; only its kinds are raised."""

    def __init__(self, headline: str, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems[:_MOST_PROBLEMS])
        if len(problems) > _MOST_PROBLEMS:
            self.problems += (Problem("", f"and {len(problems) - _MOST_PROBLEMS} more problems"),)
        super().__init__(f"{headline} " + "; ".join(map(str, self.problems)))


class InvalidQuestion(ProblemsError):
    """The question cannot be asked like this; nothing was registered."""

    code = "invalid_question"

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("This question cannot be asked:", problems)
