"""Values as tables and differences; nothing an agent chooses makes a page slow or an argument look like another."""

from __future__ import annotations

from handraise.server.inbox.showing import (
    Difference,
    Line,
    Plain,
    Rows,
    arguments_of,
    changed,
    difference,
    shown,
)


def test_a_difference_has_what_went_what_came_and_what_is_around() -> None:
    found = difference("a\nb\nc", "a\nx\nc")
    assert found.lines == (Line("same", "a"), Line("gone", "b"), Line("new", "x"), Line("same", "c"))


def test_only_what_was_changed_is_a_change() -> None:
    found = changed({"a": 1, "b": True, "c": None}, {"a": 1, "b": False})
    assert [name for name, _ in found.rows] == ["b", "c"]


def test_arguments_that_are_called_before_and_after_are_two_arguments() -> None:
    found = arguments_of({"before": "x", "after": {"before": "y", "after": "z"}})
    inner = Rows((("before", Plain("y", quoted=True)), ("after", Plain("z", quoted=True))))
    assert found.rows == (("before", Plain("x", quoted=True)), ("after", inner))


def test_a_text_is_told_from_what_it_looks_like() -> None:
    assert shown("yes") != shown(True)
    assert shown("3") != shown(3)
    assert shown("nothing") != shown(None)
    assert shown("an empty text") != shown("")


def test_lines_that_are_all_equal_are_not_compared() -> None:
    found = difference("\n".join("01" * 100), "\n".join("10" * 100))
    assert {line.change for line in found.lines} == {"gone", "new"}


def test_many_differences_are_shown_one_after_the_other() -> None:
    pair = {"before": "a", "after": "b"}
    few, many = shown({str(n): pair for n in range(10)}), shown({str(n): pair for n in range(11)})
    assert isinstance(few, Rows)
    assert isinstance(many, Rows)
    assert {type(one) for _, one in few.rows} == {Difference}
    assert {type(one) for _, one in many.rows} == {Rows}
