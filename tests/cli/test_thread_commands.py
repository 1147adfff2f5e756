"""The conversation about a question, from a script: `thread`, `ask-back`, `note`, `reply`, and `report` at its end."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from handraise import Approval, Desk, Question, open_desk
from support.command import SOON, Done, handraise, process, serving
from support.terminal import ENTER, at_terminal

Run = Callable[..., Done]
PAY = ("ask", "May I?", "--approval", "pay", "--argument", "amount=500", "--key", "pay")


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'questions.db'}"


@pytest.fixture
def run(file: str, tmp_path: Path) -> Run:
    """A command on the store, by ada."""

    def command(*line: str, **settings: str) -> Done:
        return handraise(*line, **{"url": file, "LOGNAME": "ada", "XDG_DATA_HOME": str(tmp_path), **settings})

    return command


def at_desk(url: str, work: Callable[[Desk], Awaitable[Any]]) -> Any:
    async def inside() -> Any:
        async with open_desk(url) as desk:
            return await work(desk)

    return asyncio.run(inside())


def asked(run: Run, *line: str) -> str:
    """The id of a new question."""
    found = re.search(r"^Pending: (\S+)$", run(*line).stderr, re.MULTILINE)
    assert found
    return found[1]


def test_people_ask_back_and_note_and_the_asker_replies(run: Run) -> None:
    question = asked(run, *PAY, "--replies")
    assert run("thread", question).stdout == "Nobody has written anything about this question.\n"
    sent = run("ask-back", question, "Why\x1b[2J 500?")
    assert (sent.returncode, sent.stdout) == (
        0,
        f"Sent. It is agent's turn. To see the reply: handraise thread {question}\n",
    )
    assert "waiting for the agent's reply" in run("list").stdout
    noted = run("note", question, "Careful", "--as", "bob")
    assert noted == Done(0, "Noted for the other people. The agent does not see it.\n", "")
    replied = run("reply", question, "Two invoices", "--to", "1")
    assert replied == Done(0, "Replied.\n", "")
    lines = [line.partition(" · ")[0] for line in run("thread", question).stdout.splitlines()]
    conversation = [
        "The conversation",
        "1. ada through the terminal asked the agent",
        "│ Why‹U+001B›[2J 500?",
        "2. A note by bob through the terminal",
        "│ Careful",
        "3. A reply by agent",
        "│ Two invoices",
    ]
    assert lines[:7] == conversation
    assert "".join(lines[8:]).endswith("approve --seen 3")
    shown = [line.partition(" · ")[0] for line in run("show", question).stdout.splitlines()]
    assert shown[shown.index("The conversation") :][:7] == conversation
    told = " ".join(run("history", question).stdout.split())
    assert "The agent was asked something by ada through the terminal: Why‹U+001B›[2J" in told
    messages = [json.loads(line) for line in run("thread", question, "--json").stdout.splitlines()]
    assert [(each["number"], each["kind"], each["by"], each["text"]) for each in messages] == [
        (1, "asked_back", "ada", "Why\x1b[2J 500?"),
        (2, "noted", "bob", "Careful"),
        (3, "replied", "agent", "Two invoices"),
    ]


def test_an_approval_says_how_much_of_the_conversation_was_read(run: Run) -> None:
    question = asked(run, *PAY)
    run("note", question, "Careful")
    run("note", question, "Very")
    for more in ((), ("--seen", "1"), ("--seen", "3")):
        refused = run("answer", question, "approve", *more)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert (
            f"has the number 2, and this approval covers those up to {more[1] if more else 0}."
            in refused.stderr
        )
        assert f"handraise thread {question}" in refused.stderr
        assert "add --seen 2" in refused.stderr
    assert run("answer", question, "approve", "--seen", "2").returncode == 0
    assert run(*PAY).stdout == "approve\n"


def test_a_denial_and_other_answers_need_no_such_number(run: Run) -> None:
    approval, other = asked(run, *PAY), asked(run, "ask", "Which?")
    for question, value in ((approval, "deny"), (other, "this one")):
        run("note", question, "Careful")
        assert run("answer", question, value).returncode == 0
    usage = run("answer", approval, "--seen", "1")
    assert (usage.returncode, "handraise answer ID VALUE" in usage.stderr) == (2, True)


def test_what_cannot_be_said_is_refused_with_what_to_do(run: Run) -> None:
    silent, open_ended = asked(run, "ask", "Which?"), asked(run, "ask", "Why?", "--replies")
    for line, why in (
        (("ask-back", silent, "Why?"), "Write a note for the other people instead, or decline."),
        (("note", silent, " "), "This message cannot be kept: text: is empty: write something"),
        (("reply", open_ended, "Because"), "Nobody waits for a reply about question"),
        (("reply", open_ended, "Because", "--as", "other"), "that 'other' asked"),
        (("thread", "nowhere"), "There is no question 'nowhere'"),
    ):
        done = run(*line)
        assert (done.returncode, done.stdout, why in done.stderr) == (1, "", True), (line, done)
    run("ask-back", open_ended, "One?")
    run("ask-back", open_ended, "Two?")
    replied = run("reply", open_ended, "One.", "--to", "1")
    assert replied.stdout == (
        f"Replied. Somebody has asked something else since: handraise thread {open_ended}\n"
    )


def test_the_asker_reports_once_what_came_of_it(run: Run) -> None:
    question = asked(run, *PAY)
    early = run("report", question, "Paid", "--ok")
    assert (early.returncode, early.stdout) == (1, "")
    run("answer", question, "approve")
    assert run(*PAY).stdout == "approve\n"
    assert run("report", question, "Paid").returncode == 2
    done = run("report", question, "No money", "--failed", "--link", "https://bank.example/7")
    assert done == Done(0, "Reported as failed.\n", "")
    assert run("report", question, "Paid", "--ok").returncode == 1
    shown = run("show", question).stdout
    assert "Failed\n│ No money\n│ https://bank.example/7\n" in shown
    free = asked(run, "ask", "Which?")
    run("answer", free, "this")
    assert run("report", free, "Done", "--ok") == Done(0, "Reported as done.\n", "")


def test_a_script_without_a_terminal_prints_what_people_ask_and_how_to_reply(run: Run, file: str) -> None:
    async def work(desk: Desk) -> None:
        while (question := await desk.find_by_key("pay")) is None:
            await asyncio.sleep(0.02)
        await desk.ask_back(question.id, "Why\x1b[2J 500?", by="bob")
        async with asyncio.timeout(SOON):
            while "To reply:" not in getattr(sys.stderr, "getvalue", str)():
                await asyncio.sleep(0.02)
        await desk.decline(question.id, by="bob")

    person = threading.Thread(target=at_desk, args=(file, work))
    person.start()
    done = run(*PAY, "--replies", "--wait")
    person.join()
    assert (done.returncode, done.stdout) == (3, "")
    assert "1. bob asked the agent" in done.stderr
    assert "│ Why‹U+001B›[2J 500?" in done.stderr
    assert re.search(r"^To reply: handraise reply \S+ TEXT --to 1$", done.stderr, re.MULTILINE)


@pytest.mark.slow("starts a terminal; tests/cli/test_conversation_prompt.py has the other side")
def test_whoever_waits_at_a_terminal_replies_there(file: str) -> None:
    form = Approval.of("pay", {"amount": 500})
    with at_terminal(*PAY, "--replies", "--wait", url=file) as screen:
        screen.until("Waiting for an answer.")

        async def ask(desk: Desk) -> Question:
            question = await desk.find_by_key("pay")
            assert question is not None
            return await desk.ask_back(question.id, "Why 500?", by="bob")

        question = at_desk(file, ask)
        screen.until("1. bob asked the agent", "│ Why 500?", "enter sends the reply")
        screen.send("Two invoices", ENTER)
        screen.until_gone("enter sends the reply")

        async def approve(desk: Desk) -> list[str]:
            while (found := await desk.get(question.id)).is_askers_turn:
                await asyncio.sleep(0.02)
            assert found.form == form
            return [each.text for each in await desk.thread(question.id)]

        assert at_desk(file, approve) == ["Why 500?", "Two invoices"]
        assert process("answer", question.id, "approve", "--seen", "2", url=file).returncode == 0
        screen.until("approve")
        assert screen.end() == 0


@pytest.mark.slow("starts a server; the gate has the commands on a file")
def test_at_a_server_each_writes_in_their_own_name_and_an_agent_reads_no_notes(
    run: Run, tmp_path: Path
) -> None:
    made = json.loads(run("keys", "create", "pay-bot", "--json").stdout)
    with serving(f"sqlite:///{tmp_path / 'questions.db'}", tmp_path) as server:
        assert server.link is not None
        agent, person = {"url": server.address, "key": made["key"]}, {"url": server.address}
        assert run("sign-in", server.link, **person).returncode == 0
        run(*PAY, "--replies", **agent)
        [listed] = [json.loads(line) for line in run("list", "--json", **person).stdout.splitlines()]
        question = listed["id"]
        assert run("note", question, "Careful", **person).returncode == 0
        assert run("ask-back", question, "Why?", **person).returncode == 0
        refused = run("note", question, "I am a person", **agent)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert run("reply", question, "Because", **agent).returncode == 0
        read = run("thread", question, **agent).stdout
        assert "│ Only people can read it." in read
        assert "Careful" not in read
        assert "Careful" in run("thread", question, **person).stdout
        stale = run("answer", question, "approve", **person)
        assert (stale.returncode, "add --seen 3" in stale.stderr) == (1, True)
        assert run("answer", question, "approve", "--seen", "3", **person).returncode == 0
