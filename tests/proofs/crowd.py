"""The clients of `test_many_clients`: thousands of them in one process, so that the server's is its own.

One line of JSON comes in and says who there is. `ready` goes out when everybody is there, `over` when the time is,
and at the end one line of JSON with what everybody saw.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
import uuid
from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import uvloop

from support.raw_http import Caller, Listener, Message

CONNECTING_AT_ONCE = 50
WORKERS = 16
SETTLED = frozenset({"answered", "declined", "withdrawn"})
WAIT = "30s"
LONGEST = 120.0


@dataclass(slots=True)
class Pending:
    """A question that somebody waits for, who may answer it, and what was said to it."""

    id: str
    token: str
    people: list[tuple[str, str]]
    expected: tuple[str, str] = ("", "")
    acknowledged: float = 0.0
    told: float = 0.0


@dataclass(slots=True)
class Known:
    """An event that has come to somebody."""

    place: int
    data: bytes
    question_id: str
    kind: str


@dataclass
class Crowd:
    """Everybody, and what has become of them so far."""

    work: dict[str, Any]
    chance: random.Random = field(default_factory=lambda: random.Random(4))
    connecting: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(CONNECTING_AT_ONCE))
    events: dict[str, Known] = field(default_factory=dict)
    questions: dict[str, Pending] = field(default_factory=dict)
    open: list[Pending] = field(default_factory=list)
    came: array[float] = field(default_factory=lambda: array("d"))
    came_to: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    is_over: bool = False
    polls: int = 0
    waiting: int = 0
    delivered: int = 0

    async def run(self) -> dict[str, Any]:
        """Come together, ask and answer for the time there is, settle the rest, and tell what happened."""
        streams = [Stream(self, who, token) for who, token in self.work["listeners"]]
        async with asyncio.TaskGroup() as group:
            listening: list[asyncio.Task[None]] = []

            async def begin(stream: Stream) -> None:
                async with self.connecting:
                    listening.append(group.create_task(stream.listener.run()))
                    await asyncio.wait_for(stream.listener.ready.wait(), 60)

            await asyncio.gather(*map(begin, streams))
            waits = [group.create_task(self.ask_and_wait(*each)) for each in self.work["askers"]]
            while self.waiting < len(waits):
                await asyncio.sleep(0.1)
            print("ready", flush=True)
            began, delivered = time.monotonic(), self.delivered
            losing = group.create_task(self.lose_connections(streams))
            await self.settle_at_rate(began)
            took, delivered = time.monotonic() - began, self.delivered - delivered
            print("over", flush=True)
            self.is_over = True
            losing.cancel()
            await self.settle_the_rest(waits)
            await self.nothing_more_comes(streams)
            for task in listening:
                task.cancel()
        return self.report(streams, took, delivered)

    async def ask_and_wait(self, token: str, audience: str) -> None:
        """Ask, wait by long polls until somebody answers, and ask again, while there is time."""
        caller = Caller([self.work["address"]], token)
        recipients, people = self.work["audiences"][audience]
        while not self.is_over:
            body = {"prompt": f"Which of these, {audience}?", "recipients": recipients}
            async with self.connecting:
                posted = await caller.call("POST", "/v1/questions", body, key=uuid.uuid4().hex)
            if posted.status != 201:
                self.wrong.append(f"post: {posted}")
                return
            question = Pending(posted.json()["id"], token, people)
            self.questions[question.id] = question
            self.open.append(question)
            self.waiting += 1
            await self.wait(caller, question)
            self.waiting -= 1
        caller.close()

    async def wait(self, caller: Caller, question: Pending) -> None:
        while not question.told:
            self.polls += 1
            got = await caller.call("GET", f"/v1/questions/{question.id}/outcome?wait={WAIT}")
            if got.status != 200:
                self.wrong.append(f"long poll: {got}")
                return
            said = got.json()
            if said["status"] != "pending":
                question.told = time.monotonic()
                outcome = said["outcome"]
                text = outcome["value"] if said["status"] == "answered" else outcome["reason"]
                if (said["status"], text) != question.expected:
                    self.wrong.append(f"{question.id} ended as {said}, not as {question.expected}")

    async def settle_at_rate(self, began: float) -> None:
        """Settle so many a second, whichever comes first by chance, for the time there is."""
        callers = [Caller([self.work["address"]]) for _ in range(WORKERS)]
        free: asyncio.Queue[Caller] = asyncio.Queue()
        for caller in callers:
            free.put_nowait(caller)

        async def settle_one(caller: Caller) -> None:
            await self.settle(caller)
            free.put_nowait(caller)

        number = 0
        async with asyncio.TaskGroup() as group:
            while (now := time.monotonic()) < began + self.work["seconds"]:
                due = began + number / self.work["rate"]
                if now < due:
                    await asyncio.sleep(due - now)
                number += 1
                group.create_task(settle_one(await free.get()))
        for caller in callers:
            caller.close()

    async def settle_the_rest(self, waits: list[asyncio.Task[None]]) -> None:
        callers = [Caller([self.work["address"]]) for _ in range(WORKERS)]
        while not all(wait.done() for wait in waits):
            await asyncio.gather(*map(self.settle, callers), asyncio.sleep(0.02))
        for caller in callers:
            caller.close()

    async def settle(self, caller: Caller) -> None:
        """Answer, decline or withdraw one question, whichever it is by chance."""
        if not self.open:
            return
        place = self.chance.randrange(len(self.open))
        self.open[place], self.open[-1] = self.open[-1], self.open[place]
        question = self.open.pop()
        who, token = self.chance.choice(question.people)
        deed = self.chance.choices(("answer", "decline", "withdraw"), (80, 12, 8))[0]
        text = f"{who} says so {uuid.uuid4().hex}"
        if deed == "withdraw":
            token = question.token
        question.expected = (
            {"answer": "answered", "decline": "declined", "withdraw": "withdrawn"}[deed],
            text,
        )
        body = {"value" if deed == "answer" else "reason": text}
        path = f"/v1/questions/{question.id}/{deed}"
        done = await caller.call("POST", path, body, key=uuid.uuid4().hex, token=token)
        question.acknowledged = time.monotonic()
        if done.status != 200:
            self.wrong.append(f"{deed}: {done}")

    async def lose_connections(self, streams: list[Stream]) -> None:
        """Every second, some of the streams break and come back."""
        while True:
            await asyncio.sleep(1.0)
            for stream in self.chance.sample(
                streams, max(1, round(len(streams) * self.work["lost_a_second"]))
            ):
                stream.listener.drop()

    async def nothing_more_comes(self, streams: list[Stream]) -> None:
        """Until nothing has come to anybody for a while, after the last event has come to somebody.

        That one may take long where somebody else's transactions do, anywhere in the same PostgreSQL.
        """
        still, before, until = 0, -1, time.monotonic() + LONGEST
        while time.monotonic() < until:
            await asyncio.sleep(0.1)
            still, before = (still + 1 if self.delivered == before else 0), self.delivered
            if still > 30 and max(len(each.seen) for each in streams) >= 2 * len(self.questions):
                return

    def report(self, streams: list[Stream], took: float, delivered: int) -> dict[str, Any]:
        cursors = list(self.events)
        seen: dict[str, Counter[bytes]] = {}
        for stream in streams:
            seen.setdefault(stream.who, Counter())[stream.seen.tobytes()] += 1
        return {
            "wrong": self.wrong,
            "questions": len(self.questions),
            "told": sum(1 for each in self.questions.values() if each.told),
            "polls": self.polls,
            "delivered": delivered,
            "took": took,
            "connects": sum(each.listener.connects for each in streams),
            "signs": {who: min(s.listener.signs for s in streams if s.who == who) for who in seen},
            "statuses": {who: [s.listener.last_status for s in streams if s.who == who] for who in seen},
            "seen": {
                who: [([cursors[n] for n in array("I", each)], count) for each, count in kinds.items()]
                for who, kinds in seen.items()
            },
            "delivery_latency": percentiles(
                came - self.questions[name].acknowledged
                for came, name in zip(self.came, self.came_to, strict=True)
            ),
            "long_poll_latency": percentiles(
                each.told - each.acknowledged for each in self.questions.values()
            ),
        }


class Stream:
    """One event stream, and which events came through it, in order."""

    def __init__(self, crowd: Crowd, who: str, token: str) -> None:
        self.who = who
        self.seen = array("I")
        self.listener = Listener([crowd.work["address"]], token, self._heard)
        self._crowd = crowd

    def _heard(self, message: Message) -> None:
        crowd = self._crowd
        known = crowd.events.get(message.id)
        if known is None:
            event = message.json()
            known = Known(len(crowd.events), message.data, event["question_id"], message.event)
            crowd.events[message.id] = known
        elif known.data != message.data:
            crowd.wrong.append(f"{message.id} is {message.data!r} for one and {known.data!r} for another")
        self.seen.append(known.place)
        crowd.delivered += 1
        if known.kind in SETTLED and not crowd.is_over:
            crowd.came.append(message.came)
            crowd.came_to.append(known.question_id)


def percentiles(seconds: Any) -> dict[str, float]:
    """Of how long things took, in milliseconds."""
    each = sorted(seconds) or [float("inf")]
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "worst": 1.0}
    return {
        name: round(1000 * each[min(len(each) - 1, int(share * len(each)))], 1)
        for name, share in shares.items()
    }


async def main() -> None:
    work = json.loads(await asyncio.to_thread(sys.stdin.readline))
    print(json.dumps(await Crowd(work).run()), flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
