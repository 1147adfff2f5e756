"""Files as people read them: their names and sizes."""

from __future__ import annotations

from handraise.model.attachments import Attachment
from handraise.model.visible import visible_line
from handraise.presentation.translation import gettext

_KILO = 1_000


def size_text(size: int) -> str:
    """How large a file is, in a unit that fits."""
    if size < _KILO:
        return gettext("{number} bytes").format(number=size)
    if size < _KILO * _KILO:
        return gettext("{number} kB").format(number=f"{size / _KILO:.0f}")
    return gettext("{number} MB").format(number=f"{size / _KILO / _KILO:.1f}")


def file_text(file: Attachment, *, longest: int | None = None) -> str:
    """The name of a file, at most so many characters of it, and its size. The name is the uploader's."""
    name = visible_line(file.name)
    if longest is not None and len(name) > longest:
        name = f"{name[: longest - 1].rstrip()}…"
    return gettext("{name} ({size})").format(name=name, size=size_text(file.size))
