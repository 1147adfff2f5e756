"""Questions that agents asked in a chat. Nothing but the desk keeps them.

An agent has one question at a time in a conversation. What it asks while another one is pending is stored,
and is put to the conversation in its turn.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from handraise import AlreadySettled, Desk, Outcome, Question, Responder, Status
from handraise.conversations.channels import Channel
from handraise.conversations.errors import Undelivered
from handraise.model.json_values import Json
from handraise.model.plain_text import plain_text


@dataclass(frozen=True, slots=True)
class PendingAsk:
    """A question that an agent asked in a conversation, as it stood when it was read.

    `channel` is the one it was asked on, `context` what the agent's author stored with it, and `record` the
    question on the desk.
    """

    record: Question
    channel: str
    context: Json = field(repr=False)
    behind: str | None = field(default=None, repr=False)
    """The question that was pending when this one was asked, so that it had to wait for its turn."""

    @property
    def id(self) -> str:
        """The id of the question."""
        return self.record.id

    @property
    def conversation(self) -> str:
        """The conversation it was asked in."""
        return self.record.conversation or ""

    @property
    def agent(self) -> str:
        """The name of the agent that asked."""
        return self.record.asker

    @property
    def question(self) -> str:
        """What was asked."""
        return self.record.prompt

    @property
    def status(self) -> Status:
        """Where it stands."""
        return self.record.status

    @property
    def outcome(self) -> Outcome | None:
        """How it ended, or None while pending."""
        return self.record.outcome

    @property
    def retries(self) -> int:
        """How many replies did not fit."""
        return self.record.attempts

    @property
    def max_retries(self) -> int:
        """How often it is asked again before it is exhausted."""
        return (self.record.max_attempts or 1) - 1

    @property
    def asked_at(self) -> datetime:
        """When it was asked."""
        return self.record.asked_at

    @property
    def expires_at(self) -> datetime | None:
        """When it expires, or None."""
        return self.record.expires_at


def state_of(channel: str, context: Json, *, behind: str | None) -> Json:
    """What an ask keeps in the state of its question."""
    return {"conversations": {"channel": channel, "behind": behind}, "context": context}


def find_ask(record: Question) -> PendingAsk | None:
    """The ask behind a question, or None where it was not asked in a chat."""
    match record.state:
        case {
            "conversations": {"channel": str(channel), "behind": None | str() as behind},
            "context": context,
        }:
            return PendingAsk(record, channel, context, behind)
        case _:
            return None


async def oldest_asks(
    desk: Desk, conversation: str, agents: Collection[str], *, recipient: Responder | None = None
) -> Sequence[PendingAsk]:
    """The oldest pending ask of each of these agents in a conversation, oldest first.

    `recipient` narrows it to what that person may answer. What has expired is settled by looking.
    """
    only = next(iter(agents)) if len(agents) == 1 else None
    oldest: dict[str, PendingAsk] = {}
    after: str | None = None
    while True:
        page = await desk.pending(conversation=conversation, recipient=recipient, asker=only, after=after)
        for record in page.questions:
            ask = find_ask(record)
            if ask is not None and ask.agent in agents:
                oldest.setdefault(ask.agent, ask)
        after = page.after
        if after is None:
            return list(oldest.values())


async def put(desk: Desk, channel: Channel, ask: PendingAsk) -> None:
    """Send a question, once. Where that fails it is withdrawn, because nobody saw it."""
    try:
        await channel.send(ask.conversation, plain_text(ask.record))
    except BaseException as failure:
        with suppress(AlreadySettled):
            await desk.at(asker=ask.agent).withdraw(ask.id, reason=f"undelivered on {channel.name}")
        if isinstance(failure, Exception):
            raise Undelivered(channel.name, ask.conversation, question_id=ask.id) from failure
        raise


async def was_put(desk: Desk, ask: PendingAsk) -> bool:
    """Whether the question was sent: at once, or meanwhile in its turn."""
    if ask.behind is None:
        return True
    note = await desk.find_by_key(_turn_of(ask))
    return note is not None and note.outcome is not None


async def put_in_turn(desk: Desk, channel: Channel, ask: PendingAsk) -> None:
    """Send a question that had to wait, unless it was sent before.

    A note on the desk decides who sends it: of all processes, one withdraws the note, and that one sends.
    """
    own = desk.at(asker=ask.agent)
    note = await own.post(
        f"Ask question {ask.id} in its turn.", key=_turn_of(ask), recipients=[f"channel:{ask.channel}"]
    )
    try:
        await own.withdraw(note.id, reason="its turn has come")
    except AlreadySettled:
        return
    await put(desk, channel, ask)


def _turn_of(ask: PendingAsk) -> str:
    return f"turn of {ask.id}"
