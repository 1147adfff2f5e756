"""Ends a stream when its key or session is no longer valid, or no longer has the same rights.

The credentials of all streams of a process are looked up together, once in each interval. A change that any server makes
is announced, and the streams of its workspace are looked at then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Protocol

from handraise.model.errors import DeskClosed
from handraise.model.questions import Ref
from handraise.ports import credentials_of
from handraise.server.auth.authenticator import Authenticator, Caller
from handraise.server.context import ServerContext
from handraise.wire.credentials import Token

_log = logging.getLogger(__name__)

_AT_ONCE = 500
_RETRY = 1.0
_LONGEST_OPENING = 60.0
"""For so many seconds after a change, a stream that is opened is looked at again."""


class Authorized(Protocol):
    """What lasts as long as a caller has the same rights."""

    caller: Caller
    token: Token

    def end(self) -> None:
        """End it."""
        ...


class StreamCredentials:
    """The credentials of every stream of a process."""

    def __init__(self, ctx: ServerContext, authenticator: Authenticator) -> None:
        self._context = ctx
        self._authenticator = authenticator
        self._streams: dict[Token, set[Authorized]] = {}
        self._changed: set[str] = set()
        self._all_changed = False
        self._changed_at: dict[str | None, float] = {}
        """When rights have changed lately, by workspace; None is for all of them."""
        self._wakeup = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.is_listening = False

    def add(self, stream: Authorized) -> None:
        """End this stream when its credential ends."""
        workspace = stream.token.workspace
        if (same := self._streams.get(stream.token)) is None:
            same = self._streams[stream.token] = set()
            self._context.engine.interest.add(workspace, partial(self._on_hint, [credentials_of(workspace)]))
        same.add(stream)
        if not self._changed_at.keys().isdisjoint((None, workspace)):
            self._changed.add(workspace)  # perhaps after it was looked up for this stream
            self._wakeup.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="handraise stream credentials")

    def remove(self, stream: Authorized) -> None:
        """Forget this stream. With the last one the task ends."""
        if (same := self._streams.get(stream.token)) is not None:
            same.discard(stream)
            if not same:
                del self._streams[stream.token]
                self._context.engine.interest.discard(stream.token.workspace)
        if not self._streams and self._task is not None:
            self._task.cancel()
            self._task, self.is_listening = None, False

    async def _run(self) -> None:
        async with AsyncExitStack() as listening:
            try:
                await listening.enter_async_context(self._context.engine.watch(self._on_hint))
            except DeskClosed:
                return
            except Exception as error:  # noqa: BLE001 -- announcements only make it faster
                _log.warning(
                    "changes of rights cannot be heard; streams find out at intervals",
                    exc_info=error,
                    extra={"event": "hints_off"},
                )
            while True:
                try:
                    await self._check_in_interval()
                except DeskClosed:
                    return
                except Exception as error:  # noqa: BLE001 -- all streams depend on this task
                    _log.error(
                        "the credentials of streams cannot be checked; trying again",
                        exc_info=error,
                        extra={"event": "credentials_unchecked"},
                    )
                    await asyncio.sleep(_RETRY)

    async def _check_in_interval(self) -> None:
        """Check everything, and then what changes until the interval is over."""
        loop = asyncio.get_running_loop()
        due = loop.time() + self._context.settings.heartbeat
        # Also at first: something may have changed before announcements were heard.
        await self._check(list(self._streams))
        self.is_listening = True
        self._changed_at = {
            each: at for each, at in self._changed_at.items() if loop.time() - at < _LONGEST_OPENING
        }
        while loop.time() < due:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._wakeup.wait()
            await self._check(self._changed_tokens())

    def _on_hint(self, topics: Collection[Ref] | None) -> None:
        now = asyncio.get_running_loop().time()
        if topics is None:
            self._all_changed, self._changed_at[None] = True, now
        else:
            changed = {ref.workspace for ref in topics if ref == credentials_of(ref.workspace)}
            self._changed |= changed
            self._changed_at |= dict.fromkeys(changed, now)
        if self._all_changed or self._changed:
            self._wakeup.set()

    def _changed_tokens(self) -> list[Token]:
        self._wakeup.clear()
        changed, self._changed = self._changed, set()
        everything, self._all_changed = self._all_changed, False
        return [token for token in self._streams if everything or token.workspace in changed]

    async def _check(self, tokens: Sequence[Token]) -> None:
        for start in range(0, len(tokens), _AT_ONCE):
            part = tokens[start : start + _AT_ONCE]
            found = await asyncio.gather(*map(self._authenticator.find, part), return_exceptions=True)
            for token, caller in zip(part, found, strict=True):
                if isinstance(caller, BaseException):
                    _log.debug(
                        "a stream ends, because its credential cannot be looked up",
                        exc_info=caller,
                        extra={"event": "stream_ended"},
                    )
                _end(each for each in list(self._streams.get(token, ())) if each.caller != caller)


def _end(streams: Iterable[Authorized]) -> None:
    for stream in streams:
        stream.end()
