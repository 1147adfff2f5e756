"""Reading a file that is to be attached, and describing it. What cannot be attached is refused before anything is sent."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from handraise.model.attachments import (
    BEGINNING,
    Attachment,
    attachment_of,
    content_problem,
    media_type_problem,
    name_problem,
    too_large,
)
from handraise.model.drafting import Limits
from handraise.model.errors import AttachmentTooLarge, InvalidAttachment
from handraise.model.problems import Problem


async def read_file(
    data: bytes | os.PathLike[str], *, name: str | None, media_type: str | None, limits: Limits
) -> tuple[Attachment, bytes]:
    """The description and the bytes of what a program attaches. Raises `InvalidAttachment`."""
    if isinstance(data, (bytes, bytearray, memoryview)):
        content = bytes(data)
    elif isinstance(data, os.PathLike):
        path = Path(data)
        content = await asyncio.to_thread(_content_of, path, limits.file_bytes)
        name = path.name if name is None else name
    else:
        why = f"expected bytes or a path, got {type(data).__name__}"
        raise TypeError(f"{why}: write Path({data!r})" if isinstance(data, str) else why)
    if name is None:
        raise InvalidAttachment([Problem("name", "bytes have no name: give one, such as name='report.pdf'")])
    return describe(content, name=name, media_type=media_type, limits=limits), content


def describe(data: bytes, *, name: str, media_type: str | None, limits: Limits) -> Attachment:
    """The description of bytes under a name. Raises `InvalidAttachment`."""
    problems = check_description(name, media_type)
    if len(data) > limits.file_bytes:
        raise AttachmentTooLarge([Problem("size", too_large(limits.file_bytes))])
    attachment = attachment_of(data, name=name, media_type=media_type)
    if not problems and (why := content_problem(attachment.media_type, data[:BEGINNING])):
        problems.append(Problem("media_type", why))
    if problems:
        raise InvalidAttachment(problems)
    return attachment


def check_description(name: object, media_type: object) -> list[Problem]:
    """What is wrong with the name and the media type of a file; a media type may be left out."""
    problems = [Problem("name", why)] if (why := name_problem(name)) else []
    if media_type is not None and (why := media_type_problem(media_type)):
        problems.append(Problem("media_type", why))
    return problems


def _content_of(path: Path, most_bytes: int) -> bytes:
    with path.open("rb") as file:
        return file.read(most_bytes + 1)
