"""Files and their bytes over several shards: they are on the shard of their workspace."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from handraise.backends.shards.placement import ShardRouter
from handraise.model.attachments import Attachment
from handraise.model.questions import Ref
from handraise.ports.files import Referred, StoredFile, Upload


class ShardedFiles:
    """Files on several shards. See `handraise.ports.Files` for what each method promises."""

    def __init__(self, router: ShardRouter) -> None:
        self._router = router

    async def add(
        self, workspace: str, attachment: Attachment, *, owner: str, key: str, most_unused: int
    ) -> Upload | None:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.files.add(
                workspace, attachment, owner=owner, key=key, most_unused=most_unused
            ),
            is_noop=lambda added: added is None,
        )

    async def mark_stored(self, workspace: str, key: str) -> bool:
        """See the port."""
        return await self._router.write(
            workspace, lambda ports: ports.files.mark_stored(workspace, key), is_noop=lambda done: not done
        )

    async def refer(
        self, ref: Ref, attachments: Sequence[Attachment], *, owner: str, most_files: int, most_bytes: int
    ) -> Referred:
        """See the port."""
        return await self._router.write(
            ref.workspace,
            lambda ports: ports.files.refer(
                ref, attachments, owner=owner, most_files=most_files, most_bytes=most_bytes
            ),
            is_noop=lambda referred: not referred.accepted,
        )

    async def find(self, ref: Ref, digest: str) -> StoredFile | None:
        """See the port."""
        return await self._router.read(ref.workspace, lambda ports: ports.files.find(ref, digest))

    async def take_unused(self, *, unused_for: timedelta, limit: int) -> Sequence[tuple[str, str]]:
        """See the port."""
        found = await self._router.call_each(
            "take_unused", lambda ports: ports.files.take_unused(unused_for=unused_for, limit=limit)
        )
        return [each for part in found for each in part]

    async def forget(self, workspace: str, key: str) -> None:
        """See the port."""
        await self._router.write(
            workspace, lambda ports: ports.files.forget(workspace, key), is_noop=lambda _: True, place=False
        )


class ShardedBlobs:
    """Bytes on several shards. See `handraise.ports.Blobs` for what each method promises."""

    def __init__(self, router: ShardRouter) -> None:
        self._router = router

    async def put(self, workspace: str, key: str, data: bytes) -> None:
        """See the port."""
        await self._router.write(
            workspace, lambda ports: ports.blobs.put(workspace, key, data), is_noop=lambda _: True
        )

    async def get(self, workspace: str, key: str) -> bytes | None:
        """See the port."""
        return await self._router.read(workspace, lambda ports: ports.blobs.get(workspace, key))

    async def delete(self, workspace: str, key: str) -> None:
        """See the port."""
        await self._router.write(
            workspace, lambda ports: ports.blobs.delete(workspace, key), is_noop=lambda _: True, place=False
        )
