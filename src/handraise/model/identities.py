"""Who may come in: the keys of agents, the people of a workspace, their sessions, links and question links.

Secrets are not here: what is kept of one is its digest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal

from handraise.model.people import SESSION, VOUCHED, Responder


def fold_email(email: str) -> str:
    """An e-mail address as two are compared: without regard to the case of ASCII letters, and of no others.

    Beyond ASCII, folding makes one of different domains: `weiß` and `weiss`.
    """
    return "".join(each.lower() if each.isascii() else each for each in email)


READER = "reader:"
"""How the name in a key begins with which a program only reads. No agent can have such a name."""


class Role(StrEnum):
    """What a person may do besides answering."""

    MEMBER = "member"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentKey:
    """A key with which an agent asks. `agent` is the asker of its questions; an agent may have several keys.

    Or one with which a program reads what is settled, and asks nothing: `agent` begins with `READER` then.
    """

    workspace: str
    id: str
    agent: str
    created_at: datetime
    created_by: str
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None
    revoked_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody who answers. `id` is their name as a recipient; groups are without their `group:`."""

    workspace: str
    id: str
    name: str
    created_at: datetime
    email: str | None = field(default=None, repr=False)
    role: Role = Role.MEMBER
    groups: frozenset[str] = frozenset()
    signed_in_at: datetime | None = field(default=None, compare=False)
    """When they last signed in, or None: they never have."""

    @property
    def responder(self) -> Responder:
        """The person as one who answers, with their groups."""
        return Responder(self.id, self.groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A person who has signed in; `how` says by what. `id` names it and is no secret.

    `vouched_by` made the link that it began with: somebody who could have used the link in the person's place.
    """

    workspace: str
    id: str
    person: str
    how: str
    created_at: datetime
    expires_at: datetime
    vouched_by: str | None = None

    @property
    def evidence(self) -> str:
        """What an answer that is given in this session is evidence of."""
        return SESSION if self.vouched_by is None else VOUCHED + self.vouched_by


LinkPurpose = Literal["invitation", "sign-in"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A way to sign in that works once. `id` names it and is no secret.

    `vouched_by` is the person who made it for somebody else, and goes into the session that begins with it.
    """

    workspace: str
    id: str
    person: str
    purpose: LinkPurpose
    created_at: datetime
    expires_at: datetime
    vouched_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionLink:
    """A way for one person to answer one question, and no session. `id` names it and is no secret.

    `channel` is how it reaches the person; `created_by` made it.
    """

    workspace: str
    id: str
    question_id: str
    person: str
    channel: str
    created_at: datetime
    created_by: str
    expires_at: datetime
