"""The conversation on a question's page: who wrote what, what is new, and whose turn it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from handraise.model.events import Event
from handraise.model.questions import Question
from handraise.model.thread_messages import MESSAGE_KINDS, MessageKind, ThreadMessage
from handraise.model.visible import visible, visible_line
from handraise.presentation.names import channel_name, display_name
from handraise.presentation.report_text import shortened_line
from handraise.presentation.translation import gettext, gettext_noop
from handraise.server.web.inbox.file_view import FilePlaces, FileView, files_of
from handraise.server.web.inbox.page_texts import When, since

_KINDS: dict[MessageKind, str] = {
    "asked_back": gettext_noop("Question to the agent"),
    "noted": gettext_noop("Note for colleagues, not shown to the agent"),
    "replied": gettext_noop("Reply in the agent's own words"),
}
_HERE = "web"
_UNFOLDED = 12
"""How many messages are shown at once; earlier ones are folded."""
_LONG_TEXT = 1_500
_LONG_LINES = 15
_EXCERPT = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageView:
    """One message. Everything in it may be shown as it is."""

    number: int
    kind: MessageKind
    who: str
    mine: bool
    what: str
    at: When
    channel: str | None
    text: str
    excerpt: str | None
    """The beginning of a long text, which is folded."""
    lines: int
    files: tuple[FileView, ...]
    is_new: bool
    """Whether it came after the page from which the person has just sent something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadView:
    """The conversation about a question, oldest message first."""

    messages: tuple[MessageView, ...]
    waiting_since: When | None
    """Since when people wait for the agent's reply; None if they do not."""
    can_reply: bool
    """Whether the agent can reply if somebody asks it something."""
    moved: bool
    """Whether an approval was refused, because it covers fewer messages than these."""

    @property
    def seen(self) -> int:
        """How many messages the page shows. An approval that it sends covers so many."""
        return len(self.messages)

    @property
    def folds(self) -> int:
        """How many of the first messages are folded; never a new one."""
        first_new = next((each.number for each in self.messages if each.is_new), len(self.messages) + 1)
        return max(0, min(len(self.messages) - _UNFOLDED, first_new - 1))


def thread_of(
    question: Question,
    messages: Sequence[ThreadMessage],
    *,
    me: str,
    now: datetime,
    covered: int | None = None,
    files: FilePlaces | None = None,
) -> ThreadView:
    """The conversation as a person sees it. `covered` is how much of it an approval covers that was refused for that."""
    asked = question.asked_back
    waiting = messages[asked - 1].at if question.is_askers_turn and len(messages) >= asked else None
    return ThreadView(
        messages=tuple(_message(each, me, now, covered, files) for each in messages),
        waiting_since=None if waiting is None else since(waiting, now),
        can_reply=question.replies is not None,
        moved=covered is not None,
    )


def without_message(event: Event) -> Event:
    """An event for the history below the conversation, which has the text already."""
    if event.kind not in MESSAGE_KINDS or not isinstance(event.data, dict):
        return event
    return replace(
        event, data={name: value for name, value in event.data.items() if name not in ("text", "attachments")}
    )


def _message(
    message: ThreadMessage, me: str, now: datetime, covered: int | None, files: FilePlaces | None
) -> MessageView:
    lines = message.text.count("\n") + 1
    is_long = len(message.text) > _LONG_TEXT or lines > _LONG_LINES
    is_agents = message.kind == "replied"
    return MessageView(
        number=message.number,
        kind=message.kind,
        who=visible_line(message.by) if is_agents else display_name(message.by),
        mine=message.by == me and not is_agents,
        what=gettext(_KINDS[message.kind]),
        at=since(message.at, now),
        channel=None if message.channel in (None, _HERE) else channel_name(message.channel),
        text=visible(message.text),
        excerpt=shortened_line(message.text, _EXCERPT) if is_long else None,
        lines=lines,
        files=files_of(message.attachments, files),
        is_new=covered is not None and message.number > covered,
    )
