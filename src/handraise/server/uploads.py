"""Receiving files: the limit is enforced while a body comes in, and few files are in memory at once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterable, Iterator
from contextlib import contextmanager

from handraise.model.attachments import too_large
from handraise.model.errors import AttachmentTooLarge, TooManyRequests
from handraise.model.problems import Problem

_FORM_PATH = re.compile(r"/questions/[^/]+")

_MOST_AT_ONCE = 16
_MOST_OF_ONE = 4
_AGAIN_AFTER = 1.0


def is_upload(method: str, path: str, content_type: str) -> bool:
    """Whether the body of a request may be as large as a file: it is one, or a form of a page that has one."""
    if method != "POST":
        return False
    return path == "/v1/files" or (
        _FORM_PATH.fullmatch(path) is not None and content_type.startswith("multipart/form-data")
    )


class UploadSlots:
    """How many uploads a process receives at once, in all and from one caller."""

    def __init__(self) -> None:
        self._of: Counter[str] = Counter()

    @contextmanager
    def hold(self, caller: str) -> Iterator[None]:
        """Receive one more inside this context. Raises `TooManyRequests` if there are too many already."""
        if self._of.total() >= _MOST_AT_ONCE or self._of[caller] >= _MOST_OF_ONE:
            raise TooManyRequests(_AGAIN_AFTER, "Too many files are being uploaded at once")
        self._of[caller] += 1
        try:
            yield
        finally:
            self._of[caller] -= 1
            if not self._of[caller]:
                del self._of[caller]


async def read_upload(body: AsyncIterable[bytes], *, most_bytes: int, declared: str | None) -> bytes:
    """All bytes of a body. Raises `AttachmentTooLarge` as soon as there are too many, or if that many are announced."""
    refused = AttachmentTooLarge([Problem("size", too_large(most_bytes))])
    if declared is not None and declared.isdecimal() and int(declared[:20]) > most_bytes:
        raise refused
    data = bytearray()
    async for part in body:
        data += part
        if len(data) > most_bytes:
            raise refused
    return bytes(data)
