"""An agent that asks and a person at a browser, signed in by a cookie."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio
from playwright.async_api import Browser

from handraise import Responder
from handraise.desk.local_desk import LocalDesk
from handraise.model.identities import Role
from handraise.server import ServerContext
from support.issuer import Issuer
from tests.server.inbox.chromium import launched


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    """One browser for all tests here: it takes longer to start than most of them take."""
    async with launched() as browser:
        yield browser


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What a page shows does not depend on the store; the contract suites see to that."""
    match getattr(request, "param", "memory"):
        case "sqlite":
            return f"sqlite:///{tmp_path / 'questions.db'}"
        case "postgres":
            found: str = request.getfixturevalue("postgres")
            return found
        case _:
            return "memory:"


@pytest.fixture
def desk(ctx: ServerContext, workspace: str) -> LocalDesk:
    """The desk as the agent deploy-bot uses it."""
    return ctx.desk.scoped(workspace, asker="deploy-bot")


@pytest.fixture
async def ann(client: httpx2.AsyncClient, issuer: Issuer, workspace: str) -> httpx2.AsyncClient:
    """The browser of ann, a member of the group ops."""
    token = await issuer.person(workspace, Responder("ann", frozenset({"ops"})), role=Role.MEMBER)
    client.cookies.set("handraise", token)
    return client


@pytest.fixture
async def boss(
    client_from: Callable[[str], httpx2.AsyncClient], issuer: Issuer, workspace: str
) -> AsyncIterator[httpx2.AsyncClient]:
    """The browser of an administrator."""
    token = await issuer.person(workspace, "boss", role=Role.ADMIN)
    async with client_from("192.0.2.2") as client:
        client.cookies.set("handraise", token)
        yield client
