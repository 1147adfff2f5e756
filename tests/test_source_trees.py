"""Source is parsed whatever the garbage collector does meanwhile."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.source_trees import tree_of


class Parser:
    """It parses when it is collected, as the log of a task that was never awaited does."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        ast.parse("a + b", mode="eval")


@pytest.fixture
def collector() -> Iterator[None]:
    """The collector runs often, so that it also runs while a tree is made."""
    before = gc.get_threshold()
    gc.set_threshold(50)
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("collector")
def test_a_tree_is_made_although_the_collector_makes_one() -> None:
    for _ in range(5):
        Parser()
        assert tree_of(Path(ast.__file__)).body
