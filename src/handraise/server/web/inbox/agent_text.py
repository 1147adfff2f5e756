"""Agents' texts on a page: some Markdown, and nothing that runs, loads, hides or misleads.

Links show their full address: only the address itself can be clicked.
"""

from __future__ import annotations

import nh3
from markupsafe import Markup

from handraise.presentation.code_tokens import TOKEN_KINDS
from handraise.presentation.markdown_html import TAGS, HtmlStyles, to_html

_SIDES = ("right", "center")
# Styles in a page are forbidden.
_LOOK = HtmlStyles(sides={"right": ' class="right"', "center": ' class="center"'}, colours=True)
_REL = "noopener noreferrer nofollow"


def formatted(text: str) -> Markup:
    """An agent's text with its Markdown, safe to put into a page inside the agent's box."""
    cleaned = nh3.clean(
        to_html(text, _LOOK),
        tags=set(TAGS),
        attributes={"a": {"href"}, "ol": {"start"}},
        allowed_classes={
            "th": set(_SIDES),
            "td": set(_SIDES),
            "span": {f"hl-{each}" for each in TOKEN_KINDS},
        },
        # An agent's link never replaces our page, above all not in a frame of another site.
        set_tag_attribute_values={"a": {"target": "_blank"}},
        url_schemes={"http", "https", "mailto"},
        link_rel=_REL,
        strip_comments=True,
    )
    return Markup(cleaned)  # noqa: S704 -- cleaned above
