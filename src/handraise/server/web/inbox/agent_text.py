"""Agents' texts on a page: a little Markdown, and nothing that runs, loads, hides or pretends.

Links show the address they lead to, in full: what can be clicked is the address itself.
"""

from __future__ import annotations

import unicodedata

import nh3
from markupsafe import Markup

from handraise.presentation.markdown_html import TAGS, HtmlStyles, to_html

_SIDES = ("right", "center")
# Styles in a page are forbidden.
_LOOK = HtmlStyles(sides={"right": ' class="right"', "center": ' class="center"'})
_ALIKE = frozenset({"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC"})
_REL = "noopener noreferrer nofollow"


def formatted(text: str) -> Markup:
    """An agent's text with its Markdown, safe to put into a page inside the agent's box."""
    cleaned = nh3.clean(
        to_html(text, _LOOK),
        tags=set(TAGS),
        attributes={"a": {"href"}, "ol": {"start"}},
        allowed_classes={"th": set(_SIDES), "td": set(_SIDES)},
        # What an agent leads to is never shown where our page was, above all not in a frame of somebody else's.
        set_tag_attribute_values={"a": {"target": "_blank"}},
        url_schemes={"http", "https", "mailto"},
        link_rel=_REL,
        strip_comments=True,
    )
    return Markup(cleaned)  # noqa: S704 -- cleaned above


def mixes_alphabets(name: str) -> bool:
    """Whether a name has letters of several alphabets that look alike, as one made to be mistaken has."""
    return len(alphabets_of(name)) > 1


def alphabets_of(name: str) -> frozenset[str]:
    """The alphabets in a name whose letters look like those of others."""
    found = (unicodedata.name(each, "").split(" ", 1)[0] for each in name if each.isalpha())
    return _ALIKE.intersection(found)
