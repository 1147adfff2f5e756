"""One random operation after the other, on several desks that must give the same results.

Many streams run beside each other, each in a workspace of its own, because one alone would mostly wait. The clock
stands still while they run. Between two rounds it moves, and every desk does what is due.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from handraise import Desk, Question
from handraise.model.grants import Grant
from handraise.model.problems import HandraiseError, Problem
from handraise.model.provenance import Provenance
from handraise.testing import ManualClock
from tests.differential.results import comparable, first_difference
from tests.differential.values import CONVERSATIONS, KEYS, UNKNOWN_IDS, Values

Call = Callable[[Desk], Awaitable[Any]]

_chosen_id: ContextVar[str | None] = ContextVar("chosen_id", default=None)


def new_id() -> str:
    """The factory of ids for every desk: a question gets the same id everywhere."""
    return _chosen_id.get() or uuid.uuid4().hex


STREAMS = 16
_A_ROUND = 20
_MOVES = tuple(timedelta(seconds=seconds) for seconds in (1, 0.1, 3600, 0.29, 0.000001, 86_400, 0, 0, 0, 0))


@dataclass
class Difference:
    """A kind of difference: where it was seen first, what the two desks gave, and how often it was seen."""

    operation: str
    desk: str
    where: str
    stream: int
    shown: str
    expected: str
    given: str
    count: int = 0

    def __str__(self) -> str:
        return (
            f"{self.operation} on {self.desk}, at {self.where or 'all of it'}, {self.count} times, first in stream {self.stream}:"
            f"\n    call     {self.shown[:400]}\n    expected {self.expected}\n    given    {self.given}"
        )


@dataclass
class Comparison:
    """What came of a run."""

    operations: Counter[str] = field(default_factory=Counter)
    questions: int = 0
    differences: dict[tuple[str, ...], Difference] = field(default_factory=dict)


async def compare(desks: Mapping[str, Desk], clock: ManualClock, *, operations: int, seed: int) -> Comparison:
    """Do so many operations on all desks. The first desk is the one that the others are compared with."""
    found = Comparison()
    streams = [_Stream(number, seed, desks, found) for number in range(STREAMS)]
    chance = random.Random(f"clock {seed}")
    while found.operations.total() < operations:
        async with asyncio.TaskGroup() as group:
            for stream in streams:
                group.create_task(stream.run(_A_ROUND))
        clock.advance(chance.choice(_MOVES))
        async with asyncio.TaskGroup() as group:
            for stream in streams:
                group.create_task(stream.sweep())
    found.questions = sum(len(stream.ids) for stream in streams)
    return found


class _Stream:
    """Operations in one workspace."""

    def __init__(self, number: int, seed: int, desks: Mapping[str, Desk], found: Comparison) -> None:
        self.number = number
        self.ids: list[str] = []
        self._posts = 0
        self._known: dict[str, Question] = {}
        self._found = found
        self._values = Values(random.Random(f"{seed} {number}"))
        self._chance = self._values.chance
        self._desks = {name: desk.scoped(f"stream-{number}") for name, desk in desks.items()}
        self._first = next(iter(self._desks))

    async def run(self, number: int) -> None:
        """So many operations."""
        draws = [draw for draw, share in _SHARES.items() for _ in range(share)]
        for _ in range(number):
            await self._chance.choice(draws)(self)

    async def sweep(self) -> None:
        """Have every desk do what is due."""
        for desk in self._desks.values():
            await desk.run_due()

    async def post(self) -> None:
        prompt = self._chance.choice(["Which?", "Other?"])
        if self._chance.random() < 0.1:
            prompt = self._chance.choice(["é\u202e", "x" * 10_000, "x" * 10_001, "", " ", "NUL\x00"])
        options = self._values.options()
        asker = self._asker()
        _chosen_id.set(f"{self.number}-{self._posts:06}")
        self._posts += 1
        status, given = await self._do(
            "post",
            (prompt[:20], options, asker),
            lambda desk: desk.scoped(asker=asker).post(prompt, **options),
        )
        _chosen_id.set(None)
        if status == "given":
            self.ids.append(given["id"])
            self._known[given["id"]] = await self._desks[self._first].get(given["id"])

    async def answer(self) -> None:
        question_id, question = self._question()
        value, by = self._values.answer(question), self._values.person()
        seen = self._chance.choice([None, 0, 1, 2, 3])
        if self._chance.random() < 0.7 and question is not None:
            seen = (await self._desks[self._first].get(question_id)).thread
        await self._do(
            "answer",
            (question_id, value, by, question and question.form.kind, seen),
            lambda desk: desk.answer(
                question_id, value, by=by, provenance=Provenance(channel="t", evidence="session", seen=seen)
            ),
        )

    async def write(self) -> None:
        question_id, _ = self._question()
        by, text = (
            self._values.person(),
            self._chance.choice(["Why?", "é\u202e", "", "NUL\x00", "x" * 10_001]),
        )
        verb = self._chance.choice(["ask_back", "note"])
        await self._do(
            verb,
            (question_id, by, text[:9]),
            lambda desk: getattr(desk, verb)(
                question_id, text, by=by, provenance=Provenance(channel="t", evidence="session")
            ),
        )

    async def reply(self) -> None:
        question_id, asker = self._own_question()
        to = self._chance.choice([None, None, 0, 1, 2])
        await self._do(
            "reply",
            (question_id, to),
            lambda desk: desk.scoped(asker=asker).reply(question_id, "Because.", to=to),
        )

    async def decline(self) -> None:
        question_id, _ = self._question()
        by, reason = self._values.person(), self._chance.choice([None, "r", ""])
        await self._do(
            "decline",
            (question_id, by, reason),
            lambda desk: desk.decline(
                question_id, by=by, reason=reason, provenance=Provenance(channel="t", evidence="session")
            ),
        )

    async def attempt(self) -> None:
        question_id, _ = self._question()
        by, value = self._values.person(), self._values.json()
        problems = self._chance.choice([[Problem("", "bad")], [Problem("a.b", "é")]])
        await self._do(
            "attempt",
            (question_id, by, value, problems),
            lambda desk: desk.reject_answer(
                question_id, value, problems, by=by, provenance=Provenance(channel="t", evidence="session")
            ),
        )

    async def withdraw(self) -> None:
        question_id, asker = self._own_question()
        await self._do(
            "withdraw", question_id, lambda desk: desk.scoped(asker=asker).withdraw(question_id, reason="r")
        )

    async def apply_grant(self) -> None:
        question_id, asker = self._own_question()
        await self._do(
            "apply_grant", question_id, lambda desk: desk.scoped(asker=asker).apply_grant(question_id)
        )

    async def consume(self) -> None:
        question_id, asker = self._own_question()
        request = self._chance.choice([None, "r1", "r2", "é", "", "x" * 10_001])
        await self._do(
            "consume",
            (question_id, request and request[:9]),
            lambda desk: desk.scoped(asker=asker).consume_approval(question_id, request=request),
        )

    async def get(self) -> None:
        question_id, asker = self._own_question()
        await self._do("get", question_id, lambda desk: desk.scoped(asker=asker).get(question_id))

    async def find_by_key(self) -> None:
        key, asker = self._chance.choice([*KEYS, "nope", "", "NUL\x00"]), self._asker()
        await self._do(
            "find_by_key", (key[:9], asker), lambda desk: desk.scoped(asker=asker).find_by_key(key)
        )

    async def pending(self) -> None:
        asker, where = self._asker(), self._narrow()
        where["limit"] = self._chance.choice([1, 2, 50, 200])
        if self._chance.random() < 0.2:
            where["after"] = self._chance.choice([*self.ids, "", "zzz"])
        await self._do(
            "pending", where, lambda desk: desk.scoped(asker=asker).list_pending(asker=asker, **where)
        )

    async def settled(self) -> None:
        asker, where = self._asker(), self._narrow()

        async def settled(desk: Desk) -> Sequence[Question]:
            page = await desk.scoped(asker=asker).list_settled(asker=asker, limit=500, **where)
            return sorted(page.items, key=lambda question: question.id)

        await self._do("settled", where, settled)

    async def history(self) -> None:
        question_id, asker = self._own_question()
        await self._do("history", question_id, lambda desk: desk.scoped(asker=asker).history(question_id))

    async def feed(self) -> None:
        expected = len(await self._desks[self._first].feed(limit=500))

        async def feed(desk: Desk) -> list[Any]:
            async with asyncio.timeout(600):
                while len(events := await desk.feed(limit=500)) < expected:
                    await asyncio.sleep(
                        0.02
                    )  # on PostgreSQL any older transaction of the cluster holds the end of a feed up
            # The order of what different questions did at one instant is each store's own.
            return sorted(events, key=lambda event: event.question_id)

        if expected < 500:
            await self._do("feed", (), feed)

    async def grants(self) -> None:
        async def grants(
            desk: Desk,
        ) -> Sequence[Grant]:  # in the order of their ids, which each store makes itself
            return sorted(await desk.list_grants(limit=500), key=lambda grant: grant.question_id)

        await self._do("grants", (), grants)

    async def revoke(self) -> None:
        grants = await self._desks[self._first].list_grants(limit=500)
        if not grants:
            return
        question_id = self._chance.choice(grants.items).question_id
        by = self._chance.choice(["dora", "ada", "*", "group:x", ""])

        async def revoke(desk: Desk) -> Any:  # each store has ids of its own for grants
            (grant,) = [each for each in await desk.list_grants(limit=500) if each.question_id == question_id]
            return await desk.revoke_grant(grant.id, by=by)

        await self._do("revoke", (question_id, by), revoke)

    async def wait(self) -> None:
        question_id, asker = self._own_question()
        timeouts: list[float | timedelta] = [0, 0.0, -1, 0.001, timedelta(0)]
        timeout = self._chance.choice(timeouts)
        await self._do(
            "wait",
            (question_id, timeout),
            lambda desk: desk.scoped(asker=asker).wait(question_id, timeout=timeout),
        )

    async def wait_any(self) -> None:
        some = self._chance.sample(self.ids, min(len(self.ids), 3))
        own = [each for each in some if self._known[each].asker == "agent"]
        await self._do("wait_any", own, lambda desk: desk.scoped(asker="agent").wait_any(own, timeout=0))

    async def recover(self) -> None:
        asker, age = (
            self._asker(),
            self._chance.choice([timedelta(hours=5), timedelta(days=400), timedelta(-1)]),
        )
        await self._do("recover", (asker, age), lambda desk: desk.scoped(asker=asker).recover(age))

    async def _do(self, operation: str, shown: object, call: Call) -> tuple[str, Any]:
        """The operation on every desk; what the first desk gave."""
        self._found.operations[operation] += 1
        results = {name: await _result(call(desk)) for name, desk in self._desks.items()}
        expected = results[self._first]
        for name, given in results.items():
            if given == expected:
                continue
            where, one, other = first_difference(expected, given)
            kind = (operation, name, where, *expected[:1], *given[:1])
            known = self._found.differences.setdefault(
                kind, Difference(operation, name, where, self.number, repr(shown), one, other)
            )
            known.count += 1
        return expected

    def _asker(self) -> str:
        return self._chance.choice(["agent"] * 5 + ["other"])

    def _question(self) -> tuple[str, Question | None]:
        """A question that was asked lately, or one that does not exist."""
        if self.ids and self._chance.random() < 0.95:
            question_id = self._chance.choice(self.ids[-25:])
        else:
            question_id = self._chance.choice(UNKNOWN_IDS)
        return question_id, self._known.get(question_id)

    def _own_question(self) -> tuple[str, str]:
        """A question, and who asked it."""
        question_id, question = self._question()
        return question_id, question.asker if question else self._asker()

    def _narrow(self) -> dict[str, Any]:
        where: dict[str, Any] = {}
        if self._chance.random() < 0.5:
            where["conversation"] = self._chance.choice([*CONVERSATIONS, "", "nope", "a\x00"])
        if self._chance.random() < 0.5:
            where["recipient"] = self._values.person()
        return where


_SHARES = {
    _Stream.post: 25,
    _Stream.answer: 25,
    _Stream.decline: 5,
    _Stream.write: 8,
    _Stream.reply: 5,
    _Stream.attempt: 3,
    _Stream.withdraw: 3,
    _Stream.apply_grant: 5,
    _Stream.consume: 6,
    _Stream.get: 4,
    _Stream.find_by_key: 3,
    _Stream.pending: 4,
    _Stream.settled: 3,
    _Stream.history: 3,
    _Stream.feed: 1,
    _Stream.grants: 2,
    _Stream.revoke: 2,
    _Stream.wait: 2,
    _Stream.wait_any: 2,
    _Stream.recover: 1,
}
"""How often each operation is drawn, in a hundred."""


async def _result(call: Awaitable[Any]) -> tuple[str, Any]:
    try:
        return "given", comparable(await call)
    except (HandraiseError, ValueError, TypeError) as error:
        return f"raised {type(error).__name__}", str(error)[:300]
