"""Files on a page: a link to download each, and images that we have encoded ourselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from handraise.model.attachments import IMAGE_TYPES, Attachment
from handraise.model.visible import visible_line
from handraise.presentation.file_text import size_text


@dataclass(frozen=True, slots=True)
class FilePlaces:
    """Where the files of a question are on this server."""

    address: str
    shows_images: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FileView:
    """One file. Everything in it may be shown as it is; the name and the type are the uploader's."""

    name: str
    size: str
    media_type: str
    href: str | None
    image: str | None


def files_of(files: Sequence[Attachment], places: FilePlaces | None) -> tuple[FileView, ...]:
    """The files as a page shows them; without links if the person is not signed in."""
    return tuple(
        FileView(
            name=visible_line(each.name),
            size=size_text(each.size),
            media_type=visible_line(each.media_type),
            href=None if places is None else f"{places.address}/files/{each.digest}",
            image=f"{places.address}/images/{each.digest}"
            if places is not None and places.shows_images and each.media_type in IMAGE_TYPES
            else None,
        )
        for each in files
    )
