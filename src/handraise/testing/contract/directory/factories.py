"""The fixtures that every part of the contract uses, and factories for everything that a directory stores."""

from __future__ import annotations

import hashlib
from datetime import timedelta

import pytest

from handraise.model.identities import AgentKey, Link, Person, QuestionLink, Role, Session
from handraise.ports import Claim, Directory
from handraise.testing.contract.backend import ContractFixtures

INSTANT, MINUTE, HOUR, DAY = (
    timedelta(microseconds=1),
    timedelta(minutes=1),
    timedelta(hours=1),
    timedelta(days=1),
)
AT_ONCE = 50
"""How many tasks do the same at the same time."""


class DirectoryFixtures(ContractFixtures):
    """You define `directory`, which must use the `clock`."""

    @pytest.fixture
    def directory(self) -> Directory:
        raise NotImplementedError("A contract class needs a `directory` fixture.")

    @pytest.fixture
    def elsewhere(self, workspace: str) -> str:
        return f"{workspace}-2"

    @pytest.fixture
    async def ana(self, directory: Directory, workspace: str) -> Person:
        return await some_person(directory, workspace, "ana")


async def some_key(directory: Directory, workspace: str, key_id: str) -> AgentKey:
    """A new key of the agent deployer."""
    return await directory.add_key(
        workspace, key_id, digest=digest_of(key_id), agent="deployer", created_by="ana"
    )


async def some_person(
    directory: Directory, workspace: str, person_id: str, *, email: str | None = None
) -> Person:
    """A person who is a member."""
    person = await directory.put_person(
        workspace, person_id, name=person_id, email=email or f"{person_id}@example.org", role=Role.MEMBER
    )
    assert person is not None
    return person


async def some_session(directory: Directory, person: Person, *, lasts: timedelta = DAY) -> Session | None:
    """A session of a person."""
    return await directory.open_session(
        person.workspace,
        f"s-{person.id}",
        digest=digest_of(f"session of {person.id}"),
        person=person.id,
        how="link",
        lasts=lasts,
    )


async def some_link(directory: Directory, person: Person, *, lasts: timedelta = DAY) -> Link | None:
    """A link with which a person signs in."""
    return await directory.add_link(
        person.workspace,
        f"l-{person.id}",
        digest=digest_of(f"link of {person.id}"),
        person=person.id,
        purpose="sign-in",
        lasts=lasts,
    )


async def some_question_link(
    directory: Directory, person: Person, *, question_id: str = "q", lasts: timedelta = DAY
) -> QuestionLink | None:
    """A link with which a person answers a question."""
    return await directory.add_question_link(
        person.workspace,
        f"l-{question_id}-{person.id}",
        digest=digest_of(f"{question_id} for {person.id}"),
        question_id=question_id,
        person=person.id,
        channel="email",
        created_by="root",
        lasts=lasts,
    )


async def some_claim(
    directory: Directory,
    workspace: str,
    *,
    actor: str = "deployer",
    key: str = "k",
    fingerprint: str = "POST /questions",
    made: str = "q",
) -> Claim:
    """The result of claiming a request."""
    return await directory.claim(workspace, actor, key, fingerprint=fingerprint, made=made, patience=MINUTE)


async def forget_all(directory: Directory, *, older_than: timedelta) -> None:
    """Delete until there is nothing left to delete."""
    while await directory.forget(older_than=older_than, limit=100):
        pass


def digest_of(secret: str) -> str:
    """The digest of a secret, which is stored."""
    return hashlib.sha256(secret.encode()).hexdigest()
