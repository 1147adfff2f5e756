"""Histories of anything in any order, on every backend and through a server, step by step as a small reference says.

The full size: HANDRAISE_TIER=nightly HANDRAISE_PROOF_HISTORIES=10000 pytest -m proof tests/chaos/test_stateful.py -s
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from handraise import open_desk
from handraise.desk.blocking_desk import LoopThread
from handraise.testing import ManualClock
from support.issuer import issuer_at
from support.server_process import SharedClock, free_clock, server_process
from tests.conftest import own_database
from tests.stateful.machine import Subject, run_histories
from tests.tiers import sized

pytestmark = [
    pytest.mark.proof,
    pytest.mark.only_proof_of("anything in any order goes as a small reference says, on every backend"),
    pytest.mark.timeout(7200),
]

HISTORIES = int(os.environ.get("HANDRAISE_PROOF_HISTORIES") or sized(gate=40, nightly=500))
SHARES = {"memory": 0.4, "sqlite": 0.3, "postgres": 0.2, "server": 0.1}


@pytest.mark.parametrize("kind", SHARES)
def test_every_history_goes_as_the_reference_says(kind: str, tmp_path: Path) -> None:
    histories = round(HISTORIES * SHARES[kind])
    with {"memory": _memory, "sqlite": _sqlite, "postgres": _postgres, "server": _server}[kind](
        tmp_path
    ) as subject:
        count = run_histories(subject, histories)
    print(f"\n  {count} histories on {kind}, all as the reference says", end="")
    assert count >= histories


@contextmanager
def _memory(_: Path) -> Iterator[Subject]:
    with _opened("memory:", ManualClock()) as subject:
        yield subject


@contextmanager
def _sqlite(folder: Path) -> Iterator[Subject]:
    with _opened(f"sqlite:///{folder / 'questions.db'}", ManualClock()) as subject:
        yield subject


@contextmanager
def _postgres(_: Path) -> Iterator[Subject]:
    with own_database() as address, _opened(address, ManualClock()) as subject:
        yield subject


@contextmanager
def _server(folder: Path) -> Iterator[Subject]:
    free_clock(folder / "clock")
    with (
        own_database() as store,
        server_process(store, folder / "clock", rate_limit="1000000/second") as address,
        issuer_at(store) as issuer,
        _opened(address, SharedClock(folder / "clock"), clock=None, credentials=issuer) as subject,
    ):
        yield subject


@contextmanager
def _opened(address: str, goes_by: ManualClock, **options: Any) -> Iterator[Subject]:
    loop = LoopThread()
    try:
        opening = open_desk(address, **{"clock": goes_by, "workspace": "stateful", **options})
        desk = loop.run(opening.__aenter__())
        try:
            yield Subject(desk, goes_by, loop, patience=5 if address.startswith("http") else 0)
        finally:
            loop.run(opening.__aexit__(None, None, None))
    finally:
        loop.close()
