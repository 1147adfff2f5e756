"""Channels of a chat, through which an agent's texts are sent."""

from __future__ import annotations

from typing import Protocol


class Channel(Protocol):
    """Sends texts to the people in a conversation."""

    @property
    def name(self) -> str:
        """The channel's name in messages and answers; the same after every restart."""
        ...

    @property
    def is_trigger(self) -> bool:
        """Whether it only triggers things, as a schedule does: nobody can answer on it."""
        ...

    async def send(self, conversation: str, text: str) -> None:
        """Deliver a text to a conversation, or raise. Called once for each text."""
        ...


class MemoryChannel:
    """A channel that keeps what was sent, for tests and experiments."""

    def __init__(self, name: str = "chat", *, is_trigger: bool = False) -> None:
        self.name = name
        self.is_trigger = is_trigger
        self.sent: list[tuple[str, str]] = []

    async def send(self, conversation: str, text: str) -> None:
        """Keep the text."""
        self.sent.append((conversation, text))

    def sent_to(self, conversation: str) -> list[str]:
        """The texts that went to one conversation, oldest first."""
        return [text for to, text in self.sent if to == conversation]
