"""A machine that does anything with a desk, in any order, and compares each result with the reference."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from handraise import Approval, Desk, HandraiseError, InvalidAnswer, Question, StillPending, Timeline
from handraise.desk.blocking_desk import LoopThread
from handraise.model.provenance import Provenance
from handraise.model.timelines import Escalation
from handraise.ports import Backend
from handraise.questions import QuestionOptions
from handraise.testing import ManualClock
from tests.stateful.reference import RETURNED, Asked, Reference

T = TypeVar("T")

KEYS = st.sampled_from(["k1", "k2", "k3"])
ONE = st.integers(0, 2)
"""Which of those that were asked."""
PEOPLE = st.sampled_from(["ana", "ben", "cleo", "dan"])
BOUND = 10.0


@dataclass(frozen=True)
class Subject:
    """A desk of any kind, the clock that it goes by, and the loop on which it lives.

    Where a server sweeps besides, what is due may be in its hands: `patience` is how long it may take.
    """

    desk: Desk
    clock: ManualClock
    loop: LoopThread
    patience: float
    backend: Backend
    """The store behind the desk."""
    desks: tuple[Desk, ...]
    """All desks on the store; this one is among them."""
    has_groups: bool
    """Whether a workspace can have people and groups that no call names: at a server, each call says its person's groups."""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run(work)


SHARING: dict[str, Callable[[Desk, str, str, datetime | None], Coroutine[Any, Any, Question]]] = {
    "take": lambda desk, one, by, _: desk.take(one, by=by),
    "release": lambda desk, one, by, _: desk.release(one, by=by),
    "bring_in": lambda desk, one, by, _: desk.bring_in(one, ["cleo"], by=by),
    "hand_over": lambda desk, one, by, _: desk.hand_over(one, ["cleo"], by=by),
    "set_aside": lambda desk, one, by, until: desk.set_aside(one, by=by, until=until),
    "put_back": lambda desk, one, by, _: desk.put_back(one, by=by),
}
"""How people share the work."""

STEPS: dict[str, tuple[tuple[int, str, str], ...]] = {
    "for ever": (),
    "expires": ((3, "expire", ""),),
    "default": ((3, "default", ""),),
    "stages": ((1, "remind", ""), (2, "escalate", "cleo"), (4, "expire", "")),
}


def timeline_of(steps: tuple[tuple[int, str, str], ...]) -> Timeline | None:
    """The same timeline in the desk's own words."""
    if not steps:
        return None
    hours = {deed: timedelta(hours=hour) for hour, deed, _ in steps}
    return Timeline(
        remind=(hours["remind"],) if "remind" in hours else (),
        escalate=tuple(
            Escalation(after=timedelta(hours=h), to=(to,)) for h, deed, to in steps if deed == "escalate"
        ),
        expire=hours.get("expire") or hours.get("default"),
        default="a" if "default" in hours else None,
    )


def machine_for(subject: Subject) -> type[RuleBasedStateMachine]:
    """The machine for one desk. Each history has a conversation and keys of its own."""

    class Histories(RuleBasedStateMachine):
        count = 0

        @initialize()
        def begin(self) -> None:
            type(self).count += 1
            self.talk = uuid.uuid4().hex
            self.reference = Reference()
            self.ids: dict[str, str] = {}
            self.touched: str | None = None

        @rule(
            key=KEYS,
            approval=st.booleans(),
            quorum=st.sampled_from([1, 2]),
            veto=st.booleans(),
            most=st.sampled_from([None, 1, 2]),
            anyone=st.booleans(),
            life=st.sampled_from(sorted(STEPS)),
        )
        def post(
            self,
            *,
            key: str,
            approval: bool,
            quorum: int,
            veto: bool,
            most: int | None,
            anyone: bool,
            life: str,
        ) -> None:
            steps = STEPS["expires" if approval and life == "default" else life]
            recipients = [] if anyone else ["ana", "ben", "dan"]
            options: QuestionOptions = {
                "key": f"{key} {self.talk}",
                "conversation": self.talk,
                "quorum": quorum,
                "veto": veto,
                "recipients": recipients,
                "replies": "program",
            }
            if approval:
                options["form"] = Approval.of("pay")
            else:
                options["choices"] = ["a", "b"]
            if most is not None:
                options["max_attempts"] = most
            if timeline := timeline_of(steps):
                options["timeline"] = timeline
            definition = {
                "approval": approval,
                "quorum": quorum,
                "veto": veto,
                "recipients": recipients,
                "life": steps,
            }
            known = self.reference.asked.get(key)
            most_known = known.definition["max_attempts"] if known else most  # the first one's counts
            expected = self.reference.post(key, {**definition, "max_attempts": most_known}, steps)
            got = self.told(lambda: subject.desk.post("Which?", **options))
            if isinstance(got, Question):
                assert self.ids.setdefault(key, got.id) == got.id
                got = got.status.value
            assert got == expected
            self.touched = key

        @precondition(lambda self: self.ids)
        @rule(
            one=ONE,
            who=PEOPLE,
            value=st.sampled_from(["first", "first", "second"]),
            missed=st.sampled_from([0, 0, 0, 1]),
        )
        def answer(self, one: int, who: str, value: str, missed: int) -> None:
            key = self.key(one)
            word = self.word(key, value)
            saw = max(0, self.reference.asked[key].thread - missed)
            provenance = Provenance(seen=saw)
            got = self.told(lambda: subject.desk.answer(self.ids[key], word, by=who, provenance=provenance))
            self.compare(key, got, self.reference.move(key, who, word, saw=saw))

        @precondition(lambda self: self.ids)
        @rule(one=ONE, who=PEOPLE, asks=st.booleans())
        def write(self, *, one: int, who: str, asks: bool) -> None:
            key = self.key(one)
            verb = subject.desk.ask_back if asks else subject.desk.note
            got = self.told(lambda: verb(self.ids[key], "Which customer?", by=who))
            self.compare(key, got, self.reference.write(key, who, "asked_back" if asks else "noted"))

        @precondition(lambda self: self.ids)
        @rule(one=ONE)
        def reply(self, one: int) -> None:
            key = self.key(one)
            got = self.told(lambda: subject.desk.reply(self.ids[key], "Customer 12."))
            self.compare(key, got, self.reference.reply(key))

        @precondition(lambda self: self.ids)
        @rule(one=ONE)
        def report(self, one: int) -> None:
            key = self.key(one)
            got = self.told(lambda: subject.desk.report(self.ids[key], ok=True, text="paid"))
            self.compare(key, got, self.reference.report(key))

        @precondition(lambda self: self.ids)
        @rule(one=ONE, who=PEOPLE)
        def misfit(self, one: int, who: str) -> None:
            key = self.key(one)
            got = self.told(lambda: subject.desk.answer(self.ids[key], "perhaps", by=who))
            self.compare(key, got, self.reference.move(key, who, "perhaps", fits=False))

        @precondition(lambda self: self.ids)
        @rule(one=ONE, who=PEOPLE)
        def decline(self, one: int, who: str) -> None:
            key = self.key(one)
            got = self.told(lambda: subject.desk.decline(self.ids[key], by=who))
            self.compare(key, got, self.reference.move(key, who, None))

        @precondition(lambda self: self.ids)
        @rule(one=ONE, who=PEOPLE)
        def send_back(self, one: int, who: str) -> None:
            key = self.key(one)
            got = self.told(lambda: subject.desk.send_back(self.ids[key], by=who, reason="Smaller."))
            self.compare(key, got, self.reference.move(key, who, RETURNED))

        @precondition(lambda self: self.ids)
        @rule(one=ONE, who=PEOPLE, verb=st.sampled_from(sorted(SHARING)), hours=st.sampled_from([None, 2]))
        def share(self, one: int, who: str, verb: str, hours: int | None) -> None:
            key = self.key(one)
            until = None if hours is None else subject.clock.now() + timedelta(hours=hours)
            got = self.told(lambda: SHARING[verb](subject.desk, self.ids[key], who, until))
            self.compare(key, got, self.reference.share(key, who, verb, hours))

        @precondition(lambda self: self.ids)
        @rule(one=ONE, new=KEYS)
        def replace(self, one: int, new: str) -> None:
            old = self.key(one)
            if new in self.ids:
                return
            options: QuestionOptions = {
                "key": f"{new} {self.talk}",
                "conversation": self.talk,
                "choices": ["a", "b"],
                "replies": "program",
                "replaces": self.ids[old],
            }
            definition = {"approval": False, "quorum": 1, "veto": False, "recipients": [], "life": ()}
            expected = self.reference.replace(new, old, {**definition, "max_attempts": None})
            got = self.told(lambda: subject.desk.post("Which then?", **options))
            if isinstance(got, Question):
                self.ids[new] = got.id
            self.compare(old, got, expected)

        @precondition(lambda self: self.ids)
        @rule(one=ONE)
        def answer_oneself(self, one: int) -> None:
            key = self.key(one)
            word = self.word(key, "first")
            got = self.told(lambda: subject.desk.answer(self.ids[key], word, by="agent"))
            self.compare(key, got, self.reference.move(key, "agent", word))

        @precondition(lambda self: self.ids)
        @rule(one=ONE)
        def withdraw(self, one: int) -> None:
            key = self.key(one)
            got = self.told(lambda: subject.desk.withdraw(self.ids[key]))
            self.compare(key, got, self.reference.withdraw(key))

        @precondition(lambda self: self.ids)
        @rule(one=ONE)
        def consume(self, one: int) -> None:
            key = self.key(one)
            got = self.told(lambda: subject.desk.consume_approval(self.ids[key]))
            expected = self.reference.consume(key)
            self.compare(key, "consumed" if not isinstance(got, str) else got, expected)

        @precondition(lambda self: self.ids)
        @rule(one=ONE)
        def wait(self, one: int) -> None:
            key = self.key(one)
            asked = self.reference.asked[key]
            patience = 0.0 if asked.status == "pending" else BOUND
            try:
                got = subject.run(subject.desk.wait(self.ids[key], timeout=patience)).status.value
            except StillPending:
                got = "pending"
            assert got == asked.status

        @rule(hours=st.integers(1, 3))
        def pass_time(self, hours: int) -> None:
            subject.clock.advance(timedelta(hours=hours))
            self.reference.pass_time(hours)
            subject.run(subject.desk.run_due())
            for key in self.ids:
                self.check(key)

        @precondition(lambda self: self.ids)
        @rule(who=PEOPLE)
        def look(self, who: str) -> None:
            page = subject.run(subject.desk.list_pending(conversation=self.talk, recipient=who))
            expected = {
                self.ids[key]
                for key, q in self.reference.asked.items()
                if q.status == "pending"
                and self.reference.may(q, who)
                and not self.reference.is_aside(q, who)
            }
            assert {each.id for each in page.items} == expected

        @invariant()
        def stands_as_the_reference_says(self) -> None:
            key, self.touched = getattr(self, "touched", None), None
            if key is not None:
                self.check(key)

        def teardown(self) -> None:
            for key in getattr(self, "ids", {}):
                self.check(key)

        def key(self, one: int) -> str:
            return list(self.ids)[one % len(self.ids)]

        def word(self, key: str, value: str) -> str:
            approval = self.reference.asked[key].definition["approval"]
            words = ("approve", "deny") if approval else ("a", "b")
            return words[value == "second"]

        def told(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
            """What the desk says: what it gives back, or the name of the error."""
            try:
                return subject.run(work())
            except InvalidAnswer as misfit:
                return "InvalidAnswer" if misfit.outcome is None else misfit.outcome.status.value
            except HandraiseError as error:
                # At a server, what does not concern somebody is not even there.
                name = type(error).__name__
                return "PermissionDenied" if name == "QuestionNotFound" else name

        def compare(self, key: str, got: Any, expected: str) -> None:
            self.touched = key
            said = got.status.value if isinstance(got, Question) else got
            assert said == expected, (said, expected)

        def check(self, key: str) -> None:
            """The record and its events, once another sweep that may be at it is done."""
            expected = seen_of(self.reference.asked[key])
            until = time.monotonic() + subject.patience
            while True:
                question = subject.run(subject.desk.get(self.ids[key]))
                events = subject.run(subject.desk.history(self.ids[key]))
                got = (
                    question.status.value,
                    question.attempts,
                    question.steps_taken,
                    {vote.by for vote in question.votes},
                    question.consumed_at is not None,
                    (question.thread, question.is_askers_turn, question.report is not None),
                    (list(question.added), {each.person for each in question.aside}),
                    question.replaced_by is not None,
                    getattr(question.outcome, "by", None),
                    [event.kind.value for event in events],
                )
                if got == expected or time.monotonic() > until:
                    break
                time.sleep(0.01)
            assert got == expected

    return Histories


def seen_of(q: Asked) -> tuple[Any, ...]:
    """What the desk must show of a question."""
    by = q.how[0] if q.how else None
    talk = (q.thread, q.asked_back and q.status == "pending", q.reported)
    shared = (q.added, set(q.aside))
    return (q.status, q.attempts, q.taken, set(q.votes), q.used, talk, shared, q.replaced, by, q.events)


def run_histories(subject: Subject, histories: int, *, steps: int = 30) -> int:
    """So many histories on a desk; give back how many were run."""
    machine = machine_for(subject)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=histories,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
    count: int = machine.count  # type: ignore[attr-defined]  # ours
    return count
