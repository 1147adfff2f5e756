"""The turn that code runs in: a context variable, so that concurrent conversations never mix."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from handraise import Desk, Responder
from handraise.conversations.channels import Channel
from handraise.conversations.chat_messages import IncomingMessage
from handraise.conversations.conversation_errors import MessageSpent, Undelivered


@dataclass(slots=True, kw_only=True)
class Turn:
    """One message being handled: who wrote it, where, and the desk to ask on."""

    message: IncomingMessage
    channel: Channel
    responder: Responder
    desk: Desk = field(repr=False)
    spent_on: str | None = None
    """The question that the message was the reply to, once it was taken as one."""

    @property
    def conversation(self) -> str:
        """The conversation that the message belongs to."""
        return self.message.conversation

    async def say(self, text: str) -> None:
        """Send a text to the conversation, or raise `Undelivered`."""
        try:
            await self.channel.send(self.conversation, text)
        except Exception as failure:
            raise Undelivered(self.channel.name, self.conversation) from failure

    def spend(self, question_id: str) -> None:
        """Take the message as the reply to this question and to no other."""
        if self.spent_on not in (None, question_id):
            raise MessageSpent(self.spent_on)
        self.spent_on = question_id


def current_turn() -> Turn | None:
    """The turn that this code runs in, or None outside of `handle`."""
    return _current.get()


@contextmanager
def taking(turn: Turn) -> Iterator[None]:
    """Run the code in this context in this turn."""
    token = _current.set(turn)
    try:
        yield
    finally:
        _current.reset(token)


_current: ContextVar[Turn | None] = ContextVar("handraise_turn", default=None)
