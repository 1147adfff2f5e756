"""Expressions of rules, in CEL. The library checks their types when a policy is compiled, and limits their iterations."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Literal

from handraise.model.errors import MissingExtra
from handraise.policies.rule_process import RULES

try:
    from cel_expr_python import cel  # type: ignore[import-untyped] # it has stubs, but no py.typed
except ImportError as _error:
    raise MissingExtra("cel-expr-python", "policies") from _error

_TYPES = cel.Type
VARIABLES = {
    "agent": _TYPES.STRING,
    "tool": _TYPES.STRING,
    "args": _TYPES.Map(_TYPES.STRING, _TYPES.DYN),
    "risk": _TYPES.STRING,
    "kind": _TYPES.STRING,
    "recipients": _TYPES.List(_TYPES.STRING),
    "conversation": _TYPES.STRING,
    "topic": _TYPES.STRING,
    "hour": _TYPES.INT,
    "weekday": _TYPES.STRING,
    "now": _TYPES.TIMESTAMP,
}
"""What an expression can use, with the types."""

_ENVIRONMENT = cel.NewEnv(variables=VARIABLES)
_BEGINS = re.compile(
    r"""\s*(?P<which>tool|agent)\s*==\s*(?:"(?P<double>[^"\\\n]*)"|'(?P<single>[^'\\\n]*)')\s*(?:&&|$)"""
)
_WORD = re.compile(r"[A-Za-z_]\w*")
_LONG = frozenset({"all", "exists", "exists_one", "filter", "map", "matches"})
"""Words of CEL that make an expression take longer than what it is given: one for each pair of elements, or more."""
MAX_ELEMENTS = 1_000
"""How many elements of lists and objects rules see in arguments; with more, they see no arguments."""
_CHUNK = 25
"""How many expressions are evaluated in one call, which takes a tenth of the time of single calls."""


class InvalidExpression(ValueError):
    """The text is not an expression that gives true or false."""


def check_expression(text: str) -> None:
    """Raise `InvalidExpression` with the reason, unless this is an expression that gives true or false."""
    _compiled(text)


def required_name(text: str) -> tuple[Literal["tool", "agent"], str] | None:
    """The tool or the agent without which the expression is false, if it begins by naming one; else None.

    Most rules are about one tool: they need not be evaluated for all the others.
    """
    found = _BEGINS.match(text)
    if found is None or "||" in text or "?" in text:  # then the beginning may not decide
        return None
    return ("tool" if found["which"] == "tool" else "agent"), found["double"] or found["single"] or ""


class Expressions:
    """Compiled expressions, which are evaluated together."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._each = [_compiled(text) for text in texts]
        words = frozenset(_WORD.findall(" ".join(texts)))
        # Each variable costs time when it is passed on, and most rules use few. A word in a text may count as one.
        self.variables = words.intersection(VARIABLES)
        self.may_take_long = not words.isdisjoint(_LONG) and hasattr(os, "fork")
        """Whether `evaluate` waits for another process, so that it must not be called on an event loop."""
        # Each has been compiled by itself, so no text can end its own brackets. It may end with a comment.
        listed = [f"({text}\n)" for text in texts]
        self._chunks = [
            (start, _ENVIRONMENT.compile(f"[{', '.join(listed[start : start + _CHUNK])}]"))
            for start in range(0, len(texts), _CHUNK)
        ]

    def evaluate(self, values: Mapping[str, Any]) -> list[bool | None]:
        """For each expression whether it is true, or None if it cannot be evaluated.

        Those that need arguments cannot if these have too many elements or if the expressions run for too long.
        """
        no_arguments = {name: value for name, value in values.items() if name != "args"}
        if _elements(values.get("args")) > MAX_ELEMENTS:
            return self.evaluate_here(no_arguments)
        if not self.may_take_long:
            return self.evaluate_here(values)
        results = RULES.evaluate(self._texts, values)
        return self.evaluate_here(no_arguments) if results is None else results

    def evaluate_here(self, values: Mapping[str, Any]) -> list[bool | None]:
        """The same in this process, for as long as it takes."""
        activation = _ENVIRONMENT.Activation(values)
        results: list[bool | None] = []
        for start, chunk in self._chunks:
            values_of_chunk = _evaluated(chunk, activation)
            if values_of_chunk is None:  # at least one of them failed: find out which
                results += [_result(each, activation) for each in self._each[start : start + _CHUNK]]
            else:
                results += values_of_chunk
        return results


@lru_cache(maxsize=2_000)
def _compiled(text: str) -> Any:
    try:
        compiled = _ENVIRONMENT.compile(text)
    except RuntimeError as error:
        raise InvalidExpression(_reason(str(error))) from None
    if compiled.return_type() != _TYPES.BOOL:
        raise InvalidExpression(
            f"gives {compiled.return_type().name()} and not true or false: compare it with something"
        )
    return compiled


def _elements(value: object) -> int:
    if isinstance(value, Mapping):
        return len(value) + sum(map(_elements, value.values()))
    return len(value) + sum(map(_elements, value)) if isinstance(value, list) else 0


def _evaluated(compiled: Any, activation: Any) -> Any:
    """The value of an expression, or None if it fails or needs too many iterations."""
    try:
        value = compiled.eval(activation)
    except RuntimeError:
        return None
    return None if value.type() == _TYPES.ERROR else value.plain_value()


def _result(compiled: Any, activation: Any) -> bool | None:
    value = _evaluated(compiled, activation)
    return value if isinstance(value, bool) else None


def _reason(message: str) -> str:
    """What CEL says about the expression, without its own prefixes and its picture of the place."""
    line = message.removeprefix("INVALID_ARGUMENT: ").splitlines()[0]
    unknown = re.search(r"undeclared reference to '(\w+)'", line)
    return _known_words(line) + (_instead(unknown[1]) if unknown else "")


def _instead(name: str) -> str:
    """What somebody probably meant by a name that expressions do not have."""
    if near := get_close_matches(name, VARIABLES, 1):
        return f": did you mean {near[0]!r}?"
    return f": an argument of the action is args.{name}; other names are {', '.join(VARIABLES)}"


def _known_words(line: str) -> str:
    return (
        line.removeprefix("ERROR: <input>:")
        .removesuffix(" [INVALID_ARGUMENT]")
        .replace(" (in container '')", "")
    )
