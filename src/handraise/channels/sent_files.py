"""The files of a question that a message brings along: which they are, and what is sent of them.

An image is sent as pixels that were encoded again, everything else as bytes of no known type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from handraise.channels.inbound_replies import Replies
from handraise.model.attachments import Attachment
from handraise.model.errors import AttachmentNotFound, QuestionNotFound
from handraise.ports.channel import Notice

MOST_BYTES = 10_000_000
"""How much a chat takes along with one message. Above that, its names and a link stand in the message."""
MOST_FILES = 10
_PNG = b"\x89PNG"


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file as it is sent. `is_image` says that these are pixels that were encoded again, as PNG or JPEG."""

    name: str
    data: bytes = field(repr=False)
    is_image: bool = False

    @property
    def media_type(self) -> str:
        """What a service is told: nothing but bytes, unless we encoded it ourselves."""
        if not self.is_image:
            return "application/octet-stream"
        return "image/png" if self.data.startswith(_PNG) else "image/jpeg"


def files_of(notice: Notice) -> Sequence[Attachment]:
    """The files that are new to those who get a message: those of the question, or of the asker's last reply."""
    match notice.reason:
        case "asked" | "escalated" | "brought_in":
            return notice.question.attachments
        case "replied":
            replies = [each for each in notice.thread if each.kind == "replied"]
            return replies[-1].attachments if replies else ()
        case _:
            return ()


async def read_files(replies: Replies, notice: Notice) -> Sequence[SentFile]:
    """The files that a chat brings along: all of them, or none if they are too many, too large, or gone."""
    files = files_of(notice)
    if not files or len(files) > MOST_FILES or sum(each.size for each in files) > MOST_BYTES:
        return ()
    try:
        return [await _read(replies, notice, each) for each in files]
    except (AttachmentNotFound, QuestionNotFound):  # it was removed meanwhile; the page says so
        return ()


async def _read(replies: Replies, notice: Notice, file: Attachment) -> SentFile:
    data = await replies.read_file(notice.question, file)
    encoded = await replies.encode_image(file, data)
    if encoded is None:
        return SentFile(file.name, data)
    suffixes = (".png",) if encoded.startswith(_PNG) else (".jpg", ".jpeg")
    path = PurePath(file.name)
    name = file.name if path.suffix.lower() in suffixes else f"{path.stem}{suffixes[0]}"
    return SentFile(name, encoded, is_image=True)
