"""The next release replaces this one under load: the schema first, then one server after the other."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from chaos.faults.rolling_upgrade import later_release, migrated, previous_release
from handraise.backends.postgres.schema import MIGRATIONS
from handraise.desk_factory import open_backend
from support.database import fetch_value
from support.issuer import Issuer
from support.load_balancer import load_balancer
from tests.certificates import certificate
from tests.conftest import own_database
from tests.proofs.steady_load import Fleet, SteadyLoad

pytestmark = [
    pytest.mark.proof,
    pytest.mark.slow("starts six servers; chaos release-before has two releases on one schema in the gate"),
    pytest.mark.timeout(600),
]


@pytest.fixture
def store() -> Iterator[str]:
    """An empty database."""
    with own_database(empty=True) as address:
        yield address


def migrate(store: str, source: Path) -> str:
    """What `handraise migrate` of this source prints."""
    done = subprocess.run(
        [sys.executable, "-m", "handraise", "migrate"],
        env={**os.environ, "PYTHONPATH": str(source), "HANDRAISE_URL": store},
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_the_next_release_replaces_the_servers_one_by_one_and_no_request_is_refused(
    store: str, tmp_path: Path, workspace: str
) -> None:
    (folder := tmp_path / "tls").mkdir()
    public, private = certificate(folder, "127.0.0.1")
    (pem := tmp_path / "front.pem").write_text(public.read_text() + private.read_text())
    newest = MIGRATIONS[-1].number
    with previous_release() as old, later_release() as new:
        await asyncio.to_thread(migrate, store, old)
        assert await migrated(store) <= newest
        async with AsyncExitStack() as stack:
            fleet = stack.enter_context(Fleet(tmp_path, url=store, PYTHONPATH=str(old)))
            balancer = stack.enter_context(load_balancer(tmp_path, pem, fleet.ports))
            backend = await stack.enter_async_context(open_backend(store))
            for port in fleet.ports:
                await balancer.until_ready(port)
            load = SteadyLoad(balancer, Issuer(backend.directory), workspace)
            async with load.running(ssl.create_default_context(cafile=str(public))):
                said = await asyncio.to_thread(migrate, store, new)
                assert f"is at {newest + 1} now: {newest + 1:04d}_later" in said
                await load.more()  # the old servers on the new schema
                await fleet.roll(
                    balancer
                )  # and back again: a crashed pod of the old release starts on the new schema
                await fleet.roll(balancer, PYTHONPATH=str(new))
            print(f"\n  {len(load.told)} questions, {len(load.seen[0])} events; refused: {len(load.refused)}")
        assert await migrated(store) == newest + 1
        assert await fetch_value(store, "select count(*) from handraise.migrations") == newest + 1
