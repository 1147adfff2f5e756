"""A machine that calls every verb of a desk and of its administrators, in any order and in the name of anybody.

It predicts no result: `machine.py` has a reference for that. What it holds against the store is what is true whatever was
done: the invariants between its rows, and that a question that has ended stays as it ended. Some acts are done at the same
time, on two desks that share nothing but the store.
"""

from __future__ import annotations

import asyncio
import copy
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, suppress
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from handraise import (
    Approval,
    Desk,
    HandraiseError,
    Outcome,
    Question,
    StillPending,
    StoreUnavailable,
    Timeline,
)
from handraise.desk.policy_admin import checked_document, put_policy, resume_rule
from handraise.desk.rule_suspensions import suspended_rules
from handraise.desk.store_checks import check_store
from handraise.errors import QuestionNotFound
from handraise.model.bulk_answers import BulkAnswer, BulkDecline
from handraise.model.identities import Role
from handraise.model.json_values import Json
from handraise.model.problems import Problem
from handraise.model.provenance import Provenance
from handraise.model.seals import Hold
from handraise.model.timelines import Escalation
from handraise.questions import QuestionOptions
from tests.stateful.machine import Subject

PEOPLE = ("ana", "ben", "cleo", "dan")
ASKERS = ("bot", "bot", "worker", "ana")
"""One of them is also a person, who never answers what they asked."""
HOUR = timedelta(hours=1)
EVERY = 1_000_000
NUMBERS = st.lists(st.integers(0, 839), min_size=16, max_size=16)
"""As many as an act has choices at most; 840 can be divided by most numbers of choices."""
MOMENT = 0.03
"""How long something is waited for that may never come."""

LIVES: tuple[QuestionOptions, ...] = (
    {},
    {"expires_in": HOUR},
    {"timeline": Timeline(remind=(HOUR,), escalate=(Escalation(after=2 * HOUR, to=("cleo",)),))},
    {"timeline": Timeline(escalate=(Escalation(after=HOUR, to=("group:ops", "dan")),), expire=3 * HOUR)},
    {"heartbeat": HOUR},
)
FORMS: tuple[QuestionOptions, ...] = (
    {"choices": ["a", "b"], "topic": "rate"},
    {"choices": ["a", "b"], "topic": "rate", "recipients": ["ana", "ben"]},
    {"choices": ["a", "b"]},
    {"choices": ["a", "b"], "quorum": 2},
    {"choices": ["a", "b"], "max_attempts": 1, "recipients": ["ben", "group:ops"]},
    {"form": Approval.of("pay", {"amount": 10}, scopes=("once", "session", "always")), "conversation": "c"},
    {"form": Approval.of("pay", {"amount": 20})},
    {"form": Approval.of("pay", {"amount": 30}, valid_for=HOUR)},
    {"form": Approval.of("pay", {"amount": 10}, valid_for=HOUR), "quorum": 2, "veto": True},
    {"form": Approval.of("pay", {"amount": 10}, risk="high"), "recipients": ["ana", "dan"]},
)
PAY = "tool == 'pay'"
POLICIES: tuple[Json, ...] = (
    {"rules": []},
    {"rules": [{"name": "pay", "when": PAY, "then": "allow"}]},
    {"rules": [{"name": "pay", "when": PAY, "then": {"allow": {"check": 0.5}}}]},
    {"rules": [{"name": "pay", "when": PAY, "then": {"deny": "not now"}}]},
    {
        "rules": [
            {"name": "pay", "when": PAY, "then": {"require": {"one_of_each": ["group:ops", "group:tax"]}}}
        ]
    },
    {
        "rules": [
            {"name": "pay", "when": PAY, "then": {"require": {"stages": [["group:ops"], ["group:tax"]]}}}
        ]
    },
    {
        "rules": [
            {"name": "all", "when": "true", "then": {"require": {"people": ["ben", "cleo"], "quorum": 1}}}
        ]
    },
    {"rules": [], "close_orphans": "1h"},
)


class World:
    """What the acts of one history work on, and what they have seen."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.workspace = uuid.uuid4().hex
        self.asked: dict[str, str] = {}
        """Ids of questions, with their askers."""
        self.ended: dict[str, Outcome] = {}
        self.attachment: Any = None
        self.erased = False
        self.numbers: Iterator[int] = iter(())
        """What Hypothesis has drawn for the choices of an act; drawn before, as it draws in its own thread only."""

    @property
    def backend(self) -> Any:
        """The ports of the store, for what only administrators do."""
        return self.subject.backend

    def choosing(self, numbers: Sequence[int]) -> World:
        """The same world, for an act that is done beside others and chooses by itself."""
        other = copy.copy(self)
        other.numbers = iter(numbers)
        return other

    def one_of(self, *choices: Any) -> Any:
        """One of these, as Hypothesis chooses."""
        return choices[next(self.numbers) % len(choices)]

    def desk(self, asker: str | None = None) -> Desk:
        """The desk of an asker."""
        desk: Desk = self.one_of(*self.subject.desks)
        return desk.scoped(self.workspace, asker=asker or self.one_of(*ASKERS))

    def question(self, *, has_ended: bool = False) -> str:
        """The id of one of the questions, mostly of one that is pending or, as is said, has ended."""
        if not self.asked:
            raise QuestionNotFound("", self.workspace)  # all are erased
        likely = [each for each in self.asked if (each in self.ended) is has_ended]
        found: str = self.one_of(*(likely * 4 or self.asked), *self.asked)
        return found

    def some(self) -> list[str]:
        """The ids of the newest questions."""
        if not self.asked:
            raise QuestionNotFound("", self.workspace)
        return list(self.asked)[-3:]

    def own(self, *, has_ended: bool = False) -> tuple[Desk, str]:
        """One of the questions, and the desk of its asker or seldom of another."""
        id_ = self.question(has_ended=has_ended)
        return self.desk(self.one_of(*[self.asked[id_]] * 7, "worker")), id_

    def person(self) -> str:
        """Somebody."""
        found: str = self.one_of(*PEOPLE)
        return found

    def see(self, question: Question) -> None:
        """Remember a question and how it ended; one that had ended before has ended in the same way."""
        self.asked[question.id] = question.asker
        if question.outcome is not None:
            assert self.ended.setdefault(question.id, question.outcome) == question.outcome


async def _post(w: World, **options: Any) -> Question:
    asker = w.one_of(*ASKERS)
    given = {**w.one_of(*FORMS), **w.one_of(*LIVES), **options}
    if (key := w.one_of(None, None, "k1", "k2", "k3")) is not None:
        given |= {"key": key, "shared": w.one_of(True, False), "if_exists": "keep"}
    if "replies" not in given:
        given["replies"] = w.one_of("program", "program", None)
    question = await w.desk(asker).post("Which?", **given)
    w.asked[question.id] = question.asker
    return question


async def _answer(w: World) -> Question:
    id_, person = w.question(), w.person()
    question = await w.desk().get(id_)
    value: Any = w.one_of("a", "b", "a", "misfit")
    if isinstance(question.form, Approval):
        remembered = {"decision": "approve", "scope": w.one_of("session", "always")}
        value = w.one_of("approve", "approve", "deny", remembered)
    seen = Provenance(seen=max(0, question.thread - w.one_of(0, 0, 1)))
    return await w.desk().answer(id_, value, by=person, provenance=seen)


async def _answer_all(w: World) -> None:
    items = [w.one_of(BulkAnswer(id_, w.one_of("a", "deny")), BulkDecline(id_)) for id_ in w.some()]
    for each in await w.desk().answer_all(items, by=w.person()):
        if each.question is not None:
            w.see(each.question)


async def _replace(w: World) -> Question:
    desk, old = w.own()
    question = await desk.post("Which, then?", **w.one_of(*FORMS), replaces=old)
    w.asked[question.id] = question.asker
    return question


async def _request_approval(w: World) -> None:
    form = Approval.of("pay", {"amount": 10}, scopes=("once", "always"))
    await w.desk().request_approval(form, timeout=0, conversation="c")


async def _keep_answer(w: World) -> None:
    ended = [(id_, each) for id_, each in w.ended.items() if getattr(each, "by", None) in PEOPLE]
    if ended:
        id_, outcome = w.one_of(*ended)
        until = w.subject.clock.now() + HOUR * w.one_of(1, 24)
        await w.desk().keep_answer(id_, until=until, by=outcome.by, spot_check=w.one_of(0.0, 0.5, 1.0))


async def _revoke_grant(w: World) -> None:
    if grants := list(await w.desk().list_grants()):
        await w.desk().revoke_grant(w.one_of(*grants).id, by=w.person())


async def _revoke_standing_answer(w: World) -> None:
    if kept := list(await w.desk().list_standing_answers()):
        await w.desk().revoke_standing_answer(w.one_of(*kept).id, by=w.person())


async def _attach(w: World) -> None:
    w.attachment = await w.desk("bot").attach(b"what it says", name="note.txt", media_type="text/plain")
    await _post_with_file(w)


async def _post_with_file(w: World) -> None:
    w.see(await w.desk("bot").post("As in the file?", choices=["a"], attachments=[w.attachment]))


async def _read_attachment(w: World) -> None:
    if w.attachment is not None:
        await w.desk("bot").read_attachment(w.question(), w.attachment.digest)


async def _messages(w: World) -> None:
    desk, id_ = w.own()
    async with aclosing(desk.messages(id_)) as messages, asyncio.timeout(MOMENT):
        await anext(messages, None)


async def _follow(w: World) -> None:
    async with aclosing(w.desk().follow(after=(await w.desk().feed(limit=1)).next)) as events:
        async with asyncio.timeout(MOMENT):
            await anext(events, None)


async def _set_aside(w: World) -> Question:
    until = w.one_of(None, w.subject.clock.now() + HOUR)
    return await w.desk().set_aside(w.question(), by=w.person(), until=until)


async def _run_due(w: World) -> None:
    w.subject.clock.advance(timedelta(minutes=w.one_of(5, 30, 61, 130, 250)))
    await w.desk().run_due()


async def _recover(w: World) -> None:
    w.subject.clock.advance(timedelta(minutes=30))
    await w.desk().recover(timedelta(minutes=w.one_of(10, 45, 120)))


async def _withdraw(w: World) -> Question:
    desk, id_ = w.own()
    return await desk.withdraw(id_, by=w.one_of(None, None, w.person()))


async def _own(w: World, verb: Callable[[Desk, str], Awaitable[Any]]) -> Any:
    return await verb(*w.own())


async def _approved(w: World, verb: Callable[[Desk, Question], Awaitable[Any]]) -> Any:
    """Something with an approval, for its asker, if there is one."""
    found = [each for each in await w.desk().list_settled(limit=20) if each.decision]
    question = w.one_of(*found) if found else await w.desk().get(w.question())
    return await verb(w.desk(question.asker), question)


async def _take_back(w: World, desk: Desk, question: Question) -> Question:
    by = w.one_of(getattr(question.outcome, "by", None), w.person())
    return await desk.take_back(question.id, by=by if by in PEOPLE else w.person())


async def _report(w: World) -> Question:
    desk, id_ = w.own(has_ended=True)
    return await desk.report(id_, ok=w.one_of(True, False), text="paid")


async def _reply(w: World) -> Question:
    waiting = [each for each in await w.desk().list_pending() if each.is_askers_turn]
    question = w.one_of(*waiting) if waiting else await w.desk().get(w.question())
    return await w.desk(question.asker).reply(question.id, "Customer 12.")


WRITES: dict[str, Callable[[World], Awaitable[Any]]] = {
    "post": _post,
    "ask": lambda w: w.desk().ask("Which?", timeout=0, **w.one_of(*FORMS)),
    "heartbeat": lambda w: w.desk().heartbeat(w.some()),
    "answer": _answer,
    "reject_answer": lambda w: w.desk().reject_answer(
        w.question(), "a", [Problem("", "is too dear")], by=w.person()
    ),
    "decline": lambda w: w.desk().decline(w.question(), by=w.person()),
    "send_back": lambda w: w.desk().send_back(w.question(), by=w.person(), reason="Smaller."),
    "answer_all": _answer_all,
    "withdraw": _withdraw,
    "withdraw_all": lambda w: w.desk().withdraw_all(w.one_of(*ASKERS), by=w.person()),
    "request_approval": _request_approval,
    "apply_grant": lambda w: _own(w, lambda desk, id_: desk.apply_grant(id_)),
    "consume_approval": lambda w: _approved(w, lambda desk, each: desk.consume_approval(each.id)),
    "claim_sending": lambda w: _own(w, lambda desk, id_: desk.claim_sending(id_)),
    "mark_sent": lambda w: _own(w, lambda desk, id_: desk.mark_sent(id_)),
    "take_back": lambda w: _approved(w, lambda desk, each: _take_back(w, desk, each)),
    "report": _report,
    "ask_back": lambda w: w.desk().ask_back(w.question(), "Whose?", by=w.person()),
    "note": lambda w: w.desk().note(w.question(), "I know them.", by=w.person()),
    "attach": _attach,
    "take": lambda w: w.desk().take(w.question(), by=w.person()),
    "release": lambda w: w.desk().release(w.question(), by=w.person()),
    "bring_in": lambda w: w.desk().bring_in(w.question(), [w.one_of(*PEOPLE, "group:ops")], by=w.person()),
    "hand_over": lambda w: w.desk().hand_over(w.question(), [w.one_of(*PEOPLE, "group:ops")], by=w.person()),
    "set_aside": _set_aside,
    "put_back": lambda w: w.desk().put_back(w.question(), by=w.person()),
    "reply": _reply,
    "revoke_grant": _revoke_grant,
    "keep_answer": _keep_answer,
    "revoke_standing_answer": _revoke_standing_answer,
    "join": lambda w: _own(w, lambda desk, id_: desk.join(id_, key=w.one_of("k1", "k2", "k3"))),
    "run_due": _run_due,
    "recover": _recover,
    "receipt": lambda w: _approved(w, lambda desk, each: desk.receipt(each.id)),
}
"""The verbs of the desk that change something, or that find something to do only after others."""
READS: dict[str, Callable[[World], Awaitable[Any]]] = {
    "wait": lambda w: w.desk().wait(w.question(), timeout=0),
    "wait_any": lambda w: w.desk().wait_any(w.some(), timeout=0),
    "read_attachment": _read_attachment,
    "thread": lambda w: w.desk().thread(w.question()),
    "messages": _messages,
    "list_grants": lambda w: w.desk().list_grants(),
    "list_standing_answers": lambda w: w.desk().list_standing_answers(),
    "get": lambda w: w.desk().get(w.question()),
    "find_by_key": lambda w: w.desk().find_by_key(w.one_of("k1", "k2", "k3")),
    "list_pending": lambda w: w.desk().list_pending(recipient=w.one_of(None, *PEOPLE)),
    "count_views": lambda w: w.desk().count_views(w.person()),
    "list_settled": lambda w: w.desk().list_settled(recipient=w.one_of(None, *PEOPLE)),
    "search": lambda w: w.desk().search("which"),
    "list_followers": lambda w: w.desk().list_followers(w.question()),
    "history": lambda w: w.desk().history(w.question()),
    "feed": lambda w: w.desk().feed(limit=3),
    "follow": _follow,
    "durability": lambda w: w.desk().durability(),
}
"""Its other verbs; all of them share one rule."""


async def _put_policy(w: World) -> None:
    document = await checked_document(w.one_of(*POLICIES), workspace=w.workspace, recipients=None)
    await put_policy(w.backend.policies, w.workspace, document, by="olga", expected=None)


async def _resume_rule(w: World) -> None:
    for each in suspended_rules(await w.backend.policies.current(w.workspace)):
        await resume_rule(w.backend.policies, w.workspace, each.name, by="olga")


async def _stop(w: World) -> None:
    scope = w.one_of({"agent": "worker"}, {"tool": "pay"}, {"agent": "bot", "tool": "pay"})
    await w.backend.policies.stop(w.workspace, why="it is wrong", by="olga", **scope)


async def _resume(w: World) -> None:
    for each in await w.backend.policies.stops(w.workspace):
        await w.backend.policies.resume(w.workspace, each.id, by="olga")


async def _erase(w: World) -> None:
    gone = await w.backend.ledger.erase(w.workspace, [w.question()], by="olga")
    for id_ in gone:
        del w.asked[id_]
        w.ended.pop(id_, None)
    w.erased = w.erased or bool(gone)


async def _hold(w: World) -> None:
    hold = Hold(
        workspace=w.workspace,
        name="h",
        question_id=w.question(),
        reason="a lawsuit",
        since=w.subject.clock.now(),
        by="olga",
    )
    await w.backend.ledger.hold(hold)


ADMIN: dict[str, Callable[[World], Awaitable[Any]]] = {
    "replace": _replace,
    "put_policy": _put_policy,
    "resume_rule": _resume_rule,
    "stop": _stop,
    "resume": _resume,
    "erase": _erase,
    "hold": _hold,
    "lift": lambda w: w.backend.ledger.lift(w.workspace, "h", by="olga"),
}
"""Acts that are no verb of the desk."""
OFTEN = ("post", "post", "answer", "answer", "run_due", "run_due")
"""Acts that have several rules, because without them the others find nothing to do."""


def machine_of_every_verb(subject: Subject, done: Counter[str]) -> type[RuleBasedStateMachine]:
    """The machine for one desk. Each history has a workspace of its own; `done` counts which acts were not refused."""

    class Everything(RuleBasedStateMachine):
        count = 0

        @initialize(posts=st.lists(NUMBERS, min_size=2, max_size=4))
        def begin(self, posts: list[list[int]]) -> None:
            type(self).count += 1
            self.world = World(subject)
            if subject.has_groups:
                subject.run(_add_people(self.world))
            for numbers in posts:
                self.act("post", _post, numbers)

        @rule(numbers=NUMBERS, name=st.sampled_from(sorted(READS)))
        def look(self, name: str, numbers: list[int]) -> None:
            self.act(name, READS[name], numbers)

        @rule(chosen=st.lists(st.tuples(st.sampled_from(sorted(WRITES)), NUMBERS), min_size=2, max_size=4))
        def act_at_once(self, chosen: list[tuple[str, list[int]]]) -> None:
            subject.run(
                _at_once([_done(self.world.choosing(numbers), WRITES[name]) for name, numbers in chosen])
            )

        def act(self, name: str, act: Callable[[World], Awaitable[Any]], numbers: list[int]) -> None:
            self.world.numbers = iter(numbers)
            if subject.run(_done(self.world, act)):
                done[name] += 1

        def teardown(self) -> None:
            if hasattr(self, "world"):
                subject.run(check(self.world))

    acts = {**WRITES, **ADMIN}
    for number, name in enumerate((*acts, *OFTEN)):
        setattr(Everything, f"{name}_{number}", _rule(name, acts[name]))
    return Everything


def _rule(name: str, act: Callable[[World], Awaitable[Any]]) -> Any:
    def run(self: Any, numbers: list[int]) -> None:
        self.act(name, act, numbers)

    run.__name__ = name
    return rule(numbers=NUMBERS)(run)


async def _at_once(acts: Sequence[Awaitable[bool]]) -> None:
    await asyncio.gather(*acts)


async def _done(world: World, act: Callable[[World], Awaitable[Any]]) -> bool:
    """Whether an act was not refused. What cannot be told from a broken store is no refusal."""
    try:
        got = await act(world)
    except StoreUnavailable:
        raise
    except (StillPending, TimeoutError):
        return True
    except HandraiseError:
        return False
    if isinstance(got, Question):
        world.see(got)
    return True


async def check(world: World) -> None:
    """Nothing between the rows of the store is wrong, and what has ended is as it ended."""
    checked = await check_store(world.backend, world.workspace, limit=EVERY, nothing_erased=not world.erased)
    assert not checked.violations, "\n".join(f"{each.rule}: {each}" for each in checked.violations)
    for id_, outcome in world.ended.items():
        with suppress(QuestionNotFound):
            assert (await world.desk(world.asked[id_]).get(id_)).outcome == outcome


async def _add_people(world: World) -> None:
    directory = world.backend.directory
    for person in PEOPLE:
        await directory.put_person(world.workspace, person, name=person, email=None, role=Role.MEMBER)
    await directory.put_group(world.workspace, "ops", {"ana", "ben", "cleo"})
    await directory.put_group(world.workspace, "tax", {"ben", "cleo", "dan"})


def run_every_verb(subject: Subject, histories: int, *, steps: int = 40) -> tuple[int, Counter[str]]:
    """So many histories on a desk; give back how many were run, and how often which act was not refused."""
    done: Counter[str] = Counter()
    machine = machine_of_every_verb(subject, done)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=histories,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate,),  # acts at the same time do not go the same way again: nothing to shrink
        ),
    )
    count: int = machine.count  # type: ignore[attr-defined]  # ours
    return count, done
