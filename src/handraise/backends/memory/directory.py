"""The memory directory: keys, people, sessions, links and requests in dictionaries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeVar

from handraise.backends.memory.calendars import MemoryCalendars
from handraise.backends.memory.passkeys import MemoryPasskeys
from handraise.backends.memory.provisioned import MemoryProvisioned
from handraise.backends.memory.saved_views import MemorySavedViews
from handraise.backends.memory.store import MemoryStore
from handraise.model.away import Away
from handraise.model.deliveries import Address
from handraise.model.evidence import passkey_evidence
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
from handraise.model.people import ADDRESS_BY, GROUP
from handraise.model.questions import Ref
from handraise.model.workspace_events import (
    Change,
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
from handraise.ports import Claim, Clock

Secret = tuple[str, str]
"""A workspace and the digest of a secret in it."""

Place = TypeVar("Place")
Value = TypeVar("Value")


class MemoryDirectory(MemoryPasskeys, MemoryCalendars, MemorySavedViews, MemoryProvisioned):
    """Who is who, in dictionaries. No method awaits anything, so each is atomic on the event loop."""

    def __init__(self, store: MemoryStore, clock: Clock | None = None) -> None:
        super().__init__(store, clock)
        self.addresses: Callable[[str, Collection[str]], Awaitable[Sequence[Address]]] = _no_addresses
        """The addresses of recipients, which the outbox stores."""
        self._keys: dict[Ref, AgentKey] = {}
        self._digests: dict[Secret, Ref] = {}
        self._identities: dict[Ref, str] = {}
        self._provided_groups: dict[Ref, frozenset[str]] = {}
        """The groups in which each person is only because their provider says so."""
        self._provider_sessions: dict[Secret, str] = {}
        self._provisioned = {}
        self._provisioned_names = {}
        self._sessions: dict[Secret, Session] = {}
        self._links: dict[Secret, Link] = {}
        self._question_links: dict[Secret, QuestionLink] = {}
        self._calendars = {}
        self._rotas = {}
        self._views = {}
        self._requests: dict[tuple[str, str, str], _Request] = {}

    async def add_key(
        self, workspace: str, key_id: str, *, digest: str, agent: str, created_by: str
    ) -> AgentKey:
        """Store a key; see the port."""
        ref = Ref(workspace, key_id)
        self._digests[workspace, digest] = ref
        self._keys[ref] = AgentKey(
            workspace=workspace, id=key_id, agent=agent, created_at=self._now(), created_by=created_by
        )
        self._store.note(workspace, key_created(self._keys[ref]))
        return self._keys[ref]

    async def find_key(self, workspace: str, digest: str) -> AgentKey | None:
        """The key with a digest; see the port."""
        ref = self._digests.get((workspace, digest))
        return self._keys[ref] if ref and self._keys[ref].revoked_at is None else None

    async def find_keys(self, workspace: str, digests: Collection[str]) -> Mapping[str, AgentKey]:
        """The keys with these digests; see the port."""
        found = {digest: await self.find_key(workspace, digest) for digest in digests}
        return {digest: key for digest, key in found.items() if key is not None}

    async def keys(self, workspace: str, *, after: str | None, limit: int) -> Sequence[AgentKey]:
        """A page of keys; see the port."""
        return _page(self._keys, workspace, after, limit)

    async def note_use(self, workspace: str, key_id: str) -> None:
        """Say that a key is used; see the port."""
        ref = Ref(workspace, key_id)
        if ref in self._keys:
            self._keys[ref] = replace(self._keys[ref], last_used_at=self._now())

    async def revoke_key(self, workspace: str, key_id: str, *, by: str) -> AgentKey | None:
        """End a key; see the port."""
        ref = Ref(workspace, key_id)
        key = self._keys.get(ref)
        if key is None or key.revoked_at is not None:
            return key
        self._keys[ref] = replace(key, revoked_at=self._now(), revoked_by=by)
        self._store.note(workspace, key_revoked(self._keys[ref]))
        return self._keys[ref]

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
        ref = Ref(workspace, person_id)
        if check is not None:
            check(self._people.get(ref))
        holder = await self.find_person_by_email(workspace, email) if email is not None else None
        if holder is not None and holder.id != person_id:
            return None
        known = self._people.get(ref)
        is_chosen = known is None or (
            ref not in self._identities
            and (known.email and fold_email(known.email)) != (email and fold_email(email))
        )
        self._people[ref] = Person(
            workspace=workspace,
            id=person_id,
            name=name,
            created_at=known.created_at if known else self._now(),
            email=email,
            email_by=by if known is None or is_chosen else known.email_by,
            role=role,
            groups=known.groups if known else frozenset(),
            signed_in_at=known.signed_in_at if known else None,
            language=known.language if known else None,
            time_zone=known.time_zone if known else None,
            away_from=known.away_from if known else None,
            away_until=known.away_until if known else None,
            deputy=known.deputy if known else None,
            disabled_at=known.disabled_at if known else None,
            admin_provided=known is not None and known.admin_provided and known.role is role,
        )
        self._store.note(workspace, person_put(known, self._people[ref], by=by))
        return self._people[ref]

    async def set_preferences(
        self, workspace: str, person_id: str, *, language: str | None, time_zone: str | None
    ) -> Person | None:
        """Store a person's preferences; see the port."""
        ref = Ref(workspace, person_id)
        if ref in self._people:
            self._people[ref] = replace(self._people[ref], language=language, time_zone=time_zone)
        return self._people.get(ref)

    async def set_away(
        self, workspace: str, person_id: str, away: Away | None, *, by: str | None = None
    ) -> Person | None:
        """Say when a person is away; see the port."""
        ref = Ref(workspace, person_id)
        before, deputy = self._people.get(ref), None if away is None else away.deputy
        if before is None or (deputy is not None and Ref(workspace, deputy) not in self._people):
            return None
        self._people[ref] = replace(
            before,
            away_from=None if away is None else away.starts,
            away_until=None if away is None else away.until,
            deputy=deputy,
        )
        self._store.note(workspace, away_set(before, self._people[ref], by=by))
        return self._people[ref]

    async def away(self, workspace: str) -> Mapping[str, Away]:
        """Everybody who is away now; see the port."""
        found = {ref.id: person.away for ref, person in self._people.items() if ref.workspace == workspace}
        now = self._now()
        covering = {
            name: away for name, away in sorted(found.items()) if away is not None and away.covers(now)
        }
        disabled = await self.disabled_people(workspace)
        return {
            name: replace(away, deputy=None) if away.deputy in disabled else away
            for name, away in covering.items()
        }

    async def find_person(self, workspace: str, person_id: str) -> Person | None:
        """The person with a name; see the port."""
        return self._people.get(Ref(workspace, person_id))

    def groups_known(self, workspace: str, person_id: str) -> frozenset[str] | None:
        """A person's groups, or None if nobody has this name or they are disabled, for the store."""
        person = self._people.get(Ref(workspace, person_id))
        return person.groups if person and person.disabled_at is None else None

    def is_disabled(self, workspace: str, person_id: str) -> bool:
        """Whether a person is disabled, for the store."""
        person = self._people.get(Ref(workspace, person_id))
        return person is not None and person.disabled_at is not None

    def is_administrator(self, workspace: str, person_id: str) -> bool:
        """Whether a person is an administrator, for the store."""
        person = self._people.get(Ref(workspace, person_id))
        return person is not None and person.is_admin

    async def find_person_by_email(self, workspace: str, email: str) -> Person | None:
        """The person with an e-mail address; see the port."""
        wanted = fold_email(email)
        fitting = (
            person
            for person in self._people.values()
            if person.workspace == workspace
            and person.email is not None
            and fold_email(person.email) == wanted
        )
        return next(fitting, None)

    async def bind_identity(self, workspace: str, person_id: str, identity: str) -> bool:
        """Bind a person to an identity; see the port."""
        ref = Ref(workspace, person_id)
        return ref in self._people and self._identities.setdefault(ref, identity) == identity

    async def find_person_by_identity(self, workspace: str, identity: str) -> Person | None:
        """The person who is bound to an identity; see the port."""
        bound = sorted(
            ref for ref, each in self._identities.items() if (ref.workspace, each) == (workspace, identity)
        )
        return self._people[bound[0]] if bound else None

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
        ref = Ref(workspace, person_id)
        before = self._people.get(ref)
        if before is None:
            return None
        by_hand = before.groups - self._provided_groups.get(ref, frozenset())
        self._provided_groups[ref] = frozenset(groups) - by_hand
        role = before.role
        if is_admin:
            role = Role.ADMIN
        elif before.admin_provided:
            role = Role.MEMBER
        after = replace(
            before,
            groups=by_hand.union(groups),
            role=role,
            admin_provided=is_admin and (before.admin_provided or before.role is not Role.ADMIN),
        )
        self._people[ref] = after
        self._store.note(workspace, person_put(before, after, by=by))
        return after

    async def disable_person(self, workspace: str, person_id: str, *, by: str | None = None) -> Person | None:
        """Disable a person; see the port."""
        person = self._people.get(Ref(workspace, person_id))
        if person is None or person.disabled_at is not None:
            return person
        self._end_credentials(workspace, person_id)
        return self._set_disabled(replace(person, disabled_at=self._now()), person_disabled(person, by=by))

    async def enable_person(self, workspace: str, person_id: str, *, by: str | None = None) -> Person | None:
        """Enable a person again; see the port."""
        person = self._people.get(Ref(workspace, person_id))
        if person is None or person.disabled_at is None:
            return person
        return self._set_disabled(replace(person, disabled_at=None), person_enabled(person, by=by))

    def _set_disabled(self, person: Person, change: Change) -> Person:
        self._people[Ref(person.workspace, person.id)] = person
        self._store.note(person.workspace, change)
        return person

    async def disabled_people(self, workspace: str) -> frozenset[str]:
        """Everybody who is disabled; see the port."""
        return frozenset(
            ref.id
            for ref, person in self._people.items()
            if ref.workspace == workspace and person.disabled_at is not None
        )

    async def people(self, workspace: str, *, after: str | None, limit: int) -> Sequence[Person]:
        """A page of people; see the port."""
        return _page(self._people, workspace, after, limit)

    async def known_recipients(self, workspace: str, names: Collection[str]) -> frozenset[str] | None:
        """Whom a question can be for; see the port."""
        people = {ref.id for ref in self._people if ref.workspace == workspace}
        groups = {GROUP + group for group in await self.groups(workspace)}
        known = people | groups | {each.recipient for each in await self.addresses(workspace, names)}
        known -= await self.disabled_people(workspace)
        return frozenset(known.intersection(names)) if people else None

    async def remove_person(
        self,
        workspace: str,
        person_id: str,
        *,
        by: str | None = None,
        check: Callable[[Person | None], None] | None = None,
    ) -> bool:
        """Remove a person; see the port."""
        if check is not None:
            check(self._people.get(Ref(workspace, person_id)))
        removed = self._remove(workspace, person_id)
        self._store.note(workspace, person_removed(removed, by=by) if removed else None)
        return removed is not None

    async def groups(self, workspace: str) -> Mapping[str, Sequence[str]]:
        """Every group; see the port."""
        people = [person for person in self._people.values() if person.workspace == workspace]
        names = sorted(frozenset().union(*(person.groups for person in people)))
        return {name: sorted(person.id for person in people if name in person.groups) for name in names}

    async def provided_groups(self, workspace: str) -> Mapping[str, Sequence[str]]:
        """The memberships from providers; see the port."""
        found: dict[str, list[str]] = {}
        for ref, groups in self._provided_groups.items():
            for group in groups if ref.workspace == workspace else ():
                found.setdefault(group, []).append(ref.id)
        return {name: sorted(found[name]) for name in sorted(found)}

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
        before, inside = (await self.groups(workspace)).get(group, ()), []
        if check is not None:
            check(before)
        for ref, person in self._people.items():
            if ref.workspace != workspace:
                continue
            groups = person.groups - {group}
            if person.id in people:
                groups |= {group}
                inside.append(person.id)
            else:
                self._provided_groups[ref] = self._provided_groups.get(ref, frozenset()) - {group}
            self._people[ref] = replace(person, groups=groups)
        self._store.note(workspace, group_put(group, before, inside, by=by))
        return sorted(inside)

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
        known, now = self._people.get(Ref(workspace, person)), self._now()
        if known is None or known.disabled_at is not None:
            return None
        self._people[Ref(workspace, person)] = replace(known, signed_in_at=now)
        session = Session(
            workspace=workspace,
            id=session_id,
            person=person,
            how=how,
            created_at=now,
            expires_at=now + lasts,
            vouched_by=vouched_by,
        )
        self._sessions[workspace, digest] = session
        if provider_session is not None:
            self._provider_sessions[workspace, digest] = provider_session
        self._store.note(workspace, session_opened(session))
        return session

    async def find_session(self, workspace: str, digest: str) -> tuple[Session, Person] | None:
        """The session with a digest, and its person; see the port."""
        session = self._sessions.get((workspace, digest))
        if session is None or session.expires_at <= self._now():
            return None
        return session, self._people[Ref(workspace, session.person)]

    async def find_sessions(
        self, workspace: str, digests: Collection[str]
    ) -> Mapping[str, tuple[Session, Person]]:
        """The sessions with these digests; see the port."""
        found = {digest: await self.find_session(workspace, digest) for digest in digests}
        return {digest: session for digest, session in found.items() if session is not None}

    async def sessions(self, workspace: str, person: str, *, limit: int) -> Sequence[Session]:
        """The sessions of a person; see the port."""
        now = self._now()
        found = (
            each
            for each in self._sessions.values()
            if (each.workspace, each.person) == (workspace, person) and each.expires_at > now
        )
        return sorted(found, key=lambda each: (each.created_at, each.id), reverse=True)[:limit]

    async def evidence(self, workspace: str) -> Mapping[str, frozenset[str]]:
        """The evidence that people have; see the port."""
        given = [
            (each.person, each.evidence)
            for each in self._sessions.values()
            if each.workspace == workspace and each.expires_at > self._now()
        ]
        given += [
            (each.person, passkey_evidence(each.vouched_by))
            for ref, each in self._passkeys.items()
            if ref.workspace == workspace and not self.is_disabled(workspace, each.person)
        ]
        people = {person for person, _ in given}
        return {each: frozenset(evidence for person, evidence in given if person == each) for each in people}

    async def end_session(self, workspace: str, session_id: str, *, by: str | None = None) -> bool:
        """End a session; see the port."""
        place = (workspace, session_id)
        for secret, session in list(self._sessions.items()):
            if (session.workspace, session.id) == place:
                del self._sessions[secret]
                self._store.note(workspace, session_ended(session, by=by))
                return True
        return False

    async def end_provider_sessions(
        self, workspace: str, *, identity: str | None, provider_session: str | None, by: str | None = None
    ) -> int:
        """End the sessions that began at a provider; see the port."""
        person = None if identity is None else await self.find_person_by_identity(workspace, identity)

        def is_meant(secret: Secret, session: Session) -> bool:
            began = self._provider_sessions.get(secret)
            if began is not None and began == provider_session:
                return True
            is_theirs = person is not None and (session.person, session.how) == (person.id, "oidc")
            return is_theirs and (provider_session is None or began is None)

        meant = [
            secret
            for secret, each in self._sessions.items()
            if each.workspace == workspace and is_meant(secret, each)
        ]
        for secret in meant:
            self._store.note(workspace, session_ended(self._sessions.pop(secret), by=by))
        return len(meant)

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
        if Ref(workspace, person) not in self._people or self.is_disabled(workspace, person):
            return None
        now = self._now()
        link = Link(
            workspace=workspace,
            id=link_id,
            person=person,
            purpose=purpose,
            created_at=now,
            expires_at=now + lasts,
            vouched_by=vouched_by,
        )
        self._links[workspace, digest] = link
        self._store.note(workspace, link_created(link, by=by))
        return link

    async def find_link(self, workspace: str, digest: str) -> Link | None:
        """The link with a digest; see the port."""
        link = self._links.get((workspace, digest))
        return link if link and link.expires_at > self._now() else None

    async def use_link(self, workspace: str, digest: str) -> Link | None:
        """Use up a link; see the port."""
        link = await self.find_link(workspace, digest)
        if link is not None:
            theirs = (workspace, link.person)
            self._links = {
                place: each for place, each in self._links.items() if (each.workspace, each.person) != theirs
            }
            self._store.note(workspace, link_used(link))
        return link

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
        if Ref(workspace, person) not in self._people or self.is_disabled(workspace, person):
            return None
        now = self._now()
        link = QuestionLink(
            workspace=workspace,
            id=link_id,
            question_id=question_id,
            person=person,
            channel=channel,
            created_at=now,
            created_by=created_by,
            expires_at=now + lasts,
        )
        self._question_links[workspace, digest] = link
        return link

    async def find_question_link(self, workspace: str, digest: str) -> tuple[QuestionLink, Person] | None:
        """The question link with a digest, and its person; see the port."""
        link = self._question_links.get((workspace, digest))
        if link is None or link.expires_at <= self._now():
            return None
        return link, self._people[Ref(workspace, link.person)]

    async def end_question_links(self, workspace: str, question_id: str, *, person: str | None) -> int:
        """End the links to a question; see the port."""
        place = (workspace, question_id)

        def unwanted(link: QuestionLink) -> bool:
            return (link.workspace, link.question_id) == place and person in (None, link.person)

        return _drop(self._question_links, unwanted)

    async def claim(
        self, workspace: str, actor: str, key: str, *, fingerprint: str, made: str, patience: timedelta
    ) -> Claim:
        """Claim a request; see the port."""
        place, now = (workspace, actor, key), self._now()
        known = self._requests.get(place)
        if known is None:
            self._requests[place] = _Request(fingerprint, made, began_at=now)
            return Claim(state="new", made=made, turn=1)
        if known.fingerprint != fingerprint:
            return Claim(state="different", made=known.made)
        if known.status is not None:
            return Claim(state="done", made=known.made, status=known.status, body=known.body)
        if known.began_at > now - patience and not known.released:
            return Claim(state="busy", made=known.made)
        taken = replace(known, began_at=now, released=False, turn=known.turn + 1)
        self._requests[place] = taken
        return Claim(state="again", made=known.made, turn=taken.turn)

    async def finish(
        self, workspace: str, actor: str, key: str, *, turn: int, status: int, body: str
    ) -> None:
        """Store a response; see the port."""
        known = self._requests.get((workspace, actor, key))
        if known is not None and known.status is None and known.turn == turn:
            self._requests[workspace, actor, key] = replace(known, status=status, body=body)

    async def release(self, workspace: str, actor: str, key: str, *, turn: int) -> None:
        """Give up an unfinished claim; see the port."""
        known = self._requests.get((workspace, actor, key))
        if known is not None and known.status is None and known.turn == turn:
            self._requests[workspace, actor, key] = replace(known, released=True)

    async def forget(self, *, older_than: timedelta, limit: int) -> int:
        """Forget what is over; see the port."""
        before = self._now() - older_than
        return (
            _drop(self._requests, lambda each: each.began_at < before, limit)
            + _drop(self._links, lambda each: each.expires_at < before, limit)
            + _drop(self._question_links, lambda each: each.expires_at < before, limit)
            + _drop(self._sessions, lambda each: each.expires_at < before, limit)
        )

    def erase_questions(self, workspace: str, ids: Collection[str]) -> None:
        """Erase the links to questions, and the responses to requests about them, for the ledger."""
        _drop(self._question_links, lambda each: each.workspace == workspace and each.question_id in ids)
        about = [
            place
            for place, each in self._requests.items()
            if place[0] == workspace and (each.made in ids or any(one in (each.body or "") for one in ids))
        ]
        for place in about:
            del self._requests[place]

    def erase_person(self, workspace: str, person: str) -> None:
        """Erase a person with their requests, and their name wherever it was left, for the ledger."""
        self._remove(workspace, person)
        theirs, vouchers = f"person:{person} since ", (person, ADDRESS_BY + person)
        for place in [each for each in self._requests if each[0] == workspace and each[1].startswith(theirs)]:
            del self._requests[place]
        for ref, key in self._keys.items():
            if ref.workspace == workspace and person in (key.created_by, key.revoked_by):
                by = "erased" if key.revoked_by == person else key.revoked_by
                made = "erased" if key.created_by == person else key.created_by
                self._keys[ref] = replace(key, created_by=made, revoked_by=by)
        for ref, each in self._people.items():
            if (ref.workspace, each.email_by) == (workspace, person):
                self._people[ref] = replace(each, email_by="erased")
        for secret, link in self._question_links.items():
            if link.workspace == workspace and link.created_by == person:
                self._question_links[secret] = replace(link, created_by="erased")
        for secret, session in self._sessions.items():
            if session.workspace == workspace and session.vouched_by in vouchers:
                self._sessions[secret] = replace(session, vouched_by="erased")
        for secret, sign_in in self._links.items():
            if sign_in.workspace == workspace and sign_in.vouched_by in vouchers:
                self._links[secret] = replace(sign_in, vouched_by="erased")
        self._erase_maker(workspace, person)

    def _end_credentials(self, workspace: str, person_id: str) -> None:
        def theirs(value: Session | Link | QuestionLink) -> bool:
            return (value.workspace, value.person) == (workspace, person_id)

        _drop(self._sessions, theirs)
        _drop(self._links, theirs)
        _drop(self._question_links, theirs)

    def _remove(self, workspace: str, person_id: str) -> Person | None:
        self._end_credentials(workspace, person_id)
        self._remove_passkeys(workspace, person_id)
        self._remove_provisioned(workspace, "User", person_id)
        self._provided_groups.pop(Ref(workspace, person_id), None)
        self._views.pop(Ref(workspace, person_id), None)
        self._identities.pop(Ref(workspace, person_id), None)
        for ref, person in self._people.items():
            if (ref.workspace, person.deputy) == (workspace, person_id):
                self._people[ref] = replace(person, deputy=None)
        return self._people.pop(Ref(workspace, person_id), None)


@dataclass(frozen=True, slots=True)
class _Request:
    fingerprint: str
    made: str
    began_at: datetime
    turn: int = 1
    released: bool = False
    status: int | None = None
    body: str | None = field(default=None, repr=False)


def _page(kept: Mapping[Ref, Value], workspace: str, after: str | None, limit: int) -> list[Value]:
    refs = sorted(ref for ref in kept if ref.workspace == workspace and ref.id > (after or ""))
    return [kept[ref] for ref in refs[:limit]]


def _drop(kept: dict[Place, Value], unwanted: Callable[[Value], bool], limit: int | None = None) -> int:
    """Remove unwanted items, at most `limit`; return how many that were."""
    places = [place for place, value in kept.items() if unwanted(value)][:limit]
    for place in places:
        del kept[place]
    return len(places)


async def _no_addresses(workspace: str, recipients: Collection[str]) -> Sequence[Address]:
    """Nobody has an address if there is no outbox."""
    del workspace, recipients
    return ()
