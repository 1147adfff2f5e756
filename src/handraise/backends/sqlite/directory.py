"""The SQLite directory: each call one transaction, each decision one conditional statement in it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

from handraise.backends.row_mapping import (
    recipients_among,
    refused_claim,
    stored_groups,
    stored_key,
    stored_link,
    stored_person,
    stored_question_link,
    stored_session,
    taken_claim,
)
from handraise.backends.sqlite.connections import SqliteConnections
from handraise.backends.sqlite.event_writer import note
from handraise.backends.sqlite.statements import run
from handraise.backends.sqlite.timestamps import instant, length, now_by
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
    group_put,
    key_created,
    key_revoked,
    link_created,
    link_used,
    person_put,
    person_removed,
    session_ended,
    session_opened,
)
from handraise.ports import Claim, Clock


class SqliteDirectory:
    """Who is who, in a SQLite file. See `handraise.ports.Directory` for what each method promises."""

    def __init__(self, connections: SqliteConnections, clock: Clock | None = None) -> None:
        self._connections = connections
        self._clock = clock

    async def add_key(
        self, workspace: str, key_id: str, *, digest: str, agent: str, created_by: str
    ) -> AgentKey:
        """Keep a key; see the port."""

        def work(connection: sqlite3.Connection) -> AgentKey:
            now = now_by(self._clock)
            values = {"id": key_id, "digest": digest, "agent": agent, "actor": created_by}
            rows = run(connection, "add_key", workspace=workspace, now=now, **values)
            key = stored_key(rows[0], instant)
            note(connection, workspace, key_created(key), now)
            return key

        return await self._connections.write(work)

    async def find_key(self, workspace: str, digest: str) -> AgentKey | None:
        """The key with a digest; see the port."""
        rows = await self._read("find_key", workspace=workspace, digest=digest)
        return stored_key(rows[0], instant) if rows else None

    async def keys(self, workspace: str, *, after: str | None, limit: int) -> Sequence[AgentKey]:
        """A page of keys; see the port."""
        rows = await self._read("keys", workspace=workspace, after=after or "", limit=limit)
        return [stored_key(row, instant) for row in rows]

    async def note_use(self, workspace: str, key_id: str) -> None:
        """Say that a key is used; see the port."""
        await self._write("note_use", workspace=workspace, id=key_id)

    async def revoke_key(self, workspace: str, key_id: str, *, by: str) -> AgentKey | None:
        """End a key; see the port."""

        def work(connection: sqlite3.Connection) -> AgentKey | None:
            place, now = {"workspace": workspace, "id": key_id}, now_by(self._clock)
            rows = run(connection, "revoke_key", actor=by, now=now, **place)
            if rows:
                note(connection, workspace, key_revoked(stored_key(rows[0], instant)), now)
            rows = rows or run(connection, "read_key", **place)
            return stored_key(rows[0], instant) if rows else None

        return await self._connections.write(work)

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
        """Add or change a person; see the port."""

        def work(connection: sqlite3.Connection) -> Person | None:
            place = {"workspace": workspace, "id": person_id}
            values = {"name": name, "email": email, "email_folded": email and fold_email(email), "role": role}
            before, now = run(connection, "find_person", **place), now_by(self._clock)
            if not run(connection, "put_person", now=now, **place, **values):
                return None
            person = stored_person(run(connection, "find_person", **place)[0], instant)
            known = stored_person(before[0], instant) if before else None
            note(connection, workspace, person_put(known, person, by=by), now)
            return person

        return await self._connections.write(work)

    async def find_person(self, workspace: str, person_id: str) -> Person | None:
        """The person with a name; see the port."""
        rows = await self._read("find_person", workspace=workspace, id=person_id)
        return stored_person(rows[0], instant) if rows else None

    async def find_person_by_email(self, workspace: str, email: str) -> Person | None:
        """The person with an e-mail address; see the port."""
        rows = await self._read("find_person_by_email", workspace=workspace, email_folded=fold_email(email))
        return stored_person(rows[0], instant) if rows else None

    async def bind_identity(self, workspace: str, person_id: str, identity: str) -> bool:
        """Bind a person to an identity; see the port."""
        return bool(await self._write("bind_identity", workspace=workspace, id=person_id, identity=identity))

    async def people(self, workspace: str, *, after: str | None, limit: int) -> Sequence[Person]:
        """A page of people; see the port."""
        rows = await self._read("people", workspace=workspace, after=after or "", limit=limit)
        return [stored_person(row, instant) for row in rows]

    async def known_recipients(self, workspace: str, names: Collection[str]) -> frozenset[str] | None:
        """Whom a question can be for; see the port."""
        asked = json.dumps(list(names))
        return recipients_among(await self._read("known_recipients", workspace=workspace, names=asked))

    async def remove_person(self, workspace: str, person_id: str, *, by: str | None = None) -> bool:
        """Take somebody out; see the port."""

        def work(connection: sqlite3.Connection) -> bool:
            who = {"workspace": workspace, "person": person_id}
            before = run(connection, "find_person", workspace=workspace, id=person_id)
            for name in (
                "leave_groups",
                "end_sessions",
                "drop_links",
                "drop_question_links",
                "remove_person",
            ):
                run(connection, name, **who)
            if before:
                removed = person_removed(stored_person(before[0], instant), by=by)
                note(connection, workspace, removed, now_by(self._clock))
            return bool(before)

        return await self._connections.write(work)

    async def groups(self, workspace: str) -> Mapping[str, Sequence[str]]:
        """Every group; see the port."""
        return stored_groups(await self._read("groups", workspace=workspace))

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

        def work(connection: sqlite3.Connection) -> list[str]:
            place = {"workspace": workspace, "group_name": group}
            before = run(connection, "empty_group", **place)
            inside = run(connection, "fill_group", people=json.dumps(list(people)), **place)
            was, now = (sorted(row["person"] for row in rows) for rows in (before, inside))
            if check is not None:
                check(was)
            note(connection, workspace, group_put(group, was, now, by=by), now_by(self._clock))
            return now

        return await self._connections.write(work)

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
        """Let a person in; see the port."""

        def work(connection: sqlite3.Connection) -> Session | None:
            now, who = now_by(self._clock), {"workspace": workspace, "person": person}
            run(connection, "note_sign_in", now=now, **who)
            values = {"id": session_id, "digest": digest, "how": how, "lasts": length(lasts)}
            rows = run(connection, "open_session", now=now, vouched_by=vouched_by, **who, **values)
            session = stored_session(rows[0], instant) if rows else None
            note(connection, workspace, session_opened(session) if session else None, now)
            return session

        return await self._connections.write(work)

    async def find_session(self, workspace: str, digest: str) -> tuple[Session, Person] | None:
        """The session with a digest, and its person; see the port."""
        rows = await self._read("find_session", workspace=workspace, digest=digest)
        return (stored_session(rows[0], instant), stored_person(rows[0], instant)) if rows else None

    async def sessions(self, workspace: str, person: str, *, limit: int) -> Sequence[Session]:
        """The sessions of a person; see the port."""
        rows = await self._read("sessions", workspace=workspace, person=person, limit=limit)
        return [stored_session(row, instant) for row in rows]

    async def end_session(self, workspace: str, session_id: str, *, by: str | None = None) -> bool:
        """End a session; see the port."""

        def work(connection: sqlite3.Connection) -> bool:
            rows = run(connection, "end_session", workspace=workspace, id=session_id)
            if rows:
                ended = session_ended(stored_session(rows[0], instant), by=by)
                note(connection, workspace, ended, now_by(self._clock))
            return bool(rows)

        return await self._connections.write(work)

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
        """Keep a link; see the port."""
        values = {"digest": digest, "person": person, "purpose": purpose, "lasts": length(lasts)}

        def work(connection: sqlite3.Connection) -> Link | None:
            place, now = {"workspace": workspace, "id": link_id}, now_by(self._clock)
            rows = run(connection, "add_link", vouched_by=vouched_by, now=now, **place, **values)
            link = stored_link(rows[0], instant) if rows else None
            note(connection, workspace, link_created(link, by=by) if link else None, now)
            return link

        return await self._connections.write(work)

    async def find_link(self, workspace: str, digest: str) -> Link | None:
        """The link with a digest; see the port."""
        rows = await self._read("find_link", workspace=workspace, digest=digest)
        return stored_link(rows[0], instant) if rows else None

    async def use_link(self, workspace: str, digest: str) -> Link | None:
        """Use up a link; see the port."""

        def work(connection: sqlite3.Connection) -> Link | None:
            now = now_by(self._clock)
            rows = run(connection, "use_link", workspace=workspace, digest=digest, now=now)
            if not rows:
                return None
            run(connection, "end_links", workspace=workspace, person=rows[0]["person"])
            link = stored_link(rows[0], instant)
            note(connection, workspace, link_used(link), now)
            return link

        return await self._connections.write(work)

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
        """Keep a question link; see the port."""
        place = {"workspace": workspace, "id": link_id, "question_id": question_id, "person": person}
        values = {"digest": digest, "channel": channel, "actor": created_by, "lasts": length(lasts)}
        rows = await self._write("add_question_link", **place, **values)
        return stored_question_link(rows[0], instant) if rows else None

    async def find_question_link(self, workspace: str, digest: str) -> tuple[QuestionLink, Person] | None:
        """The question link with a digest, and its person; see the port."""
        rows = await self._read("find_question_link", workspace=workspace, digest=digest)
        return (stored_question_link(rows[0], instant), stored_person(rows[0], instant)) if rows else None

    async def end_question_links(self, workspace: str, question_id: str, *, person: str | None) -> int:
        """End the links to a question; see the port."""
        return len(
            await self._write(
                "end_question_links", workspace=workspace, question_id=question_id, person=person
            )
        )

    async def claim(
        self, workspace: str, actor: str, key: str, *, fingerprint: str, made: str, patience: timedelta
    ) -> Claim:
        """Claim a request; see the port."""

        def work(connection: sqlite3.Connection) -> Claim:
            place = {"workspace": workspace, "actor": actor, "key": key}
            values = {"fingerprint": fingerprint, "made": made, "patience": length(patience)}
            if rows := run(connection, "claim", now=now_by(self._clock), **place, **values):
                return taken_claim(rows[0])
            return refused_claim(run(connection, "read_request", **place)[0], fingerprint)

        return await self._connections.write(work)

    async def finish(
        self, workspace: str, actor: str, key: str, *, turn: int, status: int, body: str
    ) -> None:
        """Keep a response; see the port."""
        place = {"workspace": workspace, "actor": actor, "key": key}
        await self._write("finish", **place, turn=turn, status=status, body=body)

    async def release(self, workspace: str, actor: str, key: str, *, turn: int) -> None:
        """Give up an unfinished claim; see the port."""
        await self._write("release", workspace=workspace, actor=actor, key=key, turn=turn)

    async def forget(self, *, older_than: timedelta, limit: int) -> int:
        """Forget what is over; see the port."""

        def work(connection: sqlite3.Connection) -> int:
            values = {"now": now_by(self._clock), "older_than": length(older_than), "limit": limit}
            names = ("forget_requests", "forget_links", "forget_question_links", "forget_sessions")
            return sum(len(run(connection, name, **values)) for name in names)

        return await self._connections.write(work)

    async def _read(self, name: str, **values: Any) -> list[sqlite3.Row]:
        return await self._connections.read(
            lambda connection: run(connection, name, now=now_by(self._clock), **values)
        )

    async def _write(self, name: str, **values: Any) -> list[sqlite3.Row]:
        return await self._connections.write(
            lambda connection: run(connection, name, now=now_by(self._clock), **values)
        )
