"""Where the bytes of files are. The docstrings are the contract."""

from __future__ import annotations

from typing import Protocol


class Blobs(Protocol):
    """Bytes by workspace and key. A key is chosen once and never used for other bytes.

    Raises `StoreUnavailable` if it cannot tell whether a call took effect, and never a driver's exception.
    """

    async def put(self, workspace: str, key: str, data: bytes) -> None:
        """Store bytes. When this returns, they survive whatever the desk's store survives. A second time changes nothing."""
        ...

    async def get(self, workspace: str, key: str) -> bytes | None:
        """The bytes with this key, or None. If they were stored only in part, that is None too, or too few bytes."""
        ...

    async def delete(self, workspace: str, key: str) -> None:
        """Delete bytes that `Files.take_unused` has returned; those that are gone already are no error."""
        ...
