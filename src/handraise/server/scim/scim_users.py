"""People as SCIM has them. `id` is the person's name here; it is the user name with which they were created."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pydantic
from scim2_models import (
    Context,
    ForbiddenException,
    InvalidValueException,
    Meta,
    NotFoundException,
    UniquenessException,
)
from scim2_models.resources.user import Email, GroupMembership, Name

from handraise.desk.everybody import everybody
from handraise.desk.people_rights import disable_person, remove_person
from handraise.model.errors import PermissionDenied
from handraise.model.identities import Person, Role, fold_email
from handraise.model.json_values import Json, text_problem
from handraise.model.people import responder_of
from handraise.model.provisioned import Provisioned
from handraise.server.context import ServerContext
from handraise.server.mail_addresses import sync_email_address
from handraise.server.scim.scim_resources import BASE, POLICY, User
from handraise.wire.requests import PutPerson

_KEPT = ("user_name", "external_id", "name", "display_name", "emails")
"""The attributes that are stored as the provider wrote them."""


@dataclass(frozen=True, slots=True)
class ScimUsers:
    """The people of one workspace, for a program with a SCIM key: `by` is its name in the audit trail."""

    ctx: ServerContext
    workspace: str
    by: str

    async def find(self, user_id: str) -> User:
        """One person; raises `NotFoundException`."""
        person = await self._person(user_id)
        return self._user(person, await self._document(person))

    async def all(self) -> AsyncIterator[User]:
        """Everybody."""
        found = await self.ctx.directory.provisioned(self.workspace, "User")
        documents = {each.id: each for each in found}
        async for person in everybody(self.ctx.directory, self.workspace):
            yield self._user(person, documents.get(person.id))

    async def with_name(self, user_name: str) -> list[User]:
        """Those who may have this user name: who has it at the provider, here, or as an e-mail address."""
        directory = self.ctx.directory
        if text_problem(user_name):
            return []
        known = await directory.find_provisioned_by_name(self.workspace, "User", user_name)
        people = [
            await directory.find_person(self.workspace, known.id) if known else None,
            await directory.find_person(self.workspace, user_name),
            await directory.find_person(self.workspace, fold_email(user_name)),
            await directory.find_person_by_email(self.workspace, user_name),
        ]
        distinct = {each.id: each for each in people if each is not None}
        return [self._user(each, await self._document(each)) for each in distinct.values()]

    async def create(self, wanted: User) -> User:
        """Add a person; raises `UniquenessException` if somebody has the user name or the address."""
        user_name = wanted.user_name or ""
        name = fold_email(user_name.strip())
        _check_person_name(name)
        if await self.ctx.directory.find_person(self.workspace, name) is not None:
            raise UniquenessException(detail=f"Somebody here has the name {name!r} already.")
        return await self._put(name, None, wanted)

    async def change(self, user_id: str, wanted: User) -> User:
        """Make a person as they are wanted; raises `UniquenessException` and what `_own_person` raises."""
        return await self._put(user_id, await self._own_person(user_id), wanted)

    async def remove(self, user_id: str) -> None:
        """Remove a person with everything that is theirs; raises what `_own_person` raises."""
        await self._own_person(user_id)
        await remove_person(self.ctx, self.workspace, user_id, by=self.by)

    async def _put(self, name: str, before: Person | None, wanted: User) -> User:
        directory, facts = self.ctx.directory, _facts(wanted)
        await self._check_unused(wanted.user_name or "", name)
        if before is not None and before.role is Role.ADMIN and before.email != facts.email:
            raise ForbiddenException(
                detail="This person administers Handraise: only an administrator there changes their address, because whoever "
                "signs in with it administers too."
            )
        if facts.email is not None:
            holder = await directory.find_person_by_email(self.workspace, facts.email)
            if holder is not None and holder.id != name:
                raise UniquenessException(detail=f"{facts.email} belongs to somebody else here.")
        document: dict[str, Json] = wanted.model_dump(
            scim_ctx=Context.DEFAULT, scim_policy=POLICY, include=set(_KEPT), exclude_none=True
        )
        stored = await directory.put_provisioned(
            self.workspace, "User", name, name=wanted.user_name or "", document=document
        )
        if stored is None:
            raise UniquenessException(detail=f"Somebody else has the user name {wanted.user_name!r}.")
        person = before
        if before is None or (before.name, before.email) != (facts.name, facts.email):
            person = await directory.put_person(
                self.workspace,
                name,
                name=facts.name,
                email=facts.email,
                role=Role.MEMBER if before is None else before.role,
                by=self.by,
            )
            if person is None:  # somebody else got the address just now
                raise UniquenessException(detail=f"{facts.email} belongs to somebody else here.")
            await sync_email_address(self.ctx, before, person, by=self.by)
        if wanted.active is False:
            person = await disable_person(self.ctx, self.workspace, name, by=self.by)
        elif wanted.active is not None and person is not None and person.disabled_at is not None:
            person = await directory.enable_person(self.workspace, name, by=self.by)
        if person is None:  # removed meanwhile
            raise _no_such_person()
        return self._user(person, stored)

    async def _check_unused(self, user_name: str, name: str) -> None:
        """Raise `UniquenessException` if another person goes by this user name without a document of the provider."""
        others = [each for each in await self.with_name(user_name) if each.id != name]
        if any(_same(each.user_name, user_name) or _same(each.id, user_name) for each in others):
            raise UniquenessException(detail=f"Somebody else has the user name {user_name!r}.")

    async def _person(self, user_id: str) -> Person:
        known = not text_problem(user_id)
        person = await self.ctx.directory.find_person(self.workspace, user_id) if known else None
        if person is None:
            raise _no_such_person()
        return person

    async def _own_person(self, user_id: str) -> Person:
        """A person whom a provider made; raises `NotFoundException`, or `ForbiddenException` for anybody else."""
        person = await self._person(user_id)
        if await self._document(person) is None:
            raise ForbiddenException(
                detail="This is a person whom an administrator added: only administrators change or remove them."
            )
        return person

    async def _document(self, person: Person) -> Provisioned | None:
        return await self.ctx.directory.find_provisioned(self.workspace, "User", person.id)

    def _user(self, person: Person, stored: Provisioned | None) -> User:
        """The person as they are here: what an administrator has changed goes before what the provider wrote."""
        document: dict[str, Any] = {} if stored is None else dict(stored.document)
        written = User.model_validate(document, scim_policy=POLICY)
        user_name = written.user_name or person.email or person.id
        display_name, emails = written.display_name, written.emails
        if stored is None or _name_of(written) != person.name:
            display_name = person.name
        if stored is None or _email_of(written) != person.email:
            emails = None if person.email is None else [Email(value=person.email, primary=True)]
        base = f"{self.ctx.settings.base_url}{BASE}"
        return User(
            id=person.id,
            external_id=written.external_id,
            user_name=user_name,
            name=written.name,
            display_name=display_name,
            active=person.disabled_at is None,
            emails=emails,
            groups=[
                GroupMembership(value=each, display=each, type="direct") for each in sorted(person.groups)
            ]
            or None,
            meta=Meta(
                resource_type="User",
                created=person.created_at,
                last_modified=person.created_at if stored is None else stored.changed_at,
                location=f"{base}/Users/{quote(person.id, safe='')}",
            ),
        )


def _facts(wanted: User) -> PutPerson:
    """What of a person the directory has; raises `InvalidValueException`."""
    try:
        facts = PutPerson(name=_name_of(wanted), email=_email_of(wanted))
    except pydantic.ValidationError as error:
        wrong = ", ".join(str(each["loc"][-1]) for each in error.errors())
        raise InvalidValueException(detail=f"This person's {wrong} cannot be used here.") from None
    texts = (wanted.user_name or "", facts.name, facts.email or "", wanted.external_id or "")
    if any(text_problem(each) for each in texts):
        raise InvalidValueException(detail="A text of this person has characters that cannot be stored.")
    return facts


def _name_of(user: User) -> str:
    """What people read as this person's name."""
    name = user.name or Name()
    full = " ".join(each for each in (name.given_name, name.family_name) if each)
    return user.display_name or name.formatted or full or user.user_name or ""


def _email_of(user: User) -> str | None:
    """The address by which a person is found: the primary one, else the first, else a user name that is one."""
    written = [each for each in user.emails or () if each.value]
    chosen = next((each for each in written if each.primary), written[0] if written else None)
    if chosen is not None:
        return chosen.value
    return user.user_name if "@" in (user.user_name or "") else None


def _check_person_name(name: str) -> None:
    """Raise `InvalidValueException` if nobody can have this name; see `responder_of`."""
    try:
        responder_of(name)
    except PermissionDenied as refusal:
        raise InvalidValueException(detail=f"Nobody can have this user name: {refusal.reason}.") from None
    if "/" in name:
        raise InvalidValueException(detail="A user name must not contain a slash.")


def _same(one: str | None, other: str) -> bool:
    return one is not None and fold_email(one) == fold_email(other)


def _no_such_person() -> NotFoundException:
    return NotFoundException(detail="There is no such person here.")
