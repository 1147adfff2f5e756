"""A desk that knows no policies, on a store that has stops."""

from __future__ import annotations

from pathlib import Path

import pytest

from handraise.desk_factory import open_backend
from handraise.desks import desk_from_store
from handraise.errors import Stopped
from handraise.model.forms import Approval
from handraise.testing.promises import promise

PAY = Approval.of("pay", {"amount": 1})


@promise("P18")
@pytest.mark.timeout(5)
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_it_says_at_once_that_something_is_stopped(kind: str, tmp_path: Path) -> None:
    url = "memory:" if kind == "memory" else f"sqlite:///{tmp_path / 'questions.db'}"
    async with (
        open_backend(url) as backend,
        desk_from_store(backend.store, backend.bus, workspace="w", asker="bot") as desk,
    ):
        waiting, approved = [await desk.post("Pay?", form=PAY) for _ in range(2)]
        await desk.answer(approved.id, "approve", by="ana")
        await backend.policies.stop("w", tool="pay", why="wrong account", by="olga")
        with pytest.raises(Stopped, match="wrong account"):
            await desk.answer(waiting.id, "approve", by="ana")
        with pytest.raises(Stopped, match="wrong account"):
            await desk.consume_approval(approved.id)
        with pytest.raises(Stopped, match="wrong account"):
            await desk.post("Pay?", form=PAY)
