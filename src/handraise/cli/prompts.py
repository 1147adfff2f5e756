"""Asking somebody at a terminal: menus and lines of text that end by themselves when they are no longer needed.

They are drawn where the cursor is, not over the whole screen, so that what was printed before stays readable
and can be scrolled back to.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.input import create_input
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    VSplit,
    Window,
)
from prompt_toolkit.output import create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.utils import get_cwidth

from handraise.cli.exit_codes import CommandError
from handraise.cli.question_view import STYLE, WIDEST, StyledLine, put, wrapped
from handraise.cli.terminal_texts import shown_lines
from handraise.presentation.translation import gettext, ngettext

T = TypeVar("T")
Check = Callable[[Any], str | None]
"""Why a value does not fit, or None."""

HERE = ("[SetCursorPosition]", "")
"""Marks the place that stays visible if not everything fits."""

_ESCAPE_WITHIN = 0.05
_MENU_LINES = 3
_BETWEEN = " · "


class Back(Exception):
    """The person goes back without having answered."""


class Refuses(Exception):
    """The person will not answer."""


class Settled(Exception):
    """Somebody else answered first, or the question expired."""


class _Interrupted(Exception):
    """There is something to show before the prompt goes on."""


class _Talks(Exception):
    """The person wants to write a message before they go on."""


class Aside(Protocol):
    """What goes on beside a prompt: a conversation about the question."""

    async def show_news(self) -> bool:
        """Show what is new since the last call; return whether anything was."""
        ...

    async def talk(self) -> None:
        """Let the person write a message."""
        ...


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a menu, with a note below it. `key` is a letter that leads to it.

    An entry that is `ours` is not the agent's text; our own notes are shown only while their entry is marked.
    """

    value: Any
    text: str
    note: str = ""
    ours: bool = False
    key: str | None = None


class Terminal:
    """The person's terminal, even if stdin or stdout is a pipe. One prompt at a time."""

    def __init__(self) -> None:
        if not any(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
            raise CommandError(
                gettext("There is no terminal here. Give the answer along: handraise answer ID VALUE")
            )
        self.input = create_input(always_prefer_tty=True)
        self.output = create_output(always_prefer_tty=True)
        if isinstance(self.output, Vt100_Output):
            # The position of the cursor is not needed, and over a slow line the reply would look like typing.
            self.output.enable_cpr = False
        self._until: asyncio.Future[Any] | None = None
        self._aside: Aside | None = None
        self._app: Application[Any] | None = None

    def sitting(self) -> AbstractContextManager[None]:
        """From now on every key is for a prompt, even if it is pressed before the prompt is drawn."""
        return self.input.raw_mode()

    def end_with(self, until: asyncio.Future[Any] | None) -> None:
        """Every prompt ends with `Settled` as soon as this is done."""
        self._until = until

    def talk_with(self, aside: Aside | None) -> None:
        """Every prompt shows what is new there first, and offers to write a message."""
        self._aside = aside

    @property
    def offers_talk(self) -> bool:
        """Whether the person can write a message now."""
        return self._aside is not None

    def interrupt(self) -> None:
        """Show what is new above the prompt that is open, which then continues."""
        if (
            self._aside is not None
            and self._app is not None
            and self._app.is_running
            and not self._app.is_done
        ):
            self._app.exit(exception=_Interrupted())

    @property
    def width(self) -> int:
        """How wide to write."""
        return min(self.output.get_size().columns, WIDEST)

    @property
    def height(self) -> int:
        """How many lines can be seen at once."""
        return self.output.get_size().rows

    def put(self, lines: Sequence[StyledLine]) -> None:
        """Print lines for good."""
        put(lines, output=self.output)

    async def put_pages(self, lines: Sequence[StyledLine]) -> None:
        """Print lines for good, as many at a time as can be seen at once."""
        page = max(self.height - _MENU_LINES, 5)
        for start in range(0, len(lines), page):
            self.put(lines[start : start + page])
            if rest := len(lines[start + page :]):
                text = ngettext(
                    "{count} more line · enter shows it · esc back",
                    "{count} more lines · enter shows them · esc back",
                    rest,
                )
                await self.go_on(text.format(count=rest))

    def forget_typed(self) -> None:
        """Discard what was typed before there was anything to answer."""
        if sys.platform != "win32":
            import termios  # noqa: PLC0415 -- not everywhere

            termios.tcflush(self.input.fileno(), termios.TCIFLUSH)

    async def choose(self, entries: Sequence[Entry], *, hint: str, start: int | None = 0) -> Any:
        """The value of the entry chosen. Without a `start` none is marked, and Enter alone does nothing.

        Then none is marked either after something new was shown: keys that were pressed before do not count.
        """
        menu = _Menu(entries, start, lambda: self.width)
        keys = KeyBindings()

        @keys.add("enter")
        def _take(event: KeyPressEvent) -> None:
            if menu.at is not None:
                event.app.exit(result=entries[menu.at].value)

        def unmark() -> None:
            if start is None:
                menu.at, menu.typed = None, ""
                self.forget_typed()
                clear_typeahead(self.input)

        return await self._run(menu.window, _hint(hint, self), _bind_movement(keys, menu), on_news=unmark)

    async def choose_several(
        self, entries: Sequence[Entry], *, chosen: Sequence[Any], hint: str, check: Check
    ) -> list[Any]:
        """The values of the ticked entries, once `check` accepts them."""
        menu = _Menu(entries, 0, lambda: self.width)
        menu.ticked = {place for place, entry in enumerate(entries) if entry.value in chosen}
        problem = _Problem(self)
        keys = KeyBindings()

        def values() -> list[Any]:
            return [entry.value for place, entry in enumerate(entries) if place in (menu.ticked or ())]

        @keys.add(" ")
        def _tick(_: KeyPressEvent) -> None:
            if menu.ticked is not None and menu.at is not None:
                menu.ticked ^= {menu.at}
            problem.text = ""

        @keys.add("enter")
        def _take(event: KeyPressEvent) -> None:
            problem.text = check(values()) or ""
            if not problem.text:
                event.app.exit(result=values())

        def told() -> str:
            chosen = gettext("{count} chosen").format(count=len(menu.ticked or ()))
            return f"{chosen} · {hint}"

        found: list[Any] = await self._run(
            menu.window, problem.window, _hint(told, self), _bind_movement(keys, menu)
        )
        return found

    async def write(self, *, start: str = "", hint: str, check: Check) -> str:
        """A text, once `check` accepts it."""
        buffer = Buffer(multiline=True, document=Document(start))
        problem = _Problem(self)
        keys = KeyBindings()

        @keys.add("enter")
        def _take(event: KeyPressEvent) -> None:
            problem.text = check(buffer.text) or ""
            if not problem.text:
                event.app.exit(result=buffer.text)

        @keys.add("c-j")
        def _new_line(_: KeyPressEvent) -> None:
            buffer.insert_text("\n")

        field = VSplit(
            [
                Window(FormattedTextControl([("class:cursor", "› ")]), width=2, dont_extend_height=True),
                Window(
                    BufferControl(buffer),
                    wrap_lines=True,
                    dont_extend_height=True,
                    height=Dimension(min=1, max=10),
                ),
            ]
        )
        try:
            text: str = await self._run(field, problem.window, _hint(hint, self), keys)
        except Settled:
            if buffer.text.strip() and buffer.text != start:
                self.put([[("class:soft", gettext("You had written:"))], *_plain(buffer.text, self.width)])
            raise
        return text

    async def go_on(self, told: str) -> None:
        """Wait for any key."""
        keys = KeyBindings()

        @keys.add("enter")
        @keys.add(" ")
        def _go(event: KeyPressEvent) -> None:
            event.app.exit(result=None)

        await self._run(_hint(told, self), keys)

    async def _run(self, *parts: Any, on_news: Callable[[], None] | None = None) -> Any:
        *windows, keys = parts
        _bind_exit(keys)
        if self._aside is not None:
            _bind_talk(keys)
        app: Application[Any] = Application(
            layout=Layout(HSplit(windows)),
            key_bindings=keys,
            style=STYLE,
            input=self.input,
            output=self.output,
            erase_when_done=True,
            full_screen=False,
        )
        app.ttimeoutlen = _ESCAPE_WITHIN
        while True:
            if await self._beside(lambda aside: aside.show_news()):
                if on_news is not None:
                    on_news()
                continue
            try:
                return await self._run_once(app)
            except _Interrupted:
                continue
            except _Talks:
                await self._beside(lambda aside: aside.talk())

    async def _beside(self, do: Callable[[Aside], Awaitable[T]]) -> T | None:
        """Do something beside the prompt; what the person had begun to type is still there afterwards."""
        if (aside := self._aside) is None:
            return None
        self._aside = None  # its own prompts are not interrupted
        try:
            return await do(aside)
        finally:
            self._aside = aside

    async def _run_once(self, app: Application[Any]) -> Any:
        until = self._until

        def end(_: object) -> None:
            if app.is_running and not app.is_done:
                app.exit(exception=Settled())

        self._app = app
        try:
            if until is None:
                return await app.run_async(handle_sigint=False)
            if until.done():
                raise Settled
            until.add_done_callback(end)
            try:
                return await app.run_async(handle_sigint=False)
            finally:
                until.remove_done_callback(end)
        finally:
            self._app = None


class _Menu:
    """Numbered entries, one of them marked; with `ticked`, each has a box."""

    def __init__(self, entries: Sequence[Entry], at: int | None, width: Callable[[], int]) -> None:
        self.entries = entries
        self.at = at
        self.ticked: set[int] | None = None
        self.typed = ""
        self._width = width
        self.window = Window(
            FormattedTextControl(self._draw, focusable=True), dont_extend_height=True, always_hide_cursor=True
        )

    def move(self, by: int) -> None:
        """Mark another entry; after the last one comes the first."""
        if self.at is None:
            self.at = 0 if by > 0 else len(self.entries) - 1
        else:
            self.at = (self.at + by) % len(self.entries)
        self.typed = ""

    def number(self, digit: str) -> bool:
        """Mark an entry by its number, digit by digit; return whether there is one."""
        for typed in (self.typed + digit, digit):
            if 1 <= int(typed) <= len(self.entries):
                self.at, self.typed = int(typed) - 1, typed
                return True
        self.typed = ""
        return False

    def letter(self, key: str) -> None:
        """Mark the entry that has this letter."""
        for place, entry in enumerate(self.entries):
            if entry.key == key:
                self.at, self.typed = place, ""

    def _draw(self) -> FormattedText:
        parts: StyledLine = []
        size = len(str(len(self.entries)))
        for place, entry in enumerate(self.entries):
            marked = place == self.at
            if marked:
                parts.append(HERE)
            box = "" if self.ticked is None else ("[x] " if place in self.ticked else "[ ] ")
            head = f"{'❯' if marked else ' '} {place + 1:>{size}}  {box}"
            style = "class:cursor" if marked else ("class:soft" if entry.ours else "")
            line: StyledLine = [("class:cursor" if marked else "class:soft", head), (style, entry.text)]
            lines = wrapped(line, self._width(), indent=len(head))
            if entry.note and (marked or not entry.ours):
                lines += wrapped(
                    [("", " " * len(head)), ("class:soft", entry.note)], self._width(), indent=len(head)
                )
            for each in lines:
                parts += [*each, ("", "\n")]
        return FormattedText(parts[:-1])


class _Problem:
    """Why the input does not fit, shown right below it."""

    def __init__(self, terminal: Terminal) -> None:
        self.text = ""

        def draw() -> FormattedText:
            lines = wrapped([("class:bad", f"! {self.text}")], terminal.width, indent=2)
            return _join_lines(lines)

        self.window = ConditionalContainer(
            Window(FormattedTextControl(draw), dont_extend_height=True), Condition(lambda: bool(self.text))
        )


def _hint(told: str | Callable[[], str], terminal: Terminal) -> Window:
    def draw() -> FormattedText:
        text = told if isinstance(told, str) else told()
        parts = text.split(_BETWEEN)
        if terminal.offers_talk:
            parts.append(gettext("ctrl-t writes a message"))
        return _join_lines(_hint_lines(parts, terminal.width))

    return Window(FormattedTextControl(draw), dont_extend_height=True)


def _hint_lines(parts: Sequence[str], width: int) -> list[StyledLine]:
    """The parts of a hint, as many on a line as fit; a key and what it does stay together."""
    lines = [parts[0]]
    for part in parts[1:]:
        if get_cwidth(longer := f"{lines[-1]}{_BETWEEN}{part}") <= width:
            lines[-1] = longer
        else:
            lines.append(part)
    return [broken for line in lines for broken in wrapped([("class:soft", line)], width)]


def _plain(text: str, width: int) -> list[StyledLine]:
    return [part for line in shown_lines(text) for part in wrapped([("", line)], width)]


def _join_lines(lines: Sequence[StyledLine]) -> FormattedText:
    parts = [part for line in lines for part in (*line, ("", "\n"))]
    return FormattedText(parts[:-1])


def _bind_movement(keys: KeyBindings, menu: _Menu) -> KeyBindings:
    @keys.add("up")
    @keys.add("k")
    def _up(_: KeyPressEvent) -> None:
        menu.move(-1)

    @keys.add("down")
    @keys.add("j")
    @keys.add("tab")
    def _down(_: KeyPressEvent) -> None:
        menu.move(1)

    for digit in "0123456789":

        @keys.add(digit)
        def _number(event: KeyPressEvent) -> None:
            menu.number(event.data)

    for entry in menu.entries:
        if entry.key is not None:

            @keys.add(entry.key)
            def _letter(event: KeyPressEvent) -> None:
                menu.letter(event.data)

    return keys


def _bind_exit(keys: KeyBindings) -> None:
    @keys.add("escape", eager=True)
    def _back(event: KeyPressEvent) -> None:
        event.app.exit(exception=Back())

    @keys.add("c-c", eager=True)
    def _quit(event: KeyPressEvent) -> None:
        event.app.exit(exception=KeyboardInterrupt())

    @keys.add("c-x", eager=True)
    def _refuse(event: KeyPressEvent) -> None:
        event.app.exit(exception=Refuses())


def _bind_talk(keys: KeyBindings) -> None:
    @keys.add("c-t", eager=True)
    def _talk(event: KeyPressEvent) -> None:
        event.app.exit(exception=_Talks())
