"""Several workers serve at one port, each stops gracefully, and one that is killed is replaced."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from support.command import SOON, process, serving
from support.database import own_database


def children_of(parent: int) -> set[int]:
    """The processes that this one has started."""
    tasks = Path(f"/proc/{parent}/task/{parent}/children")
    return {int(each) for each in tasks.read_text().split()}


def eventually(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + SOON
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.05)


def listening(log: list[dict[str, object]]) -> int:
    return [line["event"] for line in log].count("listening")


def open_files(worker: int) -> int:
    return sum(1 for _ in Path(f"/proc/{worker}/fd").iterdir())


def is_alive(worker: int) -> bool:
    try:
        os.kill(worker, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.only_proof_of("several workers share a port, and a lost one is replaced")
async def test_two_workers_answer_at_one_port_one_is_replaced_and_all_stop(tmp_path: Path) -> None:
    async with own_database() as address:
        with serving(address, tmp_path, "--workers", "2") as server:
            eventually(lambda: listening(server.log) == 2)
            workers = children_of(server.process.pid)
            assert len(workers) == 2
            before = {worker: open_files(worker) for worker in workers}
            async with contextlib.AsyncExitStack() as stack:
                for _ in range(64):  # each goes to one of them, by chance
                    client = await stack.enter_async_context(httpx2.AsyncClient(base_url=server.address))
                    assert (await client.get("/healthz")).status_code == 200
                assert all(open_files(worker) > before[worker] for worker in workers)

            killed = workers.pop()
            os.kill(killed, signal.SIGKILL)
            eventually(lambda: listening(server.log) == 3)
            assert killed not in children_of(server.process.pid)
            assert httpx2.get(f"{server.address}/healthz").status_code == 200

            workers = children_of(server.process.pid)
            server.send(signal.SIGTERM)
            assert server.wait() == 0
            assert not any(map(is_alive, workers))
            assert [line["event"] for line in server.log].count("stopped") == 2


@pytest.mark.slow("starts two servers for what only a kill of the supervisor shows")
async def test_workers_stop_if_their_supervisor_is_killed(tmp_path: Path) -> None:
    with serving(f"sqlite:///{tmp_path / 'q.db'}", tmp_path, "--workers", "2") as server:
        workers = children_of(server.process.pid)
        server.send(signal.SIGKILL)
        eventually(lambda: not any(map(is_alive, workers)))


@pytest.mark.slow("starts two servers for an exit code that one server has too")
def test_a_worker_that_cannot_start_ends_all_with_its_code() -> None:
    done = process("serve", "--port", "0", "--workers", "2", url="postgresql://nobody@127.0.0.1:1/nowhere")
    assert done.returncode == 69


def test_what_is_in_memory_has_one_worker() -> None:
    done = process("serve", "--port", "0", "--workers", "2", url="memory:")
    assert done.returncode == 78
    assert "--workers 1" in done.stderr
