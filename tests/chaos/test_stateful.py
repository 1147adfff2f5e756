"""Histories of anything in any order, on every backend and through a server.

In some, every step is as a small reference says. In the others every verb is called, and what is left holds together.

The full size: HANDRAISE_TIER=nightly HANDRAISE_PROOF_HISTORIES=10000 pytest -m proof tests/chaos/test_stateful.py -s
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeAlias, TypeVar

import pytest

from handraise import Desk, open_desk
from handraise.desk.blocking_desk import LoopThread
from handraise.desk_factory import open_backend
from handraise.desks import desk_from_store
from handraise.ports import Backend
from handraise.signing.key_files import make_key
from handraise.testing import ManualClock
from support.issuer import issuer_at
from support.server_process import SharedClock, free_clock, server_process
from tests.conftest import own_database
from tests.stateful.every_verb import ADMIN, READS, WRITES, run_every_verb
from tests.stateful.machine import Subject, run_histories
from tests.tiers import NIGHTLY, sized

T = TypeVar("T")
Opened: TypeAlias = tuple[str, Subject]

pytestmark = [
    pytest.mark.proof,
    pytest.mark.only_proof_of("anything in any order goes as a small reference says, on every backend"),
    pytest.mark.timeout(7200),
]

HISTORIES = int(os.environ.get("HANDRAISE_PROOF_HISTORIES") or sized(gate=40, nightly=500))
EVERY_VERB = int(os.environ.get("HANDRAISE_PROOF_HISTORIES") or sized(gate=60, nightly=2_000))
CALLED_BY_NO_RULE = {
    "close": "ends the desk, which the whole history needs; tests/test_desk_factory.py has it",
    "scoped": "makes the desk with which every act is done",
}
"""The verbs of the desk without a generator, and why."""
SHARES = {"memory": 0.4, "sqlite": 0.3, "postgres": 0.2, "server": 0.1}
CHEAP_FIRST = {"memory": 0.7, "sqlite": 0.15, "postgres": 0.1, "server": 0.05}


@pytest.fixture(params=SHARES, scope="module")
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """A desk of each kind; a server is started once."""
    with KINDS[request.param](tmp_path_factory.mktemp("stateful")) as subject:
        yield request.param, subject


def test_every_history_goes_as_the_reference_says(opened: Opened) -> None:
    kind, subject = opened
    histories = round(HISTORIES * SHARES[kind])
    count = run_histories(subject, histories)
    print(f"\n  {count} histories on {kind}, all as the reference says", end="")
    assert count >= histories


def test_whatever_is_called_the_rows_agree(opened: Opened) -> None:
    kind, subject = opened
    histories = round(EVERY_VERB * CHEAP_FIRST[kind])
    count, done = run_every_verb(subject, histories)
    never = sorted({*WRITES, *READS, *ADMIN} - done.keys())
    print(f"\n  {count} histories of {done.total()} acts on {kind}, not done: {never}", end="")
    assert count >= histories
    assert not NIGHTLY or kind != "memory" or never == []


def test_every_verb_of_the_desk_is_called() -> None:
    verbs = {name for name, verb in vars(Desk).items() if callable(verb) and not name.startswith("_")}
    assert {*WRITES, *READS} ^ verbs == CALLED_BY_NO_RULE.keys()


@contextmanager
def _memory(folder: Path) -> Iterator[Subject]:
    with _local("memory:", folder) as subject:
        yield subject


@contextmanager
def _sqlite(folder: Path) -> Iterator[Subject]:
    with _local(f"sqlite:///{folder / 'questions.db'}", folder) as subject:
        yield subject


@contextmanager
def _postgres(folder: Path) -> Iterator[Subject]:
    with own_database() as address, _local(address, folder) as subject:
        yield subject


@contextmanager
def _server(folder: Path) -> Iterator[Subject]:
    free_clock(folder / "clock")
    clock = SharedClock(folder / "clock")
    with (
        own_database() as store,
        server_process(store, folder / "clock", rate_limit="1000000/second") as address,
        issuer_at(store) as issuer,
        _opened(open_backend(store, clock=clock)) as (loop, backend),
        _in(loop, open_desk(address, workspace="stateful", credentials=issuer)) as desk,
    ):
        yield Subject(desk, clock, loop, patience=5, backend=backend, desks=(desk,), has_groups=False)


@contextmanager
def _local(address: str, folder: Path) -> Iterator[Subject]:
    clock = ManualClock()
    with _opened(open_backend(address, clock=clock)) as (loop, backend):
        parts = {name: getattr(backend, name) for name in ("directory", "policies", "files", "blobs")}
        make_key(folder / "receipts.key")
        parts |= {"receipt_key": folder / "receipts.key", "workspace": "stateful", "clock": clock}
        with (
            _in(loop, desk_from_store(backend.store, backend.bus, **parts)) as desk,
            _in(loop, desk_from_store(backend.store, backend.bus, **parts)) as other,
        ):
            yield Subject(desk, clock, loop, 0, backend, (desk, other), has_groups=True)


@contextmanager
def _opened(opening: AbstractAsyncContextManager[Backend]) -> Iterator[tuple[LoopThread, Backend]]:
    loop = LoopThread()
    try:
        with _in(loop, opening) as backend:
            yield loop, backend
    finally:
        loop.close()


@contextmanager
def _in(loop: LoopThread, opening: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """What is opened in a loop, for as long as this context lasts."""
    opened = loop.run(opening.__aenter__())
    try:
        yield opened
    finally:
        loop.run(opening.__aexit__(None, None, None))


KINDS: dict[str, Callable[[Path], AbstractContextManager[Subject]]] = {
    "memory": _memory,
    "sqlite": _sqlite,
    "postgres": _postgres,
    "server": _server,
}
