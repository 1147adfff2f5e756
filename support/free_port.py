"""A port at which nobody listens."""

from __future__ import annotations

import random
import socket
from contextlib import suppress


def free_port() -> int:
    """A port below those of outgoing connections: repeated attempts to connect there never reach themselves."""
    while True:
        port = random.randrange(20_000, 30_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
