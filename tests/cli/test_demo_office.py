"""The office of `handraise demo` has something of everything."""

from __future__ import annotations

from pathlib import Path

from handraise import Answered
from handraise.cli.demo_office import BILLING, SUPPORT, fill_office
from handraise.model.people import Responder
from handraise.server import ServerSettings
from handraise.server.context import open_context


async def test_the_office_is_full_of_work(tmp_path: Path) -> None:
    settings = ServerSettings(url=f"sqlite:///{tmp_path / 'demo.db'}", admin="you", workspace="default")
    waiting = await fill_office(settings, person="you")
    async with open_context(settings) as ctx:
        desk, you = ctx.desk, Responder("you", groups=frozenset({"finance"}))
        pending = await desk.list_pending(recipient=you)
        assert len({each.asker for each in pending}) == 3
        assert {waiting.invoice.id, waiting.refund.id, waiting.change.id} <= {each.id for each in pending}
        counts = await desk.count_views(you)
        assert (counts.views["snoozed"], counts.views["vote_missing"]) == (1, 1)
        messages = await desk.thread(waiting.invoice.id)
        assert [each.by for each in messages] == ["mara", BILLING]
        settled = await desk.list_settled(asker=SUPPORT, limit=50)
        assert {"policy", "person"} <= {
            each.outcome.source for each in settled if isinstance(each.outcome, Answered)
        }
        assert [each.report.ok for each in settled if each.report].count(False) == 1
        assert (await ctx.policies.current("default")) is not None
        assert len(await desk.list_standing_answers()) == 1
