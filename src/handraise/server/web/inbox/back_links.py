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
    "/agent": gettext_noop("The agent"),
    "/tool": gettext_noop("The tool"),
    "/person": gettext_noop("The history"),
}
_LONGEST = 2_000


@dataclass(frozen=True, slots=True)
class Back:
    """The link back: its address and its text; `query` keeps it in the address of the question."""

    href: str
    name: str
    query: str = ""
    waiting: str | None = None
    """The address of the list of waiting questions that the person came from; None if they came another way."""


def address_of_list(request: Request) -> str:
    """The address of a list, without what is told only once."""
    return _address(request.url.path, request.url.query)


def query_of_list(request: Request) -> str:
    """What the links of a list add to the address of a question, so that its page links back to the list."""
    return f"?{urlencode({'from': address_of_list(request)})}"


def back_of(request: Request, question_id: str) -> Back:
    """The link back from a question's page to its row. Anything that is not a list links to the first list."""
    given = _split(request.query_params.get("from", ""))
    path, query = given or ("/", "")
    address = _address(path, query)
    return Back(
        f"{address}#q-{quote(question_id, safe='')}",
        gettext(_LISTS[path]),
        f"?{urlencode({'from': address})}" if given else "",
        address if given and path == "/" else None,
    )


def _split(given: str) -> tuple[str, str] | None:
    try:
        parts = urlsplit(given[:_LONGEST])
    except ValueError:
        return None
    if parts.scheme or parts.netloc or parts.path not in _LISTS or len(given) > _LONGEST:
        return None
    return parts.path, parts.query


def _address(path: str, query: str) -> str:
    # What was just answered is told once.
    given = urlencode([(name, value) for name, value in parse_qsl(query) if name != "done"])
    return f"{path}?{given}" if given else path
