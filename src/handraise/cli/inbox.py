"""`handraise inbox`: a live list of what one may answer; each is answered where one stands."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Any

import typer
from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.utils import get_cwidth

from handraise.cli.answering import answer_at_terminal
from handraise.cli.desks import AsPerson, Seat, Workspace, as_person
from handraise.cli.drawing import STYLE, Line
from handraise.cli.endings import CannotDo
from handraise.cli.menus import HERE, Terminal
from handraise.cli.questions import pending_for
from handraise.cli.wording import age_words, end_words, kind_words, outcome_words, shown, shown_prompt
from handraise.model.errors import DeskClosed, HandraiseError
from handraise.model.questions import Question
from handraise.model.urgency import is_escalated

_LOOK_AGAIN = 5.0
_SETTLE_DOWN = 0.05
_REDRAW = 1.0
_SOON = timedelta(minutes=15)
_MOST = 500


def inbox(*, name: AsPerson = None, workspace: Workspace = None) -> None:
    """Show what you may answer, live, and answer it.

    The most urgent comes first: what was escalated, then by expiry, by risk, and by age.
    """

    async def work(seat: Seat) -> int:
        if not seat.may_answer:
            raise CannotDo("An agent cannot answer. Sign in as a person: handraise sign-in LINK")
        terminal = Terminal()
        queue = _Queue(seat, terminal)
        async with asyncio.TaskGroup() as tasks:
            fresh = tasks.create_task(queue.keep_fresh())
            try:
                while (question := await queue.pick()) is not None:
                    try:
                        queue.notice = _notice(await answer_at_terminal(seat, question, terminal=terminal))
                    except HandraiseError as error:
                        queue.notice = [("class:bad", " ! "), ("", shown(str(error)))]
                    queue.stir()
            finally:
                fresh.cancel()
        return len(queue.questions)

    try:
        pending = as_person(work, name=name, workspace=workspace)
    except KeyboardInterrupt:
        raise typer.Exit from None
    if pending:
        typer.echo(f"{pending} pending. To come back: handraise inbox")


def _notice(question: Question) -> Line:
    if question.outcome is None:
        return [("", " Left pending." if not question.votes else " Your vote is in; others must agree.")]
    told = outcome_words(question.form, question.outcome)
    return [("class:good", " ✓ "), ("", f"{told} · {shown_prompt(question.prompt)}")]


class _Queue:
    """The list, kept fresh whether it is on the screen or not."""

    def __init__(self, seat: Seat, terminal: Terminal) -> None:
        self.questions: list[Question] = []
        self.notice: Line = []
        self._seat = seat
        self._terminal = terminal
        self._at: str | None = None
        self._loaded = False
        self._trouble = ""
        self._stirred = asyncio.Event()
        self._app: Application[Any] | None = None

    def stir(self) -> None:
        """Look again now."""
        self._stirred.set()

    async def keep_fresh(self) -> None:
        """Look at the store whenever something happens there, and every few seconds all the same."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._listen())
            while True:
                try:
                    self.questions = await pending_for(self._seat, at_most=_MOST)
                    self._loaded, self._trouble = True, ""
                except HandraiseError as error:
                    self._trouble = shown(str(error))
                if self._app is not None:
                    self._app.invalidate()
                try:
                    async with asyncio.timeout(_LOOK_AGAIN):
                        await self._stirred.wait()
                    await asyncio.sleep(_SETTLE_DOWN)  # what happens together is looked at together
                except TimeoutError:
                    pass
                self._stirred.clear()

    async def _listen(self) -> None:
        while True:
            try:
                async with aclosing(self._seat.desk.follow()) as events:
                    async for _ in events:
                        self._stirred.set()
            except DeskClosed:
                return
            except HandraiseError:
                await asyncio.sleep(_LOOK_AGAIN)

    async def pick(self) -> Question | None:
        """Show the list until a question is opened, or None when the person leaves."""
        self._app = Application(
            layout=Layout(
                HSplit(
                    [
                        Window(FormattedTextControl(self._head), dont_extend_height=True),
                        Window(FormattedTextControl(self._list, focusable=True), always_hide_cursor=True),
                        Window(FormattedTextControl(self._foot), height=1),
                    ]
                )
            ),
            key_bindings=self._keys(),
            style=STYLE,
            input=self._terminal.input,
            output=self._terminal.output,
            full_screen=True,
            refresh_interval=_REDRAW,
        )
        try:
            picked: Question | None = await self._app.run_async(handle_sigint=False)
        finally:
            self._app = None
        return picked

    @property
    def _place(self) -> int | None:
        """Where the marked question stands now; another takes its place where it is gone."""
        if not self.questions:
            return None
        places = {question.id: place for place, question in enumerate(self.questions)}
        if self._at not in places:
            self._at = self.questions[0].id
        return places[self._at]

    def _move(self, by: int) -> None:
        if self._place is not None:
            place = max(0, min(self._place + by, len(self.questions) - 1))
            self._at = self.questions[place].id

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        for names, by in ((("up", "k"), -1), (("down", "j"), 1), (("pageup",), -7), (("pagedown",), 7)):
            for each in names:
                keys.add(each)(lambda _, by=by: self._move(by))

        @keys.add("enter")
        def _open(event: KeyPressEvent) -> None:
            if self._place is not None:
                event.app.exit(result=self.questions[self._place])

        @keys.add("q")
        @keys.add("c-c", eager=True)
        @keys.add("c-d")
        def _leave(event: KeyPressEvent) -> None:
            event.app.exit(result=None)

        return keys

    def _head(self) -> FormattedText:
        size = self._terminal.output.get_size().columns
        left = f" Handraise · {shown(self._seat.me.id)}"
        right = f"{len(self.questions)} waiting " if self._loaded else "looking… "
        blank = " " * max(1, size - get_cwidth(left) - get_cwidth(right))
        parts: Line = [("class:name", left), ("", blank), ("class:strong", right), ("", "\n")]
        if self._trouble:
            parts.append(("class:bad", _cut(f" ! {self._trouble}", size)))
        else:
            parts += [(style, _cut(text, size - 4)) for style, text in self.notice]
        parts += [("", "\n"), ("class:soft", "─" * size)]
        return FormattedText(parts)

    def _list(self) -> FormattedText:
        if not self.questions:
            return FormattedText(_EMPTY if self._loaded else [])
        size = self._terminal.output.get_size().columns
        parts: Line = []
        for place, question in enumerate(self.questions):
            parts += _entry(question, size, marked=place == self._place)
        return FormattedText(parts)

    def _foot(self) -> FormattedText:
        return FormattedText([("class:soft", " ↑↓ move · enter opens · q quits")])


_EMPTY: Line = [
    ("class:strong", "\n Nothing is waiting for you.\n\n"),
    ("", " This list is live: what is asked appears by itself. To see that, ask in another\n"),
    ("", " terminal:\n\n"),
    ("class:name", '   handraise ask "Deploy?" --choice Canary --choice Rolling --wait\n'),
]


def _entry(question: Question, size: int, *, marked: bool) -> Line:
    """A question as three lines: its prompt, what is known about it, and a blank one."""
    prompt = shown_prompt(question.prompt)
    told = [shown(question.asker), kind_words(question.form), age_words(question)]
    if question.need > 1:
        told.append(f"{len(question.votes)} of {question.need} voted")
    urgent = " · ".join(filter(None, ("escalated" if is_escalated(question) else "", end_words(question))))
    soon = is_escalated(question) or _ends_soon(question)
    soft = _cut(" · ".join(told), size - 4 - (get_cwidth(urgent) + 3 if urgent else 0))
    return [
        ("class:cursor" if marked else "", "❯ " if marked else "  "),
        ("class:cursor" if marked else "class:strong", f"{_cut(prompt, size - 3)}\n"),
        *([HERE] if marked else []),
        ("class:soft", f"  {soft}"),
        ("class:bad" if soon else "class:soft", f" · {urgent}" if urgent else ""),
        ("", "\n\n"),
    ]


def _ends_soon(question: Question) -> bool:
    return question.expires_at is not None and question.expires_at - datetime.now(UTC) < _SOON


def _cut(text: str, size: int) -> str:
    """As much of a line as fits; the whole is shown when the question is opened."""
    width = fits = 0
    for place, each in enumerate(text, 1):
        width += get_cwidth(each)
        if width < size:
            fits = place
        elif width > size:
            return f"{text[:fits]}…"
    return text
