"""Say how a call is written if its arguments do not fit the parameters."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def usage(example: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Add to Python's own error about the arguments of a call how to write that call."""

    def wrap(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except TypeError as error:
                if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
                    raise  # the function itself raised it
                raise TypeError(f"{error}: write {example}") from None

        return call

    return wrap
