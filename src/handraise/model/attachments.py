"""Files that belong to a question, a reply or an answer: how they are described, and which descriptions are refused.

Here is only the description. The bytes are in `ports/blobs.py`, and who uploaded them is in `ports/files.py`.
"""

from __future__ import annotations

import hashlib
import mimetypes
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from handraise.model.json_values import Json
from handraise.model.problems import Problem

LONGEST_NAME = 200
"""How many characters the name of a file has at most."""
MAX_FILE_BYTES = 10_000_000
"""How many bytes a file has at most."""
UNKNOWN_TYPE = "application/octet-stream"
"""The media type of a file about which nothing is known."""
IMAGE_TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif")
"""The images that a server decodes and encodes again, so that a page can show them."""

BEGINNING = 64
"""How many bytes of a file say of which type it is."""

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
DIGEST = re.compile(r"[0-9a-f]{64}")
"""What the digest of a file looks like."""
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,62}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}")
_ACCEPT = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,62}/(\*|[a-z0-9][a-z0-9!#$&^_.+-]{0,126})")
_BEGINNINGS: dict[str, Sequence[bytes]] = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
    "application/pdf": (b"%PDF-",),
    "application/zip": (b"PK\x03\x04", b"PK\x05\x06"),
}
"""How files of these types begin. A file that is said to be one of them, and begins otherwise, is refused."""
_WEBP = slice(8, 12)


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file as it is described in a question, a reply or an answer. `digest` is the SHA-256 of its bytes.

    The name and the media type are what the uploader says. Show both as untrusted text.
    """

    name: str
    media_type: str
    size: int
    digest: str

    def record(self) -> dict[str, Json]:
        """The description as JSON."""
        return asdict(self)


def attachment_of(data: bytes, *, name: str, media_type: str | None = None) -> Attachment:
    """The description of some bytes. Without a media type, it is guessed from the name."""
    return Attachment(
        name=name,
        media_type=media_type or guessed_type(name, data[:BEGINNING]),
        size=len(data),
        digest=hashlib.sha256(data).hexdigest(),
    )


def guessed_type(name: str, beginning: bytes) -> str:
    """The media type that fits the end of a name, if the beginning of the bytes does not contradict it."""
    guessed = mimetypes.guess_type(name, strict=True)[0]
    if guessed is None or media_type_problem(guessed) or content_problem(guessed, beginning):
        return UNKNOWN_TYPE
    return guessed


def plain_value(value: Any) -> Any:
    """An answer in which each attachment is its description as JSON, as what `attach` returns may be given as an answer."""
    if isinstance(value, Attachment):
        return value.record()
    if isinstance(value, dict) and any(isinstance(each, Attachment) for each in value.values()):
        return {
            name: plain_value(each) if isinstance(each, Attachment) else each for name, each in value.items()
        }
    return value


def attachment_from_json(record: Mapping[str, Any]) -> Attachment:
    """The description in a stored record."""
    return Attachment(record["name"], record["media_type"], record["size"], record["digest"])


def attachments_from_json(records: Iterable[Mapping[str, Any]]) -> tuple[Attachment, ...]:
    """The descriptions in stored records."""
    return tuple(map(attachment_from_json, records))


def name_problem(name: object) -> str | None:
    """Why a file cannot have this name, or None. Nothing is repaired."""
    if not isinstance(name, str):
        return "expected the name of a file"
    if not name.strip():
        return "is empty: a file needs a name"
    if len(name) > LONGEST_NAME:
        return f"has {len(name)} characters, but only {LONGEST_NAME} are possible"
    if "/" in name or "\\" in name:
        return "has a slash: give the name without its folder"
    if name.strip(". ") == "":
        return "has only dots, which name folders"
    if name != name.strip():
        return "begins or ends with a space"
    if any(unicodedata.category(each) in _HIDDEN for each in name):
        return "has characters that are invisible or change the direction of writing"
    return None


def media_type_problem(media_type: object) -> str | None:
    """Why this is not a media type, or None."""
    if isinstance(media_type, str) and _MEDIA_TYPE.fullmatch(media_type):
        return None
    return "is not a media type such as application/pdf, in small letters and without parameters"


def accept_problem(pattern: str) -> str | None:
    """Why files cannot be limited to this, or None."""
    return (
        None if _ACCEPT.fullmatch(pattern) else "is neither a media type nor a group of them such as image/*"
    )


def content_problem(media_type: str, beginning: bytes) -> str | None:
    """Why a file that begins like this cannot be of this media type, or None. Only well-known types are checked."""
    known = _BEGINNINGS.get(media_type)
    fits = known is None or any(beginning.startswith(each) for each in known)
    if fits and (media_type != "image/webp" or beginning[_WEBP] == b"WEBP"):
        return None
    return f"it is not {media_type}: its bytes begin differently"


def is_accepted(media_type: str, accept: Sequence[str]) -> bool:
    """Whether a file of this type is one of those asked for. Nothing asked for means any."""
    family = media_type.partition("/")[0] + "/*"
    return not accept or media_type in accept or family in accept


def attachment_problems(value: object, path: str, *, most_bytes: int) -> Iterator[Problem]:
    """What is wrong with a description."""
    if not isinstance(value, Attachment):
        yield Problem(path, f"expected what `attach` returns, got {type(value).__name__}")
        return
    if why := name_problem(value.name):
        yield Problem(f"{path}.name", why)
    if why := media_type_problem(value.media_type):
        yield Problem(f"{path}.media_type", why)
    digest: object = value.digest  # what an answer has is not checked yet
    if not isinstance(digest, str) or not DIGEST.fullmatch(digest):
        yield Problem(f"{path}.digest", "expected a SHA-256 in hexadecimal")
    size: object = value.size
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        yield Problem(f"{path}.size", "expected the number of bytes")
    elif size > most_bytes:
        yield Problem(f"{path}.size", too_large(most_bytes))


def list_problems(
    values: Sequence[object], path: str, *, most_files: int, most_bytes: int, most_together: int
) -> Iterator[Problem]:
    """What is wrong with the attachments of a question or of a reply."""
    if len(values) > most_files:
        yield Problem(path, f"at most {most_files} files are possible, not {len(values)}")
        return
    problems = [
        each
        for place, value in enumerate(values)
        for each in attachment_problems(value, f"{path}[{place}]", most_bytes=most_bytes)
    ]
    yield from problems
    if problems:
        return
    known = [value for value in values if isinstance(value, Attachment)]
    if len({value.digest for value in known}) < len(known):
        yield Problem(path, "has the same file twice")
    if sum(value.size for value in known) > most_together:
        yield Problem(path, f"together they are larger than {most_together} bytes")


def too_large(most_bytes: int) -> str:
    """Why a file with more bytes is refused."""
    return f"is larger than {most_bytes} bytes"


def attached_in(value: Json) -> tuple[Attachment, ...]:
    """The files that a checked answer refers to: an answer to a `File`, or to a form with such fields."""
    if not isinstance(value, dict):
        return ()
    if _is_record(value):
        return (attachment_from_json(value),)
    return tuple(attachment_from_json(each) for each in value.values() if _is_record(each))


def _is_record(value: object) -> bool:
    return isinstance(value, dict) and value.keys() == {"name", "media_type", "size", "digest"}
