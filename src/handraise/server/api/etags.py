"""ETags: if two people change the same thing, the second is refused and overwrites nothing."""

from __future__ import annotations

import hashlib
from typing import Annotated

from fastapi import Header

from handraise.model.errors import PreconditionFailed

_LENGTH = 32

IfMatch = Annotated[
    str | None,
    Header(max_length=1_000, description="the `ETag` of what you replace: 412 if that has changed"),
]


def etag_of(text: str) -> str:
    """The ETag of a response with this text."""
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]}"'


def check_match(wanted: str | None, text: str | None) -> None:
    """Raise `PreconditionFailed` unless this text matches the header; the text is None if there is nothing."""
    if wanted is None:
        return
    tags = [each.strip() for each in wanted.split(",")]
    if text is None or not ("*" in tags or etag_of(text) in tags):
        raise PreconditionFailed(
            "Somebody has changed it since you read it. Nothing was replaced. Read it again, make your change there, "
            "and send it with the new ETag as If-Match."
        )
