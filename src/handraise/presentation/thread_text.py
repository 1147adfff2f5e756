"""The conversation about a question, as every channel shows it: who wrote what, and whose turn it is.

An approval covers the conversation that its giver saw. A message that has no room for all of it shows the end, and
then nobody can approve there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import assert_never

from handraise.model.questions import Question
from handraise.model.thread_messages import MessageKind, ThreadMessage
from handraise.model.visible import visible
from handraise.presentation.file_text import file_text
from handraise.presentation.names import display_name
from handraise.presentation.translation import gettext, gettext_noop, ngettext

ASK_THE_AGENT = gettext_noop("Ask the agent")
NOTE_FOR_COLLEAGUES = gettext_noop("Note for colleagues")
_MOST_LINES = 40
_HEADING = 80
"""What the words about a message take, whatever the language: whether somebody can approve must not depend on it."""
_LAST, _EXCERPT = 3, 160
"""How many messages are shown if there is no room for all of them, and how much of each."""


@dataclass(frozen=True, slots=True)
class MessageText:
    """One message: our words about it, with a name between them, and what that person or agent wrote."""

    before: str
    name: str
    after: str
    text: str = field(repr=False)

    @property
    def heading(self) -> str:
        """Who did what."""
        return f"{self.before}{self.name}{self.after}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadText:
    """A conversation. `seen` is how many messages somebody has seen who reads this; None if it is not all of them.

    `earlier` says that there are more, and `waits` whose turn it is.
    """

    messages: Sequence[MessageText] = ()
    earlier: str | None = None
    waits: str | None = None
    seen: int | None = 0

    @property
    def heading(self) -> str | None:
        """The line above the messages, if there are any."""
        return gettext("The conversation so far:") if self.messages else None

    @property
    def is_empty(self) -> bool:
        """Whether nobody has written anything."""
        return not (self.messages or self.earlier or self.waits)


NO_THREAD = ThreadText()
"""Nobody has written anything."""


def thread_text(question: Question, thread: Sequence[ThreadMessage], *, room: int) -> ThreadText:
    """The conversation in at most so many characters; if that is not enough, the end of its last messages."""
    if not question.thread:
        return NO_THREAD
    told = [message_text(each) for each in thread]
    size = sum(_HEADING + len(each.text) for each in told)
    lines = sum(each.text.count("\n") + 2 for each in told)
    waits = gettext("Waiting for the agent's reply.") if question.is_askers_turn else None
    if len(told) == question.thread and size <= room and lines <= _MOST_LINES:
        return ThreadText(messages=told, waits=waits, seen=question.thread)
    return last_messages(question, thread, waits=waits)


def last_messages(
    question: Question, thread: Sequence[ThreadMessage], *, waits: str | None = None
) -> ThreadText:
    """The beginnings of the last messages, and where the others are."""
    told = [_message(each, _excerpt(each.text)) for each in thread[-_LAST:]]
    count = question.thread
    earlier = ngettext(
        "The conversation has {count} message: read it on the page.",
        "The conversation has {count} messages: read it on the page.",
        count,
    ).format(count=count)
    return ThreadText(messages=told, earlier=earlier, waits=waits, seen=None)


def message_text(message: ThreadMessage) -> MessageText:
    """One message in full."""
    return _message(message, message.text)


def too_long_to_approve() -> str:
    """Why nobody can approve where a conversation is not shown in full."""
    return gettext("The conversation is too long to be shown here in full, so this is decided in the inbox.")


def moved_on(link: str | None) -> str:
    """What somebody is told whose approval does not cover what was written since."""
    text = gettext("The conversation has moved on. Read it, then decide again.")
    return text if link is None else f"{text} {link}"


def written_text(kind: MessageKind) -> str:
    """What somebody is told whose message was taken."""
    match kind:
        case "asked_back":
            return gettext("The agent was asked. You are told when it replies.")
        case "noted" | "replied":
            return gettext("Your note was written. The others who may answer can read it.")
        case _:
            assert_never(kind)


def which_kind_text(question: Question) -> str:
    """What somebody is asked who wrote something that decides nothing."""
    decide = gettext("That does not decide it: to decide, write just “approve” or “deny”.")
    if question.replies is None:
        rest = gettext("The agent cannot reply, but you can leave it as a note for colleagues.")
    else:
        rest = gettext("Is it for the agent, or a note for colleagues?")
    return f"{decide} {rest}"


def kind_label(kind: MessageKind) -> str:
    """What the button says that writes a message of this kind."""
    return gettext(ASK_THE_AGENT) if kind == "asked_back" else gettext(NOTE_FOR_COLLEAGUES)


def _message(message: ThreadMessage, text: str) -> MessageText:
    match message.kind:
        case "asked_back":
            said = gettext("{person} asked the agent")
        case "noted":
            said = gettext("A note by {person}")
        case "replied":
            # Its name is above: agents choose theirs, and could choose a person's.
            return MessageText(
                gettext("The agent replied"), "", "", _with_files(visible(text.strip()), message)
            )
        case _:
            assert_never(message.kind)
    before, _, after = said.partition("{person}")
    return MessageText(before, display_name(message.by), after, visible(text.strip()))


def _with_files(text: str, message: ThreadMessage) -> str:
    """A text, and the names of the files that belong to it. The files themselves are on the page."""
    return "\n".join((text, *map(file_text, message.attachments)))


def _excerpt(text: str) -> str:
    line = " ".join(text[: 4 * _EXCERPT].split())
    return (
        line if len(line) <= _EXCERPT and len(text) <= 4 * _EXCERPT else f"{line[: _EXCERPT - 1].rstrip()}…"
    )
