"""What somebody can do with a question at a terminal besides answering it: send it back, share it, or leave it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal, assert_never

import typer

from handraise.cli.prompts import Entry, Terminal
from handraise.cli.question_view import wrapped
from handraise.cli.session import CHANNEL, CliSession
from handraise.cli.terminal_texts import future_of, moment_words, names_words, shown
from handraise.model.errors import AlreadySettled
from handraise.model.problems import HandraiseError
from handraise.model.provenance import Provenance
from handraise.model.questions import Question
from handraise.model.sharing_rules import may_be_several
from handraise.presentation.error_text import error_text
from handraise.presentation.sharing_text import decline_text
from handraise.presentation.translation import gettext, gettext_noop

Way = Literal["send_back", "take", "release", "not_for_me", "snooze", "bring_in", "hand_over", "decline"]

WHY = gettext_noop("why? Enter alone gives no reason.")
_BETWEEN_NAMES = re.compile(r"[\s,]+")


def ways_of(question: Question, me: str) -> list[Entry]:
    """What this person can do with a question besides answering it, each with its letter."""
    is_mine = question.taker(datetime.now(UTC)) == me
    entries = [
        Entry(
            "send_back",
            gettext("Send back"),
            gettext("The agent changes something and asks again."),
            ours=True,
            key="s",
        ),
        Entry("release", gettext("Release"), gettext("You are not on this any more."), ours=True, key="t")
        if is_mine
        else Entry(
            "take", gettext("Take"), gettext("The others see that you are on this."), ours=True, key="t"
        ),
        Entry(
            "snooze",
            gettext("Snooze"),
            gettext("It is out of your inbox until then; nobody else notices."),
            ours=True,
            key="z",
        ),
        Entry("bring_in", gettext("Bring in"), gettext("Others are asked too."), ours=True, key="b"),
        Entry(
            "hand_over",
            gettext("Hand over"),
            gettext("Others are asked, and it leaves your inbox."),
            ours=True,
            key="o",
        ),
    ]
    if may_be_several(question):
        leaves = gettext("It leaves your inbox. The others are still asked.")
        entries.append(Entry("not_for_me", gettext("Not for me"), leaves, ours=True, key="n"))
        ends = gettext("Nobody can answer it then.")
        entries.append(Entry("decline", decline_text(question), ends, ours=True, key="x"))
    else:
        entries.append(Entry("decline", decline_text(question), ours=True, key="x"))
    return entries


class SharingPrompt:
    """Does one of these ways; `provenance` says what was on the screen then."""

    def __init__(
        self,
        session: CliSession,
        terminal: Terminal,
        provenance: Callable[[], Provenance] = lambda: Provenance(channel=CHANNEL),
    ) -> None:
        self._session = session
        self._terminal = terminal
        self._provenance = provenance

    async def choose(self, question: Question) -> Way:
        """Ask what to do; nothing is marked at first. Raises `Back`."""
        self._terminal.put([[("class:strong", gettext("Instead of answering"))]])
        hint = gettext("letter or number · enter takes it · esc back")
        entries = ways_of(question, self._session.me.id)
        told = [
            Entry(each.value, f"{each.text}  ({each.key})", each.note, ours=True, key=each.key)
            for each in entries
        ]
        way: Way = await self._terminal.choose(told, hint=hint, start=None)
        return way

    async def go(self, question: Question, way: Way) -> Question | None:
        """Do it and say what came of it.

        Returns the question if this person is done with it, or None if they may still want to answer. Raises `Back`.
        """
        try:
            return await self._go(question, way)
        except AlreadySettled:
            raise
        except HandraiseError as error:
            self._say(shown(error_text(str(error))), style="class:bad", mark="!")
            return None

    async def _go(self, question: Question, way: Way) -> Question | None:
        desk, me, provenance = self._session.desk, self._session.me, self._provenance
        match way:
            case "send_back":
                reason = await self._send_back_reason()
                returned = await desk.send_back(question.id, by=me, reason=reason, provenance=provenance())
                self._say(gettext("Sent back.") if returned.outcome else voted_words(returned))
                return returned
            case "take":
                taken = await desk.take(question.id, by=me, provenance=provenance())
                until = moment_words(taken.taken_until) if taken.taken_until else ""
                text = gettext("Taken: the others see until {when} that you are on this.")
                self._say(text.format(when=until))
                return None
            case "release":
                await desk.release(question.id, by=me, provenance=provenance())
                self._say(gettext("Released."))
                return None
            case "not_for_me":
                left = await desk.set_aside(question.id, by=me, provenance=provenance())
                self._say(gettext("It is not in your inbox any more. The others are still asked."))
                return left
            case "snooze":
                until_then = await self._until()
                left = await desk.set_aside(question.id, by=me, until=until_then, provenance=provenance())
                self._say(gettext("Snoozed until {when}.").format(when=moment_words(until_then)))
                return left
            case "bring_in":
                people, why = await self._people(gettext("Bring in"))
                await desk.bring_in(question.id, people, by=me, reason=why, provenance=provenance())
                self._say(gettext("Brought in: {names}.").format(names=names_words(people)))
                return None
            case "hand_over":
                people, why = await self._people(gettext("Hand over"))
                left = await desk.hand_over(question.id, people, by=me, reason=why, provenance=provenance())
                text = gettext("Handed over to {names}. It is not in your inbox any more.")
                self._say(text.format(names=names_words(people)))
                return left
            case "decline":
                why = await self._why(decline_text(question))
                ended = await desk.decline(question.id, by=me, reason=why, provenance=provenance())
                self._say(gettext("You declined.") if ended.outcome else voted_words(ended))
                return ended
            case _:
                assert_never(way)

    async def _send_back_reason(self) -> str:
        self._title(gettext("Send back"), gettext("what is to be changed? The agent reads it."))
        return await self._terminal.write(
            hint=gettext("enter sends it back · ctrl-j new line · esc back"),
            check=lambda text: None if text.strip() else gettext("say what to change"),
        )

    async def _until(self) -> datetime:
        def problem(text: str) -> str | None:
            try:
                future_of(text)
            except typer.BadParameter as wrong:
                return shown(str(wrong))
            return None

        self._title(gettext("Snooze"), gettext("until when? 2h, or 2026-11-20T09:00"))
        text = await self._terminal.write(hint=gettext("enter snoozes it · esc back"), check=problem)
        return future_of(text)

    async def _people(self, title: str) -> tuple[list[str], str | None]:
        self._title(title, gettext("whom? Names with blanks between; a group is group:NAME."))
        text = await self._terminal.write(
            hint=gettext("enter takes it · esc back"),
            check=lambda text: None if _names_in(text) else gettext("name at least one person or group"),
        )
        return _names_in(text), await self._why(title)

    async def _why(self, title: str) -> str | None:
        self._title(title, gettext(WHY))
        reason = await self._terminal.write(hint=gettext("enter sends · esc back"), check=lambda _: None)
        return reason.strip() or None

    def _title(self, title: str, about: str) -> None:
        self._terminal.put([[("class:strong", title), ("class:soft", f" · {about}")]])

    def _say(self, text: str, *, style: str = "class:good", mark: str = "✓") -> None:
        self._terminal.put(wrapped([(style, f"{mark} "), ("", text)], self._terminal.width, indent=2))


def voted_words(question: Question) -> str:
    """What is told of a vote that settles nothing yet."""
    text = gettext("Your vote is in: {votes} voted, and {count} must agree.")
    return text.format(votes=len(question.votes), count=question.quorum)


def _names_in(text: str) -> list[str]:
    return list(dict.fromkeys(filter(None, _BETWEEN_NAMES.split(text))))
