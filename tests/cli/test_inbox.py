"""The list of the terminal's inbox."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.utils import get_cwidth

from handraise import Approval, Confirm, Responder, open_desk
from handraise.cli.inbox_command import _cut, row_parts
from handraise.cli.inbox_rows import entries_of, rows_for
from handraise.cli.question_commands import summary_lines
from handraise.cli.question_view import StyledLine
from handraise.cli.session import CliSession
from handraise.desk.local_desk import LocalDesk


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


def session_of(desk: LocalDesk) -> CliSession:
    return CliSession(desk, Responder("ada"), may_answer=True)


def said(line: StyledLine) -> str:
    return "".join(text for _, text in line)


async def test_more_than_twenty_equal_questions_of_one_agent_are_one_row_that_opens() -> None:
    async with open_desk("memory:", asker="bot") as desk:
        assert isinstance(desk, LocalDesk)
        posted = [await desk.post("Restart?", form=Confirm()) for _ in range(25)]
        alike = await desk.scoped(asker="other-bot").post("Restart?", form=Confirm())
        last = await desk.post("And now?")
        found = await rows_for(session_of(desk))
        assert [row.question.id for row in found.rows] == [posted[0].id, alike.id, last.id]
        assert [each.id for each in found.rows[0].equal] == [each.id for each in posted[1:]]
        assert (found.total, found.more) == (27, False)
        closed = [each.id for each in entries_of(found.rows, ())]
        assert closed == [posted[0].id, alike.id, last.id]
        opened = [each.id for each in entries_of(found.rows, {found.rows[0].likeness})]
        assert opened == [each.id for each in (*posted, alike, last)]
        assert "and 24 more just like this one" in said(row_parts(found.rows[0], 80, me="ada", marked=False))
        for question in posted[:5]:
            await desk.answer(question.id, True, by="ada")
        assert len((await rows_for(session_of(desk))).rows) == 22


async def test_what_stands_behind_many_equal_questions_is_in_the_list() -> None:
    async with open_desk("memory:", asker="bot") as desk:
        assert isinstance(desk, LocalDesk)
        await asyncio.gather(*(desk.post("Restart?", form=Confirm()) for _ in range(700)))
        last = await desk.post("And now?")
        found = await rows_for(session_of(desk))
        assert (len(found.rows), found.total, found.rows[1].question.id) == (2, 701, last.id)


async def test_the_list_says_that_you_have_voted_and_that_others_have_not() -> None:
    async with open_desk("memory:", asker="bot") as desk:
        assert isinstance(desk, LocalDesk)
        question = await desk.post("Ship it?", form=Confirm(), quorum=2)
        [row] = (await rows_for(session_of(desk))).rows
        assert "voted" in said(row_parts(row, 80, me="ada", marked=False))
        assert "you voted" not in said(row_parts(row, 80, me="ada", marked=False))
        question = await desk.answer(question.id, True, by="ada")
        [row] = (await rows_for(session_of(desk))).rows
        assert "✓ you voted · " in said(row_parts(row, 80, me="ada", marked=False))
        assert "you voted" not in said(row_parts(row, 80, me="bob", marked=False))
        assert "you voted" in said(summary_lines(question, 80, "ada")[1])
        assert "you voted" not in said(summary_lines(question, 80, "bob")[1])


async def test_a_question_that_waits_for_the_agents_reply_is_last_and_says_so() -> None:
    async with open_desk("memory:", asker="bot") as desk:
        assert isinstance(desk, LocalDesk)
        first = await desk.post("Ship it?", replies="program")
        second = await desk.post("And this?")
        await desk.ask_back(first.id, "Ship what?", by="ada")
        rows = (await rows_for(session_of(desk))).rows
        assert [row.question.id for row in rows] == [second.id, first.id]
        waits = [
            "waiting for the agent's reply" in said(row_parts(row, 99, me="ada", marked=False))
            for row in rows
        ]
        assert waits == [False, True]
        question = await desk.reply(first.id, "The release")
        assert "waiting for" not in said(summary_lines(question, 80, "ada")[1])
        assert [row.question.id for row in (await rows_for(session_of(desk))).rows] == [first.id, second.id]


async def test_what_expires_within_an_hour_is_marked_and_above_high_risk() -> None:
    async with open_desk("memory:", asker="bot") as desk:
        assert isinstance(desk, LocalDesk)
        later = await desk.post("Which colour?", expires_in=timedelta(days=20))
        risky = await desk.post(
            "Pay?", form=Approval.of("pay", {}, risk="high"), expires_in=timedelta(days=2)
        )
        soon = await desk.post("Lunch?", expires_in=timedelta(minutes=50))
        rows = (await rows_for(session_of(desk))).rows
        assert [row.question.id for row in rows] == [soon.id, risky.id, later.id]
        styles = [{style for style, _ in row_parts(row, 80, me="ada", marked=False)} for row in rows]
        assert ["class:bad" in each for each in styles] == [True, False, False]


@pytest.mark.parametrize("size", [20, 40, 80])
async def test_no_row_is_wider_than_the_screen(size: int) -> None:
    async with open_desk("memory:", asker="a-rather-long-name-of-an-agent") as desk:
        assert isinstance(desk, LocalDesk)
        for _ in range(30):
            await desk.post("**Restart** " + "the worker " * 30, form=Confirm(), quorum=2, expires_in=600)
        [row] = (await rows_for(session_of(desk))).rows
        first, *_ = said(row_parts(row, size, me="ada", marked=True)).split("\n")
        assert get_cwidth(first) <= size
