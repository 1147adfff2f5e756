"""What somebody has just written, without what their mail program put around it.

Our own mail is what is quoted, so its marks are known: our address, our name, the subject, the first lines. They show
where a quotation begins in any language. What cannot be told apart from an answer stays in: its author is
told what was read, and nothing is removed on a guess.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

_QUOTE = re.compile(r"\s*[>│]")
_HEADER = re.compile(r"\s*\*?\s*[^\W\d_][\w .-]{0,24}\s?:\*?(\s|$)")
"""A line such as `From: …`, `Gesendet: …` or `Objet : …`."""
_WROTE = re.compile(
    r"(wrote|writes|schrieb|a écrit|ha scritto|escribió|escreveu|schreef|skrev|napsal\(a\)|napisał\(a\)|kirjoitti|"
    r"yazdı|написал|пише|写道|님이 작성|のメール)",
    re.IGNORECASE,
)
_DATE = re.compile(r"\d{4}|\d:\d\d|\d\d[./]\d\d")
_DEVICE = re.compile(
    r"(sent from|sent with|sent via|get outlook for|gesendet von|gesendet mit|von meinem .{1,40} gesendet|"
    r"diese nachricht wurde von meinem|envoyé de(puis)?|télécharger outlook|enviado desde|enviado do|inviato da|"
    r"verzonden vanaf|skickat från|sendt fra|wysłano z|отправлено с)\b.{0,120}",
    re.IGNORECASE,
)
_ENDINGS = re.compile(
    r"all the best|best|(best|kind|warm) regards|best wishes|cheers|kindly|(many )?thanks( a lot)?|regards|"
    r"(yours )?sincerely|thank you|thx|danke|vielen dank|gruss|(beste |freundliche |herzliche |liebe |schöne |viele )?"
    r"grüsse|mit (besten|freundlichen) grüssen|lg|mfg|vg|amicalement|(bien )?cordialement|bien à (toi|vous)|"
    r"bonne journée|cdlt|merci|salutations|(cordiali )?saluti|grazie|(muchas )?gracias|(un )?saludos?|groeten|"
    r"met vriendelijke groet|mvh|pozdrawiam"
)
"""How a mail ends, in the form that is compared: ß is ss."""
_MOST_LINES = 2_000
_LONGEST_ATTRIBUTION = 4


@dataclass(frozen=True, slots=True)
class Marks:
    """How our own mail is recognised if it is quoted, and the name that the writer ends with.

    `lines` are whole lines of ours: the subject, and those that our mail begins with.
    """

    addresses: Collection[str] = ()
    name: str = ""
    lines: Collection[str] = ()
    writer: str = ""


def fresh_text(text: str, marks: Marks) -> str:
    """What is new in a reply."""
    lines = [
        _plain(line) for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")[:_MOST_LINES]
    ]
    lines = _before_copy(lines, marks)
    lines = _without_quotes(lines, marks)
    lines = _before_signature(lines)
    lines = _without_ending(lines, marks.writer)
    return "\n".join(lines).strip()


def unflowed(text: str, *, delete_space: bool) -> str:
    """A `format=flowed` text (RFC 3676) with its paragraphs in one line each."""
    made: list[str] = []
    flows = False
    for line in text.replace("\r\n", "\n").split("\n")[:_MOST_LINES]:
        content = line.removeprefix(" ")
        quoted = line.startswith(">")
        if flows and not quoted and content != "-- ":
            made[-1] = (made[-1][:-1] if delete_space else made[-1]) + content
        else:
            made.append(content)
        flows = content.endswith(" ") and content != "-- " and not quoted
    return "\n".join(made)


def _plain(line: str) -> str:
    return line.replace("\xa0", " ").replace("\ufeff", "").replace("\u200b", "").rstrip()


def _before_copy(lines: Sequence[str], marks: Marks) -> list[str]:
    """The lines before an unquoted copy of our mail, as Outlook makes it: a block of headers, or the mail itself."""
    for place, line in enumerate(lines):
        if _QUOTE.match(line):
            continue
        if _folded(line) in {_folded(each) for each in marks.lines if each}:
            return _without_attribution(lines[:place], marks)
        if _HEADER.match(line):
            block = _block(lines, place)
            if len(block) > 1 and any(_is_ours(each, marks) for each in block):
                return _without_rules(lines[:place])
        if _is_rule(line) and any(_is_ours(each, marks) for each in _block(lines, place + 1)):
            return _without_rules(lines[:place])
    return list(lines)


def _block(lines: Sequence[str], place: int) -> Sequence[str]:
    """The headers from a line on; blank lines before them do not count."""
    while place < len(lines) and not lines[place]:
        place += 1
    end = place
    while end < len(lines) and end - place < 10 and lines[end] and not _QUOTE.match(lines[end]):  # noqa: PLR2004 -- no mail shows more headers
        end += 1
    block = lines[place:end]
    return block if block and _HEADER.match(block[0]) else ()


def _without_quotes(lines: Sequence[str], marks: Marks) -> list[str]:
    """The lines that are not quoted, without the line before a quotation that says whose it is."""
    kept: list[str] = []
    for place, line in enumerate(lines):
        if not _QUOTE.match(line):
            kept.append(line)
        elif place == 0 or not _QUOTE.match(lines[place - 1]):
            kept = _without_attribution(kept, marks)
    # A program that shows no quotation, but says whose it would be.
    return _without_attribution(kept, marks) if kept else kept


def _without_attribution(lines: Sequence[str], marks: Marks) -> list[str]:
    """The lines without an `On …, we wrote:` at their end, which may be broken into several."""
    kept = _without_rules(lines)
    for length in range(1, min(_LONGEST_ATTRIBUTION, len(kept)) + 1):
        if not kept[-length]:
            break
        said = " ".join(kept[-length:])
        named = marks.name != "" and _folded(marks.name) in _folded(said)
        ours = _is_ours(said, marks) or (named and bool(_WROTE.search(said)))
        if said.endswith((":", "：", ">")) and ours:
            above = kept[-length - 1] if len(kept) > length else ""
            # It has a date, and both ends of its brackets; what is missing stands in the line before.
            broken = said.count("<") < said.count(">") or not _DATE.search(said)
            return _without_rules(kept[: -length - 1] if broken and _DATE.search(above) else kept[:-length])
    return kept


def _before_signature(lines: Sequence[str]) -> list[str]:
    kept = list(lines)
    for place, line in enumerate(kept):
        if line.strip() == "--":
            kept = kept[:place]
            break
    kept = _without_blanks(kept)
    while len(kept) > 1 and _DEVICE.fullmatch(kept[-1].strip(" <>[]")):
        kept = _without_rules(kept[:-1])
    return kept


def _without_ending(lines: Sequence[str], writer: str) -> list[str]:
    """The lines without `Best regards` and the writer's own name after it, if something is left before that.

    A name by itself stays: it may be the answer.
    """
    kept = _without_blanks(lines)
    names = set(_words(writer))
    for place in range(len(kept) - 1, 0, -1):
        words = _words(kept[place])
        polite = _ENDINGS.fullmatch(" ".join(word for word in words if word not in names))
        if polite and any(line.strip() for line in kept[:place]):
            return _without_blanks(kept[:place])
        if words and not set(words) <= names:
            break
    return kept


def _without_blanks(lines: Sequence[str]) -> list[str]:
    kept = list(lines)
    while kept and not kept[-1].strip():
        kept.pop()
    return kept


def _without_rules(lines: Sequence[str]) -> list[str]:
    kept = _without_blanks(lines)
    while kept and _is_rule(kept[-1]):
        kept = _without_blanks(kept[:-1])
    return kept


def _is_rule(line: str) -> bool:
    """Whether a line is only a separator: dashes, or something like `-----Original Message-----`."""
    text = line.strip()
    if not 5 <= len(text) <= 80:  # noqa: PLR2004 -- as mail programs draw them
        return False
    return set(text) <= set("_=*-") or (text[:2] in ("--", "__") and text[-2:] in ("--", "__"))


def _is_ours(line: str, marks: Marks) -> bool:
    folded = _folded(line)
    return any(_folded(each) in folded for each in (*marks.addresses, *marks.lines) if each)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split()).strip(":*")


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]+", text.casefold())
