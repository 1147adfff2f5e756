"""Files and their bytes in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from handraise.backends.memory.clock import now_by
from handraise.backends.memory.store import MemoryStore
from handraise.model.attachments import Attachment
from handraise.model.questions import Ref
from handraise.ports import Clock
from handraise.ports.files import Referred, StoredFile, Upload


@dataclass(slots=True)
class _File:
    attachment: Attachment
    owner: str
    used_at: datetime | None
    """When it was last used; None once the question that referred to it is gone."""
    stored: bool = False
    removed: bool = False


class MemoryFiles:
    """Files in dictionaries. See `handraise.ports.Files` for what each method promises."""

    def __init__(self, exists: Callable[[Ref], bool], clock: Clock | None = None) -> None:
        self._exists = exists
        self._clock = clock
        self._files: dict[Ref, _File] = {}
        self._references: dict[Ref, dict[str, datetime]] = {}
        self.bytes_of: dict[Ref, bytes] = {}

    async def add(
        self, workspace: str, attachment: Attachment, *, owner: str, key: str, most_unused: int
    ) -> Upload | None:
        """Note an upload; see the port."""
        for place, known in self._of(workspace, owner):
            if _same(known.attachment, attachment):
                known.used_at = now_by(self._clock)
                return Upload(place.id, known.stored)
        unused = sum(
            known.attachment.size
            for place, known in self._of(workspace, owner)
            if not self._is_referred(place)
        )
        if unused + attachment.size > most_unused:
            return None
        self._files[Ref(workspace, key)] = _File(attachment, owner, now_by(self._clock))
        return Upload(key, stored=False)

    async def mark_stored(self, workspace: str, key: str) -> bool:
        """Note that the bytes are there; see the port."""
        known = self._files.get(Ref(workspace, key))
        if known is None or known.removed:
            return False
        known.stored, known.used_at = True, now_by(self._clock)
        return True

    async def refer(
        self, ref: Ref, attachments: Sequence[Attachment], *, owner: str, most_files: int, most_bytes: int
    ) -> Referred:
        """Refer to files; see the port."""
        found: dict[str, _File] = {}
        missing = []
        for each in attachments:
            for place, known in self._of(ref.workspace, owner):
                if known.stored and _same(known.attachment, each):
                    found[place.id] = known
                    break
            else:
                missing.append(each.digest)
        if missing:
            return Referred(missing=tuple(sorted(missing)))
        there = self._references.get(ref, {})
        own = [self._files[Ref(ref.workspace, key)] for key in {*there, *found}]
        theirs = [each.attachment.size for each in own if each.owner == owner]
        if len(theirs) > most_files:
            return Referred(full="files")
        if sum(theirs) > most_bytes:
            return Referred(full="bytes")
        now = now_by(self._clock)
        for key, known in found.items():
            known.used_at = now
            self._references.setdefault(ref, {}).setdefault(key, now)
        return Referred()

    async def find(self, ref: Ref, digest: str) -> StoredFile | None:
        """A file of a question; see the port."""
        for key in sorted(self._references.get(ref, ())):
            known = self._files[Ref(ref.workspace, key)]
            if known.attachment.digest == digest and not known.removed:
                return StoredFile(key, known.attachment.size)
        return None

    async def take_unused(self, *, unused_for: timedelta, limit: int) -> Sequence[tuple[str, str]]:
        """Files to delete; see the port."""
        before = now_by(self._clock) - unused_for
        for ref, keys in list(self._references.items()):
            if not self._exists(ref):
                self._references[ref] = {key: at for key, at in keys.items() if at >= before}
        for place, known in self._files.items():
            is_old = known.used_at is None or known.used_at < before
            if is_old and not self._is_referred(place):
                known.removed = True
        return [(place.workspace, place.id) for place, known in self._files.items() if known.removed][:limit]

    async def forget(self, workspace: str, key: str) -> None:
        """Forget a file; see the port."""
        self._files.pop(Ref(workspace, key), None)

    def removed(self, ref: Ref) -> None:
        """Remove the references of a question that is removed or erased, and the bytes to which nothing else refers."""
        for key in self._references.pop(ref, ()):
            place = Ref(ref.workspace, key)
            if not self._is_referred(place):
                self._files[place].used_at, self._files[place].removed = None, True
                self.bytes_of.pop(place, None)

    def erase_person(self, workspace: str, owner: str) -> None:
        """Remove the name of a person from their files, and those that no question refers to."""
        for place, known in self._of(workspace, owner):
            known.owner = f"erased:{place.id}"
            if not self._is_referred(place):
                known.used_at = None

    def _of(self, workspace: str, owner: str) -> list[tuple[Ref, _File]]:
        return [
            (place, known)
            for place, known in sorted(self._files.items())
            if place.workspace == workspace and known.owner == owner and not known.removed
        ]

    def _is_referred(self, place: Ref) -> bool:
        return any(
            place.id in keys for ref, keys in self._references.items() if ref.workspace == place.workspace
        )


class MemoryBlobs:
    """Bytes in a dictionary. See `handraise.ports.Blobs` for what each method promises."""

    def __init__(self, bytes_of: dict[Ref, bytes]) -> None:
        self._bytes = bytes_of

    async def put(self, workspace: str, key: str, data: bytes) -> None:
        """Store bytes; see the port."""
        self._bytes.setdefault(Ref(workspace, key), data)

    async def get(self, workspace: str, key: str) -> bytes | None:
        """Bytes; see the port."""
        return self._bytes.get(Ref(workspace, key))

    async def delete(self, workspace: str, key: str) -> None:
        """Delete bytes; see the port."""
        self._bytes.pop(Ref(workspace, key), None)


def memory_files(store: MemoryStore, clock: Clock | None = None) -> tuple[MemoryFiles, MemoryBlobs]:
    """The files of a store and their bytes. What the store removes takes its files along."""
    files = MemoryFiles(lambda ref: store.peek(ref) is not None, clock)
    others = store.removed

    def removed(ref: Ref) -> None:
        others(ref)
        files.removed(ref)

    store.removed = removed
    return files, MemoryBlobs(files.bytes_of)


def _same(one: Attachment, other: Attachment) -> bool:
    """Whether two descriptions are of the same file; the name does not matter."""
    return (one.digest, one.media_type, one.size) == (other.digest, other.media_type, other.size)
