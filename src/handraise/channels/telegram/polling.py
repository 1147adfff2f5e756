"""Long polling: we ask Telegram for what people did, so that Telegram need not reach us.

Telegram lets one process ask at a time, and ends the earlier request with a 409. That process stands by, and checks
now and then whether something waits that nobody fetches: then it is its turn again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from handraise.channels.http_errors import Refused
from handraise.channels.payloads import InvalidPayload
from handraise.channels.telegram.api import BotApi
from handraise.model.errors import DeskClosed, RequestConflict, StoreUnavailable
from handraise.ports.channel import NotSent

_log = logging.getLogger(__name__)

Take: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[None]]
"""Does what an update says; raises a desk's error if it should come again."""

WANTED = ["message", "callback_query"]
"""The kinds of update that we ask for."""
_LONG = 50
"""For how many seconds Telegram keeps us waiting if there is nothing."""
_SLACK = 15.0
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
_STAND_BY = 10.0
_MOST_LOOKS = 60
_CONFLICT = 409


class Poller:
    """Asks for updates, and has each handled before Telegram forgets it."""

    def __init__(self, api: BotApi, take: Take) -> None:
        self._api = api
        self._take = take
        self._offset = 0
        self._failures = 0

    async def run(self) -> None:
        """Ask until cancelled. What is unfinished then comes again: the same update twice is one answer."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                updates = await self._updates(_LONG)
            except Refused as refused:
                if refused.status != _CONFLICT:
                    await self._pause(refused)
                elif "webhook" in refused.why.lower():
                    _log.warning(
                        "Telegram sends what people answer to a webhook of this bot; delete that, "
                        "or set HANDRAISE_TELEGRAM_WEBHOOK_SECRET",
                        extra={"event": "channel_misconfigured"},
                    )
                    await asyncio.sleep(_LONGEST_PAUSE)
                else:
                    await self._stand_by()
            except NotSent as failed:
                await self._pause(failed)
            else:
                await self._handle_updates(updates)
                if not updates and loop.time() - began < _FIRST_PAUSE:
                    # If the server says at once that there is nothing, wait before asking again.
                    await asyncio.sleep(_FIRST_PAUSE)

    async def _updates(self, wait: int) -> Sequence[Any]:
        body = {"offset": self._offset, "timeout": wait, "allowed_updates": WANTED}
        found = await self._api.call("getUpdates", body, within=wait + _SLACK)
        return found if isinstance(found, list) else []

    async def _handle_updates(self, updates: Sequence[Any]) -> None:
        """Handle these at once, and go on after them; what could not be done comes again, with all after it."""
        everybody: dict[object, dict[int, Mapping[str, Any]]] = {}
        for each in updates:
            if (number := _number(each)) is not None:
                everybody.setdefault(_sender(each), {})[number] = each
        failed = await asyncio.gather(*map(self._handle_in_order, everybody.values()))
        if again := [number for number in failed if number is not None]:
            self._offset = min(again)
            await self._pause(None)
            return
        self._failures = 0
        if everybody:
            self._offset = max(max(each) for each in everybody.values()) + 1

    async def _handle_in_order(self, updates: Mapping[int, Mapping[str, Any]]) -> int | None:
        """Do what one person did, in order, up to what must come again; returns its number, if there is one."""
        for number, update in updates.items():
            if not await self._handle_one(update):
                return number
        return None

    async def _handle_one(self, update: Mapping[str, Any]) -> bool:
        try:
            await self._take(update)
        except RequestConflict:
            # Another process is handling it. If it fails, it comes to us again.
            return False
        except (StoreUnavailable, DeskClosed) as error:
            _log.warning(
                "something from Telegram could not be done yet (%s)",
                type(error).__name__,
                extra={"event": "channel_input_failed"},
            )
            return False
        except InvalidPayload:
            _log.warning("something from Telegram made no sense", extra={"event": "channel_input_failed"})
        except Exception as error:  # noqa: BLE001 -- whatever is in one update, the next one counts
            _log.error(
                "something from Telegram could not be done: %s",
                type(error).__name__,
                extra={"event": "channel_input_failed"},
            )
        return True

    async def _stand_by(self) -> None:
        """Leave it to the other process, until something has waited for two looks: they end nobody's long poll."""
        _log.info(
            "another process asks Telegram for what people answer; this one stands by",
            extra={"event": "channel_standby"},
        )
        lay: int | None = None
        for _ in range(_MOST_LOOKS):
            await asyncio.sleep(_STAND_BY * random.uniform(0.5, 1.5))  # noqa: S311 -- only to spread them
            try:
                lies = next(map(_number, await self._updates(0)), None)
            except NotSent:
                continue
            if lies is not None and lies == lay:
                return
            lay = lies

    async def _pause(self, failed: NotSent | None) -> None:
        """Wait longer each time, and as long as Telegram says."""
        if failed is not None:
            _log.warning(
                "Telegram gives no updates (%s); trying again", failed, extra={"event": "channel_unreachable"}
            )
        after = failed.after.total_seconds() if failed is not None and failed.after else 0.0
        pause = min(_FIRST_PAUSE * 2.0**self._failures, _LONGEST_PAUSE) * random.uniform(0.5, 1.0)  # noqa: S311
        self._failures = min(self._failures + 1, 10)
        await asyncio.sleep(max(pause, after))


def _sender(update: Mapping[str, Any]) -> object:
    """The sender of an update. None is a key like any other."""
    what = update.get("callback_query") or update.get("message")
    sender = what.get("from") if isinstance(what, dict) else None
    number = sender.get("id") if isinstance(sender, dict) else None
    return number if isinstance(number, int) else None


def _number(update: object) -> int | None:
    number = update.get("update_id") if isinstance(update, dict) else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None
