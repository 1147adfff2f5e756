"""Two lines, word by word."""

from __future__ import annotations

import time

from handraise.presentation.word_changes import Piece, word_changes


def test_only_the_words_that_changed_are_marked() -> None:
    old, new = word_changes("pay 250 EUR today", "pay 200 EUR")
    assert old == (
        Piece("pay ", changed=False),
        Piece("250", changed=True),
        Piece(" EUR", changed=False),
        Piece(" today", changed=True),
    )
    assert [piece.text for piece in new if piece.changed] == ["200"]


def test_lines_with_little_in_common_are_marked_as_a_whole() -> None:
    assert word_changes("alpha beta", "one two") == (
        (Piece("alpha beta", changed=True),),
        (Piece("one two", changed=True),),
    )


def test_both_lines_are_always_whole_and_nobody_can_make_it_slow() -> None:
    began = time.process_time()
    for before, after in (
        ("a " * 900, "b a " * 400),
        ("ab" * 900, "ba" * 900),
        ("", "x"),
        ("-" * 1_999, "-+" * 900),
    ):
        old, new = word_changes(before, after)
        assert ("".join(piece.text for piece in old), "".join(piece.text for piece in new)) == (before, after)
    assert time.process_time() - began < 2
