from __future__ import annotations

import threading
import time
import uuid

import pytest

from handraise.desks import counted_ids, uuid7_ids

MILLISECONDS = 1_800_000_000_123


class Nanoseconds:
    """A clock for the ids that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = MILLISECONDS * 1_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Nanoseconds:
    clock = Nanoseconds()
    monkeypatch.setattr(time, "time_ns", clock)
    return clock


def test_ids_are_valid_version_7_uuids_in_their_usual_text() -> None:
    for made in [uuid7_ids()() for _ in range(100)]:
        parsed = uuid.UUID(made)
        assert str(parsed) == made
        assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)


def test_ids_carry_the_millisecond_in_which_they_were_made(clock: Nanoseconds) -> None:
    assert uuid.UUID(uuid7_ids()()).int >> 80 == clock.now // 1_000_000 == MILLISECONDS


def test_ids_of_one_factory_sort_in_the_order_in_which_they_were_made() -> None:
    new_id = uuid7_ids()
    made = [new_id() for _ in range(20_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_ids_sort_in_order_while_the_clock_stands_still(clock: Nanoseconds) -> None:
    new_id = uuid7_ids()
    made = [new_id() for _ in range(10_000)]
    assert made == sorted(made)
    assert clock.now == MILLISECONDS * 1_000_000


def test_ids_sort_in_order_when_the_clock_goes_back(clock: Nanoseconds) -> None:
    new_id = uuid7_ids()
    made = [new_id()]
    for step in (-3_600_000_000_000, 1, -1_000_000, 7_200_000_000_000):
        clock.now += step
        made.append(new_id())
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_ids_made_later_sort_later_across_factories(clock: Nanoseconds) -> None:
    first = uuid7_ids()()
    clock.now += 1_000_000
    assert first < uuid7_ids()()


def test_ids_made_at_one_instant_by_two_factories_differ(clock: Nanoseconds) -> None:
    one, two = uuid7_ids(), uuid7_ids()
    assert clock.now
    assert len({factory() for factory in (one, two) for _ in range(1_000)}) == 2_000


@pytest.mark.parametrize("factory", [uuid7_ids, counted_ids])
def test_ids_are_unique_across_threads(factory: type) -> None:
    new_id = factory()
    start = threading.Barrier(8)
    made: list[list[str]] = [[] for _ in range(8)]

    def make(mine: list[str]) -> None:
        start.wait(timeout=10)
        mine.extend(new_id() for _ in range(2_000))

    threads = [threading.Thread(target=make, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert len({each for mine in made for each in mine}) == 16_000


def test_each_thread_sees_its_uuids_in_order() -> None:
    new_id = uuid7_ids()
    start = threading.Barrier(4)
    made: list[list[str]] = [[] for _ in range(4)]

    def make(mine: list[str]) -> None:
        start.wait(timeout=10)
        mine.extend(new_id() for _ in range(2_000))

    threads = [threading.Thread(target=make, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert all(mine == sorted(mine) for mine in made)


def test_counted_ids_are_the_same_in_every_run() -> None:
    first, again = counted_ids("clarify"), counted_ids("clarify")
    assert (
        [first() for _ in range(3)] == [again() for _ in range(3)] == ["clarify-1", "clarify-2", "clarify-3"]
    )
    assert counted_ids()() == "q-1"
