"""Who come at once are looked up together, each by their own token, and never by a look that began before they came."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
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

    async def find_keys(self, workspace: str, digests: Collection[str]) -> Mapping[str, AgentKey]:
        self.looks += 1
        found = await self._inner.find_keys(workspace, digests)
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


async def test_many_with_their_own_keys_at_once_are_looked_up_together_and_each_is_who_they_are(
    inner: Directory,
) -> None:
    for number in range(64):
        await inner.add_key(
            "default", f"k{number}", digest=f"d{number}", agent=f"agent{number}", created_by="ana"
        )
    await inner.revoke_key("default", "k7", by="ana")
    slow = SlowDirectory(inner)
    authenticator = Authenticator(cast("Directory", slow))
    tokens = [Token(TokenKind.AGENT, "default", f"d{number}") for number in range(65)]
    found = await asyncio.gather(*map(authenticator.find, tokens))
    expected = [f"agent:agent{number}" for number in range(64)]
    assert [caller and caller.name for caller in found] == [*expected[:7], None, *expected[8:], None]
    assert slow.looks <= 2


async def test_a_token_of_one_kind_or_workspace_is_not_found_as_another_in_the_same_look(
    inner: Directory,
) -> None:
    authenticator = Authenticator(inner)
    tokens = [
        TOKEN,
        Token(TokenKind.READER, "default", "digest"),
        Token(TokenKind.SESSION, "default", "digest"),
        Token(TokenKind.LINK, "default", "digest"),
        Token(TokenKind.AGENT, "elsewhere", "digest"),
    ]
    found = await asyncio.gather(*map(authenticator.find, tokens))
    assert [caller is not None for caller in found] == [True, False, False, False, False]


async def test_whoever_comes_after_a_key_has_ended_is_not_let_in_by_a_look_that_began_before(
    inner: Directory,
) -> None:
    authenticator = Authenticator(cast("Directory", SlowDirectory(inner)))
    before = asyncio.create_task(authenticator.find(TOKEN))
    await asyncio.sleep(0.005)
    await inner.revoke_key("default", "k", by="ana")
    assert await authenticator.find(TOKEN) is None
    assert await before is not None
