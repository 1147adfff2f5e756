"""Which files were uploaded, by whom, and which question refers to them. The docstrings are the contract."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, Protocol

from handraise.model.attachments import Attachment
from handraise.model.questions import Ref

UNUSED_FOR = timedelta(days=1)
"""After this time, a file that no question refers to is removed."""


def owner_of_asker(asker: str) -> str:
    """The owner of the files of an asker. No person has this name."""
    return f"asker:{asker}"


def owner_of_person(person: str) -> str:
    """The owner of the files of a person. No asker has this name."""
    return f"person:{person}"


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that may be uploaded: the key of its bytes, and whether they are there already."""

    key: str
    stored: bool


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that a question refers to: the key of its bytes, and how many there are."""

    key: str
    size: int


@dataclass(frozen=True, slots=True)
class Referred:
    """What came of referring to files: which of them their owner has not uploaded, or that there would be too many."""

    missing: tuple[str, ...] = ()
    full: Literal["files", "bytes"] | None = None

    @property
    def accepted(self) -> bool:
        """Whether the question refers to all of them now."""
        return not self.missing and self.full is None


class Files(Protocol):
    """The files of workspaces. Each belongs to its uploader, and nobody else can refer to it: a digest is no secret.

    A file is noted before its bytes are stored, and forgotten after they are deleted. So bytes without a file that
    knows their key never stay. A question that is removed or erased takes its references along in the same
    transaction, and the files to which nothing else refers.
    """

    async def add(
        self, workspace: str, attachment: Attachment, *, owner: str, key: str, most_unused: int
    ) -> Upload | None:
        """Note that bytes are about to be stored. The result has another key if their owner has uploaded them before.

        None if all files of this owner that no question refers to would have more than `most_unused` bytes.
        """
        ...

    async def mark_stored(self, workspace: str, key: str) -> bool:
        """Note that all bytes are stored: from now on a question can refer to them. False if the file is gone."""
        ...

    async def refer(
        self, ref: Ref, attachments: Sequence[Attachment], *, owner: str, most_files: int, most_bytes: int
    ) -> Referred:
        """Note that a question, which may not be stored yet, refers to files of this owner: to all of them or none.

        A file is found by its digest, its media type and its size. `most_files` and `most_bytes` limit what a question
        refers to of each owner. Referring to one again changes nothing. If the question is not stored within
        `UNUSED_FOR`, it is as if it did not refer to them.
        """
        ...

    async def find(self, ref: Ref, digest: str) -> StoredFile | None:
        """A file with this digest that a question refers to, or None."""
        ...

    async def take_unused(self, *, unused_for: timedelta, limit: int) -> Sequence[tuple[str, str]]:
        """Workspaces and keys of up to about `limit` files that nobody can refer to any more; their bytes are to be deleted.

        Nothing refers to them, and they were last used longer ago than this, or the question that referred to them is gone.
        They are returned again until they are forgotten. Several processes may do this at once.
        """
        ...

    async def forget(self, workspace: str, key: str) -> None:
        """Forget a file whose bytes are deleted."""
        ...
