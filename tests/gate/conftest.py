"""A server that signs receipts, and a gate that reports to it."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from handraise.desk.local_desk import LocalDesk
from handraise.server import ServerContext, ServerSettings, create_app, open_server
from handraise.signing.key_files import make_key
from support.http_server import listening


@pytest.fixture
def key(tmp_path: Path) -> Path:
    make_key(tmp_path / "receipts.key")
    return tmp_path / "receipts.key"


@pytest.fixture
def public_key(key: Path) -> Path:
    return Path(f"{key}.pub")


@pytest.fixture
def settings() -> dict[str, Any]:
    return {}


@pytest.fixture
async def ctx(key: Path, tmp_path: Path, settings: dict[str, Any]) -> AsyncIterator[ServerContext]:
    url = f"sqlite:///{tmp_path / 'questions.db'}"
    async with open_server(
        ServerSettings(url=url, receipt_key=key, check_recipients=False, **settings)
    ) as ctx:
        yield ctx


@pytest.fixture
async def server(ctx: ServerContext) -> AsyncIterator[str]:
    """The address of the server."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        async with listening(create_app(ctx), door):
            yield f"http://127.0.0.1:{door.getsockname()[1]}"


@pytest.fixture
def desk(ctx: ServerContext) -> LocalDesk:
    """The desk of the agent."""
    return ctx.desk.scoped("acme", asker="bot")
