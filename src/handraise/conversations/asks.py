"""Questions that agents asked in a chat. They are stored only in the desk.

An agent has one question at a time in a conversation. A question that it asks while another one is pending is
stored, and sent when its turn comes. When a question is sent, that is recorded: until then it takes no reply,
and is sent again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Unpack

from handraise import AlreadySettled, Desk, InvalidQuestion, Outcome, Question, Responder, Status
from handraise.conversations.channels import Channel
from handraise.conversations.conversation_errors import Undelivered
from handraise.model.drafting import Limits, compose
from handraise.model.json_values import Json
from handraise.presentation.plain_text import plain_text
from handraise.questions import QuestionOptions

LEASE = 30.0
"""For how many seconds one process may send a question. After that it is considered dead."""


@dataclass(frozen=True, slots=True)
class PendingAsk:
    """A question that an agent asked in a conversation, as it was when it was read.

    `channel` is the one it was asked on, `context` what the agent's author stored with it, and `record` the
    question on the desk.
    """

    record: Question
    channel: str
    context: Json = field(repr=False)

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
    def was_sent(self) -> bool:
        """Whether it was sent to the conversation. Until then it takes no reply."""
        return self.record.sent_at is not None

    @property
    def status(self) -> Status:
        """Its status."""
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


def state_of(channel: str, context: Json) -> Json:
    """What an ask keeps in the state of its question."""
    return {"conversations": {"channel": channel}, "context": context}


def find_ask(record: Question) -> PendingAsk | None:
    """The ask of a question, or None if it was not asked in a chat."""
    match record.state:
        case {"conversations": {"channel": str(channel)}, "context": context}:
            return PendingAsk(record, channel, context)
        case _:
            return None


def asks_the_same(ask: PendingAsk, prompt: str, **options: Unpack[QuestionOptions]) -> bool:
    """Whether a question is the same as this one, context included, and this one was not sent yet."""
    record = ask.record
    if ask.was_sent:
        return False
    try:
        draft = compose(
            prompt,
            options,
            new_id=record.id,
            workspace=record.workspace,
            asker=record.asker,
            limits=Limits(),
        )
    except InvalidQuestion:
        return False
    return (draft.definition, draft.state, draft.max_attempts) == (
        record.definition,
        record.state,
        record.max_attempts,
    )


async def oldest_asks(
    desk: Desk, conversation: str, agents: Collection[str], *, recipient: Responder | None = None
) -> Sequence[PendingAsk]:
    """The oldest pending ask of each of these agents in a conversation, oldest first.

    `recipient` limits it to questions that this person may answer. Expired questions are settled by reading them.
    """
    only = next(iter(agents)) if len(agents) == 1 else None
    oldest: dict[str, PendingAsk] = {}
    after: str | None = None
    while True:
        page = await desk.list_pending(
            conversation=conversation, recipient=recipient, asker=only, after=after
        )
        for record in page.items:
            ask = find_ask(record)
            if ask is not None and ask.agent in agents:
                oldest.setdefault(ask.agent, ask)
        after = page.next
        if after is None:
            return list(oldest.values())


async def unsent_conversations(desk: Desk, agent: str) -> Sequence[str]:
    """The conversations in which this agent's oldest question is not recorded as sent."""
    oldest: dict[str, PendingAsk] = {}
    after: str | None = None
    while True:
        page = await desk.list_pending(asker=agent, after=after)
        for record in page.items:
            ask = find_ask(record)
            if ask is not None:
                oldest.setdefault(ask.conversation, ask)
        after = page.next
        if after is None:
            return [conversation for conversation, ask in oldest.items() if not ask.was_sent]


async def put(desk: Desk, channel: Channel, ask: PendingAsk) -> bool:
    """Send a question and record that; False if another process sends it now, or has sent it.

    If the channel fails, it is withdrawn, because nobody saw it. If the process dies in here, the question is
    not recorded as sent: once the lease is over, it is sent again.
    """
    own = desk.scoped(asker=ask.agent)
    if not await own.claim_sending(ask.id, lease=LEASE):
        return False
    try:
        await channel.send(ask.conversation, plain_text(ask.record))
    except BaseException as failure:
        with suppress(AlreadySettled):
            await own.withdraw(ask.id, reason=f"undelivered on {channel.name}")
        if isinstance(failure, Exception):
            raise Undelivered(channel.name, ask.conversation, question_id=ask.id) from failure
        raise
    await own.mark_sent(ask.id, channel=channel.name)
    return True


async def put_again(desk: Desk, channel: Channel, ask: PendingAsk) -> bool:
    """The same for a question that another process left behind: if the channel fails, it stays for the next time."""
    own = desk.scoped(asker=ask.agent)
    if not await own.claim_sending(ask.id, lease=LEASE):
        return False
    try:
        await channel.send(ask.conversation, plain_text(ask.record))
    except Exception as failure:
        raise Undelivered(channel.name, ask.conversation) from failure
    await own.mark_sent(ask.id, channel=channel.name)
    return True
