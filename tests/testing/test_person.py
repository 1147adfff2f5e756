"""A person in a test answers by rule and by script, and says what the test has left out."""

# ruff: noqa: PT012 -- a person says at the end of its block what was wrong

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import handraise
import handraise.blocking
from handraise import (
    Approval,
    Confirm,
    Desk,
    Escalation,
    Expired,
    NotAnswered,
    NotApproved,
    Question,
    Timeline,
    open_desk,
)
from handraise.outcomes import Declined, Exhausted, Returned, Withdrawn
from handraise.testing import (
    ManualClock,
    Person,
    PersonError,
    after,
    approve,
    ask_back,
    attempt,
    decline,
    deny,
    never,
    send_back,
)

PAGE = Path(__file__).parent.parent.parent / "docs" / "how-to" / "test-your-agent.md"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(
    params=[
        "memory",
        pytest.param("sqlite", marks=pytest.mark.slow("the gate has memory, and the contract has both")),
    ]
)
async def desk(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Desk]:
    url = "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'questions.db'}"
    async with open_desk(url, clock=clock) as desk, asyncio.timeout(20):
        yield desk


@pytest.fixture
async def ana(desk: Desk, clock: ManualClock) -> AsyncIterator[Person]:
    async with Person(desk, clock=clock) as ana:
        yield ana


async def test_every_question_that_fits_a_rule_gets_its_answer(desk: Desk, ana: Person) -> None:
    ana.answers("Refund *?", "yes", times=1)
    ana.answers(re.compile(r"Refund \d+\?"), "no")
    ana.answers(lambda question: question.context == {"n": 7}, lambda question: question.context["n"] + 1)
    assert [await desk.ask("Refund 1?"), await desk.ask("Refund 2?"), await desk.ask("Refund 3?")] == [
        "yes",
        "no",
        "no",
    ]
    assert await desk.ask("How many?", into=int, context={"n": 7}) == 8
    assert [each.prompt for each in ana.asked] == ["Refund 1?", "Refund 2?", "Refund 3?", "How many?"]


async def test_a_pattern_is_the_whole_prompt_and_only_a_star_is_special(desk: Desk) -> None:
    async with Person(desk) as ana:
        ana.answers("Which [a-z] file?", "right")
        ana.answers("Which*", "wrong")
        assert await desk.ask("Which [a-z] file?") == "right"
        assert await desk.ask("Which b file?") == "wrong"
        assert await desk.ask("Which\nlines?") == "wrong"


async def test_a_script_answers_one_question_after_the_other(desk: Desk, ana: Person) -> None:
    ana.script(approve(amount=3), deny("too much"), decline("busy"), send_back("Only 2."))
    form = Approval.of("pay", {"amount": 5}, editable=["amount"])
    assert (await desk.request_approval(form)).arguments == {"amount": 3}
    with pytest.raises(NotApproved, match="too much"):
        await desk.request_approval(form)
    with pytest.raises(NotApproved) as declined:
        await desk.request_approval(form)
    assert isinstance(declined.value.outcome, Declined)
    with pytest.raises(NotApproved) as returned:
        await desk.request_approval(form)
    assert isinstance(returned.value.outcome, Returned)
    assert returned.value.outcome.reason == "Only 2."


async def test_after_an_attempt_and_after_asking_back_the_same_question_goes_on(
    desk: Desk, ana: Person
) -> None:
    ana.answers("Where?", attempt("Mars"), ask_back("Who asks?"), "eu")
    assert await desk.ask("Where?", choices=["eu", "us"], reply_with=lambda _: "I do.") == "eu"
    kinds = [event.kind for event in await desk.history(ana.asked[0].id)]
    assert kinds == ["asked", "attempted", "asked_back", "replied", "answered"]


async def test_too_many_attempts_exhaust_a_question(desk: Desk, ana: Person) -> None:
    ana.answers("Where?", attempt("Mars"), attempt("Venus"))
    with pytest.raises(NotAnswered) as ended:
        await desk.ask("Where?", choices=["eu", "us"], max_attempts=2)
    assert isinstance(ended.value.outcome, Exhausted)


async def test_time_passes_while_nobody_answers(desk: Desk, ana: Person, clock: ManualClock) -> None:
    began = clock.now()
    ana.answers("Deploy?", never())
    question = await desk.post("Deploy?", timeline=Timeline(remind=["1h", "2h"], expire="3h"))
    assert await desk.wait(question.id) == Expired(at=began + timedelta(hours=3))
    kinds = [(event.kind, event.at - began) for event in await desk.history(question.id)]
    assert kinds == [
        ("asked", timedelta(0)),
        ("reminded", timedelta(hours=1)),
        ("reminded", timedelta(hours=2)),
        ("expired", timedelta(hours=3)),
    ]


async def test_somebody_to_whom_it_escalates_answers_in_time(
    desk: Desk, ana: Person, clock: ManualClock
) -> None:
    began = clock.now()
    boss = ana.colleague("boss")
    ana.answers("Deploy?", never())
    boss.answers("Deploy?", after("90m", True))
    timeline = Timeline(escalate=Escalation(after="1h", to=["boss"]), expire="2h")
    assert await desk.ask("Deploy?", into=bool, recipients=["ana"], timeline=timeline)
    assert clock.now() - began == timedelta(minutes=90)
    assert len(boss.asked) == 1


async def test_people_of_a_group_must_agree(desk: Desk, ana: Person) -> None:
    bob = ana.colleague("bob", groups=["finance"])
    ana.answers("Pay?", True)
    bob.answers("Pay?", True)
    assert await desk.ask("Pay?", into=bool, recipients=["ana", "group:finance"], quorum=2)


async def test_a_question_that_no_rule_fits_is_left_to_the_one_who_takes_it(desk: Desk, ana: Person) -> None:
    ana.answers("Known?", "yes")
    asking = asyncio.create_task(desk.ask("Unknown?"))
    assert await desk.ask("Known?") == "yes"
    question = await ana.next_question()
    assert question.prompt == "Unknown?"
    await desk.answer(question.id, "by hand", by="ana")
    assert await asking == "by hand"
    with pytest.raises(PersonError, match=r"Nobody asked 'ana' anything within 0\.01 seconds"):
        await ana.next_question(patience=0.01)


async def test_a_rule_may_come_after_the_question(desk: Desk, ana: Person) -> None:
    asking = asyncio.create_task(desk.ask("Late?"))
    await asyncio.sleep(0.05)
    ana.answers("Late?", "in time")
    assert await asking == "in time"


async def fails_with(desk: Desk, clock: ManualClock | None = None) -> str:
    """What the test is told if an agent asks something that it does not expect."""
    with pytest.raises(PersonError) as failed:
        async with Person(desk, clock=clock):
            await desk.ask("Delete 3 files?", form=Confirm())
    assert isinstance(failed.value.__cause__, NotAnswered)
    assert isinstance(failed.value.__cause__.outcome, Withdrawn)
    return str(failed.value)


async def test_an_unexpected_question_ends_at_once_and_says_what_to_add(desk: Desk) -> None:
    said = await fails_with(desk)
    assert "person.answers('Delete 3 files?', True)" in said
    assert f"```text\n{said}\n```" in PAGE.read_text(encoding="utf-8")


async def test_an_agent_that_takes_no_for_an_answer_fails_all_the_same(desk: Desk) -> None:
    with pytest.raises(PersonError, match="does not expect"):
        async with Person(desk):
            question = await desk.post("Delete 3 files?")
            assert isinstance(await desk.wait(question.id), Withdrawn)


async def test_what_still_waits_at_the_end_was_not_expected(desk: Desk) -> None:
    with pytest.raises(PersonError, match=r"person\.answers\('Delete\*', '…'\)"):
        async with Person(desk):
            await desk.post("Delete\nall files?")
    async with Person(desk):
        question = await desk.post("Delete them?")
        await desk.answer(question.id, "no", by="carl")
        for each in await desk.list_pending():
            await desk.withdraw(each.id)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"recipients": ["bob"]}, r"is for bob, and the test has no such person.*colleague\('bob'\)"),
        ({"recipients": ["group:ops"]}, r"colleague\('bob', groups=\['ops'\]\)"),
        ({"quorum": 2}, r"ana did everything .* but 2 people must agree"),
        ({"choices": ["eu", "us"]}, r"ana cannot do what the test says about .*: 'x'"),
    ],
)
async def test_what_cannot_be_answered_says_why(desk: Desk, options: dict[str, Any], says: str) -> None:
    with pytest.raises(PersonError, match=f"(?s){says}"):
        async with Person(desk) as ana:
            ana.answers("*", "x")
            await desk.ask("Which?", **options)


async def test_silence_that_never_ends_is_a_mistake_of_the_agent(desk: Desk, clock: ManualClock) -> None:
    with pytest.raises(PersonError, match="the agent would wait for ever"):
        async with Person(desk, clock=clock) as ana:
            ana.answers("*", never())
            await desk.ask("Which?")


async def test_an_error_in_a_function_of_the_test_is_shown(desk: Desk) -> None:
    def wrong(question: Question) -> str:
        raise AssertionError(f"the prompt is {question.prompt}")

    with pytest.raises(PersonError, match=r"the prompt is Which\?"):
        async with Person(desk) as ana:
            ana.answers("*", wrong)
            await desk.ask("Which?")


async def test_an_attempt_that_fits_and_a_script_that_is_not_used_up_fail(desk: Desk) -> None:
    with pytest.raises(PersonError, match=r"attempt\('x'\) of ana fits"):
        async with Person(desk) as ana:
            ana.answers("*", attempt("x"), "y")
            await desk.ask("Which?")
    with pytest.raises(PersonError, match=r"asked 1 question, but the script goes on with 'b'"):
        async with Person(desk) as ana:
            ana.script("a", "b")
            await desk.ask("Which?")


async def test_the_error_of_a_test_is_not_hidden_by_a_script_that_is_left(desk: Desk) -> None:
    with pytest.raises(ZeroDivisionError):
        async with Person(desk) as ana:
            ana.script("a")
            raise ZeroDivisionError


async def test_mistakes_in_a_rule_are_told_where_it_is_written(desk: Desk) -> None:
    async with Person(desk) as ana:
        with pytest.raises(TypeError, match=r"answers\('Refund\*', 'approve'\)"):
            ana.answers("Refund*")
        with pytest.raises(TypeError, match="After an answer the question has ended"):
            ana.answers("Refund*", "no", "yes")
        with pytest.raises(ValueError, match="times is at least 1"):
            ana.answers("Refund*", "no", times=0)
        with pytest.raises(TypeError, match=r"Person\(desk, clock=clock\)"):
            ana.answers("Refund*", after("1h", "yes"))
        with pytest.raises(TypeError, match="takes an answer"):
            after("1h", never())


def test_at_a_blocking_desk_the_same_rules_count() -> None:
    clock = ManualClock()
    with (
        handraise.blocking.open_desk("memory:", clock=clock) as desk,
        Person(desk, clock=clock) as ana,
    ):
        ana.answers("Which?", "Canary")
        assert desk.ask("Which?", choices=["Canary", "Rolling"]) == "Canary"
        ana.answers("Deploy?", never())
        with pytest.raises(NotAnswered, match="expired"):
            desk.ask("Deploy?", expires_in="4h")
        assert [each.prompt for each in ana.asked] == ["Which?", "Deploy?"]


def test_at_a_blocking_desk_an_unexpected_question_fails_too() -> None:
    with (
        pytest.raises(PersonError, match="does not expect"),
        handraise.blocking.open_desk("memory:") as desk,
        Person(desk),
    ):
        desk.ask("Which?")
    with handraise.blocking.open_desk("memory:") as desk:
        person = Person(desk)
        with pytest.raises(TypeError, match="with rules"):
            asyncio.run(person.next_question())


async def test_a_desk_that_is_not_blocking_needs_async_with(desk: Desk) -> None:
    with pytest.raises(TypeError, match=r"async with Person"), Person(desk):
        pass
