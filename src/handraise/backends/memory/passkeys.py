"""The passkeys of people in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from handraise.backends.memory.clock import now_by
from handraise.backends.memory.store import MemoryStore
from handraise.model.identities import Person
from handraise.model.passkey_signatures import Passkey
from handraise.model.people import ADDRESS_BY
from handraise.model.questions import Ref
from handraise.model.workspace_events import passkey_added, passkey_removed
from handraise.ports import Clock


class MemoryPasskeys:
    """The part of the directory for passkeys. See `handraise.ports.passkeys` for what each method promises."""

    def __init__(self, store: MemoryStore, clock: Clock | None = None) -> None:
        self._store = store
        self._clock = clock
        self._people: dict[Ref, Person] = {}
        self._passkeys: dict[Ref, Passkey] = {}
        self._nonces: dict[Ref, tuple[str, datetime]] = {}

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
        """Store a passkey; see the port."""
        ref = Ref(workspace, passkey_id)
        if ref in self._passkeys or Ref(workspace, person) not in self._people:
            return None
        passkey = Passkey(
            workspace=workspace,
            id=passkey_id,
            person=person,
            name=name,
            domain=domain,
            public_key=public_key,
            sign_count=sign_count,
            created_at=self._now(),
            vouched_by=vouched_by,
        )
        self._passkeys[ref] = passkey
        self._store.note(workspace, passkey_added(passkey))
        return passkey

    async def passkeys(self, workspace: str, person: str) -> Sequence[Passkey]:
        """The passkeys of a person; see the port."""
        found = [
            each for each in self._passkeys.values() if (each.workspace, each.person) == (workspace, person)
        ]
        return sorted(found, key=lambda each: (each.created_at, each.id))

    async def use_passkey(self, workspace: str, passkey_id: str, *, person: str, sign_count: int) -> bool:
        """Record a use; see the port."""
        passkey = self._passkeys.get(Ref(workspace, passkey_id))
        if passkey is None or passkey.person != person:
            return False
        if not (sign_count > passkey.sign_count or sign_count == passkey.sign_count == 0):
            return False
        self._passkeys[Ref(workspace, passkey_id)] = replace(
            passkey, sign_count=sign_count, last_used_at=self._now()
        )
        return True

    async def remove_passkey(
        self, workspace: str, passkey_id: str, *, person: str, by: str | None = None
    ) -> bool:
        """Remove a passkey; see the port."""
        passkey = self._passkeys.get(Ref(workspace, passkey_id))
        if passkey is None or passkey.person != person:
            return False
        del self._passkeys[Ref(workspace, passkey_id)]
        self._store.note(workspace, passkey_removed(passkey, by=by))
        return True

    async def add_nonce(self, workspace: str, nonce: str, *, person: str, lasts: timedelta) -> bool:
        """Store a nonce; see the port."""
        if Ref(workspace, person) not in self._people:
            return False
        now = self._now()
        for ref in [ref for ref, (_, ends) in self._nonces.items() if ends <= now]:
            del self._nonces[ref]
        self._nonces[Ref(workspace, nonce)] = (person, now + lasts)
        return True

    async def use_nonce(self, workspace: str, nonce: str, *, person: str) -> bool:
        """Use a nonce; see the port."""
        holder, ends = self._nonces.get(Ref(workspace, nonce), (None, None))
        if holder != person or ends is None or ends <= self._now():
            return False
        del self._nonces[Ref(workspace, nonce)]
        return True

    def _remove_passkeys(self, workspace: str, person: str) -> None:
        """Remove what belongs to a person who is removed."""
        for ref in [
            ref for ref, each in self._passkeys.items() if (ref.workspace, each.person) == (workspace, person)
        ]:
            del self._passkeys[ref]
        for ref in [
            ref for ref, (holder, _) in self._nonces.items() if (ref.workspace, holder) == (workspace, person)
        ]:
            del self._nonces[ref]

    def _erase_maker(self, workspace: str, person: str) -> None:
        """Erase the name of a person from the passkeys that others registered with their links."""
        for ref, passkey in self._passkeys.items():
            if ref.workspace == workspace and passkey.vouched_by in (person, ADDRESS_BY + person):
                self._passkeys[ref] = replace(passkey, vouched_by="erased")

    def _now(self) -> datetime:
        return now_by(self._clock)
