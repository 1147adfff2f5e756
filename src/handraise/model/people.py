"""Who may answer and who may read: recipients are people, groups or anyone in the workspace, never the asker."""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import dataclass

from handraise.model.errors import PermissionDenied
from handraise.model.json_values import text_problem
from handraise.model.lookalike_names import misleading
from handraise.model.questions import Question
from handraise.model.rulings import POLICY

GROUP = "group:"
ANYONE = "*"
"""The name that a store uses if anyone may answer; nobody has this name."""
_LONGEST = 200
OPERATOR = "command line"
"""Prefix of the names of people who use the server's command line. Nobody else can have such a name."""

ADDRESS_BY = "address:"
"""Prefix of who vouches for a session, if they chose the e-mail address by which the person was first found at the provider.

Nobody else can have such a name.
"""

READER = "reader:"
"""Prefix of the names of programs that only read."""
SCIM = "scim:"
"""Prefix of the names of programs that only provision people and groups over SCIM."""
ADMIN_PROGRAM = "admin:"
"""Prefix of the names of programs that administer with a token."""
KEY_PREFIXES = (READER, SCIM, ADMIN_PROGRAM)
"""The prefixes of the names in keys that are not an agent's. Nobody else has such a name, neither an agent nor a person."""


@dataclass(frozen=True, slots=True)
class Responder:
    """A person who answers, with the groups that the caller vouches for."""

    id: str
    groups: frozenset[str] = frozenset()

    @property
    def principals(self) -> tuple[str, ...]:
        """The names under which this person may be a recipient."""
        return (self.id, *sorted(GROUP + group for group in self.groups))


def link_maker(vouched_by: str | None) -> str | None:
    """Who made the link of a session that somebody vouched for; None if it did not begin with a link."""
    return None if (vouched_by or "").startswith(ADDRESS_BY) else vouched_by


def key_prefix(name: str) -> str:
    """The prefix of the name of a program that is no agent; empty for everybody else."""
    return next(filter(name.startswith, KEY_PREFIXES), "")


def responder_of(by: str | Responder) -> Responder:
    """Return the responder; refuse names that could be mistaken for something else."""
    return _named(by) if isinstance(by, str) else _checked(by)


@functools.lru_cache(maxsize=1_000)
def _named(name: str) -> Responder:
    return _checked(Responder(name))


def _checked(responder: Responder) -> Responder:
    if not responder.id.strip():
        raise PermissionDenied(responder.id, "an answer needs the name of the person who gives it")
    if reserved := reserved_for(responder.id):
        raise PermissionDenied(responder.id, reserved)
    for name in (responder.id, *responder.groups):
        if len(name) > _LONGEST or text_problem(name):
            raise PermissionDenied(responder.id[:_LONGEST], "that is not a name a person could have")
    if misleading(responder.id):
        raise PermissionDenied(responder.id, "that name could be taken for another one")
    return responder


def reserved_for(name: str) -> str | None:
    """What a name stands for that neither a person nor an agent can be, or None."""
    if name == ANYONE:
        return "that name means anyone, and only a person can answer"
    if name.startswith(GROUP):
        return "a group cannot answer, only one of its people can"
    if name.startswith(POLICY):
        return "that name is reserved for the rules of a policy"
    if name.startswith(OPERATOR):
        return "that name is reserved for users of the command line"
    if name.startswith(ADDRESS_BY):
        return "that name is reserved for people who chose an address"
    if key_prefix(name):
        return "that name is reserved for programs"
    return None


def may_respond(question: Question, responder: Responder) -> bool:
    """Whether this person may answer or decline this question."""
    return _is_among(question.audience, question, responder)


def is_eligible(question: Question, responder: Responder) -> bool:
    """Whether this person may answer this question in any of its stages."""
    return _is_among(question.eligible, question, responder)


def _is_among(names: Collection[str], question: Question, responder: Responder) -> bool:
    if responder.id == question.asker:
        return False
    return not names or any(name in names for name in responder.principals)


def backing(question: Question, person: str, known: frozenset[str] | None) -> bool | None:
    """Whether the directory backs the right with which a person answers now; `known` are their groups there.

    None: it does not know the person, or there is no directory. False: it knows the person, but only the
    calling program vouches for the right. True: the right comes from the directory.
    """
    return None if known is None else is_eligible(question, Responder(person, known))


def still_may_respond(
    question: Question, given: Responder, *, backed: bool | None, known: frozenset[str] | None
) -> bool:
    """Whether somebody who voted, or gave a grant, is still eligible to answer this question.

    `given` and `backed` are from then, `known` is from the directory now. The directory can take away what it
    gave: a person whom it knew must still be there, and so must a right that came from it. What only the
    calling program vouched for stays as it was, because it cannot be checked.
    """
    if backed is not None and known is None:
        return False
    if backed and known is not None:
        given = Responder(given.id, known)
    return is_eligible(question, given)


def check_may_respond(question: Question, responder: Responder) -> None:
    """Raise `PermissionDenied` unless this person may answer or decline this question."""
    if not may_respond(question, responder):
        raise PermissionDenied(responder.id, why_not_asked(question, responder))


def why_not_asked(question: Question, responder: Responder) -> str:
    """Why this person may not answer this question."""
    if responder.id == question.asker:
        return "the asker cannot answer"
    if is_eligible(question, responder):
        return "people of another stage are asked now"
    return "the question is addressed to others"


def may_see(question: Question, responder: Responder) -> bool:
    """Whether this person may answer the question in any stage, or answered, declined or voted on it."""
    return (
        is_eligible(question, responder)
        or getattr(question.outcome, "by", None) == responder.id
        or any(vote.by == responder.id for vote in question.votes)
    )


def may_take_back(question: Question, person: str, *, administrator: bool) -> bool:
    """Whether this person may take an approval back: somebody who gave it, or an administrator."""
    by = getattr(question.outcome, "by", None)
    ballots = {vote.by: vote.ballot for vote in question.votes}
    return administrator or person == by or (person in ballots and ballots[person] == ballots.get(by or ""))
