"""Files at work: bytes are stored first, then a question refers to them, and what nothing refers to is removed."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence

from handraise.model.attachments import Attachment, attached_in
from handraise.model.drafting import Limits
from handraise.model.errors import (
    AttachmentNotFound,
    AttachmentTooLarge,
    InvalidAnswer,
    InvalidAttachment,
    InvalidMessage,
    StoreUnavailable,
)
from handraise.model.forms import takes_files
from handraise.model.json_values import JsonValue
from handraise.model.people import Responder
from handraise.model.problems import InvalidQuestion, Problem
from handraise.model.questions import Draft, Question, Ref
from handraise.ports import Blobs, Files
from handraise.ports.files import UNUSED_FOR, owner_of_asker, owner_of_person

_AT_ONCE = 100


class AttachmentStore:
    """The files of a desk's store, and where their bytes are."""

    def __init__(self, files: Files | None, blobs: Blobs | None) -> None:
        self._given = None if files is None or blobs is None else (files, blobs)

    @property
    def _ports(self) -> tuple[Files, Blobs]:
        if self._given is None:
            raise InvalidAttachment(
                [
                    Problem(
                        "",
                        "this desk has no place for files: open it with `open_desk`, or pass files and blobs",
                    )
                ]
            )
        return self._given

    async def store(
        self, workspace: str, attachment: Attachment, data: bytes, *, owner: str, limits: Limits
    ) -> None:
        """Store the bytes of a checked description, unless its owner has stored them before."""
        files, blobs = self._ports
        key = uuid.uuid4().hex
        upload = await files.add(workspace, attachment, owner=owner, key=key, most_unused=limits.unused_bytes)
        if upload is None:
            why = f"there are {limits.unused_bytes} bytes of yours that no question refers to: refer to them, or wait a day"
            raise AttachmentTooLarge([Problem("", why)])
        if upload.stored:
            return
        await blobs.put(workspace, upload.key, data)
        if not await files.mark_stored(workspace, upload.key):
            raise StoreUnavailable("The file was removed while it was stored; upload it again.")

    async def refer_draft(self, draft: Draft, limits: Limits) -> None:
        """Let a question refer to its files before it is stored. Raises `InvalidQuestion`."""
        if problem := await self._refer(draft.ref, draft.attachments, owner_of_asker(draft.asker), limits):
            raise InvalidQuestion([Problem("attachments", problem.message)])

    async def refer_reply(
        self, question: Question, attachments: Sequence[Attachment], limits: Limits
    ) -> None:
        """Let a question refer to the files of its asker's reply. Raises `InvalidMessage`."""
        if problem := await self._refer(question.ref, attachments, owner_of_asker(question.asker), limits):
            raise InvalidMessage([Problem("attachments", problem.message)])

    async def refer_answer(
        self, question: Question, value: JsonValue, responder: Responder, limits: Limits
    ) -> None:
        """Let a question refer to the files in a checked answer. Only who uploaded a file can answer with it."""
        if not takes_files(question.form) or not (files := attached_in(value)):
            return
        if problem := await self._refer(question.ref, files, owner_of_person(responder.id), limits):
            raise InvalidAnswer([problem])

    async def _refer(
        self, ref: Ref, attachments: Sequence[Attachment], owner: str, limits: Limits
    ) -> Problem | None:
        """Note that a question refers to files of this owner; return why that is not possible."""
        files, _ = self._ports
        referred = await files.refer(
            ref, attachments, owner=owner, most_files=limits.files, most_bytes=limits.files_bytes
        )
        if referred.missing:
            missing = next(each for each in attachments if each.digest in referred.missing)
            return Problem("", f"you have not uploaded {missing.name!r} as it is described: upload it again")
        if referred.full == "files":
            return Problem("", f"at most {limits.files} files belong to one question")
        if referred.full == "bytes":
            return Problem("", f"the files of one question have at most {limits.files_bytes} bytes")
        return None

    async def read(self, ref: Ref, digest: str) -> bytes:
        """The bytes of a file that a question refers to. Raises `AttachmentNotFound` if there are none."""
        files, blobs = self._ports
        found = await files.find(ref, digest)
        data = None if found is None else await blobs.get(ref.workspace, found.key)
        if data is None:
            raise AttachmentNotFound(digest, ref.id)
        if hashlib.sha256(data).hexdigest() != digest:
            raise StoreUnavailable(f"The bytes of file {digest} are not those that were uploaded.")
        return data

    async def remove_unused(self) -> int:
        """Delete the bytes of files that nothing refers to; return how many files that were."""
        return 0 if self._given is None else await remove_unused_files(*self._given)


async def remove_unused_files(files: Files, blobs: Blobs) -> int:
    """Delete the bytes of files that nothing refers to; return how many files that were."""
    removed = 0
    while taken := await files.take_unused(unused_for=UNUSED_FOR, limit=_AT_ONCE):
        for workspace, key in taken:
            await blobs.delete(workspace, key)
            await files.forget(workspace, key)
        removed += len(taken)
        if len(taken) < _AT_ONCE:
            break
    return removed
