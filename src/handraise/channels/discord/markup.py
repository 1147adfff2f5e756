"""Texts for Discord, which reads Markdown, mentions and addresses in all of them.

What others wrote is escaped, so that it shows as it is: it makes no format, mention, link or picture.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from handraise.model.argument_order import reading_order
from handraise.model.forms import Approval
from handraise.model.visible import visible, visible_line
from handraise.presentation.markdown import Span
from handraise.presentation.markdown_chat import Line, chat_lines

_SPECIAL = re.compile(r"[\\`*_~|\[\]<@:]")
"""What means something anywhere: formats, links, mentions, and the colon of pictures and addresses."""
_FIRST = re.compile(r"^( *)([>#+-])", re.MULTILINE)
_NUMBERED = re.compile(r"^( *[0-9]+)([.)])", re.MULTILINE)
"""What means something at the beginning of a line: quotes, headings, small type and lists."""
_FENCE = "```"
_MARKS = tuple("*~`")
_CUT = " […]"
_CLOSE = 8
"""By how many characters a cut may be too short: reading Markdown takes time."""
_LOOSE = " \n\u200d"
"""What must not be left at an end: a joiner with nothing after it could join with our own words."""


def escaped(text: str) -> str:
    """A text that shows as it is. Invisible characters are shown by their number; line breaks stay."""
    plain = _SPECIAL.sub(r"\\\g<0>", visible(text))
    return _NUMBERED.sub(r"\1\\\2", _FIRST.sub(r"\1\\\2", plain))


def escaped_line(text: str) -> str:
    """The same on one line."""
    return escaped(visible_line(text))


def bold(text: str) -> str:
    """A text in bold, otherwise as it is."""
    return f"**{escaped_line(text).strip() or '…'}**"


def quoted(text: str) -> str:
    """What somebody else wrote, with a bar beside it."""
    return "\n".join(f"> {line}" for line in escaped(text).split("\n"))


def literal(text: str) -> str:
    """A text exactly as it is, in a box. What would end the box is shown by its number."""
    inside = visible(text).replace(_FENCE, "‹U+0060›" * 3)
    return f"{_FENCE}\n{inside}\n{_FENCE}"


def action_text(form: Approval) -> str:
    """A frozen action in full."""
    arguments = json.dumps(reading_order(form.action.arguments), indent=2, ensure_ascii=False)
    return f"{visible_line(form.action.tool)}\n{arguments}"


def length_of(text: str) -> int:
    """How long a text is for Discord, at most: a picture may count as two."""
    return len(text.encode("utf-16-le", errors="replace")) // 2


def quoted_start(text: str, most: int) -> tuple[str, bool]:
    """As much of a text as fits, with a bar beside it, and whether that is all."""
    return _start(text, most, quoted)


def prompt_start(text: str, most: int) -> tuple[str, bool]:
    """The same for an agent's text, with its Markdown."""
    return _start(text, most, _quoted_markdown)


def _start(text: str, most: int, render: Callable[[str], str]) -> tuple[str, bool]:
    if len(text) <= most and length_of(whole := render(text)) <= most:
        return whole, True
    low, high = 0, min(len(text), max(0, most))
    while high - low > _CLOSE:
        middle = (low + high + 1) // 2
        if length_of(render(text[:middle].rstrip(_LOOSE))) + length_of(_CUT) <= most:
            low = middle
        else:
            high = middle - 1
    return render(text[:low].rstrip(_LOOSE)) + _CUT, False


def _quoted_markdown(text: str) -> str:
    return "\n".join(f"> {_markdown_line(line)}" for line in chat_lines(text))


def _markdown_line(line: Line) -> str:
    made = ""
    for span in line.spans:
        styled = _code(span.text) if line.is_code else _styled(span)
        # Adjacent marks could be read as others.
        touches = made[-1:] in _MARKS and styled[:1] in _MARKS
        made += escaped_line(span.text) if touches else styled
    return made


def _styled(span: Span) -> str:
    """A piece of a line with its format. Blanks stay outside the marks, which would not work otherwise."""
    inside = span.text.strip(" ")
    if not inside:
        return span.text
    made = _code(inside) if span.code else escaped_line(inside)
    for mark, has in (("~~", span.struck), ("*", span.emphasis), ("**", span.strong)):
        made = f"{mark}{made}{mark}" if has else made
    before, _, after = span.text.partition(inside)
    return f"{before}{made}{after}"


def _code(text: str) -> str:
    """A text exactly as it is. One that contains a code mark is only text: nothing could be escaped there."""
    return escaped_line(text) if "`" in text or not text.strip() else f"`{text}`"


def plain(text: str, most: int) -> str:
    """A short text on one line for places where Discord reads no markup, cut if Discord would refuse it."""
    shown = visible_line(text[: most + 1]).strip()
    if length_of(shown) <= most:
        return shown or "…"
    while length_of(shown) >= most:
        shown = shown[:-1]
    return shown.rstrip(_LOOSE) + "…"


def is_short(text: str, most: int) -> bool:
    """Whether all of a text is shown if there is room for this much of it."""
    return plain(text, most) == visible_line(text).strip() != ""
