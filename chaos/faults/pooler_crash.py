"""A PgBouncer in transaction mode that is killed and restarted under load."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from chaos.faults.harness import Survived, desks_on, judged, under_load
from chaos.servers import Program
from support.database import fetch_value
from support.free_port import free_port

_CONFIGURATION = """
[databases]
* = host={host} port={port}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own_port}
unix_socket_dir =
auth_type = trust
auth_file = {users}
pool_mode = transaction
default_pool_size = {sessions}
max_client_conn = 100
"""


@contextmanager
def pooler_to(address: str, user: str, *, sessions: int = 3) -> Iterator[Program]:
    """A pooler in front of the server at an address, with few sessions to give."""
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        raise RuntimeError("A pooler needs PgBouncer. Run: apt-get install pgbouncer")
    parts, port = urlsplit(address), free_port()
    with tempfile.TemporaryDirectory(prefix="handraise-pgbouncer-") as folder:
        users, configuration = Path(folder, "users.txt"), Path(folder, "pgbouncer.ini")
        users.write_text(f'"{user}" ""\n')
        configuration.write_text(
            _CONFIGURATION.format(
                host=parts.hostname, port=parts.port or 5432, own_port=port, users=users, sessions=sessions
            )
        )
        Path(folder).chmod(0o755)
        somebody = ["-u", "nobody"] if os.geteuid() == 0 else []
        pooler = Program(
            [program, "-q", *somebody, str(configuration)],
            port,
            urlunsplit(parts._replace(netloc=f"{user}@127.0.0.1:{port}")),
        )
        pooler.start()
        try:
            yield pooler
        finally:
            pooler.kill()


async def pooler_killed(address: str, times: int, *, confined: bool | None, seed: int = 7) -> Survived:
    """Kill the pooler this often under load, and restart it."""
    began, chance = time.monotonic(), random.Random(seed)
    with pooler_to(address, await fetch_value(address, "select current_user")) as pooler:
        async with (
            desks_on(pooler.address, listen=address, confined=confined) as desks,
            under_load(desks, seed=seed) as load,
        ):
            for _ in range(times):
                await load.busy()
                await asyncio.sleep(chance.uniform(0, 0.1))
                await asyncio.to_thread(pooler.kill)
                await asyncio.to_thread(pooler.start)
    return await judged(address, load.entries, f"killed {times} times", began=began)
