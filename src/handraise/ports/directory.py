"""Who is who, for a desk that is shared over a network. The docstrings are the contract."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal, Protocol

from handraise.model.identities import AgentKey, Link, LinkPurpose, Person, QuestionLink, Role, Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What came of claiming a request by its idempotency key.

    `new`: it is ours to do. `again`: ours to do because the process that began it gave it up or gave no sign for too
    long; it may have taken effect. `busy`: somebody else is at it. `different`: the key was used for something else.
    `done`: `status` and `body` are the response that was given. `made` is the id that the first claim
    brought for whatever the request makes; `turn` tells those apart who took it on one after the other.
    """

    state: Literal["new", "again", "busy", "different", "done"]
    made: str
    turn: int = 0
    status: int | None = None
    body: str | None = field(default=None, repr=False)


class Directory(Protocol):
    """Keys, people, groups, sessions, links and question links, and the requests that must not be done twice.

    What changes keys, people, groups, sessions or links leaves exactly one event of the workspace in the audit trail, in
    the same transaction, with `by`: who did it. What changes nothing leaves none. See `handraise.model.workspace_events`.

    Every method is atomic and safe to call from any number of processes. Secrets come in as their digests
    (hex of SHA-256) and none ever comes out. Names are those of a workspace: nothing here sees two. Instants
    come from the clock the backend was given, else from its own; `lasts` is counted from now. Raises
    `StoreUnavailable` as a store does.
    """

    async def add_key(
        self, workspace: str, key_id: str, *, digest: str, agent: str, created_by: str
    ) -> AgentKey:
        """Keep a new key of an agent."""
        ...

    async def find_key(self, workspace: str, digest: str) -> AgentKey | None:
        """The key with this digest, where it is not revoked."""
        ...

    async def keys(self, workspace: str, *, after: str | None, limit: int) -> Sequence[AgentKey]:
        """All keys, also revoked ones, in the order of their ids."""
        ...

    async def note_use(self, workspace: str, key_id: str) -> None:
        """Say that a key is used now. An unknown one changes nothing."""
        ...

    async def revoke_key(self, workspace: str, key_id: str, *, by: str) -> AgentKey | None:
        """End a key now; a second time changes nothing. None where there is none."""
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
    ) -> Person | None:
        """Add a person, or change one who is there; groups stay as they are. None where the e-mail is taken.

        An e-mail address is compared by `fold_email`, and belongs to one person of a workspace.
        """
        ...

    async def find_person(self, workspace: str, person_id: str) -> Person | None:
        """The person with this name, and their groups."""
        ...

    async def find_person_by_email(self, workspace: str, email: str) -> Person | None:
        """The person with this e-mail address, and their groups."""
        ...

    async def bind_identity(self, workspace: str, person_id: str, identity: str) -> bool:
        """Whether a person is who comes with this identity: the first one that comes is theirs, and no other ever is.

        One conditional statement, so of several identities that come at once one is bound. False also where there is
        nobody of that name. It ends with the person.
        """
        ...

    async def people(self, workspace: str, *, after: str | None, limit: int) -> Sequence[Person]:
        """Everybody, in the order of their ids."""
        ...

    async def known_recipients(self, workspace: str, names: Collection[str]) -> frozenset[str] | None:
        """Those of these names that a question can be for; None if the workspace has no people.

        That is a person, `group:` and the name of a group that has people, and everybody who has an address.
        """
        ...

    async def remove_person(self, workspace: str, person_id: str, *, by: str | None = None) -> bool:
        """Take somebody out, with all that lets them in and their places in groups; False where there is nobody."""
        ...

    async def groups(self, workspace: str) -> Mapping[str, Sequence[str]]:
        """Every group and the ids of its people, both in order."""
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
        """Make these the people of a group, nobody else; give back those that exist. With none, it is gone.

        `check` is called with those who are in it, in order, in the same transaction. What it raises is raised, and
        nothing changes.
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
    ) -> Session | None:
        """Let a person in until the end of the session; None where there is no such person.

        `vouched_by` is the person who made the link that they came with, if it was somebody else.
        """
        ...

    async def find_session(self, workspace: str, digest: str) -> tuple[Session, Person] | None:
        """The session with this digest and its person as they are now, where it has not ended."""
        ...

    async def sessions(self, workspace: str, person: str, *, limit: int) -> Sequence[Session]:
        """The sessions of a person that have not ended, the newest first."""
        ...

    async def end_session(self, workspace: str, session_id: str, *, by: str | None = None) -> bool:
        """End a session; False where there is none."""
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
        """Keep a new link for a person; None where there is no such person."""
        ...

    async def find_link(self, workspace: str, digest: str) -> Link | None:
        """The link with this digest, where it has not ended and was not used. Looking changes nothing."""
        ...

    async def use_link(self, workspace: str, digest: str) -> Link | None:
        """Use up a link: one conditional statement, so of any number of users one gets it.

        After signing in a person needs no other: all links of that person end with it. Their question links stay.
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
        """Keep a new question link for a person; None where there is no such person.

        Whether there is such a question, and whether the person may answer it, is the caller's to know.
        """
        ...

    async def find_question_link(self, workspace: str, digest: str) -> tuple[QuestionLink, Person] | None:
        """The question link with this digest and its person as they are now, where it has not ended.

        It is never used up: looking, and answering, leave it as it is.
        """
        ...

    async def end_question_links(self, workspace: str, question_id: str, *, person: str | None) -> int:
        """End the links to a question, those of one person or, with None, of everybody; how many that were."""
        ...

    async def claim(
        self, workspace: str, actor: str, key: str, *, fingerprint: str, made: str, patience: timedelta
    ) -> Claim:
        """Claim a request by its idempotency key, which is the actor's own.

        `fingerprint` is what was asked for: the same key with another one is `different`. Of any number who
        claim at once, one gets `new`. A claim that was given up, or not finished within `patience` of its
        beginning, can be taken over by one of those who come later: `again`.
        """
        ...

    async def finish(
        self, workspace: str, actor: str, key: str, *, turn: int, status: int, body: str
    ) -> None:
        """Keep the response to a claimed request, to be given again; the first one stays.

        Changes nothing where somebody else has taken the request over: `turn` is no longer theirs.
        """
        ...

    async def release(self, workspace: str, actor: str, key: str, *, turn: int) -> None:
        """Give up an unfinished claim: the next caller takes it over at once. As for `turn`, see `finish`."""
        ...

    async def forget(self, *, older_than: timedelta, limit: int) -> int:
        """Forget claims, sessions and links of both kinds, of any workspace, that ended or began longer ago than this.

        At most `limit` of each; gives back how many in all.
        """
        ...
