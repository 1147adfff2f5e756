"""Searching many questions by filter and by words, and how many questions one look reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Generic, Protocol, TypeAlias, TypeVar
from urllib.parse import urlencode, urlsplit

from fastapi import Depends, Request

from handraise.model.people import ANYONE, GROUP
from handraise.model.questions import Question
from handraise.model.search_text import normalized, search_text
from handraise.model.visible import visible_line
from handraise.ports.desk import Page
from handraise.presentation.translation import gettext, pgettext
from handraise.server.auth.authenticator import CurrentPerson

AT_ONCE = 300
"""How many places of questions are read together."""
SEARCHED_AT_ONCE = 100
"""How many whole questions are read together for a search."""
READS = 30
"""How often one look reads: after some 3,000 questions, a person must ask for more."""
MOST_TEXT = 10_000_000
"""How many characters one look reads at most: agents choose how much they write."""
ON_A_PAGE = 50
_LONGEST = 200
_LONGEST_SHOWN = 60
_MOST_CHOICES = 100
_DIGITS = 3
_FILTERS = ("view", "kind", "risk", "tool", "expires", "age", "sort")

T = TypeVar("T")
Read: TypeAlias = Callable[[str | None], Awaitable[Page[Question]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a person chose to look at, as the address of the page has it."""

    path: str = "/"
    everything: bool = False
    words: str = ""
    agent: str = ""
    conversation: str = ""
    to: str = ""
    """A group, a person, or `*` for questions that anyone may answer."""
    after: str = ""
    number: int = 1
    each: bool = False
    """Whether equal questions are shown one by one."""
    extra: tuple[tuple[str, str], ...] = ()
    """Other filters of this page, as the address has them."""

    @property
    def is_filtered(self) -> bool:
        """Whether a filter is set."""
        return bool(self.agent or self.conversation or self.to or self.extra)

    @property
    def is_narrowed(self) -> bool:
        """Whether it shows only a part of the questions."""
        return self.is_filtered or bool(self.words)

    @property
    def is_search(self) -> bool:
        """Whether each question must be read to know if it fits."""
        return bool(self.words or self.to)

    def address(
        self, *, extra: tuple[tuple[str, str], ...] | None = None, **changes: str | int | bool
    ) -> str:
        """The address of this view with some changes, from its first page unless told otherwise."""
        wanted: dict[str, str | int | bool] = {
            **dict(self.extra if extra is None else extra),
            "all": changes.get("everything", self.everything) and "1",
            "q": changes.get("words", self.words),
            "agent": changes.get("agent", self.agent),
            "conversation": changes.get("conversation", self.conversation),
            "to": changes.get("to", self.to),
            "after": changes.get("after", ""),
            "each": changes.get("each", self.each) and "1",
            "page": changes.get("number", 1),
        }
        given = {name: value for name, value in wanted.items() if value and value != 1}
        return f"{self.path}?{urlencode(given)}" if given else self.path

    def at(self, path: str) -> View:
        """The same view of another page."""
        return replace(self, path=path, extra=())

    @property
    def unfiltered(self) -> str:
        """The address of this view without words and filters."""
        return self.address(extra=(), words="", agent="", conversation="", to="")


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """What one look found: what fits, how many were looked at, and where to go on."""

    items: tuple[T, ...]
    looked: int
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part(Generic[T]):
    """One page of what was found, and where the others are."""

    items: Sequence[T]
    start: int
    total: int
    """How many rows this look has found, over all of its pages."""
    looked: int
    goes_on: bool
    """Whether there is more than this look has seen."""
    more: str | None
    first: str | None


@dataclass(frozen=True, slots=True)
class Offered:
    """An option of a filter. `shown` is an agent's text if it is not `ours`."""

    value: str
    shown: str
    ours: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """The options of a page's filters."""

    agents: Sequence[Offered]
    conversations: Sequence[Offered]
    recipients: Sequence[Offered]

    @property
    def any(self) -> bool:
        """Whether there is anything to choose."""
        return any(len(each) > 1 for each in (self.agents, self.conversations, self.recipients))


async def view_of(request: Request, caller: CurrentPerson) -> View:
    """What the address asks for; invalid values are ignored."""

    def given(name: str) -> str:
        return request.query_params.get(name, "")[:_LONGEST]

    number = given("page")
    return View(
        path=request.url.path,
        everything=bool(given("all")) and caller.is_admin,
        words=" ".join(given("q").split()),
        agent=given("agent"),
        conversation=given("conversation"),
        to=given("to"),
        after=given("after"),
        each=bool(given("each")),
        extra=tuple((name, given(name)) for name in _FILTERS if given(name))
        if request.url.path == "/"
        else (),
        number=max(1, int(number)) if number.isdecimal() and len(number) <= _DIGITS else 1,
    )


async def view_at(address: str, caller: CurrentPerson) -> View:
    """What the address of a list asks for; invalid values are ignored."""
    parts = urlsplit(address)
    query = parts.query.encode(errors="replace")
    return await view_of(
        Request({"type": "http", "path": parts.path, "query_string": query, "headers": []}), caller
    )


ViewDep = Annotated[View, Depends(view_of)]


async def find(read: Read, view: View) -> Found[Question]:
    """Read until a page is full, the list ends, or one look has read enough."""
    words = normalized(view.words).split()
    found: list[Question] = []
    looked, searched, after = 0, 0, view.after or None
    for _ in range(READS):
        page = await read(after)
        looked += len(page.items)
        for question in page.items:
            if view.to and view.to not in (question.audience or (ANYONE,)):
                continue
            if words:
                text = search_text(question)
                searched += len(text)
                if not all(word in text for word in words):
                    continue
            found.append(question)
        after = page.next
        if after is None or len(found) >= ON_A_PAGE or searched >= MOST_TEXT:
            break
    return Found(tuple(found), looked, after)


def part_of(view: View, found: Found[T]) -> Part[T]:
    """The page of the results that the view asks for."""
    start = (view.number - 1) * ON_A_PAGE
    more: str | None = None
    if start + ON_A_PAGE < len(found.items):
        more = view.address(after=view.after, number=view.number + 1)
    elif found.after:
        more = view.address(after=found.after)
    return Part(
        items=found.items[start : start + ON_A_PAGE],
        start=start,
        total=len(found.items),
        looked=found.looked,
        goes_on=found.after is not None,
        more=more,
        first=view.address() if view.after or start else None,
    )


class Named(Protocol):
    """Who asked, and where."""

    @property
    def asker(self) -> str:
        """Who asked."""
        ...

    @property
    def conversation(self) -> str | None:
        """Where."""
        ...


def offers_of(view: View, questions: Sequence[Question], *, me: str, others: Sequence[Named] = ()) -> Offers:
    """The options: the values of these questions and of others, and what is chosen now."""
    known: Sequence[Named] = [*questions, *others]
    named = [name for question in questions for name in question.audience or (ANYONE,)]
    return Offers(
        agents=_offered((each.asker for each in known), view.agent, _shown),
        conversations=_offered((each.conversation for each in known), view.conversation, _shown),
        recipients=_offered(named, view.to, lambda name: offered_recipient(name, me)),
    )


def offered_recipient(name: str, me: str) -> Offered:
    """A recipient as an option of the filter."""
    if name == ANYONE:
        return Offered(name, gettext("anyone in the workspace"), ours=True)
    if name == me:
        return Offered(name, pgettext("for whom", "you"), ours=True)
    if name.startswith(GROUP):
        return Offered(name, gettext("the group {name}").format(name=_cut(name.removeprefix(GROUP))))
    return _shown(name)


def _shown(name: str) -> Offered:
    return Offered(name, _cut(name))


def _cut(name: str) -> str:
    line = visible_line(name)
    return line if len(line) <= _LONGEST_SHOWN else f"{line[: _LONGEST_SHOWN - 1]}…"


def _offered(
    names: Iterable[str | None], chosen: str, shown: Callable[[str], Offered]
) -> tuple[Offered, ...]:
    counts = Counter(filter(None, names))
    wanted = {name for name, _ in counts.most_common(_MOST_CHOICES)}
    made = map(shown, wanted | {chosen} if chosen else wanted)
    return tuple(sorted(made, key=lambda each: (not each.ours, each.shown.casefold(), each.value)))
