"""Who may sign in: the keys of agents, the people of a workspace, their sessions, links and question links.

Secrets are not kept here, only their digests.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal

from handraise.model.away import Away
from handraise.model.evidence import session_evidence
from handraise.model.people import Responder


def fold_email(email: str) -> str:
    """An e-mail address in the form used to compare two: the case of ASCII letters is ignored, and of no others.

    Beyond ASCII, case folding would make different domains equal: `weiß` and `weiss`.
    """
    return "".join(each.lower() if each.isascii() else each for each in email)


class Role(StrEnum):
    """What a person may do besides answering."""

    MEMBER = "member"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentKey:
    """A key with which an agent asks. `agent` is the asker of its questions; an agent may have several keys.

    A key may also be for a program that only reads settled questions, only provisions people over SCIM, or administers the
    workspace, and asks nothing: then `agent` begins with one of the `KEY_PREFIXES`.
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
    email_by: str | None = field(default=None, repr=False)
    """Who chose the e-mail address by which they were found, or will be, when they first sign in with a provider."""
    role: Role = Role.MEMBER
    groups: frozenset[str] = frozenset()
    signed_in_at: datetime | None = field(default=None, compare=False)
    """When they last signed in, or None if they never have."""
    language: str | None = None
    """The language that they chose to read in, such as `de`."""
    time_zone: str | None = None
    """The time zone that they chose, such as `Europe/Berlin`."""
    away_from: datetime | None = None
    away_until: datetime | None = None
    deputy: str | None = None
    """Who answers for them while they are away."""
    disabled_at: datetime | None = None
    """Since when they can do nothing here: not sign in, not answer, not administer. What they did before stays."""
    admin_provided: bool = False
    """Whether they are an administrator because their OIDC provider says so."""

    @property
    def responder(self) -> Responder:
        """The person as one who answers, with their groups."""
        return Responder(self.id, self.groups)

    @property
    def is_admin(self) -> bool:
        """Whether they administer the workspace now."""
        return self.role is Role.ADMIN and self.disabled_at is None

    @property
    def away(self) -> Away | None:
        """The period in which they are away, which may be over or not have begun; None if they set none."""
        if self.away_from is None or self.away_until is None:
            return None
        return Away(starts=self.away_from, until=self.away_until, deputy=self.deputy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A person who has signed in; `how` says by which means. `id` identifies the session and is not secret.

    `vouched_by` made the link that it began with. They could have used the link in the person's place. With `ADDRESS_BY` before
    it, they chose the address by which the person was found at a provider, and could have an account with it.
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
        """The evidence of who the person is, for answers given in this session."""
        return session_evidence(self.vouched_by)


LinkPurpose = Literal["invitation", "sign-in"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A link to sign in that works once. `id` identifies it and is not secret.

    `vouched_by` is the person who made it for somebody else; it is copied into the session that begins with it.
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
    """A link for one person to answer one question, without a session. `id` identifies it and is not secret.

    `channel` is the channel it is sent through; `created_by` made it.
    """

    workspace: str
    id: str
    question_id: str
    person: str
    channel: str
    created_at: datetime
    created_by: str
    expires_at: datetime
