"""Images that a page may show: decoded and encoded again, each in a process with little memory and little time."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections import OrderedDict
from pathlib import Path

from handraise.model.attachments import IMAGE_TYPES, Attachment

_WORKER = Path(__file__).with_name("image_worker.py")
_WITHIN = 15.0
_AT_ONCE = 2
_MOST_KEPT = 32 * 1024 * 1024
_PNG = b"\x89PNG"


class ImageEncoder:
    """Encodes images, at most two at once, and keeps the last ones."""

    def __init__(self) -> None:
        self.is_available = sys.platform != "win32" and importlib.util.find_spec("PIL") is not None
        """Whether Pillow is installed; without it images are only downloads."""
        self._free = asyncio.Semaphore(_AT_ONCE)
        self._kept: OrderedDict[str, bytes | None] = OrderedDict()
        self._size = 0

    def shows(self, file: Attachment) -> bool:
        """Whether a page may show this file as an image."""
        return self.is_available and file.media_type in IMAGE_TYPES

    def find_kept(self, digest: str) -> bytes | None:
        """The encoded image with the bytes of this digest, if it is kept."""
        return self._kept.get(digest)

    async def encode(self, digest: str, data: bytes) -> bytes | None:
        """The image as PNG or JPEG, or None if these bytes are no image, or one that is too large."""
        if digest not in self._kept:
            async with self._free:
                encoded = await _encoded(data)
            self._keep(digest, encoded)
            return encoded
        self._kept.move_to_end(digest)
        return self._kept[digest]

    def _keep(self, digest: str, encoded: bytes | None) -> None:
        self._size -= len(self._kept.pop(digest, None) or b"")
        self._kept[digest] = encoded
        self._size += len(encoded or b"")
        while self._size > _MOST_KEPT or len(self._kept) > _MOST_KEPT // 1024:
            _, old = self._kept.popitem(last=False)
            self._size -= len(old or b"")


def image_type(encoded: bytes) -> str:
    """The media type of an image that was encoded here."""
    return "image/png" if encoded.startswith(_PNG) else "image/jpeg"


async def _encoded(data: bytes) -> bytes | None:
    worker = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        str(_WORKER),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
    )
    try:
        async with asyncio.timeout(_WITHIN):
            encoded, _ = await worker.communicate(data)
    except TimeoutError:
        return None
    finally:
        if worker.returncode is None:
            worker.kill()
            await worker.wait()
    return encoded if worker.returncode == 0 and encoded else None
