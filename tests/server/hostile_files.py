"""Files that somebody made to harm: each is small, and each would do something if it were shown or decoded carelessly."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

from PIL import Image

SCRIPT = b"<script>document.title='owned'</script>"


def png(width: int, height: int, *, rows: bytes = b"") -> bytes:
    """A PNG of these measures; without rows, all of them are black and there is one bit for each pixel."""
    line = b"\0" + b"\0" * ((width + 7) // 8)
    packed = zlib.compress(rows or line * height, 9)
    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", packed) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def bomb_png() -> bytes:
    """900 million pixels in about 100 kilobytes."""
    return png(30_000, 30_000)


def false_head_png() -> bytes:
    """Says that it is small, and has far more rows than that."""
    return png(10, 10, rows=(b"\0" * 3) * 20_000_000)


def animated_bomb(frames: int = 2_000, side: int = 4_000) -> bytes:
    """A GIF with as many frames as that, each with all pixels."""
    image = Image.new("P", (side, side))
    written = io.BytesIO()
    image.save(written, "GIF")
    one = written.getvalue()
    head_end = 13 + 3 * 2 ** ((one[10] & 7) + 1)
    head, body = one[:head_end], one[head_end:-1]
    return head + body * min(frames, 9_000_000 // len(body)) + b";"


def gif_script() -> bytes:
    """A GIF that is a script too: its width is the beginning of a comment."""
    return b"GIF89a/*" + b"\0" * 20 + b"*/=1;document.title='owned'"


def pdf_zip() -> bytes:
    """A PDF that is an archive too."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        archive.writestr("../../evil.sh", "rm -rf /")
    return b"%PDF-1.7\n" + written.getvalue()


def jpeg_with_script() -> bytes:
    """A real JPEG with a script in its comment, and more behind its end."""
    written = io.BytesIO()
    Image.new("RGB", (30, 20), "red").save(written, "JPEG", comment=SCRIPT)
    return written.getvalue() + SCRIPT


SVG = b'<svg xmlns="http://www.w3.org/2000/svg" onload="document.title=\'owned\'"><script>alert(1)</script></svg>'
HTML = b"<!doctype html><title>fine</title>" + SCRIPT
