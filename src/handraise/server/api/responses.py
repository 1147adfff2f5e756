"""JSON responses, and the parameters that several routes share."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Path, Query
from starlette.responses import Response

from handraise.model.errors import InvalidRequest
from handraise.model.json_values import text_problem
from handraise.model.problems import Problem
from handraise.wire.records import Record

_SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(ms|s|m|h)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}

MAX_WAIT = 20
"""The longest text of a wait."""
MAX_ID = 200
"""The longest id of a question in a path."""
QuestionId = Annotated[str, Path(max_length=MAX_ID, description="the question's id")]
Limit = Annotated[int, Query(ge=1, le=500, description="the maximal number of items")]
After = Annotated[str | None, Query(max_length=200, description="the `next` of the page before")]
Wait = Annotated[
    str, Query(max_length=MAX_WAIT, description="how long to wait: `30s`, `500ms`, `2m`", examples=["30s"])
]


def reply(record: Record, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Make a JSON response from a record."""
    return Response(
        record.model_dump_json(), status_code=status, media_type="application/json", headers=headers
    )


def check_texts(texts: dict[str, str | None]) -> None:
    """Raise `InvalidRequest` for texts that no store can keep, by the names of their parameters."""
    problems = [
        Problem(path, why) for path, text in texts.items() if text is not None and (why := text_problem(text))
    ]
    if problems:
        raise InvalidRequest(problems)


def seconds(text: str, *, at_most: float) -> float:
    """Parse the length of a wait, limited to what the server allows."""
    found = _SPAN.fullmatch(text)
    if found is None:
        raise InvalidRequest([Problem("query.wait", "expected a duration such as 30s, 500ms or 2m")])
    return min(float(found[1]) * _UNITS[found[2]], at_most)
