"""`handraise inbox`: a live list of the questions that you may answer, and answering them."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, get_args

import typer
from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.utils import get_cwidth

from handraise.cli.answer_prompt import answer_at_terminal
from handraise.cli.exit_codes import CommandError
from handraise.cli.inbox_rows import Entry, Row, Rows, entries_of, rows_for
from handraise.cli.prompts import HERE, Terminal
from handraise.cli.question_view import STYLE, StyledLine, wrapped
from handraise.cli.session import CHANNEL, AsPerson, CliSession, Workspace, as_person
from handraise.cli.sharing_prompt import Way
from handraise.cli.terminal_texts import (
    age_words,
    end_words,
    kind_words,
    outcome_words,
    shown,
    shown_prompt,
    span_of,
    span_words,
)
from handraise.model.agreement import has_voted
from handraise.model.errors import DeskClosed
from handraise.model.forms import Risk
from handraise.model.pending_views import NO_FILTERS, FormKind, Order, PendingFilters, ViewName
from handraise.model.problems import HandraiseError
from handraise.model.provenance import Provenance
from handraise.model.questions import Question
from handraise.model.urgency import is_escalated, is_soon
from handraise.presentation.error_text import error_text
from handraise.presentation.heartbeat_text import orphan_mark
from handraise.presentation.sharing_text import taken_text
from handraise.presentation.translation import gettext, ngettext

_LOOK_AGAIN = 5.0
_SETTLE_DOWN = 0.05
_REDRAW = 1.0
_NARROW = 79


_WAYS: Mapping[str, Way] = {
    "s": "send_back",
    "t": "take",
    "n": "not_for_me",
    "z": "snooze",
    "b": "bring_in",
    "o": "hand_over",
}
"""The letters that do something with the marked question."""


def inbox(
    *,
    aside: Annotated[
        bool,
        typer.Option(
            "--aside", help="Only those that you snoozed, or that are not for you; p puts one back."
        ),
    ] = False,
    view: Annotated[
        str | None,
        typer.Option(
            metavar="VIEW",
            help="Only this view: urgent, approvals, mine, vote_missing, agents_turn or snoozed.",
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="Only this kind: choice, confirm, open, approval and so on."),
    ] = None,
    risk: Annotated[
        str | None, typer.Option(metavar="RISK", help="Only approvals of this risk: high, medium or low.")
    ] = None,
    tool: Annotated[str | None, typer.Option(metavar="NAME", help="Only approvals of this tool.")] = None,
    expires_within: Annotated[
        str | None, typer.Option(metavar="SPAN", help="Only those that expire so soon, such as 2h.")
    ] = None,
    older_than: Annotated[
        str | None, typer.Option(metavar="SPAN", help="Only those that have waited so long, such as 1d.")
    ] = None,
    order: Annotated[
        str, typer.Option(metavar="ORDER", help="The order: urgency, newest, age or expiry.")
    ] = "urgency",
    name: AsPerson = None,
    workspace: Workspace = None,
) -> None:
    """Show the questions that you may answer, live, and answer them.

    The most urgent come first: escalated questions, what expires within an hour, high risk, then the others by
    expiry. Those that wait for the agent's reply are last.
    """
    filters = PendingFilters(
        view=_one_of("--view", ViewName, view),
        kind=_one_of("--kind", FormKind, kind),
        risk=_one_of("--risk", Risk, risk),
        tool=tool,
        expires_within=None if expires_within is None else span_of(expires_within),
        older_than=None if older_than is None else span_of(older_than),
    )
    sort: Order = _one_of("--order", Order, order) or "urgency"

    async def work(session: CliSession) -> str:
        if not session.may_answer:
            raise CommandError(gettext("An agent cannot answer. Sign in as a person: handraise sign-in LINK"))
        terminal = Terminal()
        queue = _Queue(session, terminal, aside=aside or view == "snoozed", filters=filters, order=sort)
        async with asyncio.TaskGroup() as tasks:
            fresh = tasks.create_task(queue.keep_fresh())
            try:
                while (picked := await queue.pick()) is not None:
                    entry, way = picked
                    try:
                        equal = entry.equal
                        question = entry.row.question if equal is None else await session.desk.get(equal.id)
                        queue.notice = await _do(session, question, way, terminal)
                    except HandraiseError as error:
                        queue.notice = [("class:bad", " ! "), ("", shown(error_text(str(error))))]
                    queue.stir()
            finally:
                fresh.cancel()
        return queue.told_total

    try:
        pending = as_person(work, name=name, workspace=workspace)
    except KeyboardInterrupt:
        raise typer.Exit from None
    if pending:
        typer.echo(gettext("{count} pending. To come back: handraise inbox").format(count=pending))


def _one_of(option: str, allowed: Any, value: str | None) -> Any:
    """One of the values that an option has."""
    if value is not None and value not in get_args(allowed):
        raise typer.BadParameter(f"{option} is one of {', '.join(get_args(allowed))}, not {value!r}.")
    return value


async def _do(
    session: CliSession, question: Question, way: Way | Literal["put_back"] | None, terminal: Terminal
) -> StyledLine:
    """Open a question, or do something with it; returns what to tell above the list."""
    desk, me, provenance = session.desk, session.me, Provenance(channel=CHANNEL)
    match way:
        case "take" if question.taker(datetime.now(UTC)) == me.id:
            await desk.release(question.id, by=me, provenance=provenance)
            text = gettext("Released.")
        case "take":
            await desk.take(question.id, by=me, provenance=provenance)
            text = gettext("The others see that you are on this.")
        case "not_for_me":
            await desk.set_aside(question.id, by=me, provenance=provenance)
            text = gettext("Not for you. To see what you set aside: handraise inbox --aside")
        case "put_back":
            await desk.put_back(question.id, by=me, provenance=provenance)
            text = gettext("It is in your inbox again.")
        case _:
            return _notice(await answer_at_terminal(session, question, terminal=terminal, way=way), me.id)
    return [("class:good", " ✓ "), ("", text)]


def _notice(question: Question, me: str) -> StyledLine:
    if question.outcome is None and question.is_aside(me, datetime.now(UTC)):
        return [("", " " + gettext("It is out of your inbox. To see it: handraise inbox --aside"))]
    if question.outcome is None:
        voted = has_voted(question, me)
        text = gettext("Your vote is in; others must agree.") if voted else gettext("Left pending.")
        return [("", f" {text}")]
    told = outcome_words(question)
    return [("class:good", " ✓ "), ("", f"{told} · {shown_prompt(question.prompt)}")]


class _Queue:
    """The list, kept up to date whether it is on the screen or not."""

    def __init__(
        self,
        session: CliSession,
        terminal: Terminal,
        *,
        aside: bool = False,
        filters: PendingFilters = NO_FILTERS,
        order: Order = "urgency",
    ) -> None:
        self.notice: StyledLine = []
        self._aside = aside
        self._shown: dict[str, Any] = {"aside": aside, "filters": filters, "order": order}
        self._session = session
        self._terminal = terminal
        self._waiting = Rows()
        self._opened: set[int] = set()
        self._at: str | None = None
        self._last_place = 0
        self._loaded = False
        self._trouble = ""
        self._notices: Sequence[str] = ()
        self._stirred = asyncio.Event()
        self._app: Application[Any] | None = None

    @property
    def told_total(self) -> str:
        """How many questions are pending, as far as is known; empty for none."""
        return f"{self._waiting.total:,}{'+' if self._waiting.more else ''}" if self._waiting.total else ""

    def stir(self) -> None:
        """Refresh now."""
        self._stirred.set()

    async def keep_fresh(self) -> None:
        """Read the store whenever something happens there, and at least every few seconds."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._listen())
            while True:
                try:
                    self._waiting = await rows_for(self._session, **self._shown)
                    self._notices = await self._session.find_notices()
                    self._loaded, self._trouble = True, ""
                except HandraiseError as error:
                    self._trouble = shown(error_text(str(error)))
                if self._app is not None:
                    self._app.invalidate()
                try:
                    async with asyncio.timeout(_LOOK_AGAIN):
                        await self._stirred.wait()
                    await asyncio.sleep(_SETTLE_DOWN)  # events that happen together are read together
                except TimeoutError:
                    pass
                self._stirred.clear()

    async def _listen(self) -> None:
        while True:
            try:
                async with aclosing(self._session.desk.follow()) as events:
                    async for _ in events:
                        self._stirred.set()
            except DeskClosed:
                return
            except HandraiseError:
                await asyncio.sleep(_LOOK_AGAIN)

    async def pick(self) -> tuple[Entry, Way | Literal["put_back"] | None] | None:
        """Show the list until a question is opened or something is done with one; None when the person leaves."""
        self._app = Application(
            layout=Layout(
                HSplit(
                    [
                        Window(FormattedTextControl(self._head), dont_extend_height=True),
                        Window(FormattedTextControl(self._list, focusable=True), always_hide_cursor=True),
                        Window(FormattedTextControl(self._foot), dont_extend_height=True, wrap_lines=True),
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
            picked: tuple[Entry, Way | Literal["put_back"] | None] | None = await self._app.run_async(
                handle_sigint=False
            )
        finally:
            self._app = None
        return picked

    @property
    def _entries(self) -> list[Entry]:
        return list(entries_of(self._waiting.rows, self._opened))

    @property
    def _marked(self) -> Entry | None:
        """The marked row; if it is gone, the row that took its place."""
        entries = self._entries
        if not entries:
            return None
        places = {entry.id: place for place, entry in enumerate(entries)}
        self._last_place = places.get(self._at or "", min(self._last_place, len(entries) - 1))
        marked = entries[self._last_place]
        self._at = marked.id
        return marked

    def _move(self, by: int) -> None:
        if self._marked is not None:
            entries = self._entries
            self._last_place = max(0, min(self._last_place + by, len(entries) - 1))
            self._at = entries[self._last_place].id

    def _open(self) -> None:
        """Show the equal questions of the marked row."""
        marked = self._marked
        if marked is not None and marked.row.equal:
            self._opened.add(marked.row.likeness)

    def _close(self) -> None:
        """Fold them back into their row, which is then marked."""
        marked = self._marked
        if marked is not None and marked.row.likeness in self._opened:
            self._opened.discard(marked.row.likeness)
            self._at = marked.row.question.id

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        for names, by in ((("up", "k"), -1), (("down", "j"), 1), (("pageup",), -7), (("pagedown",), 7)):
            for each in names:
                keys.add(each)(lambda _, by=by: self._move(by))
        for name in ("right", "l"):
            keys.add(name)(lambda _: self._open())
        for name in ("left", "h"):
            keys.add(name)(lambda _: self._close())

        @keys.add("enter")
        def _take(event: KeyPressEvent) -> None:
            if (marked := self._marked) is not None:
                event.app.exit(result=(marked, None))

        for letter, way in ({"p": "put_back"} if self._aside else _WAYS).items():

            @keys.add(letter)
            def _do_it(event: KeyPressEvent, way: str = way) -> None:
                if (marked := self._marked) is not None:
                    event.app.exit(result=(marked, way))

        @keys.add("q")
        @keys.add("c-c", eager=True)
        @keys.add("c-d")
        def _leave(event: KeyPressEvent) -> None:
            event.app.exit(result=None)

        return keys

    def _head(self) -> FormattedText:
        size = self._terminal.output.get_size().columns
        left = f" Handraise · {shown(self._session.me.id)}"
        waiting = gettext("{count} waiting").format(count=self.told_total or 0)
        text = waiting if self._loaded else gettext("looking…")
        right = f"{text} "
        blank = " " * max(1, size - get_cwidth(left) - get_cwidth(right))
        parts: StyledLine = [("class:name", left), ("", blank), ("class:strong", right), ("", "\n")]
        if self._trouble:
            parts.append(("class:bad", _cut(f" ! {self._trouble}", size)))
        elif self._notices and not self.notice:
            parts.append(("class:bad", _cut(f" ! {shown(self._notices[0])}", size)))
        else:
            parts += [(style, _cut(text, size - 4)) for style, text in self.notice]
        parts += [("", "\n"), ("class:soft", "─" * size)]
        return FormattedText(parts)

    def _list(self) -> FormattedText:
        marked = self._marked
        if marked is None:
            return FormattedText(_empty() if self._loaded else [])
        size = self._terminal.output.get_size().columns
        parts: StyledLine = []
        for row in self._waiting.rows:
            parts += row_parts(row, size, me=self._session.me.id, marked=marked.id == row.question.id)
            for each in list(entries_of([row], self._opened))[1:]:
                parts += _equal_parts(each, marked=marked.id == each.id)
            parts.append(("", "\n"))
        return FormattedText(parts)

    def _foot(self) -> FormattedText:
        told = gettext("↑↓ move · enter opens · q quits")
        if self._aside:
            told = gettext("↑↓ move · enter opens · p puts it back · q quits")
        elif self._marked is not None:
            ways = gettext("s send back · t take · n not for me · z snooze · b bring in · o hand over")
            told = f"{told}\n {ways}"
        if (marked := self._marked) is not None and marked.row.equal:
            is_open = marked.row.likeness in self._opened
            shows_all = gettext("→ shows all {count}").format(count=len(marked.row.equal) + 1)
            more = gettext("← one row again") if is_open else shows_all
            told = f"{more} · {told}"
        return FormattedText([("class:soft", f" {told}")])


def _empty() -> StyledLine:
    """What stands in a list without questions."""
    text = gettext(
        "This list is live: what is asked appears by itself. To see that, ask in another terminal:"
    )
    lines = wrapped([("", text)], _NARROW)
    nothing = gettext("Nothing is waiting for you.")
    return [
        ("class:strong", f"\n {nothing}\n\n"),
        *(part for line in lines for part in (("", " "), *line, ("", "\n"))),
        ("class:name", '\n   handraise ask "Deploy?" --choice Canary --choice Rolling --wait\n'),
    ]


def row_parts(row: Row, size: int, *, me: str, marked: bool) -> StyledLine:
    """A row as two lines: its prompt, and what is known about it."""
    question = row.question
    told = [shown(question.asker), kind_words(question.form), age_words(question)]
    if question.quorum > 1:
        text = gettext("{votes} of {count} voted")
        told.append(text.format(votes=len(question.votes), count=question.quorum))
    if question.is_askers_turn:
        told.append(gettext("waiting for the agent's reply"))
    if mark := orphan_mark(question, datetime.now(UTC)):
        told.append(mark)
    if taken := taken_text(question, datetime.now(UTC), viewer=me):
        told.insert(0, shown(taken))
    voted = gettext("you voted")
    mine = f"✓ {voted} · " if has_voted(question, me) else ""
    waits = bool(mine) or question.is_askers_turn
    count = len(row.equal)
    alike = (
        " · "
        + ngettext(
            "and {count} more just like this one", "and {count} more just like this one", count
        ).format(count=count)
        if count
        else ""
    )
    escalated = gettext("escalated") if is_escalated(question) else ""
    urgent = " · ".join(filter(None, (escalated, end_words(question))))
    soon = is_escalated(question) or is_soon(question, datetime.now(UTC))
    beside = sum(map(get_cwidth, (mine, alike, f" · {urgent}" if urgent else "")))
    return [
        ("class:cursor" if marked else "", "❯ " if marked else "  "),
        # A question that you have voted on, or that you asked back about, waits for others.
        (
            "class:cursor" if marked else "class:soft" if waits else "class:strong",
            f"{_headline(question.prompt, size - 3)}\n",
        ),
        *([HERE] if marked else []),
        ("class:good", f"  {mine}" if mine else "  "),
        ("class:soft", _cut(" · ".join(told), size - 4 - beside)),
        ("class:strong", alike),
        ("class:bad" if soon else "class:soft", f" · {urgent}" if urgent else ""),
        ("", "\n"),
    ]


def _equal_parts(entry: Entry, *, marked: bool) -> StyledLine:
    """One of the equal questions below its row, on one line: only its age is another."""
    assert entry.equal is not None  # noqa: S101 -- for the type checker
    age = span_words(datetime.now(UTC) - entry.equal.asked_at)
    text = gettext("the same, asked {span} ago").format(span=age)
    return [
        ("class:cursor" if marked else "", "  ❯ " if marked else "    "),
        *([HERE] if marked else []),
        ("class:cursor" if marked else "class:soft", f"{text}\n"),
    ]


@functools.lru_cache(maxsize=2 * 1_024)
def _headline(prompt: str, size: int) -> str:
    """The beginning of a prompt. A list is drawn once a second, and with every key."""
    return _cut(shown_prompt(prompt[: 4 * size]), size)


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
