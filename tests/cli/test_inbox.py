"""The list of the terminal's inbox."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.utils import get_cwidth

from handraise.cli.inbox import _cut


@pytest.mark.parametrize(
    ("text", "size", "cut"),
    [
        ("Deploy?", 7, "Deploy?"),
        ("Deploy it?", 7, "Deploy…"),
        ("你好吗", 6, "你好吗"),
        ("你好吗", 5, "你好…"),
        ("你好吗", 4, "你…"),
        ("e\u0301" * 5, 5, "e\u0301" * 5),
        ("e\u0301" * 6, 5, "e\u0301" * 4 + "…"),
        ("", 3, ""),
    ],
)
def test_a_line_is_cut_where_it_is_full(text: str, size: int, cut: str) -> None:
    assert _cut(text, size) == cut


@given(st.text(max_size=60), st.integers(1, 40))
def test_a_line_never_takes_more_than_its_size(text: str, size: int) -> None:
    cut = _cut(text, size)
    assert get_cwidth(cut) <= size
    assert cut == text or text.startswith(cut[:-1])


@pytest.mark.timeout(10)
def test_a_long_prompt_is_read_no_further_than_it_is_shown() -> None:
    assert _cut("x" * 1_000_000, 80) == "x" * 79 + "…"
