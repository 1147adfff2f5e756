"""Credentials for tests, made in the server's directory, as a server makes them."""

from __future__ import annotations

import asyncio
import secrets
import uuid
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from handraise import Responder
from handraise.desk.blocking_desk import LoopThread
from handraise.desk_factory import open_backend
from handraise.model.identities import Role
from handraise.ports import Directory
from handraise.wire.credentials import TokenKind, digest_of, make_token


class Issuer:
    """Makes agents and people in any workspace, and returns their tokens; the same ones the second time.

    It is the `Credentials` of a desk under test: every person that a test names is created.
    """

    def __init__(self, directory: Directory, *, role: Role = Role.ADMIN) -> None:
        self._directory = directory
        self._role = role
        self._tokens: dict[tuple[str, ...], str] = {}
        self._joining = asyncio.Lock()
        """Held from reading groups to changing them: people who join at the same time must all be in."""

    async def agent(self, workspace: str, asker: str) -> str:
        """The key of an agent."""
        place = ("agent", workspace, asker)
        if place not in self._tokens:
            token = make_token(TokenKind.AGENT, workspace, secrets.token_bytes(32))
            await self._directory.add_key(
                workspace, uuid.uuid4().hex, digest=digest_of(token), agent=asker, created_by="test"
            )
            self._tokens[place] = token
        return self._tokens[place]

    async def person(self, workspace: str, responder: str | Responder, *, role: Role | None = None) -> str:
        """The session of a person, who is then in just these groups."""
        who = Responder(responder) if isinstance(responder, str) else responder
        place = ("person", workspace, who.id)
        if place not in self._tokens:
            await self._directory.put_person(
                workspace, who.id, name=who.id, email=None, role=role or self._role
            )
            token = make_token(TokenKind.SESSION, workspace, secrets.token_bytes(32))
            await self._directory.open_session(
                workspace,
                uuid.uuid4().hex,
                digest=digest_of(token),
                person=who.id,
                how="test",
                lasts=timedelta(days=100_000),
            )
            self._tokens[place] = token
        await self._join(workspace, who)
        return self._tokens[place]

    async def reader(self, workspace: str, asker: str) -> str:
        """The session of an administrator who reads on behalf of an asker."""
        return await self.person(workspace, f"reader of {asker}", role=Role.ADMIN)

    async def _join(self, workspace: str, who: Responder) -> None:
        async with self._joining:
            groups = await self._directory.groups(workspace)
            for group in {*groups, *who.groups}:
                people = set(groups.get(group, ()))
                wanted = people | {who.id} if group in who.groups else people - {who.id}
                if wanted != people:
                    await self._directory.put_group(workspace, group, wanted)


class ThreadIssuer:
    """An issuer with its own event loop, for use from any other loop."""

    def __init__(self, issuer: Issuer, loop: LoopThread) -> None:
        self._issuer = issuer
        self._loop = loop

    async def agent(self, workspace: str, asker: str) -> str:
        """See `Issuer.agent`."""
        return await self._there(lambda: self._issuer.agent(workspace, asker))

    async def person(self, workspace: str, responder: str | Responder) -> str:
        """See `Issuer.person`."""
        return await self._there(lambda: self._issuer.person(workspace, responder))

    async def reader(self, workspace: str, asker: str) -> str:
        """See `Issuer.reader`."""
        return await self._there(lambda: self._issuer.reader(workspace, asker))

    async def _there(self, work: Callable[[], Coroutine[Any, Any, str]]) -> str:
        return await asyncio.to_thread(lambda: self._loop.run(work()))


@contextmanager
def issuer_at(url: str) -> Iterator[ThreadIssuer]:
    """An issuer for a store, for as long as this context lasts."""
    loop = LoopThread()
    try:
        opened = open_backend(url, connections=3)
        backend = loop.run(opened.__aenter__())
        try:
            yield ThreadIssuer(Issuer(backend.directory), loop)
        finally:
            loop.run(opened.__aexit__(None, None, None))
    finally:
        loop.close()
