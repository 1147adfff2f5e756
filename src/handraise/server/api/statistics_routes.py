"""Statistics of a workspace, for programs: the numbers of the insights page."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from handraise.model.statistics import MAX_ENDINGS, percentile
from handraise.server.api.responses import reply
from handraise.server.auth.authenticator import Context, CurrentAuditor
from handraise.wire.records import StatisticsRecord

router = APIRouter(prefix="/v1", tags=["questions"])

Days = Annotated[int, Query(ge=1, le=366, description="how many days back")]


@router.get("/statistics", response_model=StatisticsRecord)
async def get_statistics(ctx: Context, auditor: CurrentAuditor, days: Days = 7) -> Response:
    """Get how many questions are pending, how many were settled and how, and how soon people answered."""
    since = datetime.now(UTC) - timedelta(days=days)
    found = await ctx.store.endings(auditor.workspace, since=since, limit=MAX_ENDINGS)
    queue_stats = await ctx.store.queue_stats(auditor.workspace)
    spent = sorted(each.seconds for each in found.items if each.way == "person")
    return reply(
        StatisticsRecord(
            since=found.since,
            waiting=max(queue_stats.pending.values(), default=0),
            ended=dict(Counter(each.status for each in found.items)),
            answered_by_people=len(spent),
            median_seconds=percentile(spent, 0.5) if spent else None,
            ninetieth_seconds=percentile(spent, 0.9) if spent else None,
            failed_after_approval=sum(each.failed_after_approval for each in found.items),
        )
    )
