"""The lifecycle as a TLA+ model: no promise is broken in any of its states, and real histories are among its own.

The gate has a small model and some of the mistakes. The full size: python -m chaos model --full
"""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from chaos.model import LARGE, LIVE, PARTS, QUICK
from chaos.model.mistakes import MISTAKES
from chaos.model.stories import Story, place_of, replay, stories_of
from chaos.model.tlc import check
from handraise import Approval, Desk, HandraiseError, InvalidAnswer, Question, Timeline
from handraise.model.provenance import Provenance
from handraise.model.timelines import Escalation
from handraise.questions import QuestionOptions
from handraise.testing import ManualClock
from handraise.testing.contract import AddressBackend, Backend, MemoryBackend
from tests.tiers import NIGHTLY, drawn, sized

pytestmark = [
    pytest.mark.proof,
    pytest.mark.only_proof_of(
        "the model keeps the promises, and what the product does is what the model does"
    ),
    pytest.mark.timeout(900),
]

STATES = sized(gate=1_000, nightly=1_000_000)
SLOW = (LIVE, "threaded_votes")
LONG_SOUGHT = [
    pytest.param(
        name, marks=pytest.mark.slow("TLC takes minutes for what must happen at last, and for votes")
    )
    for name, mistake in MISTAKES.items()
    if mistake.config in SLOW
]
QUICKLY_FOUND = [name for name, mistake in MISTAKES.items() if mistake.config not in SLOW]
HOUR = timedelta(hours=1)
STAGES = Timeline(remind=(HOUR,), escalate=(Escalation(after=2 * HOUR, to=("cleo",)),), expire=3 * HOUR)
QUESTIONS: tuple[QuestionOptions, ...] = (
    {"choices": ["a", "b"], "max_attempts": 1},
    {"choices": ["a", "b"], "timeline": Timeline(expire=2 * HOUR, default="a")},
    {"choices": ["a", "b"], "quorum": 2, "recipients": ["ana", "ben", "dan"], "timeline": STAGES},
    {"form": Approval.of("pay"), "quorum": 2, "veto": True, "replies": "program"},
    {
        "form": Approval.of("pay", {"to": "zoe"}, scopes=("once", "always")),
        "expires_in": 2 * HOUR,
        "replies": "program",
    },
    {"choices": ["a", "b"], "timeline": STAGES, "replies": "model"},
    {"form": Approval.of("pay", valid_for=HOUR), "quorum": 2},
    {"form": Approval.of("pay", valid_for=2 * HOUR), "recipients": ["ana", "ben"]},
    {"choices": ["a", "b"], "topic": "rate"},
    {"choices": ["a", "b"], "topic": "rate"},
    {"choices": ["a", "b"], "topic": "rate", "timeline": STAGES},
)


def test_in_no_state_of_the_model_a_promise_is_broken() -> None:
    checked = check("Handraise", LARGE if NIGHTLY else QUICK)
    print(f"\n  {checked}", end="")
    assert not checked.violated, checked.output
    assert checked.distinct >= STATES


@pytest.mark.slow("checks the model and not the product, and takes minutes")
@pytest.mark.parametrize("part", PARTS)
def test_in_no_state_of_a_part_a_promise_is_broken(part: str) -> None:
    checked = check("Handraise", part)
    print(f"\n  {part}: {checked}", end="")
    assert not checked.violated, checked.output
    assert checked.distinct > 10_000


@pytest.mark.slow("checks the model and not the product, and takes long for what must happen at last")
def test_in_the_model_everybody_who_waits_is_woken_at_last() -> None:
    checked = check("Handraise", LIVE)
    assert not checked.violated, checked.output
    assert checked.distinct > 100


@pytest.mark.parametrize("name", [*drawn(QUICKLY_FOUND, 1), *LONG_SOUGHT])
def test_a_mistake_in_the_model_is_found(name: str) -> None:
    mistake = MISTAKES[name]
    assert check("Handraise", mistake.config, changes=mistake.changes).violated


@pytest.mark.parametrize("address", ["postgres", "sqlite"], indirect=True)
async def test_real_histories_are_among_the_models_own(address: str, workspace: str) -> None:
    stories = await lived(address, workspace, questions=sized(gate=100, nightly=400))
    checked = replay(stories)
    events = sum(len(story.events) for story in stories)
    print(f"\n  {len(stories)} histories of {events} events: {checked}", end="")
    found = place_of(checked)
    assert found is None, (stories[found[0]], stories[found[0]].events[found[1] :])
    assert checked.distinct == events + len(stories)
    endings = {story.question.status.value for story in stories}
    assert endings == {"answered", "declined", "expired", "withdrawn", "exhausted", "returned", "pending"}
    kinds = {event.kind.value for story in stories for event in story.events}
    assert kinds >= {
        "taken_back",
        "consumed",
        "replaced",
        "opened",
        "taken",
        "brought_in",
        "handed_over",
        "reported",
    }
    sources = {(event.data or {}).get("source") for story in stories for event in story.events}
    assert "shared" in sources
    assert any(story.question.replaced_by and story.question.status == "withdrawn" for story in stories)


async def test_a_history_that_is_told_otherwise_is_none_of_the_models(workspace: str) -> None:
    stories = await lived("memory:", workspace, questions=100)
    for what, changed in drawn(changes(stories), 1):
        print(f"\n  {what}", end="")
        assert replay([changed]).violated, f"{what} was not found"


async def lived(address: str, workspace: str, *, questions: int) -> list[Story]:
    """Several desks do anything with many questions at the same time, for some hours."""
    clock = ManualClock()
    chance = random.Random(11)
    async with AsyncExitStack() as stack:
        backend: Backend = MemoryBackend() if address == "memory:" else AddressBackend(address)
        desks = [
            await stack.enter_async_context(backend.open(workspace=workspace, clock=clock)) for _ in range(3)
        ]
        asked = [await desks[0].post(*about(n), **QUESTIONS[n % len(QUESTIONS)]) for n in range(questions)]
        for _ in range(5):
            done = await asyncio.gather(
                *(one_deed(chance.choice(desks), chance.choice(asked), chance) for _ in range(questions))
            )
            asked += [new for new in done if new is not None]
            clock.advance(HOUR / 2)
            await asyncio.gather(*(desk.run_due() for desk in desks))
        asked += await certainly(desks[0], clock)
        async with asyncio.timeout(30):
            while len(stories := await stories_of(desks[0])) < len(asked):
                await asyncio.sleep(0.1)
    return stories


async def certainly(desk: Desk, clock: ManualClock) -> list[Question]:
    """What must be among the histories, and may be missing if everything is left to chance."""
    form = Approval.of("pay", valid_for=HOUR)
    used, unused, sent_back, outdated, ended, tried = asked = [
        await desk.post(f"Certainly, {n}?", form=form, max_attempts=1) for n in range(6)
    ]
    for each in (used, unused):
        await desk.answer(each.id, "approve", by="ana")
    await desk.consume_approval(used.id)
    await desk.report(used.id, ok=True, text="Paid.")
    await desk.take_back(unused.id, by="ana")
    await desk.take(sent_back.id, by="ana")
    await desk.bring_in(sent_back.id, ["eve"], by="ana")
    await desk.hand_over(sent_back.id, ["dan"], by="ana")
    await desk.send_back(sent_back.id, by="dan", reason="Name the customer.")
    asked += [await desk.post("And now?", form=form, replaces=each.id) for each in (sent_back, outdated)]
    await desk.decline(ended.id, by="ana")
    with suppress(InvalidAnswer):
        await desk.answer(tried.id, "perhaps", by="ana")
    asked += (
        rates := [await desk.post("Which rate, certainly?", choices=["a"], topic="rate") for _ in range(4)]
    )
    await desk.withdraw(rates[0].id)
    await desk.answer(rates[1].id, "a", by="ana")
    asked += [await desk.post("Still?", expires_in=HOUR), await desk.post("Well?", choices=["a"], quorum=2)]
    await desk.answer(asked[-1].id, "a", by="ana")
    clock.advance(HOUR)
    await desk.run_due()
    return asked


def about(n: int) -> tuple[str]:
    """The prompt of a question. Those of one topic, of which some come one after the other, have the same one."""
    if "topic" not in QUESTIONS[n % len(QUESTIONS)]:
        return (f"Which, {n}?",)
    return (f"Which rate in round {n // (2 * len(QUESTIONS))}?",)


async def one_deed(desk: Desk, question: Question, chance: random.Random) -> Question | None:
    """Something that is done to a question, or refused. Returns the question that replaces it, if one does."""
    person = chance.choice(["ana", "ben", "cleo", "dan"])
    approval = isinstance(question.form, Approval)
    with suppress(HandraiseError):
        deeds = ["answer"] * 3 + [
            "misfit",
            "decline",
            "withdraw",
            "consume",
            "revoke",
            "send back",
            "replace",
        ]
        sharing = ["take", "bring in", "hand over", "set aside"]
        talk = ["ask back", "ask back", "note", "reply", "reply"]
        match chance.choice([*deeds, *talk, "take back", "take back", "report", chance.choice(sharing)]):
            case "send back":
                await desk.send_back(question.id, by=person, reason="Name the customer.")
            case "take back":
                await desk.take_back(question.id, by=person)
            case "replace":
                return await desk.post(
                    f"Which, instead of {question.id}?", choices=["a"], replaces=question.id
                )
            case "report":
                await desk.report(question.id, ok=True, text="Paid.")
            case "take":
                await desk.take(question.id, by=person)
            case "bring in":
                await desk.bring_in(question.id, ["eve"], by=person)
            case "hand over":
                await desk.hand_over(question.id, ["dan"], by=person)
            case "set aside":
                await desk.set_aside(question.id, by=person)
            case "ask back":
                await desk.ask_back(question.id, "Which customer?", by=person)
            case "note":
                await desk.note(question.id, "I know them", by=person)
            case "reply":
                await desk.reply(question.id, "Customer 12.", to=chance.choice([None, 1]))
            case "answer":
                value: Any = chance.choice(["approve", "deny"] if approval else ["a", "b"])
                if approval and question.quorum == 1 and value == "approve":
                    value = {"decision": "approve", "scope": "always"}
                saw = (await desk.get(question.id)).thread if chance.random() < 0.8 else None
                await desk.answer(question.id, value, by=person, provenance=Provenance(seen=saw))
            case "misfit":
                await desk.answer(question.id, "neither", by=person)
            case "decline":
                await desk.decline(question.id, by=person)
            case "withdraw" if chance.random() < 0.3:
                await desk.withdraw(question.id)
            case "consume":
                await desk.consume_approval(question.id)
            case "revoke":
                for grant in (await desk.list_grants(limit=3)).items[:1]:
                    await desk.revoke_grant(grant.id, by=person)
    return None


def changes(stories: list[Story]) -> list[tuple[str, Story]]:
    """Stories, each told otherwise in one place."""

    def told(kind: str, change: str) -> Story:
        several = (each for each in stories if len(each.events) > 1)
        story = next(each for each in several if any(event.kind == kind for event in each.events))
        events = list(story.events)
        place = next(n for n, event in enumerate(events) if event.kind == kind)
        match change:
            case "left out":
                del events[place]
            case "told twice":
                events.insert(place, events[place])
            case "told too early":
                events.insert(0, events.pop(place))
            case "by the asker":
                events[place] = replace(events[place], by=story.question.asker)
        return replace(story, events=events)

    return [
        (f"{kind} {change}", told(kind, change))
        for kind, change in (
            ("asked", "left out"),
            ("answered", "told twice"),
            ("expired", "left out"),
            ("voted", "by the asker"),
            ("declined", "by the asker"),
            ("consumed", "told too early"),
            ("escalated", "told twice"),
            ("replied", "told twice"),
            ("asked_back", "by the asker"),
            ("noted", "left out"),
            ("taken_back", "told twice"),
            ("taken_back", "by the asker"),
            ("returned", "told twice"),
            ("replaced", "told twice"),
            ("opened", "told twice"),
        )
    ]
