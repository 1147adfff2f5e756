"""The link back to a list: the address of a question's page names its list, with the filters and the page."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.requests import Request

from handraise.presentation.translation import gettext, gettext_noop

_LISTS = {
    "/": gettext_noop("Waiting"),
    "/settled": gettext_noop("Settled"),
    "/search": gettext_noop("Search"),
    "/aside": gettext_noop("Set aside"),
    "/conversation": gettext_noop("The conversation"),
}
_LONGEST = 2_000


@dataclass(frozen=True, slots=True)
class Back:
    """The link back: its address and its text; `query` keeps it in the address of the question."""

    href: str
    name: str
    query: str = ""


def query_of_list(request: Request) -> str:
    """What the links of a list add to the address of a question, so that its page links back to the list."""
    return _query(_address(request.url.path, request.url.query))


def back_of(request: Request, question_id: str) -> Back:
    """The link back from a question's page to its row. Anything that is not a list links to the first list."""
    path, query = _split(request.query_params.get("from", "/"))
    address = _address(path, query)
    return Back(f"{address}#q-{quote(question_id, safe='')}", gettext(_LISTS[path]), _query(address))


def _split(given: str) -> tuple[str, str]:
    try:
        parts = urlsplit(given[:_LONGEST])
    except ValueError:
        return "/", ""
    if parts.scheme or parts.netloc or parts.path not in _LISTS or len(given) > _LONGEST:
        return "/", ""
    return parts.path, parts.query


def _address(path: str, query: str) -> str:
    given = urlencode(parse_qsl(query))
    return f"{path}?{given}" if given else path


def _query(address: str) -> str:
    return "" if address == "/" else f"?{urlencode({'from': address})}"
