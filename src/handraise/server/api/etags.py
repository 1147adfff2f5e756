"""ETags: of two people who change the same thing, the second is told that it has changed, and overwrites nothing."""

from __future__ import annotations

import hashlib
from typing import Annotated

from fastapi import Header

from handraise.model.errors import PreconditionFailed

_LENGTH = 32

IfMatch = Annotated[
    str | None,
    Header(max_length=1_000, description="the `ETag` of what is to be replaced: 412 if that has changed"),
]


def etag_of(text: str) -> str:
    """The tag of what is given out as this text."""
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]}"'


def check_match(wanted: str | None, text: str | None) -> None:
    """Raise `PreconditionFailed` unless this is what the header wants; None where there is nothing."""
    if wanted is None:
        return
    tags = [each.strip() for each in wanted.split(",")]
    if text is None or not ("*" in tags or etag_of(text) in tags):
        raise PreconditionFailed(
            "It is not what you read: somebody has changed it since. Nothing was replaced. Read it again, make your "
            "change there, and send it with the new ETag as If-Match."
        )
