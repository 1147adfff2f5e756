"""Who is who, for a desk that is shared over a network. The docstrings are the contract."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal, Protocol

from handraise.model.away import Away
from handraise.model.identities import AgentKey, Link, LinkPurpose, Person, QuestionLink, Role, Session
from handraise.ports.calendars import Calendars
from handraise.ports.passkeys import Passkeys
from handraise.ports.provisioned import ProvisionedResources
from handraise.ports.saved_views import SavedViews


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The result of claiming a request by its idempotency key.

    `new`: the caller must do it. `again`: the caller must do it, because the process that began it gave it up
    or did not finish in time; it may have taken effect. `busy`: somebody else is doing it. `different`: the
    key was used for something else. `done`: `status` and `body` are the earlier response. `made` is the id
    that the first claim gave for the thing that the request makes; `turn` distinguishes the callers that took
    it over.
    """

    state: Literal["new", "again", "busy", "different", "done"]
    made: str
    turn: int = 0
    status: int | None = None
    body: str | None = field(default=None, repr=False)


class Directory(Passkeys, Calendars, SavedViews, ProvisionedResources, Protocol):
    """Keys, people, groups, calendars, sessions, passkeys, saved views, links, and the requests that must not be done twice.

    A call that changes keys, people, groups, sessions or links leaves exactly one event of the workspace in
    the audit trail, in the same transaction, with `by`: who did it. A call that changes nothing leaves none.
    See `handraise.model.workspace_events`.

    Every method is atomic and safe to call from any number of processes. Secrets are passed in as digests
    (SHA-256 in hexadecimal) and never returned. Names belong to a workspace: no call sees two. Times come
    from the clock that the backend was given, else from its own; `lasts` counts from now. Raises
    `StoreUnavailable` as a store does.
    """

    async def add_key(
        self, workspace: str, key_id: str, *, digest: str, agent: str, created_by: str
    ) -> AgentKey:
        """Store a new key of an agent."""
        ...

    async def find_key(self, workspace: str, digest: str) -> AgentKey | None:
        """The key with this digest, if it is not revoked."""
        ...

    async def find_keys(self, workspace: str, digests: Collection[str]) -> Mapping[str, AgentKey]:
        """The keys with these digests, by digest, as `find_key` finds each. All are as they are during the call."""
        ...

    async def keys(self, workspace: str, *, after: str | None, limit: int) -> Sequence[AgentKey]:
        """All keys, also revoked ones, in the order of their ids."""
        ...

    async def note_use(self, workspace: str, key_id: str) -> None:
        """Record that a key is used now. An unknown key changes nothing."""
        ...

    async def revoke_key(self, workspace: str, key_id: str, *, by: str) -> AgentKey | None:
        """Revoke a key now; calling it again changes nothing. None if there is no such key."""
        ...

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
        """Add or change a person; their groups stay as they are. None if the e-mail address is taken.

        E-mail addresses are compared by `fold_email`; each belongs to one person of a workspace. `by` has chosen a changed
        one (`Person.email_by`), unless the person is bound to an identity (`bind_identity`). `check` is called with
        the person as they are, or None, in the same transaction. If it raises, nothing changes.
        """
        ...

    async def set_preferences(
        self, workspace: str, person_id: str, *, language: str | None, time_zone: str | None
    ) -> Person | None:
        """Store a person's language and time zone; None means no choice. It changes no right, so it leaves no event.

        Returns None if there is no such person. `put_person` does not change it.
        """
        ...

    async def set_away(
        self, workspace: str, person_id: str, away: Away | None, *, by: str | None = None
    ) -> Person | None:
        """Store when a person is away and who answers for them, or with None that they are not away.

        Returns None, and changes nothing, if there is no such person, or nobody who has the deputy's name. If the
        deputy is removed later, the person is away without one. `put_person` does not change it.
        """
        ...

    async def away(self, workspace: str) -> Mapping[str, Away]:
        """Everybody who is away now, by their ids and in the order of these. A deputy who is disabled is left out."""
        ...

    async def find_person(self, workspace: str, person_id: str) -> Person | None:
        """The person with this name, and their groups."""
        ...

    async def find_person_by_email(self, workspace: str, email: str) -> Person | None:
        """The person with this e-mail address, and their groups."""
        ...

    async def bind_identity(self, workspace: str, person_id: str, identity: str) -> bool:
        """Whether this identity belongs to the person: the first one that is presented does, and no other ever.

        One conditional statement, so that only one of several concurrent identities is bound. False also if
        there is no such person. The binding is removed with the person.
        """
        ...

    async def find_person_by_identity(self, workspace: str, identity: str) -> Person | None:
        """The person who is bound to this identity, and their groups."""
        ...

    async def set_provided_rights(
        self,
        workspace: str,
        person_id: str,
        *,
        groups: Collection[str],
        is_admin: bool,
        by: str | None = None,
    ) -> Person | None:
        """Store what a person's provider says about them: their groups there, and whether they administer.

        It replaces what the provider said before. A membership or a role that was given in another way stays; one that
        both give stays too when the provider takes it back. Returns None if there is no such person.
        """
        ...

    async def disable_person(self, workspace: str, person_id: str, *, by: str | None = None) -> Person | None:
        """Disable a person: they can do nothing any more, until they are enabled again.

        In the same transaction, their sessions and links of both kinds end. From then on no session, link or question link
        is made for them, the store refuses what they do with questions, and their votes, grants and standing answers count
        for nothing; a decision that is being made is waited for. They are no recipient (`known_recipients`), no
        administrator, and nobody's deputy (`away`). Their groups, passkeys and saved views stay. A second time changes
        nothing. Returns None if there is no such person.
        """
        ...

    async def enable_person(self, workspace: str, person_id: str, *, by: str | None = None) -> Person | None:
        """Enable a person who was disabled; otherwise, this changes nothing. None if there is no such person."""
        ...

    async def disabled_people(self, workspace: str) -> frozenset[str]:
        """The names of everybody who is disabled."""
        ...

    async def people(self, workspace: str, *, after: str | None, limit: int) -> Sequence[Person]:
        """Everybody, in the order of their ids."""
        ...

    async def known_recipients(self, workspace: str, names: Collection[str]) -> frozenset[str] | None:
        """The names among these that a question can be addressed to; None if the workspace has no people.

        These are people who are not disabled, `group:` and the name of a group that has people, and everybody else who has
        an address.
        """
        ...

    async def remove_person(
        self,
        workspace: str,
        person_id: str,
        *,
        by: str | None = None,
        check: Callable[[Person | None], None] | None = None,
    ) -> bool:
        """Remove a person with what is theirs: sessions, passkeys, links, saved views, memberships. False if there is none.

        `check` is that of `put_person`.
        """
        ...

    async def groups(self, workspace: str) -> Mapping[str, Sequence[str]]:
        """Every group and the ids of its people, both in order."""
        ...

    async def provided_groups(self, workspace: str) -> Mapping[str, Sequence[str]]:
        """The memberships that people's providers gave (`set_provided_rights`): groups and ids of people, both in order."""
        ...

    async def put_group(
        self,
        workspace: str,
        group: str,
        people: Collection[str],
        *,
        by: str | None = None,
        check: Callable[[Sequence[str]], None] | None = None,
    ) -> Sequence[str]:
        """Set the people of a group; return those that exist. With none, the group is removed.

        `check` is called with the people who are in it, in order, in the same transaction. If it raises,
        nothing changes. A person who stays and came from their provider still does.
        """
        ...

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
        """Open a session for a person; None if there is no such person, or they are disabled.

        `vouched_by` is that of `Session`, if it is somebody else. `provider_session` identifies
        the session at their OIDC provider.
        """
        ...

    async def find_session(self, workspace: str, digest: str) -> tuple[Session, Person] | None:
        """The session with this digest and its person as they are now, if it has not ended."""
        ...

    async def find_sessions(
        self, workspace: str, digests: Collection[str]
    ) -> Mapping[str, tuple[Session, Person]]:
        """The sessions with these digests, by digest, as `find_session` finds each. All are as they are during the call."""
        ...

    async def sessions(self, workspace: str, person: str, *, limit: int) -> Sequence[Session]:
        """The sessions of a person that have not ended, the newest first."""
        ...

    async def evidence(self, workspace: str) -> Mapping[str, frozenset[str]]:
        """The evidence that people have now, by their ids: of their sessions that have not ended, and of their passkeys.

        Those who have neither, and those who are disabled, are left out.
        """
        ...

    async def end_session(self, workspace: str, session_id: str, *, by: str | None = None) -> bool:
        """End a session; False if there is none."""
        ...

    async def end_provider_sessions(
        self, workspace: str, *, identity: str | None, provider_session: str | None, by: str | None = None
    ) -> int:
        """End the sessions that began at an OIDC provider, and return their number. Each leaves an event.

        These are the sessions with this `provider_session`, and those of the person who is bound to this `identity`: all of
        them, or with a `provider_session` those of which the provider's session is not known.
        """
        ...

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
        """Store a new link for a person; None if there is no such person, or they are disabled."""
        ...

    async def find_link(self, workspace: str, digest: str) -> Link | None:
        """The link with this digest, if it has not ended and was not used. Reading it changes nothing."""
        ...

    async def use_link(self, workspace: str, digest: str) -> Link | None:
        """Use a link: one conditional statement, so that only one of any number of users gets it.

        All other sign-in links of that person end too. Their question links stay.
        """
        ...

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
        """Store a new question link for a person; None if there is no such person, or they are disabled.

        The caller checks that the question exists and that the person may answer it.
        """
        ...

    async def find_question_link(self, workspace: str, digest: str) -> tuple[QuestionLink, Person] | None:
        """The question link with this digest and its person as they are now, if it has not ended.

        It can be used more than once: reading and answering do not change it.
        """
        ...

    async def end_question_links(self, workspace: str, question_id: str, *, person: str | None) -> int:
        """End the links to a question, of one person or, with None, of everybody; return their number."""
        ...

    async def claim(
        self, workspace: str, actor: str, key: str, *, fingerprint: str, made: str, patience: timedelta
    ) -> Claim:
        """Claim a request by its idempotency key, which belongs to the actor.

        `fingerprint` identifies the request: the same key with another one is `different`. Of any number of
        concurrent claims, one gets `new`. A claim that was given up, or not finished within `patience`, can
        be taken over by one later claim: `again`.
        """
        ...

    async def finish(
        self, workspace: str, actor: str, key: str, *, turn: int, status: int, body: str
    ) -> None:
        """Store the response to a claimed request, to be returned again; the first one stays.

        Changes nothing if somebody else has taken the request over, so that `turn` is out of date.
        """
        ...

    async def release(self, workspace: str, actor: str, key: str, *, turn: int) -> None:
        """Give up an unfinished claim: the next caller takes it over at once. For `turn`, see `finish`."""
        ...

    async def forget(self, *, older_than: timedelta, limit: int) -> int:
        """Delete claims, sessions and links of both kinds, of any workspace, that ended or began before this.

        Deletes at most `limit` of each; returns the total.
        """
        ...
