"""The conversation about a question while somebody answers it at a terminal: it is live, and they can write."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing, suppress
from typing import Literal

from handraise.cli.prompts import Back, Entry, Terminal
from handraise.cli.question_context import QuestionContext, context_of
from handraise.cli.question_view import StyledLine, message_lines, turn_lines, wrapped
from handraise.cli.session import CHANNEL, CliSession
from handraise.cli.terminal_texts import shown
from handraise.model.drafting import Limits
from handraise.model.errors import AlreadySettled, DeskClosed, InvalidMessage
from handraise.model.forms import Approval
from handraise.model.problems import HandraiseError
from handraise.model.provenance import Provenance
from handraise.model.questions import Question
from handraise.model.thread_messages import ThreadMessage, check_message, messages_of
from handraise.presentation.error_text import error_text
from handraise.presentation.translation import gettext

_LOOK_AGAIN = 5.0

_To = Literal["agent", "people"]


class Conversation:
    """The thread of one question. `seen` is how many of its messages were on the screen."""

    def __init__(self, session: CliSession, question: Question, terminal: Terminal) -> None:
        self.question = question
        self.seen = 0
        self.shown: list[StyledLine] = []
        self._session = session
        self._terminal = terminal
        self._messages: Sequence[ThreadMessage] = ()
        self._stirred = asyncio.Event()

    async def read(self) -> QuestionContext:
        """Read the question and its messages again; return what belongs to it."""
        question = await self._session.desk.get(self.question.id)
        context = await context_of(self._session, question)
        self.question, self._messages = question, messages_of(context.events)
        return context

    def mark_shown(self, lines: Sequence[StyledLine], *, seen: int | None = None) -> None:
        """So many messages, all if not given, were on the screen, within these lines."""
        self.seen = len(self._messages) if seen is None else seen
        self.shown += lines

    async def show_news(self) -> bool:
        """Show the messages that were not on the screen yet. An approval is asked for only after all of them were."""
        total = len(self._messages)
        if total <= self.seen:
            return False
        width = self._terminal.width
        new = [line for message in self._messages[self.seen :] for line in message_lines(message, width)]
        lines = [*new, *turn_lines(self.question, width), []]
        if isinstance(self.question.form, Approval):
            await self._terminal.put_pages(lines)
        else:
            self._terminal.put(lines)
        self.mark_shown(lines, seen=total)
        return True

    async def keep_fresh(self) -> None:
        """Show new messages when they come; the store is read at least every few seconds."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._listen())
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_AGAIN):
                        await self._stirred.wait()
                self._stirred.clear()
                with suppress(HandraiseError):
                    await self.read()
                if len(self._messages) > self.seen:
                    self._terminal.interrupt()

    async def _listen(self) -> None:
        while True:
            try:
                async with aclosing(self._session.desk.follow()) as events:
                    async for event in events:
                        if event.question_id == self.question.id:
                            self._stirred.set()
            except DeskClosed:
                return
            except HandraiseError:
                await asyncio.sleep(_LOOK_AGAIN)

    async def talk(self) -> None:
        """Ask the agent something, if it can reply, or note something for the other people."""
        with suppress(Back):
            to: _To = "people" if self.question.replies is None else await self._choose()
            await self._write(to)

    async def _choose(self) -> _To:
        entries = [
            Entry("agent", gettext("Ask the agent"), ours=True, key="a"),
            Entry("people", gettext("Note something for the other people"), ours=True, key="n"),
        ]
        hint = gettext("↑↓ or number · enter takes it · esc back")
        chosen: _To = await self._terminal.choose(entries, hint=hint)
        return chosen

    async def _write(self, to: _To) -> None:
        if to == "agent":
            title, about = gettext("To the agent"), gettext("You decide when it has replied.")
        else:
            title, about = gettext("For the other people"), gettext("The agent does not see it.")
        self._terminal.put([[("class:strong", title), ("class:soft", f" · {about}")]])
        text = ""
        while True:
            hint = gettext("enter sends · ctrl-j new line · esc back")
            text = await self._terminal.write(start=text, hint=hint, check=message_problem)
            try:
                await self._send(to, text)
            except AlreadySettled:
                raise
            except HandraiseError as error:
                told = gettext("Not sent: {problem}").format(problem=shown(error_text(str(error))))
                self._terminal.put(wrapped([("class:bad", f"! {told}")], self._terminal.width, indent=2))
            else:
                break
        with suppress(HandraiseError):  # it is read again anyway
            await self.read()

    async def _send(self, to: _To, text: str) -> None:
        desk, me = self._session.desk, self._session.me
        provenance = Provenance(channel=CHANNEL, seen=self.seen)
        if to == "agent":
            await desk.ask_back(self.question.id, text, by=me, provenance=provenance)
        else:
            await desk.note(self.question.id, text, by=me, provenance=provenance)


def message_problem(text: str) -> str | None:
    """Why a message cannot be sent, or None."""
    try:
        check_message(Limits(), text)
    except InvalidMessage as misfit:
        return shown("; ".join(error_text(problem.message) for problem in misfit.problems))
    return None
