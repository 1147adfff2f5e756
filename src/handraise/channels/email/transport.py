"""What a way to send mails must do: a mail server, Microsoft Graph or Amazon SES."""

from __future__ import annotations

from typing import Protocol


class MailTransport(Protocol):
    """Hands mails over to whoever delivers them."""

    @property
    def rate_limit_key(self) -> str:
        """What all mails share that go out this way."""
        ...

    @property
    def most_attached(self) -> int:
        """How many bytes of files a mail may bring along."""
        ...

    async def hand_over(self, letter: bytes, *, sender: str, to: str) -> str | None:
        """Hand a mail over; raises `NotSent`.

        Returns the id that recipients see instead of ours, without its brackets, where the service says so.
        """
        ...

    async def check(self, *, sender: str) -> str:
        """Say what is found without sending a mail; raises `NotSent` if this sender could not send."""
        ...
