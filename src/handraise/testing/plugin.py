"""Fixtures for tests of agents. pytest finds them by itself, without configuration.

A coroutine test that takes one of them needs no other plugin; if pytest-asyncio or anyio runs it, that is right too. This
module imports nothing of Handraise before a test needs it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Generator, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from handraise import Desk
    from handraise.blocking import BlockingDesk
    from handraise.testing import FakeChannel, ManualClock, Person
    from handraise.testing.memory_desk import MemoryDesk

_FIXTURES = frozenset(
    {"handraise_desk", "handraise_person", "handraise_channel", "handraise_clock", "handraise_blocking_desk"}
)
_RUN_BY_OTHERS = ("asyncio", "anyio")
_MEMORY: pytest.StashKey[MemoryDesk] = pytest.StashKey()
_PERSON: pytest.StashKey[Person] = pytest.StashKey()


@pytest.fixture
def handraise_clock() -> ManualClock:
    """The clock of `handraise_desk`. It stands still at the time when the test began, until something moves it."""
    from handraise.testing.clock import ManualClock  # noqa: PLC0415 -- nothing is imported at the start of pytest

    return ManualClock(datetime.now(UTC))


@pytest.fixture
def handraise_desk(request: pytest.FixtureRequest, handraise_clock: ManualClock) -> Desk:
    """A desk in memory for one test."""
    from handraise.testing.memory_desk import MemoryDesk  # noqa: PLC0415 -- same

    memory = request.node.stash[_MEMORY] = MemoryDesk(handraise_clock)
    return memory.desk


@pytest.fixture
def handraise_blocking_desk(handraise_clock: ManualClock) -> Iterator[BlockingDesk]:
    """A blocking desk in memory for one test."""
    from handraise.blocking import open_desk  # noqa: PLC0415 -- same

    with open_desk("memory:", clock=handraise_clock) as desk:
        yield desk


@pytest.fixture
def handraise_person(request: pytest.FixtureRequest, handraise_clock: ManualClock) -> Iterator[Person]:
    """A person called ana who answers at the desk of the test."""
    from handraise.testing.person import Person  # noqa: PLC0415 -- same

    if "handraise_blocking_desk" in request.fixturenames:
        person = Person(request.getfixturevalue("handraise_blocking_desk"), clock=handraise_clock)
        request.node.stash[_PERSON] = person
        person._people.start_in_thread()  # noqa: SLF001 -- the hook below ends it
        yield person
        return
    person = Person(request.getfixturevalue("handraise_desk"), clock=handraise_clock)
    request.node.stash[_PERSON] = person
    request.node.stash[_MEMORY].on_wake.append(person._people.start)  # noqa: SLF001 -- there is no loop yet
    yield person


@pytest.fixture
def handraise_channel(request: pytest.FixtureRequest, handraise_desk: Desk) -> FakeChannel:
    """A channel that keeps what is sent about questions at `handraise_desk`, and that reaches ana."""
    from handraise.testing.fake_channel import FakeChannel  # noqa: PLC0415 -- same
    from handraise.testing.memory_desk import run_now  # noqa: PLC0415 -- same

    del handraise_desk
    memory, channel = request.node.stash[_MEMORY], FakeChannel()
    channel._serve(memory.desk, memory.backend)  # noqa: SLF001 -- there is no loop yet
    run_now(channel.add_person("ana"))
    memory.on_wake.append(channel._start)  # noqa: SLF001 -- same
    return channel


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> object | None:
    """Run a coroutine test that uses the fixtures, unless another plugin does."""
    if (
        _FIXTURES.isdisjoint(pyfuncitem.fixturenames)
        or not inspect.iscoroutinefunction(pyfuncitem.obj)
        or any(map(pyfuncitem.get_closest_marker, _RUN_BY_OTHERS))
    ):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    with asyncio.Runner() as runner:
        runner.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test in which a person was asked something unexpected."""
    __tracebackhide__ = True
    person = item.stash.get(_PERSON, None)
    if person is None:
        return (yield)
    try:
        result = yield
    except Exception as error:
        _end(person, error)
        raise
    _end(person, None)
    return result


def _end(person: Person, error: Exception | None) -> None:
    from handraise.testing.memory_desk import run_now  # noqa: PLC0415 -- nothing is imported at the start of pytest

    __tracebackhide__ = True
    people = person._people  # noqa: SLF001 -- the fixture has no context of its own
    if people.is_in_thread:
        people.stop_in_thread(error)
        return
    run_now(people.check_pending())  # the loop of the test has ended, and memory needs none
    people.verify(error)
