"""Agents' texts as HTML: a little markdown, and nothing that runs, loads, hides or pretends.

Links show the address they lead to, in full: what can be clicked is the address itself.
"""

from __future__ import annotations

import functools
import html
import unicodedata
from collections.abc import Iterator, Sequence

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import Markup

from handraise.model.visible import visible, visible_line

_TAGS = frozenset(
    {"p", "br", "strong", "em", "s", "code", "pre", "ul", "ol", "li", "blockquote", "a", "hr"}
    | {"table", "thead", "tbody", "tr", "th", "td"}
)
_AUTO = "autolink"
_SIDES = ("right", "center")
_ALIKE = frozenset({"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC"})
_REL = "noopener noreferrer nofollow"


def formatted(text: str) -> Markup:
    """An agent's text with its markdown, safe to put into a page inside the agent's box."""
    made = _markdown().render(visible(text))
    cleaned = nh3.clean(
        made,
        tags=set(_TAGS),
        attributes={"a": {"href"}, "ol": {"start"}},
        allowed_classes={"th": set(_SIDES), "td": set(_SIDES)},
        # What an agent leads to is never shown where our page was, above all not in a frame of somebody else's.
        set_tag_attribute_values={"a": {"target": "_blank"}},
        url_schemes={"http", "https", "mailto"},
        link_rel=_REL,
        strip_comments=True,
    )
    # Once more: a character reference becomes its character only while markdown is read.
    return Markup(visible(cleaned))  # noqa: S704 -- cleaned above, and `visible` adds no markup


def excerpt(text: str, longest: int) -> str:
    """The beginning of an agent's text on one line, without the marks of its markdown."""
    blocks = _words(_markdown().parse(text[: 4 * longest]))
    line = visible_line(" · ".join(" ".join(block.split()) for block in blocks if block.strip()))
    return line if len(line) <= longest and len(text) <= 4 * longest else line[: longest - 1].rstrip() + "…"


def _words(tokens: Sequence[Token]) -> Iterator[str]:
    for token in tokens:
        if token.children is not None:
            yield "".join(" " if each.type.endswith("break") else each.content for each in token.children)
        elif token.content:
            yield token.content


def mixes_alphabets(name: str) -> bool:
    """Whether a name has letters of several alphabets that look alike, as one made to be mistaken has."""
    return len(alphabets_of(name)) > 1


def alphabets_of(name: str) -> frozenset[str]:
    """The alphabets in a name whose letters look like those of others."""
    found = (unicodedata.name(each, "").split(" ", 1)[0] for each in name if each.isalpha())
    return _ALIKE.intersection(found)


@functools.cache
def _markdown() -> MarkdownIt:
    markdown = MarkdownIt(
        "commonmark", {"html": False, "breaks": True, "maxNesting": 10}, renderer_cls=_Renderer
    )
    return markdown.enable(["table", "strikethrough"]).disable(["reference"])


class _Renderer(RendererHTML):
    """Headings are bold lines, for a page's headings are ours; a link is its text and then its address.

    An image is never loaded: it is its description and then its address.
    """

    def heading_open(self, *_: object) -> str:
        """A bold line."""
        return "<p><strong>"

    def heading_close(self, *_: object) -> str:
        """And its end."""
        return "</strong></p>\n"

    def link_open(self, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
        """Only an address that says itself what it is becomes a link as it stands."""
        token = tokens[index]
        return (
            self.renderToken(tokens, index, options, env) if token.markup == _AUTO and _leads(token) else ""
        )

    def link_close(self, tokens: Sequence[Token], index: int, _options: OptionsDict, _env: EnvType) -> str:
        """After a text that stands for an address comes the address, and that is the link."""
        level = tokens[index].level
        opening = next(
            each for each in reversed(tokens[:index]) if each.type == "link_open" and each.level == level
        )
        if opening.markup == _AUTO:
            return "</a>" if _leads(opening) else ""
        return _address(opening, "href")

    def image(self, tokens: Sequence[Token], index: int, _options: OptionsDict, _env: EnvType) -> str:
        """What an image is called, and where it is."""
        token = tokens[index]
        return f"Image: {html.escape(token.content) or 'without a description'}{_address(token, 'src')}"

    def th_open(self, tokens: Sequence[Token], index: int, _options: OptionsDict, _env: EnvType) -> str:
        """A cell of a table's head, on its side."""
        return f"<th{_side(tokens[index])}>"

    def td_open(self, tokens: Sequence[Token], index: int, _options: OptionsDict, _env: EnvType) -> str:
        """A cell of a table, on its side."""
        return f"<td{_side(tokens[index])}>"


def _side(cell: Token) -> str:
    """The class of a cell whose column is not on the left. Styles in a page are forbidden."""
    side = str(cell.attrs.get("style", "")).removeprefix("text-align:")
    return f' class="{side}"' if side in _SIDES else ""


def _address(token: Token, name: str) -> str:
    address = html.escape(str(token.attrs.get(name, "")))
    return f' (<a href="{address}">{address}</a>)' if _leads(token, name) else f" ({address})"


def _leads(opening: Token, name: str = "href") -> bool:
    """Whether a link leads to where a person may want to go; everything else stays a text."""
    return str(opening.attrs.get(name, "")).lower().startswith(("https://", "http://", "mailto:"))
