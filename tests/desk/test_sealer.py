"""Sealing goes through all workspaces, whatever is in one of them."""

from __future__ import annotations

from typing import Any

import pytest

from handraise.desk.sealer import Sealer
from handraise.desk_factory import open_backend
from handraise.desks import desk_from_store


async def test_a_workspace_that_cannot_be_sealed_does_not_keep_others_from_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_backend("memory:") as ports, desk_from_store(ports.store, ports.bus) as desk:
        for workspace in ("a", "b", "c"):
            await desk.scoped(workspace).post("Now?", choices=["yes", "no"])
        sealer = Sealer(ports.store, ports.ledger)
        seal = sealer.seal

        async def fail_in_b(workspace: str) -> int:
            if workspace == "b":
                raise ValueError("an event that cannot be read")
            return await seal(workspace)

        monkeypatch.setattr(sealer, "seal", fail_in_b)
        assert await sealer.run() == 2
        assert await ports.ledger.unsealed(limit=10) == ["b"]
        assert sealer.failed == {"b": "ValueError: an event that cannot be read"}
        assert await sealer.run() == 0
        monkeypatch.undo()
        assert await sealer.run() == 1
        assert sealer.failed == {}
    assert caplog.text.count("the events of workspace 'b' cannot be sealed") == 1


async def test_trying_out_what_can_be_sealed_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_backend("memory:") as ports, desk_from_store(ports.store, ports.bus) as desk:
        asked = [await desk.scoped(each).post("Now?", choices=["yes", "no"]) for each in ("a", "b")]
        trail = ports.store.trail

        async def fail_in_b(workspace: str, *, after: str | None, limit: int) -> Any:
            if workspace == "b":
                raise ValueError("an event\n that cannot be read")
            return await trail(workspace, after=after, limit=limit)

        monkeypatch.setattr(ports.store, "trail", fail_in_b)
        sealer = Sealer(ports.store, ports.ledger)
        assert await sealer.try_out() == 2
        assert sealer.failed == {"b": "ValueError: an event that cannot be read"}
        monkeypatch.undo()
        assert await sealer.try_out() == 2
        assert sealer.failed == {}
        assert await ports.ledger.unsealed(limit=10) == ["a", "b"]
        assert len(asked) == await sealer.run()
