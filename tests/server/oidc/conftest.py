"""A provider, a server that people sign in to with it, and their browsers."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from fastapi import FastAPI

from handraise.model.identities import Role
from handraise.server import ServerContext
from support.http_server import listening
from tests.server.oidc.provider import CLIENT, WORKSPACE, Browser, Provider, running_provider


@pytest.fixture
def provider(running: Provider) -> Provider:
    """The provider, which has not been asked for anything and tells the truth."""
    running.asked.clear()
    running.forge = None
    return running


@pytest.fixture(scope="module")
def running() -> Iterator[Provider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@pytest.fixture
def store() -> str:
    """How people sign in does not depend on the store."""
    return "memory:"


@pytest.fixture
def settings(provider: Provider, listener: socket.socket) -> dict[str, Any]:
    return {
        "public_url": f"http://127.0.0.1:{listener.getsockname()[1]}",
        "secret": "a secret of thirty-two characters",
        "oidc_issuer": provider.issuer,
        "oidc_client_id": CLIENT,
        "oidc_client_secret": "hush",
        "oidc_join": ["Example.com"],
    }


@pytest.fixture
async def address(app: FastAPI, ctx: ServerContext, listener: socket.socket) -> AsyncIterator[str]:
    async with listening(app, listener):
        yield ctx.settings.base_url


@pytest.fixture
async def browser(address: str, provider: Provider) -> AsyncIterator[Browser]:
    browser = Browser(address, provider)
    async with browser.http:
        yield browser


@pytest.fixture
async def other(address: str, provider: Provider) -> AsyncIterator[Browser]:
    browser = Browser(address, provider)
    async with browser.http:
        yield browser


@pytest.fixture
async def ann(ctx: ServerContext, browser: Browser) -> str:
    """The subject of ann, who is known here by her address."""
    await ctx.directory.put_person(
        WORKSPACE, "ann", name="Ann", email="ann@elsewhere.example", role=Role.ADMIN
    )
    await browser.account("sub-ann", email="Ann@Elsewhere.example", email_verified=True, name="Ann Lee")
    return "sub-ann"
