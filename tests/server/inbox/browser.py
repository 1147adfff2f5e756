"""What a browser without scripts does with a page: finds its forms, fills them in, and sends them."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urlencode

import httpx2

from tests.server.conftest import ORIGIN

VOID = {"input", "meta", "link", "img", "br", "hr"}
FORM = {"content-type": "application/x-www-form-urlencoded"}


@dataclass
class Input:
    """A control as the page has it."""

    name: str
    kind: str
    value: str
    on: bool = True


@dataclass
class Sheet:
    """One form of a page."""

    action: str
    method: str
    inputs: list[Input] = field(default_factory=list)
    buttons: list[tuple[str, str]] = field(default_factory=list)

    def fill(self, name: str, text: str) -> None:
        """Write into a control."""
        [found] = [each for each in self.inputs if each.name == name]
        found.value = text

    def tick(self, name: str, *values: str) -> None:
        """Tick these and no others."""
        offered = [each for each in self.inputs if each.name == name and each.kind in ("radio", "checkbox")]
        assert set(values) <= {each.value for each in offered}
        for each in offered:
            each.on = each.value in values

    def body(self, button: tuple[str, str] | None = None) -> str:
        """What a browser sends: only what is on, lines ended as browsers end them."""
        pairs = [(each.name, each.value) for each in self.inputs if each.on and each.name]
        if button is not None:
            assert button in self.buttons
            pairs.append(button)
        return urlencode([(name, _crlf(value)) for name, value in pairs])

    def sent(self, button: tuple[str, str] | None = None) -> dict[str, list[str]]:
        """The same as the server gets it."""
        found: dict[str, list[str]] = {}
        pairs = [(each.name, each.value) for each in self.inputs if each.on and each.name]
        for name, value in [*pairs, *([button] if button else [])]:
            found.setdefault(name, []).append(_crlf(value))
        return found


class Page(HTMLParser):
    """A page as it is read: its forms, its texts, and which of them stand in an agent's box."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.sheets: list[Sheet] = []
        self.ours: list[str] = []
        self.agents: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[tuple[str, bool]] = []
        self._area: Input | None = None
        self._select: str = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append((tag, given))
        if tag not in VOID:
            inside = bool(self._open and self._open[-1][1])
            self._open.append((tag, inside or given.get("data-from") == "agent"))
        name, value = given.get("name") or "", given.get("value") or ""
        if tag == "form":
            self.sheets.append(Sheet(given.get("action") or "", given.get("method") or "get"))
        elif tag == "input" and self.sheets:
            kind = given.get("type") or "text"
            on = "checked" in given if kind in ("radio", "checkbox") else True
            self.sheets[-1].inputs.append(Input(name, kind, value, on))
        elif tag == "button" and name:
            self.sheets[-1].buttons.append((name, value))
        elif tag == "textarea":
            self._area = Input(name, "textarea", "")
            self.sheets[-1].inputs.append(self._area)
        elif tag == "select":
            self._select = name
            self.sheets[-1].inputs.append(Input(name, "select", ""))
        elif tag == "option" and "selected" in given:
            self.sheets[-1].inputs[-1].value = value

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea" and self._area is not None:
            self._area.value = self._area.value.removeprefix("\n")
            self._area = None
        while self._open:
            closed, _ = self._open.pop()
            if closed == tag:
                return

    def handle_data(self, data: str) -> None:
        if self._area is not None:
            self._area.value += data
        inside = bool(self._open and self._open[-1][1])
        (self.agents if inside else self.ours).append(data)

    @property
    def words(self) -> str:
        """All that can be read, on one line."""
        return " ".join(" ".join((*self.ours, *self.agents)).split())

    @property
    def agents_text(self) -> str:
        """What others wrote, on one line."""
        return " ".join(" ".join(self.agents).split())

    def sheet(self, part: str = "data-answer") -> Sheet:
        """The form that answers."""
        found = [
            sheet
            for sheet, (_, attrs) in zip(
                self.sheets, [each for each in self.tags if each[0] == "form"], strict=True
            )
            if part in attrs
        ]
        assert found, "there is no such form on this page"
        return found[0]


def _crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


async def open_page(client: httpx2.AsyncClient, path: str) -> Page:
    """Look at a page."""
    shown = await client.get(path)
    assert shown.status_code == 200, shown.text
    return Page(shown.text)


async def send(
    client: httpx2.AsyncClient, sheet: Sheet, button: tuple[str, str] | None = None
) -> httpx2.Response:
    """Send a form as a browser does from our own page."""
    return await client.post(sheet.action, content=sheet.body(button), headers=ORIGIN | FORM)
