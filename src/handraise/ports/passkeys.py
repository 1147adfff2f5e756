"""The passkeys of people, and the nonces that make each signature of theirs work once. The docstrings are the contract."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from handraise.model.passkey_signatures import Passkey


class Passkeys(Protocol):
    """A part of the directory. A passkey that is added or removed leaves one event of the workspace."""

    async def add_passkey(
        self,
        workspace: str,
        passkey_id: str,
        *,
        person: str,
        name: str,
        domain: str,
        public_key: str,
        sign_count: int,
        vouched_by: str | None = None,
    ) -> Passkey | None:
        """Store a passkey of a person; None if there is no such person, or if the passkey is registered already."""
        ...

    async def passkeys(self, workspace: str, person: str) -> Sequence[Passkey]:
        """The passkeys of a person, the oldest first."""
        ...

    async def use_passkey(self, workspace: str, passkey_id: str, *, person: str, sign_count: int) -> bool:
        """Record that a passkey of a person is used now; False if they have no such passkey any more.

        Also False if it counts how often it signs and this number is not higher than before: then there is a copy of it.
        """
        ...

    async def remove_passkey(
        self, workspace: str, passkey_id: str, *, person: str, by: str | None = None
    ) -> bool:
        """Remove a passkey of a person; False if they have no such passkey. It is removed with the person, too."""
        ...

    async def add_nonce(self, workspace: str, nonce: str, *, person: str, lasts: timedelta) -> bool:
        """Store a nonce for a signature of a person; False if there is no such person."""
        ...

    async def use_nonce(self, workspace: str, nonce: str, *, person: str) -> bool:
        """Use a nonce of a person: of any number of users, one gets True. False if it has ended."""
        ...
