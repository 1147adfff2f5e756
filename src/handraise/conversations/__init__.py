"""Agents that ask in a chat and are called again with the reply.

An agent asks and returns at once. The next message in that conversation finds the question, in this process
or in another one: it is stored only in the desk.
"""

from handraise.conversations.agents import Agent, AskOptions, Judge, OnInsufficient, OnSufficient, Validator
from handraise.conversations.asks import PendingAsk
from handraise.conversations.channels import Channel, MemoryChannel
from handraise.conversations.chat_messages import AgentReply, IncomingMessage
from handraise.conversations.conversation_errors import (
    AgentNotRegistered,
    ChannelNotRegistered,
    InvalidRegistry,
    MessageSpent,
    MissingConversation,
    NobodyAnswers,
    NothingTriggered,
    RegistryStopped,
    Undelivered,
    UnroutedMessage,
)
from handraise.conversations.registry import AgentRegistry
from handraise.conversations.turns import Turn, current_turn

__all__ = [
    "Agent",
    "AgentNotRegistered",
    "AgentRegistry",
    "AgentReply",
    "AskOptions",
    "Channel",
    "ChannelNotRegistered",
    "IncomingMessage",
    "InvalidRegistry",
    "Judge",
    "MemoryChannel",
    "MessageSpent",
    "MissingConversation",
    "NobodyAnswers",
    "NothingTriggered",
    "OnInsufficient",
    "OnSufficient",
    "PendingAsk",
    "RegistryStopped",
    "Turn",
    "Undelivered",
    "UnroutedMessage",
    "Validator",
    "current_turn",
]
