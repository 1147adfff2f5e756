"""The blocking face: the same verbs, from threads."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import threading
import time
from datetime import timedelta

import pytest

import handraise.blocking
from handraise import Answered, Confirm, Desk, InvalidAnswer, Problem, StillPending
from handraise.desks import Recovered
from handraise.errors import WrongLoop
from handraise.testing import promise
from handraise.testing.contract.backend import in_a_forked_child


def test_every_verb_blocks(address: str) -> None:
    with handraise.blocking.open_desk(address, workspace=f"blocking {address}") as desk:
        question = desk.post("Which?", choices=["a", "b"], key="k")
        assert desk.find_by_key("k") == question
        assert desk.list_pending().items == [question]
        with pytest.raises(InvalidAnswer):
            desk.answer(question.id, "c", by="ana")
        with pytest.raises(StillPending):
            desk.wait(question.id, timeout=0.01)
        desk.answer(question.id, "b", by="ana")
        assert isinstance(desk.wait(question.id), Answered)
        assert desk.wait_any([question.id])[0] == question.id
        assert desk.ask("Which?", choices=["a", "b"], key="k") == "b"
        assert [event.kind for event in desk.history(question.id)] == ["asked", "attempted", "answered"]
        until = time.monotonic() + 10
        while (
            len(fed := desk.feed()) < 3 and time.monotonic() < until
        ):  # other transactions of the cluster hold it up
            time.sleep(0.01)
        assert len(fed) == 3
        declined, withdrawn = desk.post("No?"), desk.post("Never mind?")
        assert desk.reject_answer(declined.id, "x", [Problem("", "not that")], by="ana").attempts == 1
        assert desk.decline(declined.id, by="ana").status == "declined"
        assert desk.withdraw(withdrawn.id).status == "withdrawn"
        assert desk.get(withdrawn.id).status == "withdrawn"
        assert desk.run_due() >= 0
        assert desk.recover(timedelta(days=1)) == Recovered(expired=0, live=0)
        assert desk.durability().survives
        assert (desk.scoped("elsewhere").workspace, desk.scoped(asker="other").asker) == (
            "elsewhere",
            "other",
        )
    with handraise.blocking.open_desk("memory:") as desk:
        yes = desk.post("Sure?", form=Confirm(), key="k")
        desk.answer(yes.id, "yes", by="ana")
        assert desk.ask("Sure?", into=bool, key="k") is True


def test_it_has_every_verb_of_the_desk() -> None:
    def public(desk: type) -> dict[str, inspect.Signature]:
        members = inspect.getmembers(desk, inspect.isfunction)
        return {name: inspect.signature(member) for name, member in members if not name.startswith("_")}

    local, blocking = public(Desk), public(handraise.blocking.BlockingDesk)
    assert {name: list(verb.parameters) for name, verb in blocking.items()} == {
        name: list(verb.parameters) for name, verb in local.items()
    }


def test_threads_share_a_desk() -> None:
    with handraise.blocking.open_desk("memory:") as desk:
        questions = [desk.post(f"Which {n}?") for n in range(8)]
        got: dict[str, str] = {}

        def wait(question_id: str) -> None:
            outcome = desk.wait(question_id, timeout=10)
            assert isinstance(outcome, Answered)
            got[question_id] = outcome.value

        threads = [threading.Thread(target=wait, args=(question.id,)) for question in questions]
        for thread in threads:
            thread.start()
        for question in questions:
            desk.answer(question.id, question.prompt, by="ana")
        for thread in threads:
            thread.join(10)
        assert got == {question.id: question.prompt for question in questions}


@promise("P10")
def test_closing_ends_the_calls_of_other_threads() -> None:
    for _ in range(10):
        ended: list[str] = []
        with handraise.blocking.open_desk("memory:") as desk:
            question = desk.post("Which?")

            def look(desk: handraise.blocking.BlockingDesk = desk, question_id: str = question.id) -> None:
                try:
                    while True:
                        desk.get(question_id)
                except handraise.errors.DeskClosed:
                    ended.append("closed")  # noqa: B023 -- the thread ends within this round

            threads = [threading.Thread(target=look, daemon=True) for _ in range(3)]
            for thread in threads:
                thread.start()
        for thread in threads:
            thread.join(10)
        assert ended == ["closed"] * 3
        with pytest.raises(handraise.errors.DeskClosed):
            desk.get(question.id)


@promise("P10")
def test_a_forked_child_is_told_at_once_to_open_a_desk_of_its_own(address: str) -> None:
    with handraise.blocking.open_desk(address, workspace=f"forked {address}") as desk:
        question = desk.post("Which?")
        assert in_a_forked_child(lambda: desk.post("Which?")) == "ForkedDesk"
        assert in_a_forked_child(lambda: desk.scoped("elsewhere").wait(question.id)) == "ForkedDesk"
        assert in_a_forked_child(lambda: next(desk.follow())) == "ForkedDesk"
        assert desk.get(question.id).status == "pending"
        if address != "memory:":

            def opens_its_own() -> str:
                with handraise.blocking.open_desk(address, workspace=desk.workspace) as own:
                    return own.answer(question.id, "a", by="ana").status

            assert in_a_forked_child(opens_its_own) == "answered"
            assert isinstance(desk.wait(question.id, timeout=10), Answered)


@promise("P10")
def test_a_child_that_leaves_the_desk_leaves_its_parents_connections_alone(address: str) -> None:
    with handraise.blocking.open_desk(address) as kept:
        with handraise.blocking.open_desk(address) as desk:
            desk.post("Which?")
            opened = handraise.blocking.open_desk(address)
            forked = opened.__enter__()
            forked.post("Which?")
            assert in_a_forked_child(lambda: opened.__exit__(None, None, None)) in ("None", "False")
            assert forked.post("And now?").status == "pending"
            opened.__exit__(None, None, None)
        assert kept.post("Still?").status == "pending"


async def test_inside_a_coroutine_it_says_what_to_write_instead() -> None:
    with handraise.blocking.open_desk("memory:") as desk:
        with pytest.raises(WrongLoop, match=r"await desk\.ask.*asyncio\.to_thread"):
            desk.post("Which?")
        assert (await asyncio.to_thread(desk.post, "Which?")).status == "pending"


WAITS_FOR_EVER = """
import sys, threading, handraise.blocking
opened = handraise.blocking.open_desk(sys.argv[1])
desk = opened.__enter__()
question = desk.post("Will anybody ever answer?")
threading.Thread(target=desk.wait, args=(question.id,), daemon=True).start()
print("exiting")
"""

WAITS_IN_A_TASK = """
import asyncio, sys, handraise
async def main():
    async with handraise.open_desk(sys.argv[1]) as desk:
        question = await desk.post("Will anybody ever answer?")
        task = asyncio.create_task(desk.wait(question.id))
        await asyncio.sleep(0.05)
        task.cancel()
asyncio.run(main())
print("exiting")
"""


@promise("P10")
@pytest.mark.parametrize("program", [WAITS_FOR_EVER, WAITS_IN_A_TASK], ids=["threads", "tasks"])
def test_a_pending_wait_does_not_keep_a_process_from_exiting(address: str, program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program, address], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "exiting\n", "")
