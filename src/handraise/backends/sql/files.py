"""Files and their bytes, in all SQL engines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from handraise.backends.sql.executor import Run, SqlExecutor
from handraise.model.attachments import Attachment
from handraise.model.questions import Ref
from handraise.ports.files import Referred, StoredFile, Upload

_PART = 256 * 1024
"""How many bytes a row has: few enough that a store can be copied in small pieces."""


class SqlFiles:
    """Files in an SQL database. See `handraise.ports.Files` for what each method promises."""

    def __init__(self, executor: SqlExecutor) -> None:
        self._executor = executor

    async def add(
        self, workspace: str, attachment: Attachment, *, owner: str, key: str, most_unused: int
    ) -> Upload | None:
        """Note an upload; see the port."""
        what = _described(attachment, owner)

        async def work(run: Run) -> Upload | None:
            rows = await run("touch_file", **what)
            if not rows:
                rows = await run("add_file", key=key, most_unused=most_unused, **what)
            return Upload(rows[0]["key"], bool(rows[0]["stored"])) if rows else None

        return await self._executor.transact(workspace, work)

    async def mark_stored(self, workspace: str, key: str) -> bool:
        """Note that the bytes are there; see the port."""
        return bool(await self._executor.fetch(workspace, "mark_file_stored", key=key))

    async def refer(
        self, ref: Ref, attachments: Sequence[Attachment], *, owner: str, most_files: int, most_bytes: int
    ) -> Referred:
        """Refer to files; see the port."""

        async def work(run: Run) -> Referred:
            missing: list[str] = []
            # In the same order in all transactions, because each locks the files.
            for each in sorted(attachments, key=lambda each: each.digest):
                rows = await run("use_file", **_described(each, owner))
                if rows:
                    await run("add_reference", question_id=ref.id, key=rows[0]["key"])
                else:
                    missing.append(each.digest)
            (sums,) = await run("referred_bytes", question_id=ref.id, owner=owner)
            if missing:
                raise _Refused(Referred(missing=tuple(missing)))
            if sums["count"] > most_files:
                raise _Refused(Referred(full="files"))
            if sums["bytes"] > most_bytes:
                raise _Refused(Referred(full="bytes"))
            return Referred()

        try:
            return await self._executor.transact(ref.workspace, work)
        except _Refused as refused:  # nothing of it is kept
            return refused.result

    async def find(self, ref: Ref, digest: str) -> StoredFile | None:
        """A file of a question; see the port."""
        rows = await self._executor.fetch(ref.workspace, "find_file", question_id=ref.id, digest=digest)
        return StoredFile(rows[0]["key"], rows[0]["size"]) if rows else None

    async def take_unused(self, *, unused_for: timedelta, limit: int) -> Sequence[tuple[str, str]]:
        """Files to delete; see the port."""
        rows = await self._executor.fetch(None, "take_unused_files", unused_for=unused_for, limit=limit)
        return [(row["workspace"], row["key"]) for row in rows]

    async def forget(self, workspace: str, key: str) -> None:
        """Forget a file; see the port."""
        await self._executor.fetch(workspace, "forget_file", key=key)


class SqlBlobs:
    """Bytes in an SQL database, in parts. See `handraise.ports.Blobs` for what each method promises."""

    def __init__(self, executor: SqlExecutor) -> None:
        self._executor = executor

    async def put(self, workspace: str, key: str, data: bytes) -> None:
        """Store bytes; see the port."""

        async def work(run: Run) -> None:
            for place, first in enumerate(range(0, max(len(data), 1), _PART)):
                await run("add_blob_part", key=key, place=place, data=data[first : first + _PART])

        await self._executor.transact(workspace, work)

    async def get(self, workspace: str, key: str) -> bytes | None:
        """Bytes; see the port."""
        rows = await self._executor.fetch(workspace, "blob_parts", key=key)
        return b"".join(bytes(row["data"]) for row in rows) if rows else None

    async def delete(self, workspace: str, key: str) -> None:
        """Delete bytes; see the port."""
        await self._executor.fetch(workspace, "drop_blob", key=key)


class _Refused(Exception):
    """Undoes a transaction, and says why."""

    def __init__(self, result: Referred) -> None:
        self.result = result
        super().__init__()


def _described(attachment: Attachment, owner: str) -> dict[str, str | int]:
    return {
        "owner": owner,
        "digest": attachment.digest,
        "media_type": attachment.media_type,
        "size": attachment.size,
    }
