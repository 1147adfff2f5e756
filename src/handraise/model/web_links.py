"""Addresses that an agent gives to people: only pages of the web, whose host is what it looks like."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from handraise.model.json_values import text_problem
from handraise.model.problems import Problem

LONGEST_LINK = 2_000
_NOT_IN_LINKS = re.compile(r"[\x00-\x20\x7f-\x9f\s\\\"<>^`{|}]")


def link_problems(path: str, link: object) -> Iterator[Problem]:
    """Why an address cannot be shown as a link."""
    if not isinstance(link, str):
        yield Problem(path, "expected a text")
    elif len(link) > LONGEST_LINK:
        yield Problem(path, f"has more than {LONGEST_LINK} characters")
    elif _NOT_IN_LINKS.search(link) or text_problem(link) or not _is_web_address(link):
        yield Problem(path, "expected an address that begins with https:// or http://")


def host_of(link: str) -> str:
    """The host of an address, with its port; it is shown beside the link."""
    return urlsplit(link).netloc


def _is_web_address(link: str) -> bool:
    try:
        parts = urlsplit(link)
        _ = parts.port  # raises if it is not a number
    except ValueError:
        return False
    # A name before an @ makes another host look like the address.
    return parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc
