"""Two servers on one PostgreSQL: clients of both see everything, and those of one that dies go on with the other.

The moment of a kill is a matter of chance, so `HANDRAISE_PROOF_ROUNDS=50` makes as many of them:
`HANDRAISE_PROOF_ROUNDS=50 pytest -m proof -s tests/proofs/test_two_servers.py`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, aclosing, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from handraise import Answered, Desk, Event, Question, open_desk
from handraise.wire.credentials import Credentials
from support.command import Serving, serving
from support.issuer import issuer_at
from support.raw_http import Caller, Listener
from tests.tiers import sized

pytestmark = [
    pytest.mark.proof,
    pytest.mark.only_proof_of("clients of two servers see the same, and go on with one of them"),
    pytest.mark.timeout(600),
]

ROUNDS = int(os.environ.get("HANDRAISE_PROOF_ROUNDS", "1"))
ASKERS, AT_ONCE, TURNS = sized(gate=2, nightly=6), sized(gate=2, nightly=4), 10
PEOPLE = ("ana", "bob", "cleo")
WITHIN = 240.0


@pytest.fixture(scope="session")
def credentials(postgres: str) -> Iterator[Credentials]:
    with issuer_at(postgres) as issuer:
        yield issuer


@pytest.fixture
def servers(postgres: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[list[Serving]]:
    """Two servers; a parameter says how seldom they poll."""
    settings: dict[str, Any] = {"poll_interval": getattr(request, "param", "1"), "heartbeat": "1"}
    with ExitStack() as stack:
        yield [stack.enter_context(serving(postgres, tmp_path, **settings)) for _ in range(2)]


@pytest.mark.parametrize("servers", ["600"], indirect=True, ids=["woken and not by a poll"])
async def test_what_is_asked_at_one_and_answered_at_the_other_is_seen_by_the_clients_of_both(
    servers: list[Serving], credentials: Credentials, workspace: str
) -> None:
    async with AsyncExitStack() as stack, asyncio.timeout(WITHIN):
        here, there = [
            await stack.enter_async_context(
                open_desk(each.address, credentials=credentials, workspace=workspace)
            )
            for each in servers
        ]
        watch = await stack.enter_async_context(
            watching([[each.address] for each in servers], credentials, workspace)
        )
        progress = Progress()
        token = await credentials.agent(workspace, "agent")
        callers = [stack.enter_context(progress.calling([each.address], token)) for each in servers]
        for asked_at, answered_at in ((here, there), (there, here)):
            question = await asked_at.post("Which?")
            waits = [asyncio.create_task(desk.wait(question.id)) for desk in (here, there)]
            polls = [asyncio.create_task(long_poll(caller, question.id)) for caller in callers]
            await watch.saw(question.id, "asked")
            began = time.monotonic()
            await answered_at.answer(question.id, "that", by="ana")
            assert [value_of(each) for each in await asyncio.gather(*waits)] == ["that", "that"]
            assert await asyncio.gather(*polls) == ["that", "that"]
            await watch.saw(question.id, "answered")
            took = time.monotonic() - began
            print(f"\n  answered at the other server: all clients of both knew in {took:.3f} s", end="")
        await watch.saw_just((await here.feed()).items)


@pytest.mark.parametrize("turn", range(ROUNDS))
async def test_clients_of_a_killed_server_go_on_with_the_other_and_nothing_is_lost_or_doubled(
    servers: list[Serving], credentials: Credentials, postgres: str, workspace: str, turn: int
) -> None:
    both = [each.address for each in servers]
    strike = partial(servers[turn % 2].send, signal.SIGKILL)
    trouble = await carry_on(both, credentials, postgres, workspace, progress=Progress(), strike=strike)
    assert trouble["streams cut"] > 0, "nobody was at the killed server, so nothing was proven"


@pytest.mark.slow("tests/server/test_process_stop.py stops a server under load in the gate")
@pytest.mark.parametrize("turn", range(ROUNDS))
async def test_clients_of_a_stopped_server_go_on_with_the_other_and_no_request_fails(
    servers: list[Serving], credentials: Credentials, postgres: str, workspace: str, turn: int
) -> None:
    both, stopped, progress = [each.address for each in servers], servers[turn % 2], Progress()
    strike = partial(stopped.send, signal.SIGTERM)
    trouble = await carry_on(both, credentials, postgres, workspace, progress=progress, strike=strike)
    assert trouble["streams ended"] > 0, "nobody was at the stopped server, so nothing was proven"
    assert await asyncio.to_thread(stopped.wait) == 0
    assert not trouble["streams cut"] + trouble["responses cut"]
    # Who knocks in the very moment in which the door is closed may be let down, but was never let in.
    begun = {line["request_id"] for line in stopped.log if line["event"] == "request"}
    assert not progress.unanswered & begun


async def carry_on(
    both: list[str],
    credentials: Credentials,
    postgres: str,
    workspace: str,
    *,
    progress: Progress,
    strike: Callable[[], None],
) -> Counter[str]:
    """Ask and answer, strike in the middle, and see that nobody missed anything; what went wrong on the way."""
    orders = [both, both[::-1]]
    began = time.monotonic()
    async with AsyncExitStack() as stack, asyncio.timeout(WITHIN):
        desks = [
            await stack.enter_async_context(
                open_desk(",".join(orders[n % 2]), credentials=credentials, workspace=workspace)
            )
            for n in range(len(PEOPLE) + ASKERS)
        ]
        watch = await stack.enter_async_context(watching(orders * 2, credentials, workspace))
        async with asyncio.TaskGroup() as group:
            group.create_task(strike_in_the_middle(strike, progress))
            for desk, person in zip(desks, PEOPLE, strict=False):
                group.create_task(answer_everything(desk, person, progress))
            for n, desk in enumerate(desks[len(PEOPLE) :]):
                for line in range(AT_ONCE):
                    group.create_task(
                        ask_and_wait(desk, f"{n}.{line}", orders[(n + line) % 2], credentials, progress)
                    )
        local = await stack.enter_async_context(open_desk(postgres, workspace=workspace))
        events = await whole_feed(local, 2 * progress.expected)
        questions = [await local.get(name) for name in {event.question_id for event in events}]
        await watch.saw_just(events)
    check(questions, events, progress)
    trouble = progress.trouble + watch.trouble
    print(
        f"\n  {len(questions)} questions, {len(events)} events to each of {watch.size} followers in "
        f"{time.monotonic() - began:.1f} s; longest pair {max(progress.took):.1f} s; "
        + ", ".join(f"{count} {what}" for what, count in trouble.items()),
        end="",
    )
    return trouble


def check(questions: Sequence[Question], events: Sequence[Event], progress: Progress) -> None:
    """Each question was asked once and answered once, with what the person said and every waiter was told."""
    assert Counter(question.prompt for question in questions) == Counter(list(progress.told))
    for question in questions:
        assert value_of(question.outcome) == f"{question.prompt}!"
        assert progress.told[question.prompt] == [f"{question.prompt}!"] * 2
    kinds = Counter((event.question_id, event.kind.value) for event in events)
    assert set(kinds.values()) == {1}
    assert len(kinds) == 2 * len(questions) == 2 * progress.expected
    assert Counter(progress.answered) == Counter(question.id for question in questions)


class Progress:
    """How far the work is, and what was told to whom."""

    def __init__(self) -> None:
        self.expected = ASKERS * AT_ONCE * TURNS
        self.told: dict[str, list[str]] = {}
        self.answered: list[str] = []
        self.took: list[float] = []
        self.trouble: Counter[str] = Counter()
        self.unanswered: set[str] = set()
        self._stirred = asyncio.Condition()

    @contextmanager
    def calling(self, addresses: Sequence[str], token: str) -> Iterator[Caller]:
        """A client by hand, whose troubles are counted."""
        caller = Caller(addresses, token)
        try:
            yield caller
        finally:
            caller.close()
            self.trouble["connections refused"] += caller.refused
            self.trouble["requests unanswered"] += len(caller.unanswered)
            self.unanswered.update(caller.unanswered)
            self.trouble["responses cut"] += caller.cut

    async def tell(self, prompt: str, values: list[str]) -> None:
        async with self._stirred:
            self.told[prompt] = values
            self._stirred.notify_all()

    async def reach(self, share: float) -> None:
        async with self._stirred:
            await self._stirred.wait_for(lambda: len(self.told) >= share * self.expected)


async def ask_and_wait(
    desk: Desk, line: str, order: Sequence[str], credentials: Credentials, progress: Progress
) -> None:
    """One question after the other; every other one is posted by hand, with an idempotency key and no id."""
    asker = f"agent {line}"
    desk = desk.scoped(asker=asker)
    token = await credentials.agent(desk.workspace, asker)
    with progress.calling(order, token) as poster, progress.calling(order, token) as waiter:
        for turn in range(TURNS):
            began = time.monotonic()
            prompt, person = f"Question {line}.{turn}", PEOPLE[turn % len(PEOPLE)]
            if turn % 2:
                body = {"prompt": prompt, "recipients": [person]}
                posted = await poster.call("POST", "/v1/questions", body, key=f"post {prompt}")
                assert posted.status == 201, posted
                question_id = posted.json()["id"]
            else:
                question_id = (await desk.post(prompt, recipients=[person])).id
            waited, polled = await asyncio.gather(desk.wait(question_id), long_poll(waiter, question_id))
            await progress.tell(prompt, [value_of(waited), polled])
            progress.took.append(time.monotonic() - began)


async def answer_everything(desk: Desk, person: str, progress: Progress) -> None:
    """Look into one's inbox again and again; nobody else answers what is in it."""

    async def answer(question: Question) -> None:
        await desk.answer(question.id, f"{question.prompt}!", by=person)
        progress.answered.append(question.id)

    while len(progress.told) < progress.expected:
        page = await desk.list_pending(recipient=person, limit=8)
        await asyncio.gather(*(answer(question) for question in page.items))
        if not page.items:
            await asyncio.sleep(0.01)


async def strike_in_the_middle(strike: Callable[[], None], progress: Progress) -> None:
    await progress.reach(1 / 3)
    strike()


async def long_poll(caller: Caller, question_id: str) -> str:
    """The answer, by hand: again and again until there is one."""
    while True:
        got = await caller.call("GET", f"/v1/questions/{question_id}/outcome?wait=20s")
        assert got.status == 200, got
        if got.json()["status"] != "pending":
            return str(got.json()["outcome"]["value"])


class Watch:
    """Everybody who follows the events, and what each of them saw."""

    def __init__(self) -> None:
        self.seen: list[list[tuple[str, str, str]]] = []
        self.trouble: Counter[str] = Counter()
        self._stirred = asyncio.Event()

    @property
    def size(self) -> int:
        return len(self.seen)

    def eye(self) -> Callable[[str, str, str], None]:
        """Where one of them says what it saw: the cursor, the question, and what happened to it."""
        mine: list[tuple[str, str, str]] = []
        self.seen.append(mine)

        def see(*event: str) -> None:
            mine.append((event[0], event[1], event[2]))
            self._stirred.set()

        return see

    async def saw(self, question_id: str, kind: str) -> None:
        """Until each of them has seen this."""
        await self._until(
            lambda: all(any(each[1:] == (question_id, kind) for each in mine) for mine in self.seen)
        )

    async def saw_just(self, events: Sequence[Event]) -> None:
        """Until each of them has seen the last of these; then they must be all, in this order and no more."""
        wanted = [(event.cursor, event.question_id, event.kind.value) for event in events]
        await self._until(lambda: all(wanted[-1] in mine for mine in self.seen))
        for mine in self.seen:
            assert mine == wanted

    async def _until(self, there: Callable[[], bool]) -> None:
        while not there():
            self._stirred.clear()
            await self._stirred.wait()


@asynccontextmanager
async def watching(
    orders: Sequence[Sequence[str]], credentials: Credentials, workspace: str
) -> AsyncIterator[Watch]:
    """For each order of addresses, one who follows by hand and one with a desk."""
    watch = Watch()
    token = await credentials.reader(workspace, "agent")
    listeners = [listener(order, token, watch.eye()) for order in orders]
    async with AsyncExitStack() as stack:
        desks = [
            await stack.enter_async_context(
                open_desk(",".join(order), credentials=credentials, workspace=workspace)
            )
            for order in orders
        ]
        tasks = [
            *(asyncio.create_task(each.run()) for each in listeners),
            *(asyncio.create_task(follow(desk, watch.eye())) for desk in desks),
        ]
        try:
            await asyncio.gather(*(each.ready.wait() for each in listeners))
            yield watch
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            watch.trouble["streams cut"] = sum(each.cut for each in listeners)
            watch.trouble["streams ended"] = sum(each.connects - 1 - each.cut for each in listeners)
            assert all(isinstance(each, asyncio.CancelledError) for each in ended), ended


def listener(order: Sequence[str], token: str, see: Callable[[str, str, str], None]) -> Listener:
    return Listener(
        order, token, lambda message: see(message.id, message.json()["question_id"], message.event)
    )


async def follow(desk: Desk, see: Callable[[str, str, str], None]) -> None:
    async with aclosing(desk.follow(after="")) as events:
        async for event in events:
            see(event.cursor, event.question_id, event.kind.value)


async def whole_feed(desk: Desk, size: int) -> list[Event]:
    """Everything that happened, as the store has it."""
    events: list[Event] = []
    while len(events) < size:
        events += await desk.feed(after=events[-1].cursor if events else None)
    return events


def value_of(outcome: object) -> str:
    assert isinstance(outcome, Answered), outcome
    return str(outcome.value)
