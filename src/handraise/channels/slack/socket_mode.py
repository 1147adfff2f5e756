"""Socket Mode: what people do comes over a WebSocket that we open, so that Slack need not reach us.

Written by hand instead of using Slack's own client, which closes a connection before the next is open, leaves tasks
behind, and writes what people answer into the log at level debug.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from handraise.channels.http_errors import Refused
from handraise.channels.payloads import as_json
from handraise.channels.slack.api import SlackApi
from handraise.ports.channel import NotSent

_log = logging.getLogger(__name__)
_quiet = logging.Logger("handraise.channels.slack.wire", logging.CRITICAL + 1)  # noqa: LOG001 -- of no hierarchy
"""For the library, which would log what people answer: its output goes nowhere."""

Take: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any] | None]]
"""Does what a payload says, and returns the answer for Slack; raises if it should come again."""

_LARGEST = 4_000_000
_GREETING = 30.0
_LEAVING = 30.0
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0


class Socket:
    """Keeps one connection to Slack open, and opens the next before the last is gone."""

    def __init__(self, api: SlackApi, take: Take, *, verify: ssl.SSLContext | None = None) -> None:
        self._api = api
        self._verify = None if api.is_plain else verify
        self._take = take
        self._connected = asyncio.Event()
        self._handling: set[asyncio.Task[None]] = set()
        self._leaving: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Read until cancelled. What is being handled then is finished."""
        failures = 0
        try:
            while True:
                try:
                    await self._one_connection()
                    failures = 0
                    continue
                except NotSent as error:
                    after = error.after.total_seconds() if error.after else 0.0
                    _log.warning(
                        "Slack gives no connection (%s); trying again",
                        error,
                        extra={"event": "channel_unreachable"},
                    )
                except (OSError, TimeoutError, WebSocketException) as error:
                    after = 0.0
                    _log.warning(
                        "the connection to Slack failed (%s); trying again",
                        type(error).__name__,
                        extra={"event": "channel_unreachable"},
                    )
                if self._connected.is_set():
                    failures = 0
                self._connected.clear()
                pause = min(_FIRST_PAUSE * 2.0**failures, _LONGEST_PAUSE) * random.uniform(0.5, 1.0)  # noqa: S311
                failures = min(failures + 1, 10)
                await asyncio.sleep(max(pause, after))
        finally:
            for task in self._leaving:
                task.cancel()
            await asyncio.gather(*self._leaving, *self._handling, return_exceptions=True)

    async def _one_connection(self) -> None:
        """Read a connection until Slack wants another one, and let the old one end by itself."""
        opened = await self._api.read("apps.connections.open")
        url = str(opened.get("url"))
        if urlsplit(url).scheme != ("ws" if self._api.is_plain else "wss"):
            raise Refused("Slack", "apps.connections.open", "no wss address")
        connection = await connect(
            url, logger=_quiet, max_size=_LARGEST, open_timeout=_GREETING, ssl=self._verify
        )
        wanted = asyncio.Event()
        reading = asyncio.create_task(self._read(connection, wanted), name="handraise slack socket")
        leaves = asyncio.create_task(wanted.wait())
        try:
            await asyncio.wait({reading, leaves}, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
            else:
                self._leaving.add(reading)
                reading.add_done_callback(self._left)
        finally:
            leaves.cancel()
            if reading not in self._leaving:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
                await connection.close()

    def _left(self, task: asyncio.Task[None]) -> None:
        self._leaving.discard(task)
        if not task.cancelled():
            task.exception()

    async def _read(self, connection: ClientConnection, wanted: asyncio.Event) -> None:
        """Read what comes, until the connection is closed; sets `wanted` when Slack is about to close it."""
        try:
            while True:
                async with asyncio.timeout(_LEAVING if wanted.is_set() else None):
                    text = await connection.recv()
                match _message(text):
                    case {"type": "hello"}:
                        self._connected.set()
                    case {"type": "disconnect"} as last:
                        if last.get("reason") == "link_disabled":
                            pause = timedelta(seconds=_LONGEST_PAUSE)
                            raise Refused("Slack", "apps.connections.open", "link_disabled", after=pause)
                        wanted.set()
                    case {"envelope_id": str(), "payload": dict()} as envelope:
                        self._handle(connection, envelope)
        except TimeoutError:
            pass
        except ConnectionClosed:
            if not wanted.is_set():
                raise
        finally:
            await connection.close()

    def _handle(self, connection: ClientConnection, envelope: Mapping[str, Any]) -> None:
        task = asyncio.create_task(self._answer(connection, envelope), name="handraise slack envelope")
        self._handling.add(task)
        task.add_done_callback(self._handling.discard)

    async def _answer(self, connection: ClientConnection, envelope: Mapping[str, Any]) -> None:
        """Do what an envelope says, then acknowledge it: one that could not be done comes again."""
        try:
            reply = await self._take(envelope["payload"])
        except Exception as error:  # noqa: BLE001 -- whatever is in one envelope, the next one counts
            _log.warning(
                "something from Slack could not be done (%s); it may come again",
                type(error).__name__,
                extra={"event": "channel_input_failed"},
            )
            return
        answer: dict[str, Any] = {"envelope_id": envelope["envelope_id"]}
        if reply is not None and envelope.get("accepts_response_payload"):
            answer["payload"] = reply
        with suppress(ConnectionClosed):
            await connection.send(as_json(answer).decode())


def _message(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
