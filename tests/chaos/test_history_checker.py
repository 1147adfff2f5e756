"""The checker bites: each of these histories is a lie that somebody's bug could tell, and each is caught."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from chaos.history import KILLED, Entry, Pen, read, under_way
from chaos.history_checker import Stored, check
from handraise import AlreadySettled, Answered, StoreUnavailable
from handraise.testing import ManualClock

AT = "2026-11-15T12:00:00+00:00"
YES = {"status": "answered", "by": "ana", "value": "yes", "at": AT}
NO = {"status": "declined", "by": "bob", "value": None, "at": AT}
EXPIRED = {"status": "expired", "by": None, "value": None, "at": AT}
APPROVED = {"status": "answered", "by": "ana", "value": {"decision": "approve"}, "at": AT}
DENIED = {"status": "answered", "by": "ana", "value": {"decision": "deny"}, "at": AT}


class Story:
    """A history in the making; every line comes a second after the one before."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def say(self, process: str, type_: Any, op: Any, value: Any = None, error: str | None = None) -> Story:
        self.entries.append(Entry(len(self.entries) * 10**9, process, type_, op, "q", value, error))
        return self

    def call(
        self,
        process: str,
        op: str,
        given: Any = None,
        came: Any = None,
        *,
        end: str = "ok",
        error: str | None = None,
    ) -> Story:
        return self.say(process, "invoke", op, given).say(process, end, op, came, error)

    def asked(self) -> Story:
        return self.call("asker", "ask", None, {"id": "1", "outcome": None})

    def answered(self, by: str = "ana", came: Any = None, **how: Any) -> Story:
        return self.call(by, "answer", {"by": by, "value": "yes"}, YES if came is None else came, **how)


def pending(**other: Any) -> Stored:
    return replace(Stored("q", "1", "pending", events=[("asked", "bot")]), **other)


def settled(outcome: dict[str, Any] | None = None, **other: Any) -> Stored:
    outcome = outcome or YES
    status = outcome["status"]
    events = [("asked", "bot"), (status, outcome["by"])]
    return replace(Stored("q", "1", status, outcome, events=events), **other)


def rules(story: Story, *stored: Stored) -> set[str]:
    return {each.rule for each in check(story.entries, stored).violations}


GOOD: dict[str, tuple[Story, Stored]] = {
    "asked and answered": (Story().asked().answered(), settled()),
    "asked twice": (Story().asked().asked(), pending()),
    "the loser is told who won": (
        Story().asked().answered().call("bob", "answer", {"by": "bob", "value": "no"}, YES, end="fail", error="AlreadySettled"),
        settled(),
    ),
    "an unknown answer that counts": (
        Story().asked().answered(came={}, end="unknown", error="StoreUnavailable"),
        settled(),
    ),
    "an unknown answer that does not": (
        Story().asked().answered(came={}, end="unknown", error=KILLED),
        pending(),
    ),
    "an unknown question that is not there": (
        Story().call("asker", "ask", end="unknown", error=KILLED).asked(),
        pending(),
    ),
    "read before and after": (
        Story().asked().call("r", "read").answered().call("r", "read", None, YES),
        settled(),
    ),
    "told of oneself after it was unknown": (
        Story().asked().answered(came={}, end="unknown", error="StoreUnavailable").answered(end="fail", error="AlreadySettled"),
        settled(),
    ),
    "a read that began before anybody knew": (
        Story().asked().say("r", "invoke", "read").answered().say("r", "ok", "read"),
        settled(),
    ),
    "expired by its timeline": (Story().asked().call("r", "read", None, EXPIRED), settled(EXPIRED, ends=True)),
    "two votes": (
        Story()
        .asked()
        .call("ana", "vote", {"by": "ana", "value": "yes"})
        .call("bob", "vote", {"by": "bob", "value": "yes"}, {**YES, "by": "bob"}),
        settled(
            {**YES, "by": "bob"},
            quorum=2,
            voters=["ana", "bob"],
            events=[("asked", "bot"), ("voted", "ana"), ("answered", "bob")],
        ),
    ),
    "a misfit and an answer": (
        Story()
        .asked()
        .call("ana", "answer", {"by": "ana", "value": "maybe"}, end="fail", error="InvalidAnswer")
        .answered(),
        settled(events=[("asked", "bot"), ("attempted", "ana"), ("answered", "ana")]),
    ),
    "approved and consumed": (
        Story()
        .asked()
        .call("ana", "answer", {"by": "ana", "value": "approve"}, APPROVED)
        .call("asker", "consume", {"by": "bot"}, "digest"),
        settled(
            APPROVED, consumed=True, events=[("asked", "bot"), ("answered", "ana"), ("consumed", "bot")]
        ),
    ),
    "consumed by somebody who was killed": (
        Story()
        .asked()
        .call("ana", "answer", {"by": "ana", "value": "approve"}, APPROVED)
        .call("asker", "consume", {"by": "bot"}, end="unknown", error=KILLED)
        .call("asker", "consume", {"by": "bot"}, end="fail", error="AlreadyConsumed"),
        settled(
            APPROVED, consumed=True, events=[("asked", "bot"), ("answered", "ana"), ("consumed", "bot")]
        ),
    ),
    "told twice, the same each time": (
        Story()
        .asked()
        .call("d", "deliver", {"message": "m", "delivery": "d1", "digest": "x", "outcome": None})
        .call("e", "deliver", {"message": "m", "delivery": "d1", "digest": "x", "outcome": None}),
        pending(told=True, deliveries=[("d1", "sent", False)]),
    ),
    "a killed waiter": (
        Story().asked().say("w", "invoke", "wait").answered().say("w", "unknown", "wait", error=KILLED),
        settled(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_what_may_happen_is_no_violation(name: str) -> None:
    story, stored = GOOD[name]
    assert check(story.entries, [stored]).violations == []


def test_two_stores_of_one_key_are_two_questions() -> None:
    assert rules(Story().asked(), pending(), pending(id="2")) >= {"key"}


@dataclass(frozen=True)
class Lie:
    """A history with something wrong, and the rule that says what."""

    rule: str
    story: Story
    stored: Sequence[Stored]


def message(**other: Any) -> dict[str, Any]:
    return {"message": "m", "delivery": "d1", "digest": "x", "outcome": None, **other}


LIES: dict[str, Lie] = {
    "an acknowledged question is gone": Lie("lost ask", Story().asked(), []),
    "another question is in its place": Lie("lost ask", Story().asked(), [pending(id="2")]),
    "one key gives two questions": Lie(
        "key", Story().asked().call("asker", "ask", None, {"id": "2", "outcome": None}), [pending()]
    ),
    "a question that nobody asked": Lie("invented", Story(), [pending()]),
    "a question whose asker was refused": Lie(
        "invented", Story().call("asker", "ask", end="fail", error="InvalidQuestion"), [pending()]
    ),
    "two answers accepted": Lie(
        "two outcomes",
        Story().asked().answered().call("bob", "answer", {"by": "bob", "value": "no"}, {**YES, "by": "bob", "value": "no"}),
        [settled()],
    ),
    "the same outcome given to two": Lie("two outcomes", Story().asked().answered().answered("bob", YES), [settled()]),
    "an acknowledged answer is gone": Lie("lost answer", Story().asked().answered(), [pending()]),
    "an acknowledged answer was replaced": Lie("lost answer", Story().asked().answered().call("bob", "decline", {"by": "bob"}, end="unknown"), [settled(NO)]),
    "an acknowledged decline is gone": Lie("lost answer", Story().asked().call("bob", "decline", {"by": "bob"}, NO), [pending()]),
    "an acknowledged withdrawal is gone": Lie(
        "lost answer",
        Story().asked().call("asker", "withdraw", {"by": "bot"}, {"status": "withdrawn", "by": "bot", "value": None, "at": AT}),
        [pending()],
    ),
    "two readers were told different things": Lie(
        "two outcomes", Story().asked().answered().call("r", "read", None, NO), [settled()]
    ),
    "two readers were told different instants": Lie(
        "two outcomes", Story().asked().answered().call("r", "read", None, {**YES, "at": "2026-11-15T12:00:01+00:00"}), [settled()]
    ),
    "the loser was told another winner": Lie(
        "two outcomes",
        Story().asked().answered().call("bob", "answer", {"by": "bob", "value": "no"}, NO, end="fail", error="AlreadySettled"),
        [settled()],
    ),
    "a waiter was told another outcome": Lie(
        "two outcomes", Story().asked().answered().call("w", "wait", None, EXPIRED), [settled()]
    ),
    "settled without an outcome": Lie("two outcomes", Story().asked(), [replace(settled(), outcome=None)]),
    "a later reader sees it pending": Lie("stale read", Story().asked().answered().call("r", "read"), [settled()]),
    "who asks again sees it pending": Lie("stale read", Story().asked().answered().asked(), [settled()]),
    "a waiter is sent away after it was settled": Lie(
        "stale read", Story().asked().answered().call("w", "wait", end="fail", error="StillPending"), [settled()]
    ),
    "an outcome seen before anybody gave it": Lie(
        "invented", Story().asked().call("r", "read", None, YES).answered(), [settled()]
    ),
    "an outcome that nobody gave": Lie("invented", Story().asked(), [settled()]),
    "an answer that was refused counts all the same": Lie(
        "invented", Story().asked().answered(came={}, end="fail", error="PermissionDenied"), [settled()]
    ),
    "told that somebody was faster who was it themselves": Lie(
        "invented", Story().asked().answered(end="fail", error="AlreadySettled"), [settled()]
    ),
    "a waiter is told that an acknowledged question is not there": Lie(
        "lost ask", Story().asked().answered().call("w", "wait", end="fail", error="QuestionNotFound"), [settled()]
    ),
    "another value than was given": Lie(
        "invented",
        Story().asked().call("ana", "answer", {"by": "ana", "value": "no"}, end="unknown"),
        [settled()],
    ),
    "another person than gave it": Lie(
        "invented",
        Story().asked().call("bob", "answer", {"by": "bob", "value": "yes"}, end="unknown"),
        [settled()],
    ),
    "approved where somebody denied": Lie(
        "invented",
        Story().asked().call("ana", "answer", {"by": "ana", "value": "deny"}, end="unknown", error=KILLED),
        [settled(APPROVED)],
    ),
    "expired without a timeline": Lie("invented", Story().asked(), [settled(EXPIRED)]),
    "a vote without its event": Lie(
        "events",
        Story().asked().call("ana", "vote", {"by": "ana", "value": "yes"}),
        [pending(quorum=2, voters=["ana"])],
    ),
    "a vote with two events": Lie(
        "events",
        Story().asked().call("ana", "vote", {"by": "ana", "value": "yes"}),
        [pending(quorum=2, voters=["ana"], events=[("asked", "bot"), ("voted", "ana"), ("voted", "ana")])],
    ),
    "an acknowledged vote is gone": Lie(
        "lost vote",
        Story().asked().call("ana", "vote", {"by": "ana", "value": "yes"}),
        [pending(quorum=2, events=[("asked", "bot"), ("voted", "ana")])],
    ),
    "a misfit that was told and not kept": Lie(
        "events",
        Story().asked().call("ana", "answer", {"by": "ana", "value": "maybe"}, end="fail", error="InvalidAnswer"),
        [pending()],
    ),
    "rows that disagree": Lie("copies", Story().asked(), [pending(broken=[("copies", "has another urgency")])]),
    "unreached twice": Lie("events", Story().asked(), [pending(events=[("asked", "bot"), ("unreached", None), ("unreached", None)])]),
    "consumed twice": Lie(
        "consumed twice",
        Story().asked().call("ana", "answer", {"by": "ana", "value": "approve"}, APPROVED)
        .call("a", "consume", {"by": "bot"}).call("b", "consume", {"by": "bot"}),
        [settled(APPROVED, consumed=True, events=[("asked", "bot"), ("answered", "ana"), ("consumed", "bot")])],
    ),
    "executed and there to be executed again": Lie(
        "lost consume",
        Story().asked().call("ana", "answer", {"by": "ana", "value": "approve"}, APPROVED).call("a", "consume", {"by": "bot"}),
        [settled(APPROVED)],
    ),
    "executed after a denial": Lie(
        "not approved",
        Story().asked().call("ana", "answer", {"by": "ana", "value": "deny"}, DENIED).call("a", "consume", {"by": "bot"}),
        [settled(DENIED, consumed=True, events=[("asked", "bot"), ("answered", "ana"), ("consumed", "bot")])],
    ),
    "executed after it expired": Lie(
        "not approved",
        Story().asked().call("a", "consume", {"by": "bot"}),
        [settled(EXPIRED, ends=True, consumed=True, events=[("asked", "bot"), ("expired", None), ("consumed", "bot")])],
    ),
    "consumed by nobody": Lie(
        "invented",
        Story().asked().call("ana", "answer", {"by": "ana", "value": "approve"}, APPROVED),
        [settled(APPROVED, consumed=True, events=[("asked", "bot"), ("answered", "ana"), ("consumed", "bot")])],
    ),
    "consumed and given to nobody": Lie(
        "given to nobody",
        Story().asked().call("ana", "answer", {"by": "ana", "value": "approve"}, APPROVED)
        .call("a", "consume", {"by": "bot"}, end="unknown", error="StoreUnavailable")
        .call("a", "consume", {"by": "bot"}, end="fail", error="AlreadyConsumed"),
        [settled(APPROVED, consumed=True, events=[("asked", "bot"), ("answered", "ana"), ("consumed", "bot")])],
    ),
    "told of a question that is not there": Lie("delivered unrecorded", Story().call("d", "deliver", message()), []),
    "told by a delivery that is not there": Lie(
        "delivered unrecorded", Story().asked().call("d", "deliver", message(delivery="d2")), [pending(deliveries=[("d1", "sent", False)])]
    ),
    "told of an outcome that is not so": Lie(
        "delivered unrecorded",
        Story().asked().answered().call("d", "deliver", message(outcome=NO)),
        [settled(deliveries=[("d1", "updated", False)])],
    ),
    "told of an outcome of a pending question": Lie(
        "delivered unrecorded",
        Story().asked().call("d", "deliver", message(outcome=YES)),
        [pending(deliveries=[("d1", "updated", False)])],
    ),
    "a second copy that differs": Lie(
        "another copy",
        Story().asked().call("d", "deliver", message()).call("d", "deliver", message(digest="y")),
        [pending(deliveries=[("d1", "sent", False)])],
    ),
    "a message that is left undone": Lie("untold", Story().asked(), [pending(deliveries=[("d1", "queued", True)])]),
    "a message marked as sent that nobody sent": Lie("untold", Story().asked(), [pending(deliveries=[("d1", "sent", False)])]),
    "nobody is told": Lie("untold", Story().asked(), [pending(told=True)]),
    "a waiter that nobody woke": Lie("not woken", Story().asked().say("w", "invoke", "wait").answered(), [settled()]),
    "a waiter woken far too late": Lie(
        "not woken",
        Story().asked().say("w", "invoke", "wait").answered().call("r", "read", None, YES).call("r", "read", None, YES)
        .call("r", "read", None, YES).call("r", "read", None, YES).call("r", "read", None, YES).call("r", "read", None, YES)
        .say("w", "ok", "wait", YES),
        [settled()],
    ),
    "a waiter that waits on and on": Lie(
        "not woken",
        Story().asked().say("w", "invoke", "wait").answered().call("r", "read", None, YES).call("r", "read", None, YES)
        .call("r", "read", None, YES).call("r", "read", None, YES).call("r", "read", None, YES).call("r", "read", None, YES)
        .say("w", "fail", "wait", error="StillPending"),
        [settled()],
    ),
    "somebody who never came back": Lie("not woken", Story().asked().say("ana", "invoke", "answer", {"by": "ana", "value": "yes"}), [pending()]),
}  # fmt: skip


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_caught_by_its_rule(name: str) -> None:
    lie = LIES[name]
    assert lie.rule in rules(lie.story, *lie.stored)


def test_a_run_in_which_little_succeeded_does_not_count() -> None:
    story = Story().asked().asked()
    for _ in range(2):
        story.answered(came={}, end="unknown", error="StoreUnavailable")
    verdict = check(story.entries, [pending()])
    assert (verdict.share, verdict.violations) == (0.5, [])
    assert (verdict.unknown, verdict.questions) == (2, 1)
    assert verdict.problems == ["only 50% of 4 calls succeeded: it shows nothing"]
    assert not verdict.counts
    assert not verdict.good
    assert not check([], []).counts


def test_whoever_breaks_the_network_says_how_long_waiters_may_hear_nothing() -> None:
    lie = LIES["a waiter woken far too late"]
    assert check(lie.story.entries, lie.stored, patience=20).problems == []


def test_an_end_without_a_beginning_is_an_error_of_the_harness() -> None:
    with pytest.raises(ValueError, match="never began"):
        check(Story().say("r", "ok", "read").entries, [])


def test_what_a_process_wrote_is_there_after_it_and_a_cut_line_is_left_out(tmp_path: Path) -> None:
    file, clock = tmp_path / "history.jsonl", ManualClock()
    pen = Pen(file, "ana")
    won = Answered(value="yes", at=clock.now(), by="bob")
    calls: list[tuple[str, Callable[[], None]]] = [
        ("ok", lambda: None),
        ("fail", lambda: _raise(AlreadySettled("1", won))),
        ("unknown", lambda: _raise(StoreUnavailable("gone"))),
        ("unknown", lambda: _raise(ZeroDivisionError())),
    ]
    for _, call in calls:
        with pen.doing("answer", "q", {"by": "ana", "value": "yes"}):
            call()
    pen.write("invoke", "wait", "q")
    pen.close()
    with file.open("a") as cut:
        cut.write('{"time": 1, "proc')
    entries = read([file, tmp_path / "missing"])
    assert [each.type for each in entries if each.type != "invoke"] == [name for name, _ in calls]
    refused = next(each for each in entries if each.type == "fail")
    assert (refused.error, refused.value["by"], refused.value["value"]) == ("AlreadySettled", "bob", "yes")
    assert [each.op for each in under_way(entries)] == ["wait"]


def _raise(error: Exception) -> None:
    raise error
