"""Who come with the same token at once are looked up together, and never by a look that began before they came."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest

from handraise.desk_factory import open_backend
from handraise.model.identities import AgentKey
from handraise.ports import Directory
from handraise.server.auth.authenticator import Authenticator
from handraise.wire.credentials import Token, TokenKind

TOKEN = Token(TokenKind.AGENT, "default", "digest")


class SlowDirectory:
    """Looks at once, and says a little later what it saw."""

    def __init__(self, inner: Directory) -> None:
        self._inner = inner
        self.looks = 0

    async def find_key(self, workspace: str, digest: str) -> AgentKey | None:
        self.looks += 1
        found = await self._inner.find_key(workspace, digest)
        await asyncio.sleep(0.02)
        return found


@pytest.fixture(name="inner")
async def directory_with_a_key() -> AsyncIterator[Directory]:
    async with open_backend("memory:") as backend:
        await backend.directory.add_key("default", "k", digest="digest", agent="deploy", created_by="ana")
        yield backend.directory


async def test_a_hundred_with_one_key_at_once_are_looked_up_together(inner: Directory) -> None:
    slow = SlowDirectory(inner)
    authenticator = Authenticator(cast("Directory", slow))
    found = await asyncio.gather(*(authenticator.find(TOKEN) for _ in range(100)))
    assert {caller.credential for caller in found if caller} == {"k"}
    assert None not in found
    assert slow.looks <= 2


async def test_whoever_comes_after_a_key_has_ended_is_not_let_in_by_a_look_that_began_before(
    inner: Directory,
) -> None:
    authenticator = Authenticator(cast("Directory", SlowDirectory(inner)))
    before = asyncio.create_task(authenticator.find(TOKEN))
    await asyncio.sleep(0.005)
    await inner.revoke_key("default", "k", by="ana")
    assert await authenticator.find(TOKEN) is None
    assert await before is not None
