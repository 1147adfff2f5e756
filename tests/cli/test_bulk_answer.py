"""`handraise answer --all`: one answer to several questions, after each was shown."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from handraise import Approval, Desk, Question, open_desk
from support.command import Done, handraise
from support.terminal import ENTER, at_terminal

Run = Callable[..., Done]


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'questions.db'}"


@pytest.fixture
def run(file: str, tmp_path: Path) -> Run:
    """A command on the store, by ada."""

    def command(*line: str, **settings: str) -> Done:
        return handraise(*line, **{"url": file, "LOGNAME": "ada", "XDG_DATA_HOME": str(tmp_path), **settings})

    return command


def at_desk(url: str, work: Callable[[Desk], Awaitable[Any]], asker: str = "support") -> Any:
    async def inside() -> Any:
        async with open_desk(url, asker=asker) as desk:
            return await work(desk)

    return asyncio.run(inside())


@pytest.fixture
def refunds(file: str) -> list[Question]:
    """Two refunds that can be decided together, and two that cannot."""

    async def post(desk: Desk) -> list[Question]:
        forms = [Approval.of("refund", {"order": order, "amount": 10 * order}) for order in (1, 2, 3)]
        forms.append(Approval.of("refund", {"order": 4, "amount": 9_000}, risk="high"))
        questions = [
            await desk.post(f"Refund order {place}?", form=form) for place, form in enumerate(forms, 1)
        ]
        await desk.note(questions[2].id, "call them first", by="bo")
        return questions

    found: list[Question] = at_desk(file, post)
    return found


def statuses(file: str, questions: list[Question]) -> list[str]:
    async def look(desk: Desk) -> list[str]:
        return [(await desk.get(each.id)).status.value for each in questions]

    found: list[str] = at_desk(file, look)
    return found


def test_what_it_answers_is_shown_and_what_it_leaves_out_has_a_reason(
    run: Run, file: str, refunds: list[Question]
) -> None:
    done = run("answer", "--all", "--tool", "refund", "--approve", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    told = done.stdout
    for each in refunds[:2]:
        assert "support asks for an approval" in told
        assert f"│ {each.prompt}" in told
    assert "amount  10" in told
    assert "amount  20" in told
    assert "amount  9000" not in told
    shown, left_out = told.split("Left out.")
    assert refunds[2].id not in shown
    assert f"{refunds[2].id} · Refund order 3?\n  there is a conversation about it" in left_out
    assert f"{refunds[3].id} · Refund order 4?\n  it is of high risk" in left_out
    assert left_out.endswith("2 answers were taken.\n")
    assert statuses(file, refunds) == ["answered", "answered", "pending", "pending"]
    again = run("answer", "--all", "--tool", "refund", "--approve", "--yes")
    assert again.stdout.endswith("There is nothing to answer like this.\n")


def test_the_history_has_the_digest_of_what_was_shown(run: Run, file: str, refunds: list[Question]) -> None:
    run("answer", "--all", "--tool", "refund", "--deny", "--reason", "closed", "--yes")

    async def look(desk: Desk) -> list[Any]:
        return [(await desk.history(each.id))[-1].data for each in refunds[:2]]

    first, second = at_desk(file, look)
    assert first["channel"] == second["channel"] == "terminal"
    assert first["value"]["reason"] == "closed"
    assert first["seen"] == 0
    assert first["shown_digest"] != second["shown_digest"]


def test_without_a_terminal_it_needs_yes(run: Run, file: str, refunds: list[Question]) -> None:
    refused = run("answer", "--all", "--tool", "refund", "--approve")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "add --yes" in refused.stderr
    assert statuses(file, refunds) == ["pending"] * 4


@pytest.mark.parametrize(("typed", "status"), [("y", "answered"), ("n", "pending"), ("", "pending")])
def test_one_confirmation_counts_them(
    file: str, tmp_path: Path, refunds: list[Question], typed: str, status: str
) -> None:
    line = ("answer", "--all", "--tool", "refund", "--approve")
    with at_terminal(*line, url=file, LOGNAME="ada", XDG_DATA_HOME=str(tmp_path)) as screen:
        screen.until("Approve these 2 actions? [y/N]:")
        screen.send(typed, ENTER)
        screen.process.wait(60)
    assert statuses(file, refunds) == [status, status, "pending", "pending"]


def test_other_agents_and_tools_are_left_alone(run: Run, file: str, refunds: list[Question]) -> None:
    async def post(desk: Desk) -> list[Question]:
        return [
            await desk.post("Ship?", form=Approval.of("ship")),
            await desk.post("Refund?", form=Approval.of("refund")),
            await desk.post("Which?", choices=["a", "b"]),
        ]

    others = at_desk(file, post, "shop")
    done = run("answer", "--all", "--tool", "refund", "--agent", "shop", "--approve", "--yes")
    assert done.stdout.endswith("1 answer was taken.\n")
    assert statuses(file, [*others, *refunds]) == ["pending", "answered", "pending", *["pending"] * 4]


def test_a_value_answers_questions_that_it_fits(run: Run, file: str) -> None:
    async def post(desk: Desk) -> list[Question]:
        return [
            await desk.post("Which?", choices=["Blue", "Red"]),
            await desk.post("And here?", choices=["Green", "Red"]),
            await desk.post("And there?", choices=["Green", "White"]),
            await desk.post("Refund?", form=Approval.of("refund")),
        ]

    questions = at_desk(file, post)
    done = run("answer", "--all", "--agent", "support", "--value", "red", "--yes")
    assert done.returncode == 0
    assert done.stdout.endswith("2 answers were taken.\n")
    assert statuses(file, questions) == ["answered", "answered", "pending", "pending"]
    assert "Left out" in done.stdout
    assert "attempted" not in run("history", questions[2].id).stdout


def test_votes_are_counted_and_not_given_twice(run: Run, file: str) -> None:
    async def post(desk: Desk) -> Question:
        return await desk.post("Refund?", form=Approval.of("refund"), quorum=2)

    at_desk(file, post)
    line = ("answer", "--all", "--tool", "refund", "--approve", "--yes")
    assert run(*line).stdout.endswith("1 answer was taken.\n1 of them needs more votes.\n")
    assert "you voted already" in run(*line).stdout


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (("--all", "--tool", "refund"), "needs one answer"),
        (("--all", "--tool", "refund", "--approve", "--deny"), "needs one answer"),
        (("--all", "--approve"), "Say which"),
        (("--all", "--tool", "refund", "--value", "x"), "--tool is for approvals"),
        (("--all", "--tool", "refund", "--approve", "--reason", "x"), "--reason is for --deny"),
        (("--all", "some-id", "--tool", "refund", "--approve"), "leave out the ID"),
        (("some-id", "--approve"), "need --all"),
        ((), "handraise answer ID"),
    ],
)
def test_what_is_not_clear_is_a_usage_error(run: Run, line: tuple[str, ...], why: str) -> None:
    done = run("answer", *line)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in " ".join(done.stderr.split())


def test_the_page_shows_what_the_command_prints(run: Run, refunds: list[Question]) -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/answer-many.md").read_text()
    done = run("answer", "--all", "--tool", "refund", "--approve", "--yes")
    heading = "Left out. Answer each of these by itself:\n"
    assert heading in page
    assert heading in done.stdout
    for text in (" · Refund order 4?\n  it is of high risk\n", "Approve these 39 actions? [y/N]:"):
        assert text in page
    assert f"• {refunds[3].id} · Refund order 4?\n  it is of high risk\n" in done.stdout
