"""The text of an HTML mail: what is written there, without what is quoted, hidden or run. Nothing in it is loaded."""

from __future__ import annotations

import html
import re

_TAG = re.compile(r"""<(/?)([a-zA-Z][a-zA-Z0-9:-]{0,40}+)((?:[^<>"']|"[^"<]*"|'[^'<]*')*+)>""")
_DECLARATION = re.compile(r"<[!?/][^<>]*>?[^\S\n]*")
_VOID = re.compile(r"area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr")
_RAW = re.compile(r"head|script|style|title|template|noscript|svg|math|object|iframe|select|textarea")
"""What is not there to be read, up to its end."""
_BLOCK = re.compile(
    r"address|article|blockquote|center|d[dlt]|div|fieldset|figure|footer|form|h[1-6]|header|hr|li|main|nav|ol|p|pre|"
    r"section|table|tr|ul"
)
_QUOTES = re.compile(
    r"gmail_(quote|attr|extra)|yahoo_quoted|moz-cite-prefix|protonmail_quote|zmail_extra|tutanota_quote|"
    r"divrplyfwdmsg|appendonsend|mail-editor-reference-message-container|reply-intro|gmail_signature|"
    r"mobile-signature|ms-outlook-mobile-signature",
    re.IGNORECASE,
)
"""Names that mail programs give to what they put around a reply."""
_REST = re.compile(r"divrplyfwdmsg|appendonsend|mail-editor-reference-message-container", re.IGNORECASE)
"""Names after which everything else is quoted."""
_DEEPEST = 50
"""How far back an end is looked for, whatever was left open."""
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden|mso-hide\s*:\s*all", re.IGNORECASE)


def html_text(text: str) -> str:
    """The text that a person wrote into an HTML mail."""
    reader = _Reader()
    reader.read(text)
    lines = "".join(reader.parts).split("\n")
    return "\n".join(" ".join(line.split()) for line in lines).strip()


class _Reader:
    """Collects what can be seen and is not quoted; unclosed and crossed tags only end what they are in.

    Not the standard library's parser: a few thousand tags that never end keep some versions of it busy for minutes.
    """

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._open: list[tuple[str, bool]] = []
        self._dropping = 0

    def read(self, text: str) -> None:
        """Read a whole mail, each character about once."""
        place = 0
        while place < len(text):
            if text.startswith("<!--", place):
                place = _behind(r"-->", text, place)
            elif tag := _TAG.match(text, place):
                place = tag.end()
                name = tag[2].lower()
                if tag[1]:
                    self._end(name)
                elif _RAW.fullmatch(name):
                    place = _behind(rf"</{name}[^<>]*>?", text, place)
                elif not self._begin(name, tag[3]):
                    return
            else:
                end = text.find("<", place + 1)
                end = len(text) if end < 0 else end
                if not _DECLARATION.fullmatch(text, place, end):
                    self._say(html.unescape(text[place:end]))
                place = end

    def _begin(self, name: str, rest: str) -> bool:
        """Begin an element, perhaps one to leave out; False if everything from here on is quoted."""
        if name == "br" and not self._dropping:
            self.parts.append("\n")
        elif _BLOCK.fullmatch(name):
            self._break()
        if _VOID.fullmatch(name) or rest.endswith("/"):
            return True
        drops = name == "blockquote" or bool(_QUOTES.search(rest)) or bool(_HIDDEN.search(rest))
        self._open.append((name, drops))
        self._dropping += drops
        return not _REST.search(rest)

    def _end(self, name: str) -> None:
        """End the innermost element of this name, and what was left open in it."""
        if _BLOCK.fullmatch(name):
            self._break()
        if any(name == each for each, _ in self._open[-_DEEPEST:]):
            ended = None
            while ended != name:
                ended, dropped = self._open.pop()
                self._dropping -= dropped

    def _say(self, text: str) -> None:
        if not self._dropping:
            self.parts.append(text.replace("\n", " "))

    def _break(self) -> None:
        if not self._dropping and self.parts and not self.parts[-1].endswith("\n"):
            self.parts.append("\n")


def _behind(end: str, text: str, place: int) -> int:
    """The place after the next such end, in upper or lower case, or the end of the text."""
    found = re.compile(end, re.IGNORECASE).search(text, place)
    return len(text) if found is None else found.end()
