"""Values as tables and differences; nothing an agent chooses makes a page slow or an argument look like another."""

from __future__ import annotations

from handraise.model.json_values import Json
from handraise.server.web.inbox.diff_rows import DiffLine
from handraise.server.web.inbox.value_view import (
    Difference,
    Grid,
    Plain,
    Rows,
    arguments_of,
    changed,
    difference,
    shown,
)


def test_a_difference_has_what_went_what_came_and_what_is_around() -> None:
    found = difference("a\nb\nc", "a\nx\nc")
    assert found.lines == (
        DiffLine("same", "a"),
        DiffLine("gone", "b"),
        DiffLine("new", "x"),
        DiffLine("same", "c"),
    )


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


def test_nothing_an_empty_list_and_an_empty_object_are_told_apart() -> None:
    values: list[Json] = [None, [], {}, ""]
    assert len({shown(each) for each in values}) == 4


def test_names_in_letters_of_another_alphabet_are_marked() -> None:
    mixed, other = "\u0430mount", "\u0441\u0443"  # the first letter is Cyrillic; all letters are
    found = arguments_of({"amount": 1, mixed: 2, other: 3, "note": {mixed: 4}})
    assert found.doubtful == {mixed, other}
    assert arguments_of({"name": 1, "größe": 2}).doubtful == frozenset()
    assert arguments_of({mixed: 1}).doubtful == {mixed}
    grid = shown([{mixed: 1, "b": 2}, {mixed: 3, "b": 4}])
    assert isinstance(grid, Grid)
    assert grid.doubtful == {mixed}


def test_arguments_stand_in_the_order_in_which_people_read_them() -> None:
    mail = {
        "attachments": ["a"],
        "body": "Dear Ann,\n\nyes",
        "cc": "bo",
        "priority": 1,
        "subject": "Hi",
        "to": "ann",
    }
    assert [name for name, _ in arguments_of(mail).rows] == [
        "to",
        "cc",
        "subject",
        "priority",
        "attachments",
        "body",
    ]


def test_what_a_program_reads_is_shown_as_code() -> None:
    found = dict(
        arguments_of({"q": "SELECT 1 FROM t", "command": "rm -rf /", "body": "Select one of us", "n": 1}).rows
    )
    assert [name for name, one in found.items() if isinstance(one, Plain) and one.code] == ["q", "command"]
