"""What can go wrong in a conversation; all inherit from the one root.

HandraiseError
├── InvalidRegistry       (ValueError)       agents or channels that cannot be told apart
├── RegistryStopped       (RuntimeError)     the registry was not started, or is stopped
├── AgentNotRegistered    (LookupError)      the agent is in no started registry
├── ChannelNotRegistered  (LookupError)      the registry has no such channel
├── UnroutedMessage       (LookupError)      several agents could be meant, and none is named
├── MissingConversation   (ValueError)       a message that belongs to no conversation
├── NothingTriggered      (RuntimeError)     no message is being handled, so there is no channel to ask on
├── NobodyAnswers         (RuntimeError)     asked on a trigger channel
├── MessageSpent          (RuntimeError)     one reply for two questions
└── Undelivered           (ConnectionError)  the channel did not deliver; a question is withdrawn
"""

from __future__ import annotations

from collections.abc import Iterable

from handraise import HandraiseError


class InvalidRegistry(HandraiseError, ValueError):
    """These agents and channels cannot be registered together."""

    code = "invalid_registry"


class RegistryStopped(HandraiseError, RuntimeError):
    """The registry takes no messages now."""

    code = "registry_stopped"

    def __init__(self) -> None:
        super().__init__(
            "This registry is not started: use it as `async with AgentRegistry(…) as registry`. "
            "Pending questions are still stored."
        )


class AgentNotRegistered(HandraiseError, LookupError):
    """The agent is in no started registry, or not in this one."""

    code = "agent_not_registered"

    def __init__(self, agent: str) -> None:
        self.agent = agent
        super().__init__(
            f"Agent {agent!r} is not registered. Give it to AgentRegistry(desk, agents=[…]) and start that."
        )


class ChannelNotRegistered(HandraiseError, LookupError):
    """The registry has no channel with this name."""

    code = "channel_not_registered"

    def __init__(self, channel: str, known: Iterable[str]) -> None:
        self.channel = channel
        super().__init__(
            f"Channel {channel!r} is not registered, only {_listed(known)}. "
            "Give it to AgentRegistry(desk, channels=[…])."
        )


class UnroutedMessage(HandraiseError, LookupError):
    """Several agents could be meant by this message, and it names none."""

    code = "unrouted_message"

    def __init__(self, agents: Iterable[str]) -> None:
        self.agents = tuple(agents)
        super().__init__(
            f"No question waits for this message, and {_listed(self.agents)} are registered. "
            "Say whom it is for: IncomingMessage(agent=…)."
        )


class MissingConversation(HandraiseError, ValueError):
    """A message without the id of its conversation: a reply could never find its question."""

    code = "missing_conversation"

    def __init__(self, channel: str) -> None:
        self.channel = channel
        super().__init__(
            f"A message on channel {channel!r} has no conversation id. "
            "Give it the id of its thread: IncomingMessage(conversation=…)."
        )


class NothingTriggered(HandraiseError, RuntimeError):
    """No message is being handled, so there is no conversation and no channel."""

    code = "nothing_triggered"

    def __init__(self, agent: str) -> None:
        self.agent = agent
        super().__init__(
            f"Agent {agent!r} handles no message now, so there is no triggering channel. "
            "Do this inside handle(), which AgentRegistry.receive() calls."
        )


class NobodyAnswers(HandraiseError, RuntimeError):
    """An agent asked on a trigger channel, where nobody could ever answer."""

    code = "nobody_answers"

    def __init__(self, agent: str, channel: str) -> None:
        self.agent = agent
        self.channel = channel
        super().__init__(
            f"Agent {agent!r} cannot ask on {channel!r}: it is a trigger channel, and nobody can answer there. "
            "Post the question on the desk, for recipients who see it elsewhere."
        )


class MessageSpent(HandraiseError, RuntimeError):
    """The message was already taken as the reply to another question."""

    code = "message_spent"

    def __init__(self, question_id: str) -> None:
        self.question_id = question_id
        super().__init__(
            f"This message was the reply to question {question_id!r}, and one reply settles one question. "
            "Wait for the next message."
        )


class Undelivered(HandraiseError, ConnectionError):
    """The channel did not deliver. If the text was a question, that question is withdrawn."""

    code = "undelivered"

    def __init__(self, channel: str, conversation: str, *, question_id: str | None = None) -> None:
        self.channel = channel
        self.conversation = conversation
        self.question_id = question_id
        fate = (
            "What is stored stays as it is; send the text again when the channel works."
            if question_id is None
            else f"Nobody saw question {question_id!r}, so it is withdrawn; ask again when the channel works."
        )
        super().__init__(f"Channel {channel!r} did not deliver to conversation {conversation!r}. {fate}")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
