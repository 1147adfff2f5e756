"""Deliveries that failed or are tried again: they are listed and counted while their question waits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple

from handraise.model.deliveries import DeliveryStatus, Try
from handraise.ports import Backend, WorkspaceEventSearch
from handraise.ports.outbox import ChannelTrouble
from handraise.testing.clock import ManualClock
from handraise.testing.contract.backend import SOON, ContractFixtures
from handraise.testing.contract.outbox_steps import TAKE_ALL, answer, queue

_MINUTE, _HOUR = timedelta(minutes=1), timedelta(hours=1)


class _Result(NamedTuple):
    """What comes of a try."""

    status: DeliveryStatus
    problem: str | None = None
    again_after: timedelta | None = None


_FAILED = _Result(DeliveryStatus.FAILED, "no such user")
_RETRIED = _Result(DeliveryStatus.QUEUED, "no connection", _HOUR)


class FailedDeliveryCases(ContractFixtures):
    """What an outbox promises about deliveries that did not arrive, or may not have."""

    async def test_what_is_tried_again_is_listed_while_its_question_waits(
        self, ports: Backend, clock: ManualClock, workspace: str
    ) -> None:
        question = await queue(ports, clock, workspace, "d-1", "d-2", "d-3", "d-4", "d-5")
        assert await ports.outbox.retrying(workspace, limit=9) == [], "nothing was tried"
        results = {
            "d-1": _RETRIED,
            "d-2": _Result(DeliveryStatus.UNKNOWN, "no answer", _HOUR),
            "d-3": _Result(DeliveryStatus.UNKNOWN, "no answer"),
            "d-4": _FAILED,
            "d-5": _Result(DeliveryStatus.SENT),
        }
        await _try_all(ports, workspace, results)
        found = await ports.outbox.retrying(workspace, limit=9)
        assert [(each.id, each.problem) for each in found] == [
            ("d-1", "no connection"),
            ("d-2", "no answer"),
        ]
        assert [each.id for each in await ports.outbox.retrying(workspace, limit=1)] == ["d-1"]
        assert await ports.outbox.retrying(f"{workspace}-2", limit=9) == []
        await answer(ports, question)
        assert await ports.outbox.retrying(workspace, limit=9) == [], "nobody needs it any more"

    async def test_what_failed_is_listed_and_tried_again_once(
        self, ports: Backend, clock: ManualClock, workspace: str
    ) -> None:
        question = await queue(ports, clock, workspace, "d-1", "d-2")
        await _try_all(ports, workspace, {"d-1": _FAILED, "d-2": _FAILED})
        assert {each.id for each in await ports.outbox.failed(workspace, limit=9)} == {"d-1", "d-2"}
        assert len(await ports.outbox.failed(workspace, limit=1)) == 1
        assert await ports.outbox.failed(f"{workspace}-2", limit=9) == []
        assert not await ports.outbox.retry(f"{workspace}-2", "d-1", by="boss")
        clock.advance(_HOUR)
        assert await ports.outbox.retry(workspace, "d-1", by="boss")
        assert not await ports.outbox.retry(workspace, "d-1", by="boss")
        [again] = await ports.outbox.take(workspace, **TAKE_ALL)
        assert (again.id, again.tries, again.problem) == ("d-1", 1, None)
        await ports.outbox.record([Try(delivery=again, status=DeliveryStatus.SENT)])
        assert [each.id for each in await ports.outbox.failed(workspace, limit=9)] == ["d-2"]
        await answer(ports, question)
        assert await ports.outbox.failed(workspace, limit=9) == [], "nobody needs it any more"
        assert not await ports.outbox.retry(workspace, "d-2", by="boss")
        async with asyncio.timeout(SOON):  # events are held back while an older transaction is open
            while True:
                search = WorkspaceEventSearch(kind="delivery.retried")
                if events := await ports.store.search_workspace_events(
                    workspace, search, before=None, limit=9
                ):
                    break
                await asyncio.sleep(0.01)
        assert [each.by for each in events] == ["boss"]

    async def test_trouble_is_counted_for_each_channel_however_much_another_one_has(
        self, ports: Backend, clock: ManualClock, workspace: str
    ) -> None:
        began = clock.now()
        first = await queue(ports, clock, workspace, "d-1", "d-2", "d-3", channel="mail")
        clock.advance(_MINUTE)
        second = await queue(ports, clock, workspace, "d-4", "d-5", question="q-2", channel="chat")
        assert await ports.outbox.failed_by_channel(workspace, limit=9) == []
        assert await ports.outbox.retrying_by_channel(workspace, limit=9) == []
        results = dict.fromkeys(("d-1", "d-2", "d-3"), _RETRIED) | {
            "d-4": _FAILED,
            "d-5": _Result(DeliveryStatus.UNKNOWN, "no answer", _HOUR),
        }
        await _try_all(ports, workspace, results)
        mail = ChannelTrouble(channel="mail", number=3, since=began, problem="no connection")
        chat = ChannelTrouble(channel="chat", number=1, since=clock.now(), problem="no answer")
        lost = ChannelTrouble(channel="chat", number=1, since=clock.now(), problem="no such user")
        assert await ports.outbox.retrying_by_channel(workspace, limit=9) == [chat, mail]
        assert await ports.outbox.failed_by_channel(workspace, limit=9) == [lost]
        counted = await ports.outbox.retrying_by_channel(workspace, limit=2)
        assert [(each.channel, each.number, each.since) for each in counted] == [
            ("chat", 1, chat.since),
            ("mail", 2, began),
        ]
        assert await ports.outbox.retrying_by_channel(f"{workspace}-2", limit=9) == []
        assert await ports.outbox.failed_by_channel(f"{workspace}-2", limit=9) == []
        await answer(ports, second)
        assert await ports.outbox.failed_by_channel(workspace, limit=9) == [], "nobody needs it any more"
        assert await ports.outbox.retrying_by_channel(workspace, limit=9) == [mail]
        await answer(ports, first)
        assert await ports.outbox.retrying_by_channel(workspace, limit=9) == []


async def _try_all(ports: Backend, workspace: str, results: Mapping[str, _Result]) -> None:
    for each in await ports.outbox.take(workspace, **TAKE_ALL):
        status, problem, again = results[each.id]
        await ports.outbox.record([Try(delivery=each, status=status, problem=problem, again_after=again)])
