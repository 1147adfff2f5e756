"""Questions answered at a real pseudo-terminal, one kind of form after the other."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar, Unpack

import pytest

from handraise import (
    Answered,
    Approval,
    Choice,
    Confirm,
    Declined,
    Desk,
    Field,
    Form,
    MultiChoice,
    Open,
    Option,
    Question,
    open_desk,
)
from handraise.outcomes import Returned
from handraise.questions import QuestionOptions
from support.command import SOON, handraise, serving
from support.terminal import CTRL_C, CTRL_J, CTRL_U, CTRL_X, DOWN, ENTER, ESCAPE, SPACE, at_terminal

T = TypeVar("T")

OTHER_SIZES = pytest.mark.slow(
    "a terminal of 24 rows is in the gate; lines are broken in tests/cli/test_hostile.py"
)
SIZES = [(24, 80), pytest.param(16, 46, marks=OTHER_SIZES), pytest.param(50, 140, marks=OTHER_SIZES)]


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'questions.db'}"


def post(store: str, prompt: str, **options: Unpack[QuestionOptions]) -> Question:
    async def work(desk: Desk) -> Question:
        return await desk.post(prompt, **options)

    return at_desk(store, work)


def get(store: str, question: Question) -> Question:
    return at_desk(store, lambda desk: desk.get(question.id))


def at_desk(store: str, work: Callable[[Desk], Awaitable[T]]) -> T:
    async def inside() -> T:
        async with open_desk(store, asker="deploy-bot") as desk:
            return await work(desk)

    return asyncio.run(inside())


def answer_when_asked(store: str, asker: str, value: Any) -> None:
    """Answer the next question of an agent, in the name of the person at the demo."""

    async def answer(desk: Desk) -> None:
        async with asyncio.timeout(SOON):
            while not (pending := (await desk.list_pending(asker=asker)).items):
                await asyncio.sleep(0.05)
        await desk.answer(pending[0].id, value, by="you")

    at_desk(store, answer)


def answer_of(store: str, question: Question) -> Any:
    outcome = get(store, question).outcome
    assert isinstance(outcome, Answered), outcome
    assert (outcome.by, outcome.channel) == ("ada", "terminal")
    return outcome.value


@pytest.mark.parametrize(("rows", "columns"), SIZES)
def test_a_choice_is_a_numbered_menu(store: str, rows: int, columns: int) -> None:
    form = Choice(
        options=(
            Option(id="c", label="Canary", description="A tenth of the traffic first"),
            Option(id="r", label="Rolling"),
            Option(id="b", label="Blue-green"),
        )
    )
    question = post(store, "Which strategy?", form=form, context={"service": "payments"})
    with at_terminal("answer", question.id, url=store, rows=rows, columns=columns) as screen:
        screen.until("deploy-bot asks", "Which strategy?", "payments", "❯ 1  Canary", "esc back")
        screen.send("3")
        screen.until("❯ 3  Blue-green")
        screen.send(DOWN, DOWN)
        screen.until("❯ 2  Rolling")
        screen.send(ENTER)
        screen.until("✓ Answered: Rolling")
        assert screen.end() == 0
    assert answer_of(store, question) == "r"


@pytest.mark.slow("starts a terminal; the menu of a choice is in the gate")
def test_a_choice_can_be_a_text_of_ones_own(store: str) -> None:
    question = post(store, "Which?", form=Choice.of("One", "Two", allow_other=True))
    with at_terminal("answer", question.id, url=store) as screen:
        screen.until("3  Something else…")
        screen.send("3", ENTER)
        screen.until("Your own answer:")
        screen.send(ENTER)
        screen.until("! your own text is empty")
        screen.send("Neither", ENTER)
        screen.until("✓ Answered: Other: Neither")
        assert screen.end() == 0
    assert answer_of(store, question) == {"other": "Neither"}


@pytest.mark.parametrize(("rows", "columns"), SIZES)
def test_several_options_are_ticked_within_their_bounds(store: str, rows: int, columns: int) -> None:
    form = MultiChoice.of("eu-west", "us-east", "ap-south", at_least=1, at_most=2)
    question = post(store, "Which regions?", form=form)
    with at_terminal("answer", question.id, url=store, rows=rows, columns=columns) as screen:
        screen.until("0 chosen", "Choose between 1 and 2")
        screen.send(ENTER)
        screen.until("! choose at least 1, not 0")
        screen.send(SPACE, DOWN, SPACE, DOWN, SPACE)
        screen.until("3 chosen")
        screen.send(ENTER)
        screen.until("! choose at most 2, not 3")
        screen.send("1", SPACE)
        screen.until("2 chosen", "[ ] eu-west")
        screen.send(ENTER)
        screen.until("✓ Answered: us-east, ap-south")
        assert screen.end() == 0
    found = get(store, question)
    assert (answer_of(store, question), found.attempts) == (["us-east", "ap-south"], 0)


def test_free_text_says_why_it_does_not_fit_and_may_have_several_lines(store: str) -> None:
    question = post(store, "What should it be called?", form=Open(min_length=3, max_length=40))
    with at_terminal("answer", question.id, url=store) as screen:
        screen.until("esc back")
        screen.send("ab", ENTER)
        screen.until("! needs at least 3 characters, has 2")
        screen.send("c", CTRL_J, "d", ENTER)
        screen.until("✓ Answered")
        assert screen.end() == 0
    assert answer_of(store, question) == "abc\nd"


def test_enter_alone_does_not_confirm(store: str) -> None:
    question = post(store, "Sure?", form=Confirm())
    with at_terminal("answer", question.id, url=store) as screen:
        screen.until("1  Yes", "2  No")
        screen.send(ENTER, "n")
        screen.until("❯ 2  No")
        screen.send("y")
        screen.until("❯ 1  Yes")
        screen.send(ENTER)
        screen.until("✓ Answered: Yes")
        assert screen.end() == 0
    assert answer_of(store, question) is True


FORM = Form(
    fields=(
        Field(name="name", title="Full name", form=Open()),
        Field(name="seats", title="Seats", form=Open(type="integer", minimum=1, maximum=500), default=10),
        Field(name="plan", title="Plan", form=Choice.of("Free", "Team"), description="What they pay for"),
        Field(name="start", title="Start", form=Open(type="date"), required=False),
        Field(name="news", title="Newsletter", form=Confirm(), required=False),
    )
)


@pytest.mark.parametrize(("rows", "columns"), SIZES)
@pytest.mark.only_proof_of("that a form can be filled in at a terminal")
def test_a_form_is_filled_field_by_field_with_the_reason_at_the_field(
    store: str, rows: int, columns: int
) -> None:
    question = post(store, "Who is the customer?", form=FORM)
    with at_terminal("answer", question.id, url=store, rows=rows, columns=columns) as screen:
        screen.until("1/5 Full name")
        screen.send("Ada", ENTER)
        screen.until("2/5 Seats", "› 10")
        screen.send("000", ENTER)
        screen.until("! must be at most 500, is 10000")
        screen.send(CTRL_U, "many", ENTER)
        screen.until("! expected a whole number")
        screen.send(ESCAPE)
        screen.until("› Ada")
        screen.send(" L.", ENTER)
        screen.until("› 10")
        screen.send(ENTER)
        screen.until("3/5 Plan", "What they pay for", "❯ 1  Free")
        screen.send("2", ENTER)
        screen.until("4/5 Start (optional)")
        screen.send("soon", ENTER)
        screen.until("! is not a date such as")
        screen.send(CTRL_U, ENTER)
        screen.until("5/5 Newsletter", "❯ 2  Leave it empty")
        screen.send(ENTER)
        screen.until("❯ 1  Send this")
        screen.send(ENTER)
        screen.until("✓ Answered")
        assert screen.end() == 0
    assert answer_of(store, question) == {"name": "Ada L.", "seats": 10, "plan": "Team"}


def approval(**options: Any) -> Approval:
    arguments = {"database": "payments-prod", "limit": 1204, "sql": "DELETE FROM accounts\nLIMIT 1204"}
    return Approval.of("delete_accounts", arguments, **options)


@pytest.mark.parametrize(("rows", "columns"), SIZES)
@pytest.mark.only_proof_of("that an action is approved at a terminal as it is shown")
def test_an_approval_shows_the_whole_action_and_enter_alone_approves_nothing(
    store: str, rows: int, columns: int
) -> None:
    question = post(store, "May I?", form=approval())
    with at_terminal("answer", question.id, url=store, rows=rows, columns=columns) as screen:
        while "a approve" not in screen.until("esc back"):
            screen.send(ENTER)
            screen.until_gone("more lines")
        for part in ("delete_accounts", "payments-prod", "1204", "DELETE FROM accounts", "May I?"):
            assert part in screen.all_text
        screen.send(ENTER, "a")
        screen.until("❯ 1  Approve, just this once")
        screen.send(ENTER)
        screen.until("✓ Answered: Approved")
        assert screen.end() == 0
    assert answer_of(store, question) == {"decision": "approve", "digest": approval().digest}


@pytest.mark.parametrize(("key", "settled"), [("a", "answered"), (CTRL_X, "declined")])
@pytest.mark.slow("starts two terminals; the gate approves at one")
def test_what_was_on_the_screen_is_part_of_the_record(store: str, key: str, settled: str) -> None:
    question = post(store, "May I?", form=approval())
    with at_terminal("answer", question.id, url=store, rows=50, columns=140) as screen:
        lines = screen.until("a approve").split("\n")
        menu = next(place for place, line in enumerate(lines) if "Approve, just this once" in line)
        seen = hashlib.sha256("\n".join(lines[:menu]).encode()).hexdigest()
        screen.send(key)
        if settled == "declined":
            screen.until("End for everyone  (x)")
            screen.send("x", ENTER)
        screen.until("❯ 1  Approve, just this once" if settled == "answered" else "why?")
        screen.send(ENTER)
        assert screen.end() == 0
    (*_, last) = at_desk(store, lambda desk: desk.history(question.id))
    assert (last.kind, last.data["shown_digest"]) == (settled, seen)


@pytest.mark.slow("turns pages at a terminal; the gate has an action of one page")
def test_no_menu_stands_below_an_action_that_was_not_all_on_the_screen(store: str) -> None:
    lines = [f"line {number}" for number in range(60)]
    question = post(store, "May I?", form=Approval.of("write", {"text": "\n".join(lines)}))
    with at_terminal("answer", question.id, url=store) as screen:
        pages = [screen.until("more lines")]
        while "more lines" in pages[-1]:
            assert "approve" not in pages[-1].lower().replace("if approved", "").replace("approve write", "")
            screen.send(ENTER)
            told = pages[-1].splitlines()[-1]
            screen.until_gone(told)
            pages.append(screen.until("esc back"))
        seen = "\n".join(pages)
        assert all(f"line {number}" in seen for number in range(60))
        screen.send("d", ENTER)
        screen.until("why?")
        screen.send(ENTER)
        screen.until("✓ Answered: Denied")


@pytest.mark.slow("starts a terminal; the gate approves at one")
def test_a_denial_is_as_easy_and_takes_a_reason(store: str) -> None:
    question = post(store, "May I?", form=approval(risk="high"))
    with at_terminal("answer", question.id, url=store) as screen:
        screen.until("d deny")
        assert "High risk. The agent's author says" in screen.all_text
        screen.send("d", ENTER)
        screen.until("why?")
        screen.send("Not on a Friday", ENTER)
        screen.until("✓ Answered: Denied; Reason: Not on a Friday")
        assert screen.end() == 0
    assert answer_of(store, question)["reason"] == "Not on a Friday"


@pytest.mark.slow("starts a terminal; tests/model has what may be edited")
def test_edited_arguments_are_shown_as_a_difference_before_they_are_approved(store: str) -> None:
    question = post(store, "May I?", form=approval(editable=["limit"]))
    with at_terminal("answer", question.id, url=store) as screen:
        screen.until("Change arguments, then decide")
        screen.send("e", ENTER)
        screen.until("› 1204")
        screen.send(CTRL_U, "5", ENTER)
        screen.until("What you changed", "- 1204", "+ 5", "Approve this")
        screen.send(ENTER, "a", ENTER)
        screen.until("✓ Answered: Approved with changed arguments")
        assert screen.end() == 0
    decision = get(store, question).decision
    assert decision is not None
    assert decision.action.arguments["limit"] == 5


@pytest.mark.slow("starts a terminal; tests/model has what a scope means")
def test_a_scope_is_explained_before_it_is_chosen(store: str) -> None:
    form = approval(scopes=("once", "session"), remember_by=["database"])
    question = post(store, "May I?", form=form, conversation="cleanup")
    with at_terminal("answer", question.id, url=store) as screen:
        screen.until("again in this conversation for 30 d")
        screen.send("3")
        screen.until("database = payments-prod", "can be revoked")
        screen.send(ENTER)
        screen.until("✓ Answered: Approved, for this conversation")
    assert answer_of(store, question)["scope"] == "session"


@pytest.mark.slow("starts a terminal; the gate denies at one")
def test_one_may_refuse_to_answer(store: str) -> None:
    question = post(store, "Your password?")
    with at_terminal("answer", question.id, url=store) as screen:
        screen.until("esc back")
        screen.send("hun", CTRL_X)
        screen.until("Send back  (s)", "Not for me  (n)", "End for everyone  (x)")
        screen.send("x", ENTER)
        screen.until("why?")
        screen.send("No agent gets that", ENTER)
        screen.until("✓ You declined.")
        assert screen.end() == 0
    outcome = get(store, question).outcome
    assert isinstance(outcome, Declined)
    assert (outcome.by, outcome.reason) == ("ada", "No agent gets that")


@pytest.mark.slow("starts a terminal; tests/cli/test_send_back_commands.py has what is recorded")
def test_an_approval_is_sent_back_with_what_to_change(store: str) -> None:
    question = post(store, "May I?", form=approval())
    with at_terminal("answer", question.id, url=store) as screen:
        screen.until("s send back")
        screen.send("s", ENTER)
        screen.until("what is to be changed?")
        screen.send(ENTER)
        screen.until("! say what to change")
        screen.send("Only ten", ENTER)
        screen.until("✓ Sent back.")
        assert screen.end() == 0
    outcome = get(store, question).outcome
    assert isinstance(outcome, Returned)
    assert (outcome.by, outcome.reason) == ("ada", "Only ten")


@pytest.mark.slow("starts a terminal; tests/cli/test_send_back_commands.py has what is recorded")
def test_the_keys_of_the_list_share_a_question(store: str) -> None:
    question = post(store, "Which?", recipients=["ada", "bo"])
    with at_terminal("inbox", url=store) as screen:
        screen.until("Which?", "s send back", "n not for me")
        screen.send("t")
        screen.until("you are on this")
        screen.send("b")
        screen.until("whom?")
        screen.send("cy", ENTER)
        screen.until("why?")
        screen.send("You know it", ENTER)
        screen.until("✓ Brought in: cy.")
        screen.send(ESCAPE)
        screen.until("enter opens")
        screen.send("n")
        screen.until("Nothing is waiting for you.")
        screen.send("q")
        assert screen.end() == 0
    found = get(store, question)
    assert (found.added, [each.person for each in found.aside], found.taken_by) == (("cy",), ["ada"], "ada")


@pytest.mark.parametrize("form", [Choice.of("A", "B"), Open(), FORM, approval()], ids=lambda form: form.kind)
@pytest.mark.slow("starts four terminals; the inbox in the gate closes its menu too")
def test_the_menu_closes_and_says_who_was_first(store: str, form: Any) -> None:
    question = post(store, "Which?", form=form)
    values: dict[str, Any] = {
        "choice": "B",
        "open": "mine",
        "form": {"name": "B", "seats": 1, "plan": "Free"},
    }
    with at_terminal("answer", question.id, url=store) as screen:
        screen.until("esc back")
        value = values.get(form.kind, "approve")
        at_desk(store, lambda desk: desk.answer(question.id, value, by="bob"))
        screen.until("Already settled: ", " by bob")
        assert "esc back" not in screen.text
        assert screen.end() == 0


@pytest.mark.slow("starts a terminal, and is about comfort")
def test_what_was_written_is_not_lost_when_somebody_else_is_first(store: str) -> None:
    question = post(store, "Why?")
    with at_terminal("answer", question.id, url=store) as screen:
        screen.until("esc back")
        screen.send("A long thought")
        screen.until("› A long thought")
        at_desk(store, lambda desk: desk.answer(question.id, "Because", by="bob"))
        screen.until("You had written:\nA long thought", "answered by bob: Because")


@pytest.mark.slow("starts a terminal; the gate has Ctrl+C at a menu")
def test_ctrl_c_while_a_script_waits_leaves_the_question_pending(store: str) -> None:
    with at_terminal("ask", "Which?", "--key", "k", "--wait", "--as", "deploy-bot", url=store) as screen:
        screen.until("Waiting for an answer.")
        screen.send(CTRL_C)
        screen.until("Left pending. To wait again: handraise wait ")
        assert screen.end() == 7
    found = at_desk(store, lambda desk: desk.find_by_key("k"))
    assert found is not None
    assert found.outcome is None


@pytest.mark.slow("starts a terminal; tests/cli/test_ask_commands.py has what is printed")
def test_what_happens_can_be_watched(store: str) -> None:
    with at_terminal("watch", url=store) as screen:
        screen.until("Following.")
        question = post(store, "Which?", choices=["A", "B"])
        while "Asked by" not in screen.text:  # whoever follows from now on has begun when it sees something
            screen.look(0.5)
            question = post(store, "Which?", choices=["A", "B"])
        at_desk(store, lambda desk: desk.answer(question.id, "B", by="bob"))
        screen.until("Answered by bob: B", question.id)
        screen.send(CTRL_C)
        assert screen.end() == 0


def test_ctrl_c_leaves_it_pending_and_says_how_to_come_back(store: str) -> None:
    question = post(store, "Which?", choices=["A", "B"])
    with at_terminal("answer", question.id, url=store) as screen:
        screen.until("esc back")
        screen.send(CTRL_C)
        screen.until("Left pending. To come back:", f"handraise answer {question.id}")
        assert screen.end() == 7
    assert get(store, question).outcome is None


@pytest.mark.only_proof_of("that the inbox at a terminal is live")
def test_the_inbox_is_live_and_answers_without_leaving_it(store: str) -> None:
    first = post(store, "Which strategy?", choices=["Canary", "Rolling"])
    with at_terminal("inbox", url=store) as screen:
        screen.until("Handraise · ada", "1 waiting", "❯ Which strategy?", "Choose one of 2")
        second = post(store, "Is it urgent?", form=Confirm(), expires_in=600)
        screen.until("2 waiting", "Is it urgent?", "expires in 9 min")
        assert "❯ Which strategy?" in screen.text  # what was marked stays marked
        assert screen.text.index("Is it urgent?") < screen.text.index("Which strategy?")
        at_desk(store, lambda desk: desk.answer(second.id, True, by="bob"))
        screen.until("1 waiting")
        screen.resize(12, 50)
        screen.until("1 waiting", "q quits")
        screen.send(ENTER)
        screen.until("❯ 1  Canary")
        screen.send("2", ENTER)
        screen.until("0 waiting", "✓ answered by ada: Rolling", "Nothing is waiting for you.")
        screen.send("q")
        assert screen.end() == 0
    assert answer_of(store, first) == "Rolling"


@pytest.mark.slow("starts a terminal; the gate has the rows in tests/cli/test_inbox.py")
def test_equal_questions_are_one_row_that_opens_and_closes(store: str) -> None:
    async def ask(desk: Desk) -> list[Question]:
        return [await desk.post("Restart the **worker**?", form=Confirm()) for _ in range(25)]

    posted = at_desk(store, ask)
    post(store, "Something else?", form=Confirm())
    with at_terminal("inbox", url=store) as screen:
        screen.until(
            "26 waiting", "❯ Restart the worker?", "and 24 more just like this one", "Something else?"
        )
        screen.until("→ shows all 25")
        screen.send("l", DOWN, DOWN)
        screen.until("  ❯ the same, asked", "← one row again")
        screen.send(ENTER)
        screen.until("esc back")
        screen.send("y", ENTER)
        screen.until("25 waiting", "✓ answered by ada: Yes", "  ❯ the same, asked")
        screen.send("h")
        screen.until("❯ Restart the worker?", "and 23 more just like this one", "→ shows all 24")
        screen.send("q")
        assert screen.end() == 0
    assert answer_of(store, posted[2]) is True


@pytest.mark.slow("starts two terminals; the gate has Ctrl+C at a menu")
def test_ctrl_c_in_the_inbox_leaves_everything_pending(store: str) -> None:
    question = post(store, "Which?", choices=["A", "B"])
    with at_terminal("inbox", url=store) as screen:
        screen.until("1 waiting")
        screen.send(CTRL_C)
        screen.until("1 pending. To come back: handraise inbox")
        assert screen.end() == 0
    with at_terminal("inbox", url=store) as screen:
        screen.until("1 waiting")
        screen.send(ENTER)
        screen.until("esc back")
        screen.send(CTRL_C)
        screen.until("Left pending.", question.id)
        assert screen.end() == 0
    assert get(store, question).outcome is None


@pytest.mark.only_proof_of("that a script gets the answer of who sits there")
def test_a_script_asks_whoever_sits_there_and_gets_only_the_answer(store: str) -> None:
    script = (
        'answer=$(python -m handraise ask "Deploy?" --choice Canary --choice Rolling --here </dev/null); '
        'echo "code $?, answer <$answer>"'
    )
    with at_terminal(url=store, shell=script, PATH=_path()) as screen:
        screen.until("agent asks", "❯ 1  Canary")
        screen.send("2", ENTER)
        screen.until("code 0, answer <Rolling>")


@pytest.mark.slow("starts a terminal; the gate has a script that is answered here")
def test_a_script_that_asks_here_goes_on_when_somebody_answers_elsewhere(store: str) -> None:
    script = 'python -m handraise ask "Sure?" --confirm --here --key k --as deploy-bot; echo "code $?"'
    with at_terminal(url=store, shell=script, PATH=_path()) as screen:
        screen.until("1  Yes")

        async def answer(desk: Desk) -> None:
            found = await desk.find_by_key("k")
            assert found is not None
            await desk.answer(found.id, False, by="bob")

        at_desk(store, answer)
        screen.until("Already settled: answered by bob: No", "code 8")


@pytest.mark.slow("starts a server and a terminal; the gate has the inbox of a file")
def test_the_inbox_of_a_server_is_answered_by_whoever_is_signed_in(store: str, tmp_path: Path) -> None:
    with serving(store, tmp_path) as server:
        assert server.link is not None
        assert handraise("sign-in", server.link, XDG_DATA_HOME=str(tmp_path)).returncode == 0
        question = post(store, "Which?", choices=["A", "B"])
        with at_terminal("inbox", url=server.address, XDG_DATA_HOME=str(tmp_path)) as screen:
            screen.until("Handraise · admin", "1 waiting", "❯ Which?")
            other = post(store, "And which?", choices=["A", "B"])
            screen.until("2 waiting")
            screen.send(ENTER)
            screen.until("❯ 1  A")
            at_desk(store, lambda desk: desk.answer(question.id, "B", by="bob"))
            screen.until("1 waiting", "✓ answered by bob: B")
            screen.send(ENTER)
            screen.until("❯ 1  A")
            screen.send(ENTER)
            screen.until("0 waiting")
            screen.send("q")
            assert screen.end() == 0
    outcome = get(store, other).outcome
    assert isinstance(outcome, Answered)
    assert (outcome.by, (outcome.evidence or "").partition(":")[0]) == ("admin", "session-vouched-by")


@pytest.mark.slow("starts the demo, a server and two terminals")
def test_the_demo_asks_goes_on_when_answered_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with at_terminal(
        "demo",
        url="sqlite:////nowhere/unused.db",
        public_url="https://elsewhere.example",
        columns=160,
        TMPDIR=str(tmp_path),
    ) as screen:
        said = screen.until("release-agent asks: Which strategy", "Stop with Ctrl+C.")
        link = re.search(r"^http://127\.0\.0\.1:\d+/sign-in/link\?token=hrl_\S+$", said, re.MULTILINE)
        assert link, said
        with at_terminal("sign-in", link[0], url="", XDG_DATA_HOME=str(tmp_path)) as other:
            other.until("Signed in as you")
        found = re.search(r"HANDRAISE_URL=(\S+) handraise inbox --as you", said)
        assert found, said
        replies: list[Any] = ["canary", {"on_call": "ada", "minutes": 20, "announce": True}]
        replies.append({"decision": "approve", "arguments": {"percent": 5}})
        for number, value in enumerate(replies):
            screen.until(["Which strategy", "Before I begin", "May I start?"][number])

            answer_when_asked(found[1], "release-agent", value)
        screen.until("Done, exactly as you approved it: deploy(", "percent=5")
        said = screen.until("That was it.", "Type a number and press Enter")
        screen.send("x\r")
        screen.until("Type a number from 1 to 7.")
        screen.send("1\r")
        shown = screen.until("Deploying with {strategy}").partition("agent.py\n")[2]
        (tmp_path / "agent.py").write_text(textwrap.dedent(shown.partition("\n")[2]))
        mine = subprocess.Popen(
            [sys.executable, "agent.py"],
            cwd=tmp_path,
            env={"PATH": _path(), **dict(re.findall(r"^export (HANDRAISE_\w+)=(\S+)$", said, re.MULTILINE))},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            answer_when_asked(found[1], "your-agent", "canary")
            assert mine.communicate(timeout=SOON)[0] == "Deploying with Canary.\n"
        finally:
            mine.kill()
            mine.wait()
        screen.send(CTRL_C)
        screen.until("the demo's store is gone")
        assert screen.end() == 0
    assert not list(tmp_path.glob("handraise-demo-*"))


def _path() -> str:

    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
