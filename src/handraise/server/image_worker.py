"""Decodes one image from its standard input and writes it again as PNG or JPEG. `image_encoder.py` runs it as a process of its own.

Nothing of what was uploaded gets through except the pixels. If anything is wrong, the process ends with an error, and
nothing is shown. It imports nothing of Handraise, so that it starts fast.
"""

from __future__ import annotations

import io
import resource
import sys

_MOST_MEMORY = 768 * 1024 * 1024
_MOST_SECONDS = 10
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
_MOST_PIXELS = 40_000_000
_LONGEST_SIDE = 2_000


def main() -> None:
    """Encode the image on the standard input."""
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_MOST_SECONDS, _MOST_SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    sys.stdout.buffer.write(encode(sys.stdin.buffer.read()))


def encode(data: bytes) -> bytes:
    """The first frame of an image, at most 2000 pixels wide and high, without its metadata. Raises if it is none, or too large."""
    from PIL import Image, ImageOps  # noqa: PLC0415 -- an extra, and the limits come first

    Image.MAX_IMAGE_PIXELS = _MOST_PIXELS
    with Image.open(io.BytesIO(data), formats=_FORMATS) as opened:  # reads the head only
        width, height = opened.size
        if width * height > _MOST_PIXELS:
            raise ValueError(f"{width} x {height} pixels are too many")
        opened.draft("RGB", (_LONGEST_SIDE, _LONGEST_SIDE))  # a large JPEG is decoded smaller
        has_alpha = opened.mode in ("RGBA", "LA", "PA") or "transparency" in opened.info
        opened.thumbnail((_LONGEST_SIDE, _LONGEST_SIDE), reducing_gap=2.0)
        turned = ImageOps.exif_transpose(opened)
        plain = turned.convert("RGBA" if has_alpha else "RGB")
    # A new image, so that no profile, comment or other metadata is written.
    clean = Image.new(plain.mode, plain.size)
    clean.paste(plain)
    written = io.BytesIO()
    if has_alpha:
        clean.save(written, "PNG", optimize=False)
    else:
        clean.save(written, "JPEG", quality=88)
    return written.getvalue()


if __name__ == "__main__":
    main()
