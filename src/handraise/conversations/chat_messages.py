"""What comes in from a person, and what an agent gives back."""

from __future__ import annotations

from dataclasses import dataclass, field

from handraise import Outcome, Responder


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingMessage:
    """A text that somebody wrote in a conversation.

    `by` is the person, with groups where the caller vouches for them. `agent` names whom it is for; without
    it, the message goes to the agent whose question it can answer, else to the only one.
    """

    conversation: str
    text: str = field(repr=False)
    by: str | Responder
    channel: str
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class AgentReply:
    """What an agent says to a message: a text to send, or that it waits for a person.

    `waiting_for` is the id of a question that is pending now; its text has been sent, or is in its turn. `outcome` says how the
    question ended that the message was a reply to, where it ended.
    """

    text: str | None = field(default=None, repr=False)
    waiting_for: str | None = None
    outcome: Outcome | None = None
