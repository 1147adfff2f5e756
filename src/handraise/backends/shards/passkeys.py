"""The passkeys of people over several shards: they are on the shard of their workspace."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from handraise.backends.shards.placement import ShardRouter
from handraise.model.passkey_signatures import Passkey


class ShardedPasskeys:
    """The part of the directory for passkeys. See `handraise.ports.passkeys` for what each method promises."""

    def __init__(self, router: ShardRouter) -> None:
        self._router = router

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
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.directory.add_passkey(
                workspace,
                passkey_id,
                person=person,
                name=name,
                domain=domain,
                public_key=public_key,
                sign_count=sign_count,
                vouched_by=vouched_by,
            ),
            is_noop=lambda added: added is None,
        )

    async def passkeys(self, workspace: str, person: str) -> Sequence[Passkey]:
        """See the port."""
        return await self._router.read(workspace, lambda ports: ports.directory.passkeys(workspace, person))

    async def use_passkey(self, workspace: str, passkey_id: str, *, person: str, sign_count: int) -> bool:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.directory.use_passkey(
                workspace, passkey_id, person=person, sign_count=sign_count
            ),
            is_noop=lambda used: not used,
        )

    async def remove_passkey(
        self, workspace: str, passkey_id: str, *, person: str, by: str | None = None
    ) -> bool:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.directory.remove_passkey(workspace, passkey_id, person=person, by=by),
            is_noop=lambda removed: not removed,
        )

    async def add_nonce(self, workspace: str, nonce: str, *, person: str, lasts: timedelta) -> bool:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.directory.add_nonce(workspace, nonce, person=person, lasts=lasts),
            is_noop=lambda added: not added,
        )

    async def use_nonce(self, workspace: str, nonce: str, *, person: str) -> bool:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.directory.use_nonce(workspace, nonce, person=person),
            is_noop=lambda used: not used,
        )
