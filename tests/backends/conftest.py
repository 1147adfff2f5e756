"""What several tests of backends share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from chaos.servers import Program
from support.free_port import free_port


@pytest.fixture
def nats_server() -> Iterator[Program]:
    """A NATS of the test's own, which can be killed and come back."""
    program, port = shutil.which("nats-server"), free_port()
    assert program, "these tests start nats-server: install it"
    server = Program([program, "-a", "127.0.0.1", "-p", str(port)], port, f"nats://127.0.0.1:{port}")
    server.start()
    yield server
    server.kill()
