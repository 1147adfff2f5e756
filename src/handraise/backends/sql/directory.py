"""The directory in SQL: every decision is one conditional statement, or several in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta

from handraise.backends.sql.calendars import SqlCalendars
from handraise.backends.sql.executor import Run, note
from handraise.backends.sql.passkeys import SqlPasskeys
from handraise.backends.sql.provisioned import SqlProvisioned
from handraise.backends.sql.rows import (
    recipients_among,
    refused_claim,
    stored_away,
    stored_groups,
    stored_key,
    stored_link,
    stored_person,
    stored_question_link,
    stored_session,
    taken_claim,
)
from handraise.backends.sql.saved_views import SqlSavedViews
from handraise.model.away import Away
from handraise.model.errors import StoreUnavailable
from handraise.model.evidence import passkey_evidence, session_evidence
from handraise.model.identities import (
    AgentKey,
    Link,
    LinkPurpose,
    Person,
    QuestionLink,
    Role,
    Session,
    fold_email,
)
from handraise.model.workspace_events import (
    away_set,
    group_put,
    key_created,
    key_revoked,
    link_created,
    link_used,
    person_disabled,
    person_enabled,
    person_put,
    person_removed,
    session_ended,
    session_opened,
)
from handraise.ports import Claim

_TRIES = 5


class SqlDirectory(SqlPasskeys, SqlCalendars, SqlSavedViews, SqlProvisioned):
    """Who is who, in an SQL database. See `handraise.ports.Directory` for what each method promises."""

    async def add_key(
        self, workspace: str, key_id: str, *, digest: str, agent: str, created_by: str
    ) -> AgentKey:
        """Store a key; see the port."""

        async def work(run: Run) -> AgentKey:
            (row,) = await run("add_key", id=key_id, digest=digest, agent=agent, actor=created_by)
            key = stored_key(row)
            await note(run, key_created(key))
            return key

        return await self._executor.transact(workspace, work)

    async def find_key(self, workspace: str, digest: str) -> AgentKey | None:
        """The key with a digest; see the port."""
        return (await self.find_keys(workspace, [digest])).get(digest)

    async def find_keys(self, workspace: str, digests: Collection[str]) -> Mapping[str, AgentKey]:
        """The keys with these digests; see the port."""
        rows = await self._executor.fetch(workspace, "find_keys", digests=list(digests))
        return {row["digest"]: stored_key(row) for row in rows}

    async def keys(self, workspace: str, *, after: str | None, limit: int) -> Sequence[AgentKey]:
        """A page of keys; see the port."""
        rows = await self._executor.fetch(workspace, "keys", after=after or "", limit=limit)
        return [stored_key(row) for row in rows]

    async def note_use(self, workspace: str, key_id: str) -> None:
        """Say that a key is used; see the port."""
        await self._executor.fetch(workspace, "note_use", id=key_id)

    async def revoke_key(self, workspace: str, key_id: str, *, by: str) -> AgentKey | None:
        """End a key; see the port."""

        async def work(run: Run) -> AgentKey | None:
            rows = await run("revoke_key", actor=by, id=key_id)
            if rows:
                await note(run, key_revoked(stored_key(rows[0])))
            rows = rows or await run("read_key", id=key_id)
            return stored_key(rows[0]) if rows else None

        return await self._executor.transact(workspace, work)

    async def put_person(
        self,
        workspace: str,
        person_id: str,
        *,
        name: str,
        email: str | None,
        role: Role,
        by: str | None = None,
        check: Callable[[Person | None], None] | None = None,
    ) -> Person | None:
        """Add or change a person; see the port."""
        who = {"id": person_id, "email_folded": email and fold_email(email)}

        async def work(run: Run) -> Person | None:
            await run("lock_person", **who)
            before = await run("find_person", id=person_id)
            known = stored_person(before[0]) if before else None
            if check is not None:
                check(known)
            rows = await run("put_person", name=name, email=email, role=role, actor=by, **who)
            if not rows:
                return None
            person = stored_person(rows[0])
            await note(run, person_put(known, person, by=by))
            return person

        return await self._executor.transact(workspace, work)

    async def set_preferences(
        self, workspace: str, person_id: str, *, language: str | None, time_zone: str | None
    ) -> Person | None:
        """Store a person's preferences; see the port."""
        rows = await self._executor.fetch(
            workspace, "set_preferences", id=person_id, language=language, time_zone=time_zone
        )
        return stored_person(rows[0]) if rows else None

    async def set_away(
        self, workspace: str, person_id: str, away: Away | None, *, by: str | None = None
    ) -> Person | None:
        """Say when a person is away; see the port."""
        values = {
            "starts": None if away is None else away.starts,
            "ends": None if away is None else away.until,
            "deputy": None if away is None else away.deputy,
        }

        async def work(run: Run) -> Person | None:
            await run("lock_person", id=person_id, email_folded=None)
            before = await run("find_person", id=person_id)
            rows = await run("set_away", id=person_id, **values)
            if not rows:
                return None
            person = stored_person(rows[0])
            await note(run, away_set(stored_person(before[0]), person, by=by))
            return person

        return await self._executor.transact(workspace, work)

    async def away(self, workspace: str) -> Mapping[str, Away]:
        """Everybody who is away now; see the port."""
        rows = await self._executor.fetch(workspace, "away")
        return {row["id"]: stored_away(row) for row in rows}

    async def find_person(self, workspace: str, person_id: str) -> Person | None:
        """The person with a name; see the port."""
        rows = await self._executor.fetch(workspace, "find_person", id=person_id)
        return stored_person(rows[0]) if rows else None

    async def find_person_by_email(self, workspace: str, email: str) -> Person | None:
        """The person with an e-mail address; see the port."""
        rows = await self._executor.fetch(workspace, "find_person_by_email", email_folded=fold_email(email))
        return stored_person(rows[0]) if rows else None

    async def bind_identity(self, workspace: str, person_id: str, identity: str) -> bool:
        """Bind a person to an identity; see the port."""
        return bool(await self._executor.fetch(workspace, "bind_identity", id=person_id, identity=identity))

    async def find_person_by_identity(self, workspace: str, identity: str) -> Person | None:
        """The person who is bound to an identity; see the port."""
        rows = await self._executor.fetch(workspace, "find_person_by_identity", identity=identity)
        return stored_person(rows[0]) if rows else None

    async def set_provided_rights(
        self,
        workspace: str,
        person_id: str,
        *,
        groups: Collection[str],
        is_admin: bool,
        by: str | None = None,
    ) -> Person | None:
        """Store what the provider says about a person; see the port."""
        known = await self.find_person(workspace, person_id)
        if known is None:
            return None
        touched, given = sorted(known.groups.union(groups)), sorted(set(groups))

        async def work(run: Run) -> Person | None:
            await run("lock_person", id=person_id, email_folded=None)
            await run("lock_groups", groups=touched)
            before = await run("find_person", id=person_id)
            if not before:
                return None
            await run("set_provided_role", id=person_id, is_admin=is_admin)
            await run("drop_provided_members", id=person_id, groups=given)
            await run("add_provided_members", id=person_id, groups=given)
            person = stored_person((await run("find_person", id=person_id))[0])
            await note(run, person_put(stored_person(before[0]), person, by=by))
            return person

        return await self._executor.transact(workspace, work)

    async def disable_person(self, workspace: str, person_id: str, *, by: str | None = None) -> Person | None:
        """Disable a person; see the port."""

        async def work(run: Run) -> Person | None:
            # The lock is a separate statement: what a statement sees is fixed before it waits for a lock.
            await run("hold_person", id=person_id)
            rows = await run("disable_person", id=person_id)
            if rows:
                await run("end_access", id=person_id)
                await note(run, person_disabled(stored_person(rows[0]), by=by))
            rows = rows or await run("find_person", id=person_id)
            return stored_person(rows[0]) if rows else None

        return await self._executor.transact(workspace, work)

    async def enable_person(self, workspace: str, person_id: str, *, by: str | None = None) -> Person | None:
        """Enable a person again; see the port."""

        async def work(run: Run) -> Person | None:
            rows = await run("enable_person", id=person_id)
            if rows:
                await note(run, person_enabled(stored_person(rows[0]), by=by))
            rows = rows or await run("find_person", id=person_id)
            return stored_person(rows[0]) if rows else None

        return await self._executor.transact(workspace, work)

    async def disabled_people(self, workspace: str) -> frozenset[str]:
        """Everybody who is disabled; see the port."""
        return frozenset(row["id"] for row in await self._executor.fetch(workspace, "disabled_people"))

    async def people(self, workspace: str, *, after: str | None, limit: int) -> Sequence[Person]:
        """A page of people; see the port."""
        rows = await self._executor.fetch(workspace, "people", after=after or "", limit=limit)
        return [stored_person(row) for row in rows]

    async def known_recipients(self, workspace: str, names: Collection[str]) -> frozenset[str] | None:
        """Whom a question can be for; see the port."""
        return recipients_among(await self._executor.fetch(workspace, "known_recipients", names=list(names)))

    async def remove_person(
        self,
        workspace: str,
        person_id: str,
        *,
        by: str | None = None,
        check: Callable[[Person | None], None] | None = None,
    ) -> bool:
        """Remove a person; see the port."""

        async def work(run: Run) -> bool:
            await run("lock_person", id=person_id, email_folded=None)
            before = await run("find_person", id=person_id)
            if check is not None:
                check(stored_person(before[0]) if before else None)
            if not before or not await run("remove_person", id=person_id):
                return False
            await run("end_access", id=person_id)
            await run("remove_deputy", id=person_id)
            await note(run, person_removed(stored_person(before[0]), by=by))
            return True

        return await self._executor.transact(workspace, work)

    async def groups(self, workspace: str) -> Mapping[str, Sequence[str]]:
        """Every group; see the port."""
        return stored_groups(await self._executor.fetch(workspace, "groups"))

    async def provided_groups(self, workspace: str) -> Mapping[str, Sequence[str]]:
        """The memberships from providers; see the port."""
        return stored_groups(await self._executor.fetch(workspace, "provided_groups"))

    async def put_group(
        self,
        workspace: str,
        group: str,
        people: Collection[str],
        *,
        by: str | None = None,
        check: Callable[[Sequence[str]], None] | None = None,
    ) -> Sequence[str]:
        """Replace the people of a group; see the port."""

        async def work(run: Run) -> Sequence[str]:
            # The lock is a separate statement: what a statement sees is fixed before it waits for a lock.
            await run("lock_group", group_name=group)
            before = await run("empty_group", group_name=group)
            provided = [row["person"] for row in before if row["provided"]]
            inside = await run("fill_group", group_name=group, people=list(people), provided=provided)
            was, now = (sorted(row["person"] for row in rows) for rows in (before, inside))
            if check is not None:
                check(was)
            await note(run, group_put(group, was, now, by=by))
            return now

        return await self._executor.transact(workspace, work)

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
        provider_session: str | None = None,
    ) -> Session | None:
        """Open a session for a person; see the port."""
        values = {"id": session_id, "digest": digest, "person": person, "how": how, "lasts": lasts}

        async def work(run: Run) -> Session | None:
            rows = await run(
                "open_session", vouched_by=vouched_by, provider_session=provider_session, **values
            )
            session = stored_session(rows[0]) if rows else None
            await note(run, session_opened(session) if session else None)
            return session

        return await self._executor.transact(workspace, work)

    async def find_session(self, workspace: str, digest: str) -> tuple[Session, Person] | None:
        """The session with a digest, and its person; see the port."""
        return (await self.find_sessions(workspace, [digest])).get(digest)

    async def find_sessions(
        self, workspace: str, digests: Collection[str]
    ) -> Mapping[str, tuple[Session, Person]]:
        """The sessions with these digests; see the port."""
        rows = await self._executor.fetch(workspace, "find_sessions", digests=list(digests))
        return {row["digest"]: (stored_session(row), stored_person(row)) for row in rows}

    async def sessions(self, workspace: str, person: str, *, limit: int) -> Sequence[Session]:
        """The sessions of a person; see the port."""
        rows = await self._executor.fetch(workspace, "sessions", person=person, limit=limit)
        return [stored_session(row) for row in rows]

    async def evidence(self, workspace: str) -> Mapping[str, frozenset[str]]:
        """The evidence that people have; see the port."""
        found: dict[str, frozenset[str]] = {}
        for row in await self._executor.fetch(workspace, "evidence"):
            evidence = (passkey_evidence if row["is_passkey"] else session_evidence)(row["vouched_by"])
            found[row["person"]] = found.get(row["person"], frozenset()) | {evidence}
        return found

    async def end_session(self, workspace: str, session_id: str, *, by: str | None = None) -> bool:
        """End a session; see the port."""

        async def work(run: Run) -> bool:
            rows = await run("end_session", id=session_id)
            if rows:
                await note(run, session_ended(stored_session(rows[0]), by=by))
            return bool(rows)

        return await self._executor.transact(workspace, work)

    async def end_provider_sessions(
        self, workspace: str, *, identity: str | None, provider_session: str | None, by: str | None = None
    ) -> int:
        """End the sessions that began at a provider; see the port."""

        async def work(run: Run) -> int:
            rows = await run("end_provider_sessions", identity=identity, provider_session=provider_session)
            for row in rows:
                await note(run, session_ended(stored_session(row), by=by))
            return len(rows)

        return await self._executor.transact(workspace, work)

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
        """Store a link; see the port."""
        values = {"id": link_id, "digest": digest, "person": person, "purpose": purpose, "lasts": lasts}

        async def work(run: Run) -> Link | None:
            rows = await run("add_link", vouched_by=vouched_by, **values)
            link = stored_link(rows[0]) if rows else None
            await note(run, link_created(link, by=by) if link else None)
            return link

        return await self._executor.transact(workspace, work)

    async def find_link(self, workspace: str, digest: str) -> Link | None:
        """The link with a digest; see the port."""
        rows = await self._executor.fetch(workspace, "find_link", digest=digest)
        return stored_link(rows[0]) if rows else None

    async def use_link(self, workspace: str, digest: str) -> Link | None:
        """Use up a link; see the port."""

        async def work(run: Run) -> Link | None:
            rows = await run("use_link", digest=digest)
            link = stored_link(rows[0]) if rows else None
            await note(run, link_used(link) if link else None)
            return link

        return await self._executor.transact(workspace, work)

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
        """Store a question link; see the port."""
        place = {"id": link_id, "question_id": question_id, "person": person}
        values = {"digest": digest, "channel": channel, "actor": created_by, "lasts": lasts}
        rows = await self._executor.fetch(workspace, "add_question_link", **place, **values)
        return stored_question_link(rows[0]) if rows else None

    async def find_question_link(self, workspace: str, digest: str) -> tuple[QuestionLink, Person] | None:
        """The question link with a digest, and its person; see the port."""
        rows = await self._executor.fetch(workspace, "find_question_link", digest=digest)
        return (stored_question_link(rows[0]), stored_person(rows[0])) if rows else None

    async def end_question_links(self, workspace: str, question_id: str, *, person: str | None) -> int:
        """End the links to a question; see the port."""
        values = {"question_id": question_id, "person": person}
        return len(await self._executor.fetch(workspace, "end_question_links", **values))

    async def claim(
        self, workspace: str, actor: str, key: str, *, fingerprint: str, made: str, patience: timedelta
    ) -> Claim:
        """Claim a request; see the port."""
        place = {"actor": actor, "key": key}
        values = {"fingerprint": fingerprint, "made": made, "patience": patience}
        for _ in range(_TRIES):
            if rows := await self._executor.fetch(workspace, "claim", **place, **values):
                return taken_claim(rows[0])
            # It may have been forgotten in the meantime; then it can be claimed after all.
            if rows := await self._executor.fetch(workspace, "read_request", **place):
                return refused_claim(rows[0], fingerprint)
        raise StoreUnavailable("Others claim and forget this request all the time; make it again.")

    async def finish(
        self, workspace: str, actor: str, key: str, *, turn: int, status: int, body: str
    ) -> None:
        """Store a response; see the port."""
        await self._executor.fetch(
            workspace, "finish", actor=actor, key=key, turn=turn, status=status, body=body
        )

    async def release(self, workspace: str, actor: str, key: str, *, turn: int) -> None:
        """Give up an unfinished claim; see the port."""
        await self._executor.fetch(workspace, "release", actor=actor, key=key, turn=turn)

    async def forget(self, *, older_than: timedelta, limit: int) -> int:
        """Forget what is over; see the port."""
        rows = await self._executor.fetch(None, "forget", older_than=older_than, limit=limit)
        return sum(row["number"] for row in rows)
