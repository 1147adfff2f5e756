"""The conversation about a question at a real pseudo-terminal: it is shown, live, and can be continued there."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from handraise import Answered, Approval, Desk, Open, Question, open_desk
from handraise.questions import ThreadMessage
from support.terminal import CTRL_T, ENTER, ESCAPE, at_terminal

T = TypeVar("T")
PAY = Approval.of("pay", {"amount": 500})


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'questions.db'}"


def at_desk(store: str, work: Callable[[Desk], Awaitable[T]]) -> T:
    async def inside() -> T:
        async with open_desk(store, asker="pay-bot") as desk:
            return await work(desk)

    return asyncio.run(inside())


def thread(store: str, question: Question) -> list[ThreadMessage]:
    return list(at_desk(store, lambda desk: desk.thread(question.id)))


@pytest.mark.only_proof_of("that one can ask an agent back at a terminal, and sees its reply there")
def test_one_asks_back_sees_the_reply_and_approves_with_it(store: str) -> None:
    question = at_desk(store, lambda desk: desk.post("May I?", form=PAY, replies="program"))
    with at_terminal("answer", question.id, url=store, rows=50) as screen:
        screen.until("a approve", "ctrl-t writes a message")
        screen.send("a")
        screen.until("❯ 1  Approve")
        screen.send(CTRL_T)
        screen.until("❯ 1  Ask the agent", "2  Note something for the other people")
        screen.send(ENTER)
        screen.until("To the agent")
        screen.send(ENTER)
        screen.until("! is empty: write something")
        screen.send("Why 500?", ENTER)
        screen.until(
            "1. ada through the terminal asked the agent", "│ Why 500?", "Waiting for the agent's reply."
        )
        screen.until("a approve")
        assert "❯" not in screen.text  # what was marked before is not marked any more
        screen.send("a")
        screen.until("❯ 1  Approve")
        at_desk(store, lambda desk: desk.reply(question.id, "Two \x1b[2Jinvoices"))
        screen.until("2. A reply by pay-bot", "│ Two ‹U+001B›[2Jinvoices")
        screen.until("a approve")
        screen.send(ENTER)  # somebody who meant the old conversation
        screen.send("a", ENTER)
        screen.until("✓ Answered: Approved")
        assert screen.end() == 0
    (*_, last) = at_desk(store, lambda desk: desk.history(question.id))
    assert (last.kind, last.data["seen"], last.data["channel"]) == ("answered", 2, "terminal")


@pytest.mark.slow("starts a terminal; the gate asks back at one")
def test_if_nobody_can_reply_one_can_only_note_something_and_keeps_what_one_had_typed(store: str) -> None:
    question = at_desk(store, lambda desk: desk.post("Why?", form=Open()))
    with at_terminal("answer", question.id, url=store) as screen:
        screen.until("ctrl-t writes a message")
        screen.send("Half an ans")
        screen.until("› Half an ans")
        screen.send(CTRL_T)
        screen.until("For the other people · The agent does not see it.")
        screen.send("Ask Bo", ENTER)
        screen.until("1. A note by ada through the terminal", "│ Ask Bo", "› Half an ans")
        screen.send(CTRL_T)
        screen.until("enter sends")
        screen.send(ESCAPE)
        screen.until("› Half an ans", "ctrl-t writes a message")
        screen.send("wer", ENTER)
        screen.until("✓ Answered: Half an answer")
        assert screen.end() == 0
    assert [(each.kind, each.text) for each in thread(store, question)] == [("noted", "Ask Bo")]


@pytest.mark.slow("starts a terminal; the gate has a conversation that grows in front of one")
def test_an_approval_of_an_older_conversation_is_refused_and_one_decides_again(store: str) -> None:
    async def ask(desk: Desk) -> Question:
        question = await desk.post("May I?", form=PAY, replies="program")
        await desk.note(question.id, "first", by="bo")
        return question

    question = at_desk(store, ask)
    deaf = (
        "import asyncio, sys\n"
        "from handraise.cli import conversation_prompt, main\n"
        "conversation_prompt.Conversation.keep_fresh = lambda self: asyncio.sleep(0)\n"
        f"sys.argv = ['handraise', 'answer', {question.id!r}]\n"
        "main()"
    )
    shell = shlex.join([sys.executable, "-c", deaf])
    with at_terminal(url=store, shell=shell, rows=50) as screen:
        screen.until("The conversation", "1. A note by bo", "│ first", "a approve")
        at_desk(store, lambda desk: desk.note(question.id, "second", by="bo"))
        screen.send("a")
        screen.until("❯ 1  Approve")
        assert "second" not in screen.text
        screen.send(ENTER)
        screen.until("Not sent: somebody has written something.", "2. A note by bo", "│ second", "a approve")
        assert "❯" not in screen.text
        screen.send("a", ENTER)
        screen.until("✓ Answered: Approved")
        assert screen.end() == 0
    outcome = at_desk(store, lambda desk: desk.get(question.id)).outcome
    assert isinstance(outcome, Answered)


@pytest.mark.slow("starts a terminal; the gate asks back while one decides")
def test_a_long_reply_is_shown_page_by_page_before_an_approval_is_asked_for(store: str) -> None:
    question = at_desk(store, lambda desk: desk.post("May I?", form=PAY, replies="program"))
    with at_terminal("answer", question.id, url=store) as screen:
        screen.until("a approve")
        at_desk(store, lambda desk: desk.ask_back(question.id, "Why?", by="bo"))
        screen.until("Waiting for the agent's reply.", "a approve")
        text = "\n".join(f"line {number}" for number in range(40))
        at_desk(store, lambda desk: desk.reply(question.id, text))
        page = screen.until("more lines")
        assert "a approve" not in page
        screen.send(ENTER)
        while "a approve" not in screen.until("esc back"):
            screen.send(ENTER)
            screen.look(0.2)
        assert all(f"line {number}\n" in screen.all_text for number in range(40))
