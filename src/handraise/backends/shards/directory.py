"""The directory over several shards: who is who in a workspace is stored on the shard of the workspace.

Every key, session and link names its workspace, so no search goes over all shards.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta

from handraise.backends.shards.calendars import ShardedCalendars
from handraise.backends.shards.passkeys import ShardedPasskeys
from handraise.backends.shards.saved_views import ShardedSavedViews
from handraise.model.away import Away
from handraise.model.identities import AgentKey, Link, LinkPurpose, Person, QuestionLink, Role, Session
from handraise.ports import Claim


class ShardedDirectory(ShardedPasskeys, ShardedCalendars, ShardedSavedViews):
    """Who is who, on several shards. See `handraise.ports.Directory` for what each method promises.

    A call that is `is_noop` wrote nothing, or changes nothing when it is repeated.
    """

    async def add_key(
        self, workspace: str, key_id: str, *, digest: str, agent: str, created_by: str
    ) -> AgentKey:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.directory.add_key(
                workspace, key_id, digest=digest, agent=agent, created_by=created_by
            ),
        )

    async def find_key(self, workspace: str, digest: str) -> AgentKey | None:
        """See the port."""
        return await self._router.read(workspace, lambda ports: ports.directory.find_key(workspace, digest))

    async def find_keys(self, workspace: str, digests: Collection[str]) -> Mapping[str, AgentKey]:
        """See the port."""
        return await self._router.read(workspace, lambda ports: ports.directory.find_keys(workspace, digests))

    async def keys(self, workspace: str, *, after: str | None, limit: int) -> Sequence[AgentKey]:
        """See the port."""
        return await self._router.read(
            workspace, lambda ports: ports.directory.keys(workspace, after=after, limit=limit)
        )

    async def note_use(self, workspace: str, key_id: str) -> None:
        """See the port."""
        await self._router.write(
            workspace, lambda ports: ports.directory.note_use(workspace, key_id), is_noop=lambda _: True
        )

    async def revoke_key(self, workspace: str, key_id: str, *, by: str) -> AgentKey | None:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.directory.revoke_key(workspace, key_id, by=by),
            is_noop=lambda _: True,
        )

    async def put_person(
        self,
        workspace: str,
        person_id: str,
        *,
        name: str,
        email: str | None,
        role: Role,
        by: str | None = None,
    ) -> Person | None:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.directory.put_person(
                workspace, person_id, name=name, email=email, role=role, by=by
            ),
            is_noop=lambda found: found is None,
        )

    async def set_preferences(
        self, workspace: str, person_id: str, *, language: str | None, time_zone: str | None
    ) -> Person | None:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.directory.set_preferences(
                workspace, person_id, language=language, time_zone=time_zone
            ),
            is_noop=lambda found: found is None,
        )

    async def set_away(
        self, workspace: str, person_id: str, away: Away | None, *, by: str | None = None
    ) -> Person | None:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.directory.set_away(workspace, person_id, away, by=by),
            is_noop=lambda _: True,
        )

    async def away(self, workspace: str) -> Mapping[str, Away]:
        """See the port."""
        return await self._router.read(workspace, lambda ports: ports.directory.away(workspace))

    async def find_person(self, workspace: str, person_id: str) -> Person | None:
        """See the port."""
        return await self._router.read(
            workspace, lambda ports: ports.directory.find_person(workspace, person_id)
        )

    async def find_person_by_email(self, workspace: str, email: str) -> Person | None:
        """See the port."""
        return await self._router.read(
            workspace, lambda ports: ports.directory.find_person_by_email(workspace, email)
        )

    async def bind_identity(self, workspace: str, person_id: str, identity: str) -> bool:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.directory.bind_identity(workspace, person_id, identity),
            is_noop=lambda _: True,
        )

    async def people(self, workspace: str, *, after: str | None, limit: int) -> Sequence[Person]:
        """See the port."""
        return await self._router.read(
            workspace, lambda ports: ports.directory.people(workspace, after=after, limit=limit)
        )

    async def known_recipients(self, workspace: str, names: Collection[str]) -> frozenset[str] | None:
        """See the port."""
        return await self._router.read(
            workspace, lambda ports: ports.directory.known_recipients(workspace, names)
        )

    async def remove_person(self, workspace: str, person_id: str, *, by: str | None = None) -> bool:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.directory.remove_person(workspace, person_id, by=by),
            is_noop=lambda done: not done,
        )

    async def groups(self, workspace: str) -> Mapping[str, Sequence[str]]:
        """See the port."""
        return await self._router.read(workspace, lambda ports: ports.directory.groups(workspace))

    async def put_group(
        self,
        workspace: str,
        group: str,
        people: Collection[str],
        *,
        by: str | None = None,
        check: Callable[[Sequence[str]], None] | None = None,
    ) -> Sequence[str]:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.directory.put_group(workspace, group, people, by=by, check=check),
            is_noop=lambda _: True,
        )

    async def open_session(
        self,
        workspace: str,
        session_id: str,
        *,
        digest: str,
        person: str,
        how: str,
        lasts: timedelta,
        vouched_by: str | None = None,
    ) -> Session | None:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.directory.open_session(
                workspace,
                session_id,
                digest=digest,
                person=person,
                how=how,
                lasts=lasts,
                vouched_by=vouched_by,
            ),
            is_noop=lambda found: found is None,
        )

    async def find_session(self, workspace: str, digest: str) -> tuple[Session, Person] | None:
        """See the port."""
        return await self._router.read(
            workspace, lambda ports: ports.directory.find_session(workspace, digest)
        )

    async def find_sessions(
        self, workspace: str, digests: Collection[str]
    ) -> Mapping[str, tuple[Session, Person]]:
        """See the port."""
        return await self._router.read(
            workspace, lambda ports: ports.directory.find_sessions(workspace, digests)
        )

    async def sessions(self, workspace: str, person: str, *, limit: int) -> Sequence[Session]:
        """See the port."""
        return await self._router.read(
            workspace, lambda ports: ports.directory.sessions(workspace, person, limit=limit)
        )

    async def end_session(self, workspace: str, session_id: str, *, by: str | None = None) -> bool:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.directory.end_session(workspace, session_id, by=by),
            is_noop=lambda done: not done,
        )

    async def add_link(
        self,
        workspace: str,
        link_id: str,
        *,
        digest: str,
        person: str,
        purpose: LinkPurpose,
        lasts: timedelta,
        vouched_by: str | None = None,
        by: str | None = None,
    ) -> Link | None:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.directory.add_link(
                workspace,
                link_id,
                digest=digest,
                person=person,
                purpose=purpose,
                lasts=lasts,
                vouched_by=vouched_by,
                by=by,
            ),
            is_noop=lambda found: found is None,
        )

    async def find_link(self, workspace: str, digest: str) -> Link | None:
        """See the port."""
        return await self._router.read(workspace, lambda ports: ports.directory.find_link(workspace, digest))

    async def use_link(self, workspace: str, digest: str) -> Link | None:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.directory.use_link(workspace, digest),
            is_noop=lambda found: found is None,
        )

    async def add_question_link(
        self,
        workspace: str,
        link_id: str,
        *,
        digest: str,
        question_id: str,
        person: str,
        channel: str,
        created_by: str,
        lasts: timedelta,
    ) -> QuestionLink | None:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.directory.add_question_link(
                workspace,
                link_id,
                digest=digest,
                question_id=question_id,
                person=person,
                channel=channel,
                created_by=created_by,
                lasts=lasts,
            ),
            is_noop=lambda found: found is None,
        )

    async def find_question_link(self, workspace: str, digest: str) -> tuple[QuestionLink, Person] | None:
        """See the port."""
        return await self._router.read(
            workspace, lambda ports: ports.directory.find_question_link(workspace, digest)
        )

    async def end_question_links(self, workspace: str, question_id: str, *, person: str | None) -> int:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.directory.end_question_links(workspace, question_id, person=person),
            is_noop=lambda done: not done,
        )

    async def claim(
        self, workspace: str, actor: str, key: str, *, fingerprint: str, made: str, patience: timedelta
    ) -> Claim:
        """See the port."""
        return await self._router.write(
            workspace,
            lambda ports: ports.directory.claim(
                workspace, actor, key, fingerprint=fingerprint, made=made, patience=patience
            ),
            is_noop=lambda claim: claim.state not in ("new", "again"),
        )

    async def finish(
        self, workspace: str, actor: str, key: str, *, turn: int, status: int, body: str
    ) -> None:
        """See the port."""
        await self._router.write(
            workspace,
            lambda ports: ports.directory.finish(workspace, actor, key, turn=turn, status=status, body=body),
            is_noop=lambda _: True,
        )

    async def release(self, workspace: str, actor: str, key: str, *, turn: int) -> None:
        """See the port."""
        await self._router.write(
            workspace,
            lambda ports: ports.directory.release(workspace, actor, key, turn=turn),
            is_noop=lambda _: True,
        )

    async def forget(self, *, older_than: timedelta, limit: int) -> int:
        """Forget what is over, on every shard that answers; see the port."""
        return max(
            await self._router.call_each(
                "forget", lambda ports: ports.directory.forget(older_than=older_than, limit=limit)
            )
        )
