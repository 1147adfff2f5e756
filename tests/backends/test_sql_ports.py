"""What the ports that are written once for all SQL engines need of each engine's statements and columns."""

from __future__ import annotations

import inspect
import re
import sqlite3
from dataclasses import MISSING, fields
from datetime import UTC, datetime
from pathlib import Path

import pytest

from handraise.backends.postgres.transaction import STATEMENTS as POSTGRES
from handraise.backends.sql import directory, executor, ledger, outbox
from handraise.backends.sql.decided_changes import rounds_of
from handraise.backends.sql.rows import NOT_STORED, Row, stored_question
from handraise.backends.sqlite import open_sqlite
from handraise.backends.sqlite.statements import PARTS
from handraise.backends.sqlite.statements import STATEMENTS as SQLITE
from handraise.model.questions import Ref
from handraise.questions import Draft, Question
from tests.client.test_records import FULL

USED = {
    name
    for port in (directory, executor, ledger, outbox)
    for name in re.findall(r'"(\w+)"', inspect.getsource(port))
    if name in POSTGRES or name in SQLITE
}
AT = datetime(2026, 11, 17, 9, tzinfo=UTC)


def test_both_engines_have_every_statement_of_the_shared_ports() -> None:
    assert len(USED) > 60
    assert USED - POSTGRES.keys() == set()
    assert USED - SQLITE.keys() == set()


@pytest.mark.parametrize("name", sorted(USED))
def test_a_statement_takes_the_same_parameters_in_both_engines(name: str) -> None:
    if PARTS[name]:  # else it is a lock, and SQLite needs none
        assert {*SQLITE[name].parameters} - {"now"} == {*POSTGRES[name].parameters} - {"now"}


@pytest.mark.parametrize(
    "name",
    [
        "route",
        "record",
        "reached",
        "unreached",
        "deliveries",
        "add_salts",
        "salts",
        "asked",
        "removals_of_seal",
    ],
)
async def test_sqlite_finds_what_a_batch_is_about_without_reading_all_of_the_workspace(
    name: str, tmp_path: Path
) -> None:
    plan = await steps_of(name, tmp_path)
    assert plan != []
    assert [step for step in plan if step.endswith("(workspace=?)")] == []
    assert [step for step in plan if step.startswith("SCAN") and "VIRTUAL TABLE" not in step] in (
        [],
        ["SCAN t"],
        ["SCAN found"],  # what was found with an index before
    )


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("failed_deliveries", "deliveries_failed"),
        ("failed_by_channel", "deliveries_failed_by_channel"),
        ("retried_deliveries", "deliveries_retried"),
        ("retried_by_channel", "deliveries_retried_by_channel"),
    ],
)
async def test_sqlite_reads_only_the_deliveries_that_failed_or_are_tried_again(
    name: str, index: str, tmp_path: Path
) -> None:
    plan = await steps_of(name, tmp_path)
    walked = [step for step in plan if " d USING " in step and "workspace=? AND id=?" not in step]
    assert walked != []
    assert [step for step in walked if f" INDEX {index} (" not in step] == []
    sorts = plan[:-1] if name.endswith("by_channel") else plan  # at the end, a row for each channel is sorted
    assert "USE TEMP B-TREE FOR ORDER BY" not in sorts


def test_every_field_of_a_draft_is_passed_to_the_statement_that_stores_it() -> None:
    stored = {*POSTGRES["insert_questions"].parameters}
    assert {each.name for each in fields(Draft)} - {"callback"} <= stored, (
        "a callback is stored as a delivery"
    )


async def steps_of(name: str, folder: Path) -> list[str]:
    """SQLite's plan of a statement."""
    async with open_sqlite(folder / "questions.db"):
        pass
    connection = sqlite3.connect(folder / "questions.db")
    values = dict.fromkeys(SQLITE[name].parameters, "[]")
    try:
        parts = [connection.execute(f"explain query plan {part}", values) for part in PARTS[name]]
        return [row[3] for rows in parts for row in rows]
    finally:
        connection.close()


async def test_every_field_of_a_question_is_read_from_its_row_or_is_listed_as_not_stored(
    tmp_path: Path,
) -> None:
    async with open_sqlite(tmp_path / "questions.db") as backend:
        draft = Draft(**{each.name: getattr(FULL, each.name) for each in fields(Draft)})
        for version in range(3):  # the one that the question was decided by
            await backend.policies.put(FULL.workspace, {}, by="ops", expected=version)
        await backend.store.insert([draft])
    with sqlite3.connect(tmp_path / "questions.db") as connection:
        connection.row_factory = sqlite3.Row
        connection.execute(
            "update questions set status = 'answered', attempts = 1, votes = ?, steps_taken = 2, stepped_at = 5, "
            "settled_at = 5, outcome = ?, consumed_at = 5, unreached_at = 5, sent_at = 5, missing = ?, "
            "reported_at = 5, report = ?, thread = 3, asked_back = 2, replied = 3, "
            "taken_by = 'ana', taken_until = 5, aside = '{\"ana\": 5}', replaced_by = 'q9', follows = 'q3'",
            ['{"ana": "x"}', '{"value": "a"}', "[0, 1]", '{"ok": true, "text": "done"}'],
        )
        (row,) = connection.execute("select *, 5 as now from questions").fetchall()
    connection.close()
    # An approval that is used is not taken back, so that no row has both.
    question = stored_question({**row, "taken_back_at": AT})
    missing = {
        each.name
        for each in fields(Question)
        if each.default is not MISSING and getattr(question, each.name) == each.default
    }
    assert missing == {*NOT_STORED, "overdue"}, "what has ended is never overdue"


def test_a_row_without_a_column_is_no_question() -> None:
    row: Row = dict.fromkeys((each.name for each in fields(Question) if each.name != "trace"), None) | {
        "settled_at": None
    }
    with pytest.raises(KeyError, match="trace"):
        stored_question(row)


def test_questions_are_locked_in_one_order_and_each_once_in_a_round() -> None:
    c, a, b = (Ref("w", each) for each in "cab")
    assert rounds_of([(c,), (a,), (c,), (b, a)]) == [[1, 0], [3, 2]]
    assert rounds_of([]) == []
