"""Sending back and sharing from a script: what is recorded, what is printed, and who may not."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import typer

from handraise import Approval, Responder, open_desk
from handraise.cli.inbox_command import row_parts
from handraise.cli.inbox_rows import rows_for
from handraise.cli.question_context import context_of
from handraise.cli.question_view import question_lines
from handraise.cli.session import CliSession
from handraise.cli.sharing_prompt import ways_of
from handraise.cli.terminal_texts import future_of
from handraise.desk.local_desk import LocalDesk
from support.command import Done, handraise

Run = Callable[..., Done]
REFUND = ("ask", "Refund?", "--approval", "refund", "--argument", "amount=300", "--argument", "note=late")


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'questions.db'}"


@pytest.fixture
def run(file: str, tmp_path: Path) -> Run:
    """A command on the store, by ada."""

    def command(*line: str, **settings: str) -> Done:
        return handraise(*line, **{"url": file, "LOGNAME": "ada", "XDG_DATA_HOME": str(tmp_path), **settings})

    return command


def asked(run: Run, *line: str) -> str:
    """The id of a new question."""
    found = re.search(r"^Pending: (\S+)$", run(*line).stderr, re.MULTILINE)
    assert found
    return found[1]


def test_a_question_is_sent_back_and_its_successor_shows_what_changed(run: Run) -> None:
    old = asked(run, *REFUND, "--key", "refund")
    done = run("send-back", old, "--reason", "Only 30\x1b[2J: the rest\nwas paid.")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Settled: sent back by ada (Only 30‹U+001B›[2J: the rest‹U+000A›was paid.).\n"
    assert run(*REFUND, "--key", "refund").returncode == 9
    changed = ("ask", "Refund?", "--approval", "refund", "--argument", "amount=30", "--replaces", old)
    new = asked(run, *changed)
    shown = run("show", new, LOGNAME="bo").stdout
    assert (
        "Replaces an earlier question, which ada sent back:\n│ Only 30‹U+001B›[2J: the rest\n│ was paid."
        in shown
    )
    assert "What is different now\namount\n- 300\n+ 30\nnote\n- late\n" in shown
    assert "which you sent back" in run("show", new).stdout
    assert f"Another question was asked instead: {new}" in run("show", old).stdout


def test_sending_back_needs_a_reason_and_somebody_who_may_answer(run: Run) -> None:
    question = asked(run, "ask", "Deploy?", "--confirm", "--recipient", "ada", "--recipient", "bo")
    assert run("send-back", question).returncode == 2
    empty = run("send-back", question, "--reason", " ")
    assert (empty.returncode, "say what to change" in empty.stderr) == (1, True)
    for stranger in ("mallory", "agent"):
        for line in (
            ("send-back", question, "--reason", "no"),
            ("take", question),
            ("not-for-me", question),
            ("bring-in", question, "mallory"),
            ("hand-over", question, "mallory"),
            ("snooze", question, "2h"),
        ):
            refused = run(*line, LOGNAME=stranger)
            assert (refused.returncode, refused.stdout) == (1, "")
    assert [each["kind"] for each in _history(run, question)] == ["asked"]


def test_one_takes_a_question_and_the_others_see_it(run: Run) -> None:
    question = asked(run, "ask", "Deploy?", "--confirm", "--recipient", "ada", "--recipient", "bo")
    assert run("take", question).stdout.startswith("Taken: the others see until ")
    assert "ada is on this" in run("list", LOGNAME="bo").stdout
    assert "ada is on this." in run("show", question, LOGNAME="bo").stdout
    assert "you are on this" in run("list").stdout
    second = run("take", question, LOGNAME="bo")
    assert (second.returncode, "ada is working on question" in second.stderr) == (1, True)
    released = json.loads(run("release", question, "--json").stdout)
    assert (released["id"], released.get("taken_by")) == (question, None)


def test_others_are_brought_in_and_read_why(run: Run) -> None:
    question = asked(run, "ask", "Deploy?", "--confirm", "--recipient", "ada")
    done = run("bring-in", question, "bo", "group:ops", "--reason", "You know \x1b]0;this")
    assert done.stdout == "Brought in: bo and the group ops.\n"
    shown = run("show", question, LOGNAME="bo").stdout
    assert "You were brought in by ada:\n│ You know ‹U+001B›]0;this" in shown
    assert "You were brought in" not in run("show", question).stdout
    over = run("hand-over", question, "cy")
    assert over.stdout == "Handed over to cy. It is not in your inbox any more.\n"
    assert "Deploy?" not in run("list").stdout
    assert "This was handed over to you by ada." in run("show", question, LOGNAME="cy").stdout
    wrong = run("bring-in", question, "agent", LOGNAME="bo")
    assert (wrong.returncode, "the asker cannot answer" in wrong.stderr) == (1, True)


def test_a_question_is_set_aside_and_put_back(run: Run) -> None:
    question = asked(run, "ask", "Deploy?", "--confirm", "--recipient", "ada", "--recipient", "bo")
    gone = run("not-for-me", question)
    assert gone.stdout == f"It is not in your inbox any more. To put it back: handraise put-back {question}\n"
    assert "Deploy?" not in run("list").stdout
    assert "Deploy?" in run("list", LOGNAME="bo").stdout
    assert question in run("list", "--aside").stdout
    assert run("put-back", question).stdout == "It is in your inbox again.\n"
    assert "You have set nothing aside." in run("list", "--aside").stdout
    assert "Deploy?" in run("list").stdout
    assert run("snooze", question, "2h").stdout.startswith("Snoozed until ")
    assert "Deploy?" not in run("list").stdout
    assert run("snooze", question, "2020-01-01").returncode == 2


def test_the_only_one_who_may_answer_cannot_leave_it(run: Run) -> None:
    question = asked(run, "ask", "Deploy?", "--confirm", "--recipient", "ada")
    refused = run("not-for-me", question)
    assert (refused.returncode, "nobody else has this in their inbox" in refused.stderr) == (1, True)


@pytest.mark.parametrize("text", ["", "soon", "-2h", "0", "2020-01-01T09:00", "9" * 40])
def test_a_time_that_is_not_in_the_future_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        future_of(text)


def test_a_time_is_a_span_or_a_date() -> None:
    assert future_of("2h") - datetime.now(UTC) > timedelta(minutes=119)
    assert future_of("2999-11-20T09:00+01:00") == datetime(2999, 11, 20, 8, tzinfo=UTC)


async def test_several_may_leave_it_to_the_others_and_one_may_not() -> None:
    async with open_desk("memory:", asker="bot") as desk:
        several = await desk.post("Deploy?", recipients=["ada", "bo"])
        alone = await desk.post("Deploy?", recipients=["ada"])
        ways = {each.value: each.text for each in ways_of(several, "ada")}
        assert (ways["not_for_me"], ways["decline"]) == ("Not for me", "End for everyone")
        ways = {each.value: each.text for each in ways_of(alone, "ada")}
        assert ("not_for_me" in ways, ways["decline"]) == (False, "Decline")
        taken = await desk.take(several.id, by="ada")
        assert {"take", "release"} & {each.value for each in ways_of(taken, "ada")} == {"release"}


async def test_the_list_shows_who_is_on_it_and_what_is_set_aside() -> None:
    async with open_desk("memory:", asker="bot") as desk:
        assert isinstance(desk, LocalDesk)
        question = await desk.post("Deploy?", recipients=["ada", "bo"])
        await desk.take(question.id, by="bo")
        session = CliSession(desk, Responder("ada"), may_answer=True)
        [row] = (await rows_for(session)).rows
        told = "".join(text for _, text in row_parts(row, 80, me="ada", marked=False))
        assert "bo is on this" in told
        await desk.set_aside(question.id, by="ada")
        assert (await rows_for(session)).rows == []
        assert [each.question.id for each in (await rows_for(session, aside=True)).rows] == [question.id]


async def test_a_question_whose_predecessor_cannot_be_seen_says_only_that() -> None:
    async with open_desk("memory:", asker="bot") as desk:
        assert isinstance(desk, LocalDesk)
        old = await desk.post("Pay?", form=Approval.of("pay", {"to": "eve"}), recipients=["eve"])
        new = await desk.post("Pay?", form=Approval.of("pay", {"to": "ada"}), replaces=old.id)
        session = CliSession(desk, Responder("ada"), may_answer=True)
        lines = question_lines(new, 80, await context_of(session, new))
        told = "\n".join("".join(text for _, text in line) for line in lines)
        assert "Replaces an earlier question." in told
        assert "eve" not in told


def _history(run: Run, question: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in run("history", question, "--json").stdout.splitlines()]
