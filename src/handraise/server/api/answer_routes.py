"""Answers as data: all settled questions of a workspace as one stream of JSON lines or CSV."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import AwareDatetime
from starlette.responses import Response, StreamingResponse

from handraise.desk.answer_pages import answer_pages
from handraise.model.errors import InvalidRequest
from handraise.model.problems import Problem
from handraise.model.settled_rows import SettledRow
from handraise.ports.settled_filter import is_in_calendar
from handraise.server.auth.authenticator import CallerOrReader, Context, CurrentAuditor
from handraise.server.context import ServerContext
from handraise.server.live.stream_limits import StreamLimits, StreamLimitsDep
from handraise.wire.answer_records import MEDIA_TYPES, answer_record, csv_head, csv_lines, jsonl_lines

router = APIRouter(prefix="/v1", tags=["questions"])

Format = Literal["jsonl", "csv"]


@router.get(
    "/answers",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "one record for each settled question, oldest first",
            "content": {media_type: {"schema": {"type": "string"}} for media_type in MEDIA_TYPES.values()},
        }
    },
)
async def export_answers(
    ctx: Context,
    auditor: CurrentAuditor,
    limits: StreamLimitsDep,
    *,
    since: Annotated[
        AwareDatetime | None, Query(description="questions that ended at this time or later")
    ] = None,
    until: Annotated[AwareDatetime | None, Query(description="questions that ended before this time")] = None,
    format: Annotated[Format, Query(description="JSON lines, or CSV for spreadsheets")] = "jsonl",  # noqa: A002 -- the name of the parameter
) -> Response:
    """Export the settled questions of the workspace with their answers, oldest first, as one stream.

    It is for readers and administrators. A response that was cut off ends without its last chunk, so that clients notice.
    """
    for name, at in (("since", since), ("until", until)):
        if at is not None and not is_in_calendar(at):
            raise InvalidRequest([Problem(f"query.{name}", "is outside of the years 1 to 9999 in UTC")])
    limits.check(auditor)
    parts = _parts(ctx, auditor.workspace, format, since, until)
    first = await anext(
        parts, b""
    )  # what goes wrong at the beginning is an error, and not a stream that ends
    name = f"handraise-answers.{format}"
    return StreamingResponse(
        _counted(first, parts, limits, auditor),
        media_type=MEDIA_TYPES[format],
        headers={"content-disposition": f'attachment; filename="{name}"', "x-accel-buffering": "no"},
    )


async def _parts(
    ctx: ServerContext, workspace: str, kind: Format, since: datetime | None, until: datetime | None
) -> AsyncGenerator[bytes, None]:
    """The head of the file with the first page, then one page after the other."""

    def written(rows: Sequence[SettledRow]) -> bytes:
        records = map(answer_record, rows)
        return csv_lines(records) if kind == "csv" else jsonl_lines(records)

    head = csv_head() if kind == "csv" else b""
    async with aclosing(answer_pages(ctx.store, workspace, written, since=since, until=until)) as pages:
        async for page in pages:
            yield head + page
            head = b""
    if head:
        yield head


async def _counted(
    first: bytes, rest: AsyncGenerator[bytes, None], limits: StreamLimits, caller: CallerOrReader
) -> AsyncGenerator[bytes, None]:
    """All parts of a response. It counts as an open stream until its end."""
    with limits.count(caller):
        async with aclosing(rest):
            yield first
            async for part in rest:
                yield part
