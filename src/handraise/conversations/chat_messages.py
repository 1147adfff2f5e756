"""Messages from people, and the replies of agents."""

from __future__ import annotations

from dataclasses import dataclass, field

from handraise import Outcome, Responder


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingMessage:
    """A text that somebody wrote in a conversation.

    `by` is the person, with groups if the caller vouches for them. `agent` names the agent that it is for;
    without it, the message goes to the agent whose question it can answer, else to the only one.
    """

    conversation: str
    text: str = field(repr=False)
    by: str | Responder
    channel: str
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class AgentReply:
    """An agent's reply to a message: a text to send, or that it waits for a person.

    `waiting_for` is the id of a question that is pending now; its text has been sent, or waits for its turn.
    If the message was a reply that ended a question, `outcome` says how.
    """

    text: str | None = field(default=None, repr=False)
    waiting_for: str | None = None
    outcome: Outcome | None = None
