"""Sealing goes through all workspaces, whatever is in one of them."""

from __future__ import annotations

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
    assert "the events of workspace 'b' cannot be sealed" in caplog.text
